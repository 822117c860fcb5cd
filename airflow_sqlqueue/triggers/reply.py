"""Wait for the reply to a request without a worker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.triggers.base import BaseTrigger

from airflow_sqlqueue.triggers.base import OneEventTrigger, QueueTrigger

if TYPE_CHECKING:
    from airflow_sqlqueue.client.queues import Queue
    from airflow_sqlqueue.queue import QueueTable


class SqlQueueReplyTrigger(OneEventTrigger, QueueTrigger, BaseTrigger):
    """Wait until the reply to a request is in its queue, for a task that has deferred itself; fires once.

    The reply stays in the queue. The event has its ``row_version``.

    :param queue_name: the queue that replies come to, ``table@[schema]@[catalog]``.
    :param correlation_id: the request's correlation id.
    :param poll_interval: seconds between two looks.
    :param sqlqueue_conn_id: the Airflow connection.
    :param hook_params: further arguments of :class:`~airflow_sqlqueue.hooks.sqlqueue.SqlQueueHook`.
    """

    def __init__(
        self,
        *,
        queue_name: str,
        correlation_id: str,
        poll_interval: float = 10.0,
        sqlqueue_conn_id: str = "sqlqueue_default",
        hook_params: dict[str, Any] | None = None,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.queue_name = queue_name
        self.correlation_id = correlation_id
        self.poll_interval = float(poll_interval)
        self.sqlqueue_conn_id = sqlqueue_conn_id
        self.hook_params = hook_params

    def look(self, queue: Queue, table: QueueTable) -> dict[str, Any] | None:
        found = queue.find_reply(self.correlation_id, table=table)
        return None if found is None else {"row_version": found}

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return f"{__name__}.{type(self).__name__}", self.arguments(correlation_id=self.correlation_id)
