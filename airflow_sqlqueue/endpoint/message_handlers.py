"""Message handlers: a registry of functions by message type, for tasks, programs and ``sqlqueue consume``."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

from airflow_sqlqueue.errors import ConfigurationError, NoHandlerError
from airflow_sqlqueue.messages.envelope import Envelope
from airflow_sqlqueue.messages.envelope.cloud_events import is_structured
from airflow_sqlqueue.messages.message import check_full_name
from airflow_sqlqueue.options.arguments import arguments_for
from airflow_sqlqueue.untrusted import quoted

F = TypeVar("F", bound=Callable[..., Any])

FAIL, DISCARD = "fail", "discard"
"""Treatments of messages that no function handles."""

MAX_BATCH = 1_000
"""The most messages of a batch. Their locks, on keys and rows, are fewer than those at which the server would lock the
table (docs/transport/transactions.md, "Lock escalation")."""

LONGEST_COLLECTION = 60.0
"""The most seconds in which a batch collects messages: its transaction is open meanwhile."""


@dataclass(frozen=True)
class HandlerFunction:
    """Function that handles a message, or with ``is_batch`` a list of up to ``max_messages`` messages."""

    call: Callable[[Any], Any]
    is_batch: bool = False
    max_messages: int = 1
    max_seconds: float = 0.0


class MessageHandlers:
    """Registry of functions that handle messages, each for some message types.

    It can be given wherever a function that handles a message can: to :meth:`.Queue.consume`, to
    :class:`~airflow_sqlqueue.operators.SqlQueueConsumeOperator` as ``python_callable``, and to ``sqlqueue consume``.
    ::

        handlers = MessageHandlers()

        @handlers.handles("Shop.OrderPlaced")
        def placed(message): ...

    A message is handled by one function: that of the first of its enclosed types, most derived first, which has one, or
    else the default. Names of types are compared as written, without their assemblies. A function's first parameter is
    the :class:`~airflow_sqlqueue.Envelope`; further parameters get their values by name from :meth:`bind`.

    :param unhandled: treatment of messages that no function handles. ``fail``: they go to the error queue at once, with
        a :class:`~airflow_sqlqueue.errors.NoHandlerError`. ``discard``: they are deleted and counted as ``discarded``.
    """

    def __init__(self, *, unhandled: str = FAIL) -> None:
        if unhandled not in (FAIL, DISCARD):
            raise ConfigurationError(f"unhandled is {unhandled!r}: choose {FAIL!r} or {DISCARD!r}.")
        self.unhandled = unhandled
        self._by_type: dict[str, HandlerFunction] = {}
        self._default: HandlerFunction | None = None

    @classmethod
    def of(cls, function: Callable[[Envelope], Any]) -> MessageHandlers:
        """Return a registry with one function, which handles all messages."""
        handlers = cls()
        handlers._default = HandlerFunction(function)
        return handlers

    def handles(self, *message_types: str) -> Callable[[F], F]:
        """Register the decorated function for message types: full names of .NET types without their assemblies.

        Raises :class:`ConfigurationError` for a type that has a function already, for a name that is no full name, and
        for an asynchronous function or a generator.
        """
        if not message_types:
            raise ConfigurationError("handles() names no message type: name one, or use the decorator default.")
        # At once, because a decorator without parentheses gives it the function, which no one would register.
        message_types = tuple(map(check_full_name, message_types))
        return lambda function: self._register(function, HandlerFunction(function), message_types)

    def default(self, function: F) -> F:
        """Register the decorated function for messages that no other function handles. Raises as :meth:`handles`."""
        return self._register(function, HandlerFunction(function), ())

    def batch(self, *message_types: str, max_messages: int = 100, max_seconds: float = 0.0) -> Callable[[F], F]:
        """Register the decorated function, which gets a list of envelopes, for message types; without types as default.

        The messages of a list are received, handled and committed in one transaction, all or none. After a failure each
        of them is tried alone, in a list of one, by the rules of a single message. A list has at most 64 MiB of bodies.
        Messages that the function sends have no causation headers, because a list has no single cause. The transaction
        mode ``none`` takes no batches.

        :param max_messages: the most messages of a list, up to 1,000. No further messages of the queue are looked at
            for a list, so with other types among them it has fewer.
        :param max_seconds: seconds to wait for further messages, up to 60; 0: take those that are there. The messages
            of the list are locked meanwhile.
        """
        message_types = tuple(map(check_full_name, message_types))
        if not isinstance(max_messages, int) or not 1 <= max_messages <= MAX_BATCH:
            raise ConfigurationError(f"max_messages must be 1 to {MAX_BATCH:,}: a batch is one transaction.")
        if not isinstance(max_seconds, (int, float)) or not 0 <= max_seconds <= LONGEST_COLLECTION:
            raise ConfigurationError(f"max_seconds must be 0 to {LONGEST_COLLECTION:g}: the messages are locked.")
        made = partial(HandlerFunction, is_batch=True, max_messages=max_messages, max_seconds=max_seconds)
        return lambda function: self._register(function, made(function), message_types)

    def bind(self, **values: Any) -> MessageHandlers:
        """Return a registry whose functions get these values for their parameters of the same names.

        Tasks bind ``hook``, ``client``, ``op_kwargs`` and their context, ``sqlqueue consume`` binds ``client``. Raises
        :class:`ConfigurationError` if there is no function, or if one needs a parameter without a value.
        """
        if not self._by_type and self._default is None:
            raise ConfigurationError("The message handlers have no function: register one with a decorator.")
        bound = MessageHandlers(unhandled=self.unhandled)
        bound._by_type = {name: _bound(function, values) for name, function in self._by_type.items()}
        bound._default = None if self._default is None else _bound(self._default, values)
        return bound

    def find(self, message: Envelope) -> HandlerFunction | None:
        """Return the function that handles a message; None if no function does."""
        for name in message.unwrapped.content.message_types:
            if name in self._by_type:
                return self._by_type[name]
        return self._default

    def find_without_body(self, message: Envelope) -> HandlerFunction | None:
        """Return the function by a message's headers; None also if only the body, a whole CloudEvent, has the type."""
        return None if self._by_type and is_structured(message.content.content_type) else self.find(message)

    @property
    def max_batch(self) -> int:
        """The most messages of a list of any function; 1 without a batch function."""
        default = () if self._default is None else (self._default,)
        return max((function.max_messages for function in (*self._by_type.values(), *default)), default=1)

    @property
    def has_batches(self) -> bool:
        """Whether there is a batch function."""
        default = () if self._default is None else (self._default,)
        return any(function.is_batch for function in (*self._by_type.values(), *default))

    def __call__(self, message: Envelope) -> Any:
        """Call the function of a message and return its result, as tests of handlers do.

        Raises :class:`NoHandlerError` if no function handles it, unless such messages are discarded.
        """
        function = self.find(message)
        if function is not None:
            return function.call([message] if function.is_batch else message)
        if self.unhandled == FAIL:
            raise no_handler(message)
        return None

    def _register(self, function: F, registered: HandlerFunction, message_types: tuple[str, ...]) -> F:
        if not callable(function):
            raise ConfigurationError(f"The handler is a {type(function).__name__}: give a function.")
        kinds = (inspect.iscoroutinefunction, inspect.isgeneratorfunction, inspect.isasyncgenfunction)
        if any(kind(function) for kind in kinds):
            raise ConfigurationError(
                "The handler is asynchronous or a generator, so nothing would run: give a function."
            )
        for name in message_types:
            if name in self._by_type:
                raise ConfigurationError(f"The message type {quoted(name)} has a handler already: it takes one.")
        if not message_types and self._default is not None:
            raise ConfigurationError("There is a default handler already: name the message types of this one.")
        self._by_type |= dict.fromkeys(message_types, registered)
        self._default = self._default if message_types else registered
        return function


def _bound(function: HandlerFunction, values: dict[str, Any]) -> HandlerFunction:
    return replace(function, call=partial(function.call, **arguments_for(function.call, values, {})))


def no_handler(message: Envelope) -> NoHandlerError:
    """Return the error of a message that no function handles."""
    kind = message.content.message_type
    what = "a message without a type" if kind is None else f"messages of the type {quoted(kind)}"
    return NoHandlerError(f"No function handles {what}: register one, or set unhandled to 'discard'.")
