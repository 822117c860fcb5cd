"""Operators on drained batches: mark consumed, requeue, sweep."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from airflow_sqlqueue.drain.options import SweepOptions
from airflow_sqlqueue.hooks.permanent_errors import fail_without_retry
from airflow_sqlqueue.hooks.staging import staging_folder
from airflow_sqlqueue.operators.base import BatchTask, ServerTask, check_options, note_batch, templated
from airflow_sqlqueue.operators.metrics import Metrics
from airflow_sqlqueue.options.budget import count_of, size_of

if TYPE_CHECKING:
    from airflow.sdk import Context, ObjectStoragePath


class SqlQueueMarkConsumedOperator(BatchTask):
    """Mark a batch as consumed in the ledger, after a task of yours has read it.

    For a drain that runs no job itself. Run this task after the one that reads the batch: no job gets a consumed batch
    again, so marking it too early loses it for the reader. Safe to repeat.
    """

    def execute(self, context: Context) -> None:
        """Mark it; raises BatchError unless the ledger has it sealed with these messages."""
        with fail_without_retry():
            batch = self.recorded_batch()
            self.hook.client.batches.mark_consumed(batch)
        self.log.info("Batch %s is consumed", batch.batch_id)


class SqlQueueRequeueOperator(BatchTask):
    """Put a sealed batch back into the queue it was drained from: with the same ids and order, all or nothing.

    For an unreadable batch of a drain that runs no job itself. Delivery: exactly once; a repeated task finds the batch
    requeued and sends nothing. The task that drained the batch then refuses to run again; a new run makes a new batch.

    XCom: ``batch`` (the manifest, its state ``requeued``) and ``repeated`` (it had been put back before).

    :param staging: the folder it was drained to, an ``ObjectStoragePath`` with its Airflow connection; None: the
        ledger's paths, with the environment's credentials (templated)
    :param accept_redacted: put a redacted batch back too, as its rules have left it.
    """

    template_fields = templated(BatchTask, "staging")

    def __init__(
        self, *, staging: str | ObjectStoragePath | None = None, accept_redacted: bool = False, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.staging = staging
        self.accept_redacted = accept_redacted

    def execute(self, context: Context) -> dict[str, Any]:
        """Requeue it; raises BatchError for an open or consumed batch."""
        with fail_without_retry():
            folder = None if self.staging is None else staging_folder(self.staging)
            batch = self.recorded_batch()
            done = self.hook.client.batches.requeue(batch, staging=folder, accept_redacted=self.accept_redacted)
        messages = count_of(done.batch.messages, "message")
        self.log.info("Batch %s is in %s again: %s", batch.batch_id, batch.queue, messages)
        if not done.repeated:
            Metrics(self, self.hook.queue(batch.queue)).count("requeue.messages", done.batch.messages)
        note_batch(self, context, done.batch, put_back=True)
        return {"batch": done.batch.to_reference(), "repeated": done.repeated}


class SqlQueueSweepOperator(ServerTask):
    """Remove orphaned part files, and batches that were consumed or requeued and are past their retention.

    Files and staged rows of open and sealed batches stay. Private queues for replies are dropped too, if killed
    processes have left them in the default schema. Safe to repeat, and to run beside drains. A task that is cleared
    after its batch was swept makes a new batch.

    XCom: the fields of :class:`~airflow_sqlqueue.drain.sweep.SweepResult`.

    :param staging: the folder for batches: a path, a URL, or an ``ObjectStoragePath``; None if the drains' stage is
        ``table``: batches with files then stay (templated)
    :param queue_name: a queue in the ledger's database; None: the ledger is in the connection's database (templated)
    :param only_count: remove nothing, only count.
    :param sweep_options: times to keep batches, orphans and sends, options of :class:`~airflow_sqlqueue.SweepOptions`:
        ``{"retain": "30d", "forget_sent": "90d"}`` (templated)
    """

    template_fields = templated("staging", "queue_name", "sweep_options", ServerTask)

    def __init__(
        self,
        *,
        staging: str | ObjectStoragePath | None = None,
        queue_name: str | None = None,
        only_count: bool = False,
        sweep_options: SweepOptions | Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.staging = staging
        self.queue_name = queue_name
        self.only_count = only_count
        self.sweep_options = sweep_options
        check_options(self, SweepOptions)

    def execute(self, context: Context) -> dict[str, Any]:
        with fail_without_retry():
            options = self._options()
            folder = None if self.staging is None else staging_folder(self.staging)
            swept = self.hook.client.batches.sweep(folder, self.queue_name, options)
        self.log.info(
            "Swept %s of %s, %s and %s",
            *(count_of(swept.files, "file"), size_of(swept.bytes), count_of(swept.rows, "staged row")),
            count_of(swept.batches, "batch"),
        )
        return asdict(swept)

    def _options(self) -> SweepOptions:
        return SweepOptions.of(self.sweep_options, dry_run=self.only_count)
