"""Put a drained batch back into its queue."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk import BaseOperator

from airflow_sqlqueue.hooks.retry_policy import fail_without_retry
from airflow_sqlqueue.hooks.staging import staging_folder
from airflow_sqlqueue.operators.base import QueueTask, note_batch
from airflow_sqlqueue.operators.metrics import Metrics

if TYPE_CHECKING:
    from airflow.sdk import Context, ObjectStoragePath


class SqlQueueRequeueOperator(QueueTask, BaseOperator):
    """Put a sealed batch back into the queue it was drained from: the messages' own ids and order, all or nothing.

    For a batch that nobody can read, behind a drain that runs no job itself. Exactly once: a repeated task finds the
    batch requeued and sends nothing. The task that drained it refuses to run again then; a new run makes a new batch.

    XCom: ``batch`` (the manifest, its state ``requeued``) and ``repeated`` (it had been put back before).

    :param batch: the manifest: what the drain operator returned, or its ``batch`` (templated)
    :param staging: the folder it was drained to, an ``ObjectStoragePath`` with its Airflow connection; None: what the
        ledger says, with the environment's credentials (templated)
    :param sqlqueue_conn_id: the Airflow connection (templated)
    :param hook_params: further arguments of :class:`~airflow_sqlqueue.hooks.sqlqueue.SqlQueueHook`.
    """

    template_fields: Sequence[str] = ("batch", "staging", "sqlqueue_conn_id")
    template_fields_renderers: ClassVar[dict[str, str]] = {"batch": "json"}
    ui_color = "#dfe9f5"

    def __init__(
        self,
        *,
        batch: Mapping[str, Any],
        staging: str | ObjectStoragePath | None = None,
        sqlqueue_conn_id: str = "sqlqueue_default",
        hook_params: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.batch = batch
        self.staging = staging
        self.sqlqueue_conn_id = sqlqueue_conn_id
        self.hook_params = hook_params

    def execute(self, context: Context) -> dict[str, Any]:
        """Put it back; raises BatchError for a batch that is open or consumed."""

        with fail_without_retry():
            folder = None if self.staging is None else staging_folder(self.staging)
            batches = self.hook.client.batches
            batch = batches.load(self.batch)
            done = batches.requeue(uuid.UUID(batch.batch_id), batch.queue, staging=folder)
        self.log.info("Batch %s is in %s again: %d messages", batch.batch_id, batch.queue, done.batch.messages)
        if not done.repeated:
            Metrics(self, self.hook.queue(batch.queue)).count("requeue.messages", done.batch.messages)
        note_batch(self, context, done.batch, put_back=True)
        return {"batch": done.batch.to_reference(), "repeated": done.repeated}
