"""Drop a queue."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from airflow_sqlqueue.hooks.retry_policy import fail_without_retry
from airflow_sqlqueue.operators.base import QueueTask

if TYPE_CHECKING:
    from airflow.sdk import Context


class SqlQueueDropOperator(QueueTask, BaseOperator):
    """Drop a queue table, or a table of delayed messages. A missing one is no error, so the task can be repeated.

    One that holds messages, those that others have locked included, fails the task unless ``force`` is set.

    XCom: how many messages were dropped with it.

    :param queue_name: the queue's address, ``table@[schema]@[catalog]`` (templated)
    :param force: whether to drop it with the messages that it holds.
    :param sqlqueue_conn_id: the Airflow connection (templated)
    :param hook_params: further arguments of :class:`~airflow_sqlqueue.hooks.sqlqueue.SqlQueueHook`.
    """

    template_fields: Sequence[str] = ("queue_name", "sqlqueue_conn_id")
    ui_color = "#dfe9f5"

    def __init__(
        self,
        *,
        queue_name: str,
        force: bool = False,
        sqlqueue_conn_id: str = "sqlqueue_default",
        hook_params: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.queue_name = queue_name
        self.force = force
        self.sqlqueue_conn_id = sqlqueue_conn_id
        self.hook_params = hook_params

    def execute(self, context: Context) -> int:
        """Drop it; raises our errors, those that no retry can fix as AirflowFailException."""
        from airflow_sqlqueue.errors import QueueNotFoundError

        with fail_without_retry():
            try:
                dropped = self.hook.client.tables.drop(self.queue_name, force=self.force)
            except QueueNotFoundError:
                self.log.info("There is no %s", self.queue_name)
                return 0
        self.log.info("Dropped %s with %d messages", self.queue_name, dropped)
        return dropped
