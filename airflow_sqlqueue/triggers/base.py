"""Base classes of the triggers: arguments, connection and watch; lookups run outside the event loop."""

from __future__ import annotations

import asyncio
import json
from abc import abstractmethod
from collections.abc import AsyncIterator, Mapping, Set
from contextlib import suppress
from datetime import datetime
from inspect import signature
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import AirflowException
from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_sqlqueue import errors
from airflow_sqlqueue.errors import ConfigurationError, SqlQueueError
from airflow_sqlqueue.hooks.arguments import check_hook_params
from airflow_sqlqueue.messages.address import QueueAddress, text_of
from airflow_sqlqueue.messages.routing import check_named_once, endpoint_table
from airflow_sqlqueue.options import seconds
from airflow_sqlqueue.queue.filters import MessageFilter

if TYPE_CHECKING:
    from airflow_sqlqueue.client.client import QueueClient
    from airflow_sqlqueue.client.queues import Queue
    from airflow_sqlqueue.queue import QueueTable
    from airflow_sqlqueue.server.session import Session
    from airflow_sqlqueue.triggers.poller import Poll, Watch


EXPECTED = (SqlQueueError, AirflowException)
"""Errors whose text is a sentence for people: those of this package, and Airflow's for an unknown connection."""


def met(found: Mapping[str, Any]) -> TriggerEvent:
    """Return the event of a result."""
    return TriggerEvent({"status": "met", "found": dict(found)})


def failed(error: Exception) -> TriggerEvent:
    """Return the event of an error that ends the wait: its class and its sentence, without secrets: Airflow logs it."""
    return TriggerEvent({"status": "failed", "error": type(error).__name__, "message": str(error)})


def found_in(event: Any) -> dict[str, Any]:
    """Result in an event. Raises the error that ended the wait, of its own class."""
    if not isinstance(event, Mapping) or event.get("status") not in ("met", "failed"):
        raise AirflowException("The trigger sent an event that this task does not know: clear the task to wait again.")
    if event["status"] == "met":
        return dict(event["found"])
    cls = getattr(errors, event["error"], AirflowException)
    raise cls(event["message"])


