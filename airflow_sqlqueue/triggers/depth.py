"""Triggers on the depth of a queue: one fires once for a deferred task, one repeatedly for assets."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from airflow.triggers.base import BaseEventTrigger, TriggerEvent

from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.options import seconds
from airflow_sqlqueue.queue.condition import QueueCondition
from airflow_sqlqueue.triggers.base import Attempts, OneEventTrigger, QueueTrigger, unpacked

if TYPE_CHECKING:
    from airflow_sqlqueue.client.queues import Queue
    from airflow_sqlqueue.queue import QueueTable


class DepthTrigger(QueueTrigger):
    """Base class of triggers that wait for a condition.

    :param wait_for: the condition to wait for, options of :class:`~airflow_sqlqueue.QueueCondition`:
        ``{"min_messages": 1000, "oldest_seconds": 3600}``; None: one message.
    """

    def __init__(self, *, wait_for: Mapping[str, Any] | None = None, **kwargs: Any) -> None:
        self.wait_for = unpacked(wait_for)
        super().__init__(**kwargs)

    def check(self) -> None:
        super().check()
        _ = self.condition

    @cached_property
    def condition(self) -> QueueCondition:
        """The condition, read when it is first used: Airflow may render ``wait_for`` in the triggerer before that."""
        return QueueCondition.of(self.wait_for or {})

    def arguments(self) -> dict[str, Any]:
        return {**super().arguments(), "wait_for": self.condition.to_dict()}

    def poll(self, queue: Queue, table: QueueTable) -> dict[str, Any] | None:
        found = queue.check(self.condition, table=table)
        return found.to_dict(self.condition) if found.met else None


class SqlQueueDepthTrigger(OneEventTrigger, DepthTrigger):
    """Wait for a condition of a queue, for a deferred task; fires once.

    The event has the result, or an error that waiting cannot fix. A lost server is waited for.
    """

    def __init__(self, *, poll_interval: float = 60.0, **kwargs: Any) -> None:
        super().__init__(poll_interval=poll_interval, **kwargs)


class SqlQueueDepthEventTrigger(DepthTrigger, BaseEventTrigger):
    """Signal repeatedly that a queue meets a condition, for an ``AssetWatcher``.

    It signals a level, not messages: at once when the condition is met, and then every ``repeat_interval`` while it
    stays met. So a run that drains the queue may leave messages that came too late for it, and Airflow may drop an
    event while a run is queued: the next signal comes as long as the queue has one message. Delivery: at least one
    signal after each message; a run may find the queue empty.

    An event holds ``queue_name`` or ``endpoint`` and the numbers of the condition, but no content of messages. Errors,
    also a missing queue or a refused login, are logged once each, and the trigger tries again after 1 to 60 seconds.

    :param wait_for: the condition to signal, options of :class:`~airflow_sqlqueue.QueueCondition` but
        ``max_messages``: ``{"min_messages": 100}``; None: one message. With ``filters`` only matching messages count,
        and each poll reads the headers of the queue until enough match: choose a longer ``poll_interval``.
    :param poll_interval: seconds between two polls while the condition is not met.
    :param repeat_interval: seconds between two signals while the condition is met.
    """

    def __init__(self, *, poll_interval: float = 5.0, repeat_interval: float = 30.0, **kwargs: Any) -> None:
        self.repeat_interval = repeat_interval
        super().__init__(poll_interval=poll_interval, **kwargs)

    def check(self) -> None:
        super().check()
        self.repeat_interval = seconds("repeat_interval", self.repeat_interval)
        if not (self.poll_interval and self.repeat_interval):
            raise ConfigurationError("poll_interval and repeat_interval are numbers of seconds above 0.")
        if self.condition.max_messages is not None:
            raise ConfigurationError("A trigger for assets accepts no max_messages: leave it out of wait_for.")

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield an event for each signal, without end, because Airflow would restart a watcher's trigger at once."""
        attempts = Attempts(self.shown_name, self.log)
        while True:
            try:
                watch, pause = await self.open_watch(), 0.0
                while True:
                    found = await watch.found(after=pause)
                    attempts.succeeded()
                    pause = self.repeat_interval
                    yield TriggerEvent({**self.named, **found})
            except Exception as error:
                self.close_watch()
                await attempts.failed(error)
            finally:
                self.close_watch()
