"""Operators on drained batches: mark one consumed, put one back into its queue, sweep old ones."""

from __future__ import annotations

import uuid
from dataclasses import asdict
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow_sqlqueue.hooks.retry_policy import fail_without_retry
from airflow_sqlqueue.hooks.staging import staging_folder
from airflow_sqlqueue.operators.base import BatchTask, ServerTask, note_batch, templated
from airflow_sqlqueue.operators.metrics import Metrics

if TYPE_CHECKING:
    from airflow.sdk import Context, ObjectStoragePath


class SqlQueueMarkConsumedOperator(BatchTask):
    """Say in the ledger that a batch was read for good, after a task of yours has read it.

    For a drain that runs no job itself. Put it behind the task that reads the batch: a consumed batch is never handed
    to a job again, so marking it too early loses it for the reader. Safe to repeat.
    """

    def execute(self, context: Context) -> None:
        """Mark it; raises BatchError where the ledger does not have it sealed with these messages."""
        with fail_without_retry():
            batch = self.hook.client.batches.load(self.batch)
            self.hook.client.batches.mark_consumed(batch)
        self.log.info("Batch %s is consumed", batch.batch_id)


class SqlQueueRequeueOperator(BatchTask):
    """Put a sealed batch back into the queue it was drained from: the messages' own ids and order, all or nothing.

    For a batch that nobody can read, behind a drain that runs no job itself. Exactly once: a repeated task finds the
    batch requeued and sends nothing. The task that drained it refuses to run again then; a new run makes a new batch.

    XCom: ``batch`` (the manifest, its state ``requeued``) and ``repeated`` (it had been put back before).

    :param staging: the folder it was drained to, an ``ObjectStoragePath`` with its Airflow connection; None: what the
        ledger says, with the environment's credentials (templated)
    """

    template_fields = templated(BatchTask, "staging")

    def __init__(self, *, staging: str | ObjectStoragePath | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.staging = staging

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


class SqlQueueSweepOperator(ServerTask):
    """Remove orphaned part files, and batches that were consumed or requeued and are past their retention.

    Never what an open or a sealed batch lists, in files or in the table of staged messages. Safe to repeat and beside
    drains. A task that is cleared after its batch was swept makes a new batch.

    XCom: ``files``, ``bytes``, ``orphans``, ``rows``, ``batches``, ``sends``, ``unsent``, ``unknown`` and ``dry_run``,
    as :class:`~airflow_sqlqueue.drain.sweep.SweepResult` has them.

    :param staging: the folder for batches: a path, a URL, or an ``ObjectStoragePath``; None where the drains' stage is
        ``table``: batches with files stay then (templated)
    :param queue_name: a queue in whose database the ledger stands; None: the connection's database (templated)
    :param retain: how long a batch is kept after it was consumed or requeued.
    :param grace: how old an orphan must be.
    :param unknown: remove files of batches that the ledger does not know: only where no other database's ledger lists
        files in this folder.
    :param forget_sent: forget sends in the send ledger that are older; None: none.
    :param only_count: remove nothing, only count what would be.
    """

    template_fields = templated("staging", "queue_name", ServerTask)

    def __init__(
        self,
        *,
        staging: str | ObjectStoragePath | None = None,
        queue_name: str | None = None,
        retain: timedelta = timedelta(days=7),
        grace: timedelta = timedelta(days=1),
        unknown: bool = False,
        forget_sent: timedelta | None = None,
        only_count: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.staging = staging
        self.queue_name = queue_name
        self.retain = retain
        self.grace = grace
        self.unknown = unknown
        self.forget_sent = forget_sent
        self.only_count = only_count

    def execute(self, context: Context) -> dict[str, Any]:
        """Sweep; raises our errors, those that no retry can fix as AirflowFailException."""
        from airflow_sqlqueue.drain.sweep import SweepOptions

        with fail_without_retry():
            options = SweepOptions(self.retain, self.grace, self.unknown, self.forget_sent, self.only_count)
            folder = None if self.staging is None else staging_folder(self.staging)
            swept = self.hook.client.batches.sweep(folder, self.queue_name, options)
        self.log.info(
            "Swept %d files of %d bytes, %d staged rows and %d batches",
            *(swept.files, swept.bytes, swept.rows, swept.batches),
        )
        return asdict(swept)