class ServerTrigger(BaseTrigger):
    """Base class of triggers on one server; their arguments hold no secrets.

    A constructor only stores its arguments and checks them where no event loop runs, which is where a DAG is parsed or
    a task defers: an error of a constructor ends Airflow's triggerer, so there the one trigger fails when it runs.
    Subclasses set their attributes first.

    :param poll_interval: seconds between two polls.
    :param sqlqueue_conn_id: the Airflow connection.
    :param hook_params: further arguments of :class:`~airflow_sqlqueue.hooks.sqlqueue.SqlQueueHook`.
    """

    is_patient = True
    """Whether to keep waiting if the server refuses the login at the first connection."""
    _watch: Watch[dict[str, Any]] | None = None

    def __init__(
        self,
        *,
        poll_interval: float,
        sqlqueue_conn_id: str = "sqlqueue_default",
        hook_params: dict[str, Any] | None = None,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.poll_interval = poll_interval
        self.sqlqueue_conn_id = sqlqueue_conn_id
        self.hook_params = unpacked(hook_params)
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            self.check()

    def check(self) -> None:
        """Check the arguments, and turn texts of numbers into numbers. Raises this package's errors."""
        self.poll_interval = seconds("poll_interval", self.poll_interval)
        check_hook_params(self.hook_params)

    @abstractmethod
    def make_poll(self, client: QueueClient) -> Poll[dict[str, Any]]:
        """Return the function that polls once, on the poller's thread; it returns only numbers and names, or None."""

    def arguments(self) -> dict[str, Any]:
        """Keyword arguments that make the same trigger again: those of the constructors, from its attributes."""
        constructors = [kind.__init__ for kind in type(self).__mro__ if issubclass(kind, ServerTrigger)]
        parameters = [each for constructor in constructors for each in signature(constructor).parameters.values()]
        return {each.name: getattr(self, each.name) for each in parameters if each.kind is each.KEYWORD_ONLY}

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Class and arguments for Airflow's database, always in the same form: Airflow compares hashes of them.

        Mappings and lists travel as JSON texts, because Airflow 3.2 does not give back a watcher's mappings as they
        were.
        """
        self.check()
        return f"{type(self).__module__}.{type(self).__name__}", {n: packed(v) for n, v in self.arguments().items()}

    async def open_watch(self) -> Watch[dict[str, Any]]:
        """Open the watch; :meth:`close_watch` ends it."""
        from airflow_sqlqueue.triggers.poller import Source, Watch

        self.check()
        name = self.sqlqueue_conn_id, packed(self.hook_params)
        self._watch = await Watch.open(Source(name, self._client, self.make_poll, self.is_patient), self.poll_interval)
        return self._watch

    def close_watch(self) -> None:
        """End the watch, if one is open."""
        if self._watch is not None:
            self._watch.close()
        self._watch = None

    async def cleanup(self) -> None:
        """End the watch; Airflow calls this however the trigger ends."""
        self.close_watch()

    def _client(self) -> QueueClient:
        from airflow_sqlqueue.hooks.sqlqueue import SqlQueueHook

        return SqlQueueHook(self.sqlqueue_conn_id, **(self.hook_params or {})).client


class OneEventTrigger(ServerTrigger):
    """Base class of triggers that fire once, for a deferred task."""

    is_patient = False

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield one event: the result, or the error that ends the wait."""
        try:
            watch = await self.open_watch()
            event = met(await watch.found())
        except EXPECTED as error:
            event = failed(error)
        finally:
            self.close_watch()
        yield event


class QueueTrigger(ServerTrigger):
    """Base class of triggers on one queue.

    :param queue_name: the queue's address, ``table@[schema]@[catalog]``; None: that of ``endpoint``.
    :param endpoint: the endpoint that the queue belongs to, resolved with the connection's endpoint settings.
    """

    def __init__(self, *, queue_name: str | None = None, endpoint: str | None = None, **kwargs: Any) -> None:
        self.queue_name = queue_name
        self.endpoint = endpoint
        super().__init__(**kwargs)

    def check(self) -> None:
        super().check()
        check_named_once(self.queue_name, self.endpoint)
        if self.endpoint is None:
            QueueAddress.parse(text_of("queue address", self.queue_name))
        else:
            endpoint_table(self.endpoint)

    @property
    def named(self) -> dict[str, str]:
        """``queue_name`` or ``endpoint``, as given: for events and the arguments that make the same trigger again."""
        return {"endpoint": self.endpoint} if self.endpoint is not None else {"queue_name": str(self.queue_name)}

    @property
    def shown_name(self) -> str:
        """The address or the endpoint, for logs."""
        return str(self.queue_name or self.endpoint)

    @abstractmethod
    def poll(self, queue: Queue, table: QueueTable) -> dict[str, Any] | None:
        """Poll once, on the poller's thread; return the result, only numbers and names, or None."""

    def make_poll(self, client: QueueClient) -> Poll[dict[str, Any]]:
        queue = client.queue(self.queue_name, endpoint=self.endpoint)
        opened: QueueTable | None = None

        def poll(session: Session) -> dict[str, Any] | None:
            nonlocal opened
            # The layout is read once for a session.
            if opened is None or opened.session is not session:
                opened = queue.open_in(session)
            return self.poll(queue, opened)

        return poll

    def arguments(self) -> dict[str, Any]:
        others = {n: v for n, v in super().arguments().items() if n not in ("queue_name", "endpoint")}
        return {**self.named, **others}


class Attempts:
    """Error handling of an event trigger: it logs, pauses and goes on, because Airflow would restart it at once.

    ``log`` gets each error once, until an attempt succeeds.
    """

    def __init__(self, queue_name: str, log: Any) -> None:
        self._queue_name, self._log = queue_name, log
        self._logged, self._failures = "", 0

    def succeeded(self) -> None:
        """Reset after a success: the next error is logged again, and its pause is as short as the first one."""
        self._logged, self._failures = "", 0

    async def failed(self, error: Exception) -> None:
        """Log the error, and wait for 1 to 60 seconds."""
        from airflow_sqlqueue.triggers.poller import random_pause

        self._failures += 1
        known = isinstance(error, EXPECTED)
        sentence = str(error) if known else f"The trigger failed: {type(error).__name__}"
        if sentence != self._logged:
            self._log.error(
                "Queue %s is not watched: %s", self._queue_name, sentence, exc_info=error if not known else None
            )
        self._logged = sentence
        await asyncio.sleep(random_pause(self._failures))


def names(name: str, value: Any) -> list[str]:
    """Return the names in a list, sorted. Raises :class:`ConfigurationError`."""
    if isinstance(value, (list, tuple, Set)) and all(isinstance(each, str) for each in value):
        return sorted(value)
    raise ConfigurationError(f"{name} is a list of names, not {type(value).__name__}.")


def packed(value: Any) -> Any:
    """Return a text, number or None as it is, and anything else as a JSON text in a fixed order."""
    if value is None or isinstance(value, (str, bool, int, float)):
        return value
    return json.dumps(plain(value), default=str)


def unpacked(value: Any) -> Any:
    """Return the value of :func:`packed`; any other value as it is. Raises nothing."""
    with suppress(ValueError, RecursionError):
        return json.loads(value) if isinstance(value, str) else value
    return value


def plain(value: Any) -> Any:
    """Return the value as JSON, in a fixed order."""
    if isinstance(value, Mapping):
        return {str(name): plain(value[name]) for name in sorted(value, key=str)}
    if isinstance(value, Set):
        return sorted(map(plain, value), key=str)
    if isinstance(value, (list, tuple)):
        return list(map(plain, value))
    if isinstance(value, MessageFilter):
        return value.to_dict()
    return value.isoformat() if isinstance(value, datetime) else value
