"""Operator that handles the messages of a queue, as an endpoint does."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk.exceptions import AirflowException

from airflow_sqlqueue.hooks.retry_policy import fail_without_retry
from airflow_sqlqueue.operators.base import LimitedTask, check_named_once, templated
from airflow_sqlqueue.operators.metrics import Metrics
from airflow_sqlqueue.operators.python_job import arguments_for

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_sqlqueue.consuming.options import ConsumeOptions, ConsumeResult
    from airflow_sqlqueue.envelope import Envelope

HOOK = "hook"
"""The parameter by which a handler gets the task's hook."""


class SqlQueueConsumeOperator(LimitedTask):
    """Handle the messages of a queue with a function, as an endpoint does: receive, call it, commit or roll back.

    ``python_callable`` is called with an :class:`~airflow_sqlqueue.Envelope`, in up to ``max_handlers`` threads at a
    time. It gets by name what else it asks for: ``hook``, this task's
    :class:`~airflow_sqlqueue.hooks.sqlqueue.SqlQueueHook`, values of ``op_kwargs``, and of the task's context. What it
    sends and runs through the hook, or another client of the same server and login, is part of the message's
    transaction. What it raises rolls all of it back: the message is tried again at once, then after a while, by way of
    the table of delayed messages, and goes to the error queue after that, with the headers that ServiceControl reads.
    The delayed messages of the queue that are due are moved meanwhile, as an endpoint does.

    Delivery in the mode ``sends_atomic_with_receive``: each message is handled, and its effects on this server are
    committed, exactly once, whatever dies; effects elsewhere are repeated with an attempt. ``receive_only``: at least
    once, sends too. ``none``: at most once.

    XCom: the counts ``handled``, ``failed``, ``delayed``, ``forwarded`` and ``rolled_back``, ``messages`` (that have
    left the queue), ``handlers`` (the most at a time) and ``seconds``, as :class:`~airflow_sqlqueue.ConsumeResult` has
    them.

    :param queue_name: the queue's address, ``table@[schema]@[catalog]``; that of ``endpoint`` unless given (templated)
    :param python_callable: the function that handles a message; what it returns is ignored.
    :param op_kwargs: further arguments of the function, by name (templated)
    :param filters: handle only messages that match, conditions of :class:`~airflow_sqlqueue.MessageFilter`; all others
        stay. Headers of the whole queue are read for it, again and again where few match (templated)
    :param max_messages: end after this many messages have left the queue; None: no limit.
    :param max_seconds: receive no message after this many seconds; None: no limit.
    :param until_empty: end when nothing is left to receive; False: wait for more until a limit is reached.
    :param max_handlers: the most messages handled at the same time, each in a thread with a connection of its own.
    :param poll_seconds: how long to wait before an empty queue is looked at again.
    :param transaction_mode: ``sends_atomic_with_receive``, ``receive_only`` or ``none``.
    :param endpoint: the endpoint that handles the messages: by its name its queue is found, with the connection's
        endpoint settings, where no ``queue_name`` is given; the headers of messages that fail name it (templated)
    :param error_queue: the address of the queue for messages that are given up (templated)
    :param immediate_retries: how often a message is tried again at once, in each round.
    :param delayed_retries: how many further rounds there are, each after a delay.
    :param delayed_retry_seconds: the delay before the first of these rounds, and what each one after it waits longer.
    :param unrecoverable: types of exceptions after which a message goes to the error queue at once.
    """

    template_fields = templated("queue_name", "op_kwargs", "filters", "endpoint", "error_queue", LimitedTask)
    template_fields_renderers: ClassVar[dict[str, str]] = {"op_kwargs": "py", "filters": "json"}
    # A handler may be anything that can be called, a bound method of what cannot be copied as well.
    shallow_copy_attrs: Sequence[str] = ("python_callable",)

    def __init__(
        self,
        *,
        queue_name: str | None = None,
        python_callable: Callable[..., Any],
        op_kwargs: Mapping[str, Any] | None = None,
        filters: Mapping[str, Any] | None = None,
        until_empty: bool = True,
        max_handlers: int = 4,
        poll_seconds: float = 1.0,
        transaction_mode: str = "sends_atomic_with_receive",
        endpoint: str | None = None,
        error_queue: str = "error",
        immediate_retries: int = 5,
        delayed_retries: int = 3,
        delayed_retry_seconds: float = 10.0,
        unrecoverable: Sequence[type[Exception]] = (),
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.queue_name = queue_name
        self.python_callable = python_callable
        self.op_kwargs: Mapping[str, Any] = op_kwargs or {}
        self.filters = filters
        self.until_empty = until_empty
        self.max_handlers = max_handlers
        self.poll_seconds = poll_seconds
        self.transaction_mode = transaction_mode
        self.endpoint = endpoint
        self.error_queue = error_queue
        self.immediate_retries = immediate_retries
        self.delayed_retries = delayed_retries
        self.delayed_retry_seconds = delayed_retry_seconds
        self.unrecoverable = unrecoverable
        if queue_name is None:
            # Beside an address the endpoint is the name that failed messages are given up under.
            check_named_once(self.task_id, queue_name, endpoint)
        self._killed = False
        self._stop: threading.Event | None = None

    def execute(self, context: Context) -> dict[str, Any]:
        """Consume; raises our errors, those that no retry can fix as AirflowFailException."""
        self._stop = stop = threading.Event()
        if self._killed:
            stop.set()
        with fail_without_retry():
            queue = self.hook.queue(self.queue_name, endpoint=None if self.queue_name else self.endpoint)
            progress = _Progress(self.log, Metrics(self, queue))
            done = queue.consume(self._handler(context), self._options(), on_progress=progress, stop=stop)
        progress.end(done)
        if self._killed:
            raise AirflowException(
                "The task was told to end. What it has handled is committed, all other messages are in the queue."
            )
        return done.to_dict()

    def on_kill(self) -> None:
        """End after the messages that are being handled.

        Airflow calls this where it is to end the task, and lets it go on: the task has seconds until it is killed, and
        with it what is not handled by then, which is in the queue again.
        """
        self._killed = True
        if self._stop is not None:
            self._stop.set()

    def _handler(self, context: Context) -> Callable[[Envelope], Any]:
        """The function with what it asks for by name; its first parameter is the message, whatever its name."""
        handle = self.python_callable
        # Checked here: else every message would go to the error queue for it.
        arguments = arguments_for(handle, {HOOK: self.hook, **context}, self.op_kwargs)
        return lambda message: handle(message, **arguments)

    def _options(self) -> ConsumeOptions:
        from airflow_sqlqueue.consuming.options import ConsumeOptions
        from airflow_sqlqueue.consuming.recoverability import RecoverabilityOptions
        from airflow_sqlqueue.queue.filters import MessageFilter

        return ConsumeOptions(
            max_messages=self.max_messages,
            max_seconds=self.max_seconds,
            until_empty=self.until_empty,
            max_handlers=self.max_handlers,
            poll_seconds=self.poll_seconds,
            where=None if self.filters is None else MessageFilter.of(self.filters),
            transaction_mode=self.transaction_mode,
            endpoint=self.endpoint,
            recoverability=RecoverabilityOptions(
                immediate_retries=self.immediate_retries,
                delayed_retries=self.delayed_retries,
                delayed_retry_seconds=self.delayed_retry_seconds,
                error_queue=self.error_queue,
                unrecoverable=tuple(self.unrecoverable),
            ),
        )


class _Progress:
    """Counts in the task's log and in Airflow's metrics, now and then: messages come faster than either takes them."""

    _COUNTERS = ("handled", "failed", "delayed", "forwarded", "rolled_back")
    _EVERY = 10.0

    def __init__(self, log: Any, metrics: Metrics) -> None:
        self._log, self._metrics, self._told = log, metrics, dict.fromkeys(self._COUNTERS, 0)
        self._next = time.monotonic() + self._EVERY

    def __call__(self, done: ConsumeResult) -> None:
        """One more message is done with; called by one handler at a time."""
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + self._EVERY
            self._tell(done)
            self._log.info("Handled %d messages so far, %d went to the error queue", done.handled, done.failed)

    def end(self, done: ConsumeResult) -> None:
        self._tell(done)
        self._metrics.timing("consume.seconds", done.seconds)
        self._metrics.depth()
        self._log.info("Handled %d messages with up to %d handlers", done.handled, done.handlers)
        if done.delayed:
            self._log.warning("%d times a message failed and is tried again later", done.delayed)
        if done.failed:
            self._log.warning("%d messages went to the error queue: see 'sqlqueue errors'", done.failed)

    def _tell(self, done: ConsumeResult) -> None:
        for name, told in self._told.items():
            self._told[name] = done.to_dict()[name]
            self._metrics.count(f"consume.{name}", self._told[name] - told)
