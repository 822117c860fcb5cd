"""Sweep: remove files of a staging folder that no batch lists, and finished batches that are past their retention.

States and not clocks decide what a sweep removes. Once a batch is sealed no drain can add a part, so a file that it
does not list is an orphan for good, unless an erasure has written it, which holds the lock on the batch until its
COMMIT. In an open batch such a file may belong to a part whose COMMIT is still to come, however long its worker has
been stopped, so the sweep touches no file of an open batch. Files are listed before the ledger is read. The table of
staged messages has no orphans: a rollback removes the rows of its part.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import datetime, timezone

from airflow_sqlqueue.drain.batches import BatchInfo, batches
from airflow_sqlqueue.drain.ledger import Ledger
from airflow_sqlqueue.drain.locks import batch_lock
from airflow_sqlqueue.drain.manifest import FINISHED, batch_of
from airflow_sqlqueue.drain.options import SweepOptions
from airflow_sqlqueue.drain.stages.staging_table import MessageTable
from airflow_sqlqueue.drain.storage.batch_files import StagedFile, remove, remove_folder, staged_files
from airflow_sqlqueue.drain.storage.folder import StagingFolder
from airflow_sqlqueue.errors import BatchMismatchError, BatchNotFoundError, TransactionError
from airflow_sqlqueue.messages.envelope.times import time_before
from airflow_sqlqueue.options.budget import count_of, size_of
from airflow_sqlqueue.queue import MAX_ROWS_PER_STATEMENT
from airflow_sqlqueue.queue.outgoing import OutgoingTable
from airflow_sqlqueue.queue.send_ledger import SendLedger

log = logging.getLogger(__name__)


@dataclass
class SweepResult:
    """Counts of what a sweep removed, or would remove.

    ``files`` with their ``bytes`` on disk, among them ``orphans`` that no batch listed; ``rows`` of the table of staged
    messages; ``batches`` and ``sends`` of the ledgers; ``unsent`` messages that Spark staged for sends that never
    ended. ``reply_queues`` are private queues for replies of killed processes. ``unknown`` files were left because the
    ledger does not know their batch.
    """

    files: int = 0
    bytes: int = 0
    orphans: int = 0
    rows: int = 0
    batches: int = 0
    sends: int = 0
    unsent: int = 0
    reply_queues: int = 0
    unknown: int = 0
    dry_run: bool = False


def sweep(ledger: Ledger, staging: StagingFolder | None = None, options: SweepOptions | None = None) -> SweepResult:
    """Remove orphans, and batches past their retention; never files that an open or a sealed batch lists.

    The sweep removes the files of a batch, or its rows in the table of staged messages, before its rows in the ledger,
    so that the next sweep completes an interrupted one. A batch with files in another staging folder stays in the
    ledger; without ``staging`` every batch with files stays. A sweep may run beside drains and other sweeps.

    Raises :class:`StagingError` for a file that cannot be listed or removed, :class:`TransactionError` inside a
    transaction: no rollback brings files back, and with ``unknown`` :class:`BatchNotFoundError` where there is no
    ledger.
    """
    if ledger.session.in_transaction:
        raise TransactionError("A sweep removes files, which no rollback brings back: call it outside the transaction.")
    options = SweepOptions.or_default(options)
    if options.unknown:
        # Otherwise every batch would be unknown.
        ledger.require()
    swept = _Sweep(ledger, staging, options).run()
    log.info(
        "Swept %s: %s of %s, %s, %s",
        *(staging.uri if staging else "the ledger", count_of(swept.files, "file"), size_of(swept.bytes)),
        *(count_of(swept.rows, "staged row"), count_of(swept.batches, "batch")),
    )
    return swept


class _Sweep:
    def __init__(self, ledger: Ledger, staging: StagingFolder | None, options: SweepOptions) -> None:
        self._ledger, self._staging, self._options = ledger, staging, options
        self._before = time_before(datetime.now(timezone.utc), options.grace)
        self._done = {info.batch_id: info for info in batches(ledger, states=FINISHED, older_than=options.retain)}
        self._swept = SweepResult(dry_run=options.dry_run)

    def run(self) -> SweepResult:
        here: dict[uuid.UUID, set[uuid.UUID | None]] = {}
        if self._staging is not None:
            for folder, files in staged_files(self._staging):
                batch = self._batch_in(folder)
                self._sweep_files(self._staging, folder, batch, files)
                if batch is not None and batch.batch_id in self._done:
                    here[batch.batch_id] = {file.part_id for file in files}
        for batch_id in sorted(self._done):
            self._forget(batch_id, here.get(batch_id, set()))
        self._forget_sends()
        return self._swept

    def _batch_in(self, folder: str) -> BatchInfo | None:
        """Return the batch whose folder this is; None if the ledger does not know it, or another sweep forgets it.

        In another folder with its id are the files of a batch of another database, or of an earlier batch.
        """
        known = batches(self._ledger, batch_id=uuid.UUID(batch_of(folder)))
        try:
            return next((batch for batch in known if self._ledger.folder(batch.batch_id) == folder), None)
        except (BatchNotFoundError, BatchMismatchError):
            return None

    def _sweep_files(
        self, staging: StagingFolder, folder: str, batch: BatchInfo | None, files: list[StagedFile]
    ) -> None:
        if batch is None and not self._options.unknown:
            self._swept.unknown += len(files)
            return
        if batch is not None and batch.state == "open":
            return
        is_done = batch is not None and batch.batch_id in self._done
        if is_done:
            self._remove(staging, files)
            self._swept.orphans += len(self._orphans(batch, files))
        elif self._old(batch, files):
            with self._lock(batch) as is_free:
                old = self._old(batch, files) if is_free else []
                self._remove(staging, old)
            self._swept.orphans += len(old)
        if not self._options.dry_run and (is_done or batch is None):
            remove_folder(staging, folder)

    def _orphans(self, batch: BatchInfo | None, files: Iterable[StagedFile]) -> list[StagedFile]:
        # Files that belong to no part, the manifest and payloads, stay as long as their batch.
        listed = {None, *(part.id for part in self._ledger.parts(batch.batch_id))} if batch is not None else set()
        return [file for file in files if file.part_id not in listed]

    def _old(self, batch: BatchInfo | None, files: Iterable[StagedFile]) -> list[StagedFile]:
        orphans = self._orphans(batch, files)
        return [file for file in orphans if file.modified is not None and file.modified <= self._before]

    def _lock(self, batch: BatchInfo | None) -> AbstractContextManager[bool]:
        if batch is None:
            return nullcontext(True)
        return batch_lock(self._ledger.session, self._ledger.catalog, batch.batch_id)

    def _remove(self, staging: StagingFolder, files: Iterable[StagedFile]) -> None:
        for file in files:
            if not self._options.dry_run:
                remove(staging, file)
            self._swept.files += 1
            self._swept.bytes += file.bytes

    def _forget(self, batch_id: uuid.UUID, here: set[uuid.UUID | None]) -> None:
        """Delete the batch's rows, unless it has files in another folder than this one."""
        for part in self._ledger.parts(batch_id):
            if part.path is not None and part.id not in here and not self._is_here(part.path):
                return
        self._swept.batches += 1
        if self._done[batch_id].stage == "table":
            table = MessageTable(self._ledger.session, self._ledger.catalog, self._ledger.schema)
            self._swept.rows += self._done[batch_id].messages if self._options.dry_run else table.remove(batch_id)
        if self._options.dry_run:
            return
        session = self._ledger.session
        with session.transaction():
            session.sum_in_chunks(self._ledger.query("ledger.forget_parts"), MAX_ROWS_PER_STATEMENT, str(batch_id))
            session.run(self._ledger.query("ledger.forget_batch"), str(batch_id))

    def _is_here(self, path: str) -> bool:
        return self._staging is not None and path.startswith(f"{self._staging.uri}/")

    def _forget_sends(self) -> None:
        """Remove old sends from the send ledger, and messages that were staged for sends that never ended."""
        options, ledger = self._options, (self._ledger.session, self._ledger.catalog, self._ledger.schema)
        sent, staged = SendLedger(*ledger), OutgoingTable(*ledger)
        if options.forget_sent is not None and sent.exists():
            self._swept.sends = (sent.count_older if options.dry_run else sent.forget)(options.forget_sent)
        if staged.exists():
            self._swept.unsent = (staged.count_older if options.dry_run else staged.remove_older)(options.grace)
