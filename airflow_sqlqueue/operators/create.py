"""Create a queue."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from airflow_sqlqueue.operators.base import QueueTask

if TYPE_CHECKING:
    from airflow.sdk import Context


class SqlQueueCreateOperator(QueueTask, BaseOperator):
    """Create a queue table and its indexes if it is missing. An existing queue is left as it is.

    Safe to repeat, and beside endpoints that create the same queue. XCom: True when this task made the table.

    :param queue_name: the queue's address, ``table@[schema]@[catalog]`` (templated)
    :param sqlqueue_conn_id: the Airflow connection (templated)
    :param layout: ``modern``, as versions 5.0.3 and later make it, or ``clustered``.
    :param create_schema: whether to make a missing schema.
    :param hook_params: further arguments of :class:`~airflow_sqlqueue.hooks.sqlqueue.SqlQueueHook`.
    """

    template_fields: Sequence[str] = ("queue_name", "sqlqueue_conn_id")
    ui_color = "#dfe9f5"

    def __init__(
        self,
        *,
        queue_name: str,
        sqlqueue_conn_id: str = "sqlqueue_default",
        layout: str = "modern",
        create_schema: bool = False,
        hook_params: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.queue_name = queue_name
        self.sqlqueue_conn_id = sqlqueue_conn_id
        self.layout = layout
        self.create_schema = create_schema
        self.hook_params = hook_params

    def execute(self, context: Context) -> bool:
        """Create it; raises our errors, those no retry mends as AirflowFailException."""
        from airflow_sqlqueue.hooks.failures import fail_without_retry

        with fail_without_retry():
            made = self.hook.create_queue(self.queue_name, layout=self.layout, create_schema=self.create_schema)
            table = self.hook.resolve(self.queue_name).canonical
        self.log.info("Queue %s was made" if made else "Queue %s is there already", table)
        return made
