"""Operator that handles the messages of a queue, as an endpoint does."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import AirflowException

from airflow_sqlqueue.endpoint.message_handlers import MessageHandlers
from airflow_sqlqueue.endpoint.options import ConsumeOptions, ConsumeResult
from airflow_sqlqueue.errors import TooManyFailuresError
from airflow_sqlqueue.hooks.permanent_errors import fail_without_retry
from airflow_sqlqueue.hooks.staging import data_bus_at
from airflow_sqlqueue.operators.base import LimitedTask, check_named_once, check_options, message_filter, templated
from airflow_sqlqueue.operators.metrics import Metrics
from airflow_sqlqueue.options.arguments import arguments_for, check_op_kwargs
from airflow_sqlqueue.options.budget import count_of
from airflow_sqlqueue.queue.filters import MessageFilter

if TYPE_CHECKING:
    from airflow.sdk import Context, ObjectStoragePath

    from airflow_sqlqueue.messages.envelope import Envelope

HOOK, CLIENT = "hook", "client"
"""Names of the handler's parameters for the task's hook and its client."""


class SqlQueueConsumeOperator(LimitedTask):
    """Handle the messages of a queue with a function, as an endpoint does: receive, call it, commit or roll back.

    ``python_callable`` is called with an :class:`~airflow_sqlqueue.Envelope`, in several threads at a time
    (``max_handlers``). Its other parameters get their values by name: ``hook``, this task's
    :class:`~airflow_sqlqueue.hooks.sqlqueue.SqlQueueHook`, ``client``, the hook's
    :class:`~airflow_sqlqueue.QueueClient`, values of ``op_kwargs``, and of the task's context. Sends
    and statements through the hook, or another client of the same server and login, are part of the message's
    transaction. An exception rolls all of it back: the message is retried at once, then after delays through the table
    of delayed messages, and then goes to the error queue, with the headers that ServiceControl reads. Messages that the
    function sends carry causation headers, and retries of ServiceControl are acknowledged to it. Meanwhile the
    task moves the queue's delayed messages that are due, as an endpoint does.

    Delivery in the mode ``sends_atomic_with_receive``: exactly once, also after a failure, for handling and for effects
    on this server; each attempt repeats effects elsewhere. ``receive_only``: at least once, sends too. ``none``: at
    most once.

    XCom: the counts of :class:`~airflow_sqlqueue.ConsumeResult`.

    :param queue_name: the queue's address, ``table@[schema]@[catalog]``; None: the queue of ``endpoint`` (templated)
    :param python_callable: the function that handles a message, or :class:`~airflow_sqlqueue.MessageHandlers`,
        functions by message type; results are ignored.
    :param op_kwargs: further arguments of the function, by name (templated)
    :param filters: handle only messages that match, conditions of :class:`~airflow_sqlqueue.MessageFilter`; all others
        stay. This reads the headers of the whole queue, repeatedly if few messages match (templated)
    :param max_messages: end after this many messages have left the queue; None: no limit (templated)
    :param max_seconds: receive no message after this many seconds; None: no limit (templated)
    :param endpoint: the endpoint that handles the messages. Without ``queue_name`` its name gives the queue, with the
        connection's endpoint settings; headers of failed, audited and sent messages name it (templated)
    :param data_bus: the data bus (claim check) of the senders, a folder or a URL like a staging folder's:
        :meth:`.Envelope.payload` fetches from it (templated)
    :param consume_options: retries, limits on failures, the number of handlers and so on, options of
        :class:`~airflow_sqlqueue.ConsumeOptions`: ``{"max_handlers": 8, "inbox": True}`` (templated)
    """

    template_fields = templated(
        "queue_name", "op_kwargs", "filters", "endpoint", "data_bus", "consume_options", LimitedTask
    )
    # Airflow copies tasks, but a callable may be a bound method of an object that cannot be copied.
    shallow_copy_attrs: Sequence[str] = ("python_callable",)

    def __init__(
        self,
        *,
        queue_name: str | None = None,
        python_callable: Callable[..., Any],
        op_kwargs: Mapping[str, Any] | None = None,
        filters: Mapping[str, Any] | None = None,
        endpoint: str | None = None,
        data_bus: str | ObjectStoragePath | None = None,
        consume_options: ConsumeOptions | Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.queue_name = queue_name
        self.python_callable = python_callable
        self.op_kwargs: Mapping[str, Any] = op_kwargs or {}
        self.filters = filters
        self.endpoint = endpoint
        self.data_bus = data_bus
        self.consume_options = consume_options
        check_options(self, ConsumeOptions, MessageFilter)
        if queue_name is None:
            # With an address, the endpoint is only the name in the headers of failed messages.
            check_named_once(self.task_id, queue_name, endpoint)
        self._killed = False
        self._stop: threading.Event | None = None

    def execute(self, context: Context) -> dict[str, Any]:
        self._stop = stop = threading.Event()
        if self._killed:
            stop.set()
        with fail_without_retry():
            queue = self.hook.queue(self.queue_name, endpoint=None if self.queue_name else self.endpoint)
            options = self._options()
            again = self._next_round(context, options.delayed_retry_seconds)
            progress = _Progress(self.log, Metrics(self, queue), again)
            try:
                done = queue.consume(self._handler(context), options, on_progress=progress, stop=stop)
            except TooManyFailuresError:
                progress.end()
                raise
        progress.end(done)
        if self._killed:
            raise AirflowException(
                "Airflow ended the task. The handled messages are committed, all others are in the queue."
            )
        return done.to_dict()

    def on_kill(self) -> None:
        """End after the messages in hand: Airflow calls this, and kills the process some seconds later."""
        self._killed = True
        if self._stop is not None:
            self._stop.set()

    def _next_round(self, context: Context, seconds: float) -> str:
        """When and by whom delayed messages are retried."""
        said = f"{seconds:g} s or more, until a run of this task or an endpoint of the queue takes them"
        unscheduled = getattr(context.get("dag"), "schedule", ...) is None
        return said + ("; this DAG has no schedule, so no run comes by itself" if unscheduled else "")

    def _handler(self, context: Context) -> Callable[[Envelope], Any]:
        """Return the function with its named arguments; its first parameter, of any name, is the message."""
        handle = self.python_callable
        offered = {HOOK: self.hook, CLIENT: self.hook.client, **context}
        # Checked here, because else every message would go to the error queue. A template may render to None.
        check_op_kwargs(self.op_kwargs)
        given = self.op_kwargs or {}
        if isinstance(handle, MessageHandlers):
            return handle.bind(**{**offered, **given})
        return partial(handle, **arguments_for(handle, offered, given))

    def _options(self) -> ConsumeOptions:
        return ConsumeOptions.of(
            self.consume_options,
            **self.limits(),
            where=message_filter(self),
            endpoint=self.endpoint,
            data_bus=None if self.data_bus is None else data_bus_at(self.data_bus),
        )


class _Progress:
    """Progress in the task's log and in Airflow's metrics, every 10 seconds, because messages are faster than both."""

    _COUNTERS = ("handled", "failed", "delayed", "forwarded", "duplicates", "discarded", "rolled_back")
    _EVERY = 10.0

    def __init__(self, log: Any, metrics: Metrics, next_round: str) -> None:
        self._log, self._metrics, self._next_round = log, metrics, next_round
        self._sent: dict[str, int] = {}
        self._next = time.monotonic() + self._EVERY
        self._last: ConsumeResult | None = None

    def __call__(self, done: ConsumeResult) -> None:
        """Count one more message; called by one handler at a time."""
        self._last = done
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + self._EVERY
            self._count(done)
            handled = count_of(done.handled, "message")
            self._log.info("Handled %s so far, %s went to the error queue", handled, f"{done.failed:,}")

    def end(self, done: ConsumeResult | None = None) -> None:
        """Send and log the counts at the end; without ``done`` those of the last message."""
        done = done or self._last
        if done is None:
            return
        self._count(done)
        self._metrics.timing("consume.seconds", done.seconds)
        self._metrics.depth()
        handled, handlers = count_of(done.handled, "message"), count_of(done.handlers, "handler")
        self._log.info("Handled %s with up to %s", handled, handlers)
        if done.delayed:
            self._log.warning("Delayed %s: they wait for %s", count_of(done.delayed, "message"), self._next_round)
        if done.failed:
            went = count_of(done.failed, "message")
            self._log.warning("%s went to the error queue: see 'sqlqueue errors <queue>'", went)

    def _count(self, done: ConsumeResult) -> None:
        counts = {name: done.to_dict()[name] for name in self._COUNTERS}
        self._metrics.count_new("consume", counts, self._sent)
        self._sent = counts
