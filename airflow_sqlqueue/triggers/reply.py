"""Trigger that waits for the reply to a request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_sqlqueue.messages.address import text_of
from airflow_sqlqueue.triggers.base import OneEventTrigger, QueueTrigger

if TYPE_CHECKING:
    from airflow_sqlqueue.client.queues import Queue
    from airflow_sqlqueue.queue import QueueTable


class SqlQueueReplyTrigger(OneEventTrigger, QueueTrigger):
    """Wait until the reply to a request is in its queue, for a deferred task; fires once.

    The reply stays in the queue. The event has its ``row_version``.

    :param queue_name: the queue that receives replies, ``table@[schema]@[catalog]``.
    :param correlation_id: the request's correlation id.
    """

    def __init__(self, *, correlation_id: str, poll_interval: float = 10.0, **kwargs: Any) -> None:
        self.correlation_id = correlation_id
        super().__init__(poll_interval=poll_interval, **kwargs)

    def check(self) -> None:
        super().check()
        # No reply has the form in which another value travels to the triggerer.
        text_of("correlation id", self.correlation_id)

    def poll(self, queue: Queue, table: QueueTable) -> dict[str, Any] | None:
        found = queue.find_reply(self.correlation_id, table=table)
        return None if found is None else {"row_version": found}
