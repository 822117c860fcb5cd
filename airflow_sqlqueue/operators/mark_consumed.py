"""Mark a drained batch consumed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk import BaseOperator

from airflow_sqlqueue.hooks.retry_policy import fail_without_retry
from airflow_sqlqueue.operators.base import QueueTask

if TYPE_CHECKING:
    from airflow.sdk import Context


class SqlQueueMarkConsumedOperator(QueueTask, BaseOperator):
    """Say in the ledger that a batch was read for good, after a task of yours has read it.

    For a drain that runs no job itself. Put it behind the task that reads the batch: a consumed batch is never handed
    to a job again, so marking it too early loses it for the reader. Safe to repeat.

    :param batch: the manifest: what the drain operator returned, or its ``batch`` (templated)
    :param sqlqueue_conn_id: the Airflow connection (templated)
    :param hook_params: further arguments of :class:`~airflow_sqlqueue.hooks.sqlqueue.SqlQueueHook`.
    """

    template_fields: Sequence[str] = ("batch", "sqlqueue_conn_id")
    template_fields_renderers: ClassVar[dict[str, str]] = {"batch": "json"}
    ui_color = "#dfe9f5"

    def __init__(
        self,
        *,
        batch: Mapping[str, Any],
        sqlqueue_conn_id: str = "sqlqueue_default",
        hook_params: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.batch = batch
        self.sqlqueue_conn_id = sqlqueue_conn_id
        self.hook_params = hook_params

    def execute(self, context: Context) -> None:
        """Mark it; raises BatchError where the ledger does not have it sealed with these messages."""
        with fail_without_retry():
            batch = self.hook.client.batches.load(self.batch)
            self.hook.mark_consumed(batch)
        self.log.info("Batch %s is consumed", batch.batch_id)
