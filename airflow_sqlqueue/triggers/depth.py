"""Wait until a queue is deep enough, or old enough, without a worker: once for a task, again and again for assets."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from airflow.triggers.base import BaseEventTrigger, BaseTrigger, TriggerEvent

from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.queue.condition import QueueCondition
from airflow_sqlqueue.triggers.base import Attempts, OneEventTrigger, QueueTrigger

if TYPE_CHECKING:
    from airflow_sqlqueue.client.queues import Queue
    from airflow_sqlqueue.queue import QueueTable


class _DepthTrigger(QueueTrigger):
    """A trigger that waits for a condition."""

    condition: QueueCondition

    def look(self, queue: Queue, table: QueueTable) -> dict[str, Any] | None:
        found = queue.check(self.condition, table=table)
        return found.to_dict(self.condition) if found.met else None


class SqlQueueDepthTrigger(OneEventTrigger, _DepthTrigger, BaseTrigger):
    """Wait for a condition of a queue, for a task that has deferred itself; fires once.

    The event says what was found, or, where no waiting helps, why not. A server that is lost is waited for.

    :param queue_name: the queue's address, ``table@[schema]@[catalog]``.
    :param poll_interval: seconds between two looks.
    :param sqlqueue_conn_id: the Airflow connection.
    :param hook_params: further arguments of :class:`~airflow_sqlqueue.hooks.sqlqueue.SqlQueueHook`.
    :param condition: the options of :class:`~airflow_sqlqueue.queue.condition.QueueCondition`.
    """

    def __init__(
        self,
        *,
        queue_name: str,
        poll_interval: float = 60.0,
        sqlqueue_conn_id: str = "sqlqueue_default",
        hook_params: dict[str, Any] | None = None,
        **condition: Any,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.queue_name = queue_name
        self.condition = QueueCondition.of(condition)
        self.poll_interval = float(poll_interval)
        self.sqlqueue_conn_id = sqlqueue_conn_id
        self.hook_params = hook_params

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return f"{__name__}.{type(self).__name__}", self.arguments(**self.condition.to_dict())


class SqlQueueDepthEventTrigger(_DepthTrigger, BaseEventTrigger):
    """Signal that a queue meets a condition, for an ``AssetWatcher``: as long as it does, again and again.

    It signals a level, not messages: at once when the condition is met, and then each ``repeat_interval`` until it is
    not. A run that drains the queue may so leave messages that came too late for it, and an event that Airflow drops
    while a run waits for its turn loses nothing: the next signal comes as long as one message is there. Delivery: at
    least one signal after each message; a run may find the queue empty.

    An event holds ``queue_name`` and what the condition asked for: numbers, nothing of a message. Errors are logged,
    each once, and the trigger tries again after 1 to 60 seconds, a missing queue and a refused login included.

    :param queue_name: the queue's address, ``table@[schema]@[catalog]``.
    :param min_messages: how many messages to signal from; 1 where no condition is given.
    :param oldest_seconds: the age of the first message in the queue to signal from.
    :param min_expired: how many expired messages to signal from.
    :param min_delayed: how many delayed messages to signal from.
    :param kind: how messages are counted: exact, quick or catalog.
    :param poll_interval: seconds between two looks as long as the condition is not met.
    :param repeat_interval: seconds between two signals as long as it is.
    :param sqlqueue_conn_id: the Airflow connection.
    :param hook_params: further arguments of :class:`~airflow_sqlqueue.hooks.sqlqueue.SqlQueueHook`.
    """

    def __init__(
        self,
        *,
        queue_name: str,
        min_messages: int | None = None,
        oldest_seconds: float | None = None,
        min_expired: int | None = None,
        min_delayed: int | None = None,
        kind: str = "exact",
        poll_interval: float = 5.0,
        repeat_interval: float = 30.0,
        sqlqueue_conn_id: str = "sqlqueue_default",
        hook_params: dict[str, Any] | None = None,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.queue_name = queue_name
        self.condition = QueueCondition(
            min_messages=min_messages,
            oldest_seconds=oldest_seconds,
            min_expired=min_expired,
            min_delayed=min_delayed,
            kind=kind,
        )
        self.poll_interval = float(poll_interval)
        self.repeat_interval = float(repeat_interval)
        if not (self.poll_interval > 0 and self.repeat_interval > 0):
            raise ConfigurationError("poll_interval and repeat_interval are numbers of seconds above 0.")
        self.sqlqueue_conn_id = sqlqueue_conn_id
        self.hook_params = hook_params

    def serialize(self) -> tuple[str, dict[str, Any]]:
        asked = {**self.condition.to_dict(), "repeat_interval": self.repeat_interval}
        return f"{__name__}.{type(self).__name__}", self.arguments(**asked)

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """An event for each signal, without end: Airflow begins a watcher's trigger again at once when it ends."""
        attempts = Attempts(self.queue_name, self.log)
        while True:
            try:
                watch, pause = await self.open_watch(), 0.0
                while True:
                    found = await watch.found(after=pause)
                    attempts.succeeded()
                    pause = self.repeat_interval
                    yield TriggerEvent({"queue_name": self.queue_name, **found})
            except Exception as error:
                self.close_watch()
                await attempts.failed(error)
            finally:
                self.close_watch()
