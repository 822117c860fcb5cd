"""Sweep a staging folder and the ledger."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from airflow_sqlqueue.hooks.retry_policy import fail_without_retry
from airflow_sqlqueue.hooks.staging import staging_folder
from airflow_sqlqueue.operators.base import ServerTask

if TYPE_CHECKING:
    from airflow.sdk import Context, ObjectStoragePath


class SqlQueueSweepOperator(ServerTask, BaseOperator):
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
    :param sqlqueue_conn_id: the Airflow connection (templated)
    :param hook_params: further arguments of :class:`~airflow_sqlqueue.hooks.sqlqueue.SqlQueueHook`.
    """

    template_fields: Sequence[str] = ("staging", "queue_name", "sqlqueue_conn_id")
    ui_color = "#dfe9f5"

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
        sqlqueue_conn_id: str = "sqlqueue_default",
        hook_params: dict[str, Any] | None = None,
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
        self.sqlqueue_conn_id = sqlqueue_conn_id
        self.hook_params = hook_params

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
