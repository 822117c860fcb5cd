"""Ledger: the list of batches and of their parts, in two tables beside the queue.

The delete and the ledger row are in one transaction of one database, so both take effect or none does (docs/design.md,
"The ledger", "A part is one transaction" and "The seal").
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from airflow_sqlqueue.drain.counts import Counts, PartCounts
from airflow_sqlqueue.drain.manifest import UNFINISHED, Batch, is_folder_of, new_folder
from airflow_sqlqueue.drain.options import batch_after
from airflow_sqlqueue.drain.request import DrainRequest
from airflow_sqlqueue.drain.stages.staging_table import MessageTable
from airflow_sqlqueue.errors import BatchError, BatchMismatchError, BatchNotFoundError, StatementError, WrongBatchError
from airflow_sqlqueue.messages.routing import AddressResolver
from airflow_sqlqueue.options.budget import count_of
from airflow_sqlqueue.queue.quarantine import Quarantine
from airflow_sqlqueue.queue.tables.create import Definition, ensure
from airflow_sqlqueue.queue.tables.own import OwnTable, lock_name, stored_name
from airflow_sqlqueue.server.session import Session
from airflow_sqlqueue.server.settings import LEDGER_SCHEMA
from airflow_sqlqueue.server.sql import Fragment, Query, identifier
from airflow_sqlqueue.untrusted import cut

_NOT_OPEN = 50001
_COUNT_CHANGED = 266


@dataclass(frozen=True)
class LedgerEntry:
    """Row of a batch in the ledger.

    ``up_to`` is None if the queue was empty when the batch was opened. ``parts`` and ``counts`` are None until the
    seal. ``age`` is the seconds since the batch was opened, by the server's clock. ``filter`` is the canonical text of
    the filter that the batch is drained with, or has the name of a copy of new messages. The messages of a ``kept``
    batch were copied and stayed in the queue. ``redacted`` is the fingerprint of the rules that changed the messages,
    None without rules; ``erased`` messages were removed from the batch after the seal.
    """

    queue: str
    origin: str
    state: str
    stage: str
    up_to: int | None
    parts: int | None
    counts: Counts | None
    age: int
    filter: str | None
    kept: bool
    redacted: str | None
    erased: int


@dataclass(frozen=True)
class Part(PartCounts):
    """Part of a batch: the rows that one transaction took out of the queue.

    ``path`` is the URI of its file, which Spark reads; None if no message was left to write, because all had expired or
    went into quarantine, and if messages are staged in a table.
    """

    id: uuid.UUID
    path: str | None


@dataclass(frozen=True)
class ErasedPart:
    """Part from which messages were erased, before and after."""

    old: Part
    new: Part

    @property
    def messages(self) -> int:
        """Number of erased messages."""
        return self.old.messages - self.new.messages


class _PartTable(OwnTable):
    """Table of the parts of a ledger's batches."""

    name = "Part"
    made_by = ("ledger.make_part", "ledger.index_part")


class Ledger(OwnTable):
    """Ledger of one database, through one connection: the table of batches, and the table of their parts."""

    name = "Batch"
    made_by = ("ledger.make_batch", "ledger.index_owner")

    @classmethod
    def of(cls, session: Session, queue: str) -> Ledger:
        """Return the ledger beside a queue, by the address in a manifest: the routing may have changed since."""
        return cls(session, AddressResolver().resolve(queue).catalog)

    def query(self, name: str, **fragments: Fragment) -> Query:
        """Return a query by its full name, with the names of the tables and of their database filled in."""
        part = _PartTable.address_in(self.catalog, self.schema)
        return super().query(name, batch=identifier(self.address), part=identifier(part), **fragments)

    def create(self) -> None:
        """Create the tables, those beside them, and their schema, if they are missing."""
        for definition in ledger_definitions(self.catalog, self.schema):
            ensure(self.session, definition)

    def require(self) -> None:
        """Raise :class:`BatchNotFoundError` where there is no ledger, or the login may not see it."""
        if not self.exists():
            raise BatchNotFoundError(
                f"There is no ledger {self.schema!r} in the database {self.catalog!r}, or the login may not see it: "
                "nothing was done; check the connection, and name the queue of batches in another database."
            )

    def open(
        self,
        batch_id: uuid.UUID,
        queue: str,
        up_to: int | None,
        stage: str = "files",
        request: DrainRequest | None = None,
    ) -> LedgerEntry:
        """Open the batch, or find it in the state that an earlier try left: open, sealed, consumed or requeued.

        Raises :class:`WrongBatchError` for a batch of another queue, or one that was opened for another kind of drain.
        """
        request = request or DrainRequest()
        # No None: see ledger.commit_part.
        values = (
            stored_name(queue),
            cut(request.origin, 1000),
            "" if request.owner is None else str(request.owner),
            stage,
            "" if up_to is None else str(up_to),
            request.filter_text,
            request.copy,
            request.fingerprint,
            new_folder(batch_id),
        )
        with self.session.transaction():
            self.session.take_lock(self.query("ledger.lock_open"), lock_name("open", self.schema, batch_id))
            self.session.run(self.query("ledger.open"), str(batch_id), *values, str(batch_id))
        row = self.find(batch_id)
        if row.queue != stored_name(queue):
            raise WrongBatchError(f"Batch {batch_id} drains {row.queue}, not {queue}: ask for a new batch.")
        if row.stage != stage:
            raise WrongBatchError(f"Batch {batch_id} is staged as {row.stage}, not as {stage}: ask for a new batch.")
        if (row.filter or "") != request.filter_text and (row.kept or request.copy):
            raise WrongBatchError(
                f"Batch {batch_id} was opened for other messages: give it the same copy and incremental, or ask for a "
                "new batch."
            )
        if (row.filter or "") != request.filter_text:
            raise WrongBatchError(
                f"Batch {batch_id} was opened with another filter, or with one where none is given now: give it the "
                "same, or ask for a new batch."
            )
        if (row.redacted or "") != request.fingerprint:
            raise WrongBatchError(
                f"Batch {batch_id} was opened with other rules of redaction, or with rules where none are given now: "
                "give it the same, or ask for a new batch."
            )
        if row.kept != request.copy:
            how = "copies messages of" if row.kept else "takes messages out of"
            raise WrongBatchError(f"Batch {batch_id} {how} the queue: give copy={row.kept}, or ask for a new batch.")
        return row

    def find(self, batch_id: uuid.UUID) -> LedgerEntry:
        """Return the batch's row. Raises :class:`BatchNotFoundError` for an unknown batch."""
        rows = self.session.run(self.query("ledger.find"), str(batch_id))
        if not rows:
            raise self._unknown(batch_id)
        queue, origin, state, stage, up_to, parts, messages, expired, quarantined, size, *others = rows[0]
        counts = Counts(messages=messages, expired=expired, quarantined=quarantined, bytes=size)
        return LedgerEntry(queue, origin, state, stage, up_to, parts, None if parts is None else counts, *others)

    def folder(self, batch_id: uuid.UUID) -> str:
        """Return the name of the batch's folder in a staging folder: its id for a batch that an earlier version opened.

        Raises :class:`BatchNotFoundError` for an unknown batch, and :class:`BatchMismatchError` for a name that no
        drain gave.
        """
        rows = self.session.run(self.query("ledger.folder"), str(batch_id))
        if not rows:
            raise self._unknown(batch_id)
        name = str(rows[0][0])
        if not is_folder_of(str(batch_id), name):
            raise BatchMismatchError(
                f"The folder of batch {batch_id} has a name in the ledger that no drain gave it: the ledger was "
                "changed; do not use the batch."
            )
        return name

    def _unknown(self, batch_id: uuid.UUID) -> BatchNotFoundError:
        return BatchNotFoundError(
            f"The ledger {self.schema!r} of the database {self.catalog!r} does not know batch {batch_id}: check the "
            "id, and name the queue of a batch in another database."
        )

    def current(self, batch_id: uuid.UUID) -> uuid.UUID:
        """Return the batch for a drain with ``renew``: the batch itself, or the first unfinished one after it."""
        while self.exists():
            try:
                state = self.find(batch_id).state
            except BatchNotFoundError:
                break
            if state in UNFINISHED:
                break
            batch_id = batch_after(batch_id)
        return batch_id

    def first_known(self, batch_ids: Sequence[uuid.UUID]) -> uuid.UUID | None:
        """Return the first of these batches that the ledger knows; None if it knows none of them."""
        for batch_id in batch_ids if self.exists() else ():
            with suppress(BatchNotFoundError):
                self.find(batch_id)
                return batch_id
        return None

    def beginning(self, text: str) -> list[uuid.UUID]:
        """Return the batches whose ids, in upper case and with hyphens, begin with a text: six at the most."""
        found = self.session.run(self.query("ledger.beginning"), len(text), text) if self.exists() else []
        return [uuid.UUID(str(batch_id)) for (batch_id,) in found]

    def ids(self) -> list[uuid.UUID]:
        """Return the ids of all batches, also of those that others have locked."""
        return [uuid.UUID(str(batch_id)) for (batch_id,) in self.session.run(self.query("ledger.ids"))]

    def unfinished(self, owner: uuid.UUID) -> list[uuid.UUID]:
        """Return the open and the sealed batches of all runs of a task, in the order in which they were opened."""
        return [
            uuid.UUID(str(batch_id)) for (batch_id,) in self.session.run(self.query("ledger.unfinished"), str(owner))
        ]

    def parts(self, batch_id: uuid.UUID) -> list[Part]:
        """Return the batch's parts by their lowest RowVersion. The list is final only once the batch is sealed."""
        rows = self.session.run(self.query("ledger.parts"), str(batch_id))
        return [
            Part(
                uuid.UUID(str(part_id)),
                path,
                messages=messages,
                expired=expired,
                quarantined=quarantined,
                bytes=size,
                min_row_version=low,
                max_row_version=high,
            )
            for part_id, path, messages, expired, size, low, high, quarantined in rows
        ]

    def copied_up_to(self, batch_id: uuid.UUID) -> int | None:
        """Return the last copied RowVersion, None without parts; the transaction's lock keeps out other tries."""
        self.session.take_lock(self.query("ledger.lock_copy"), lock_name("copy", self.schema, batch_id))
        last = self.session.value(self.query("ledger.copied_up_to"), str(batch_id))
        return None if last is None else int(last)

    def commit_part(self, batch_id: uuid.UUID, part: Part, worker: str) -> None:
        """Add the part and COMMIT the transaction that is open, in one round trip.

        Raises :class:`BatchError`, with everything rolled back, if the batch is no longer open: the rows are in the
        queue again and the file is an orphan. Raises :class:`TransactionLostError` if the transaction had already
        ended. After any other error the COMMIT may have taken effect; only the ledger shows it, and no caller needs to
        check.
        """
        figures = (*part.counters.values(), part.min_row_version, part.max_row_version)
        try:
            self.session.run(
                self.query("ledger.commit_part"), str(part.id), part.path or "", *figures, worker[:200], str(batch_id)
            )
        except StatementError as error:
            if error.number == _COUNT_CHANGED:
                # This error reports the executed COMMIT only, so the COMMIT took effect: after a ROLLBACK the error of
                # the THROW comes first.
                return
            if error.number == _NOT_OPEN:
                raise BatchError(f"Batch {batch_id} was sealed meanwhile: the part was rolled back.") from error
            raise

    def seal(self, batch_id: uuid.UUID) -> Batch:
        """Close the batch to further parts and return its manifest. Idempotent."""
        with self.session.transaction():
            self.session.run(self.query("ledger.seal"), str(batch_id))
            self.session.run(self.query("ledger.total"), str(batch_id), str(batch_id))
        return self.manifest(batch_id)

    def forget_empty(self, batch_id: uuid.UUID) -> bool:
        """Delete a sealed batch without parts, whose id is unknown then; False, without an effect, for any other."""
        return int(self.session.value(self.query("ledger.forget_empty"), str(batch_id), str(batch_id))) == 1

    def manifest(self, batch_id: uuid.UUID) -> Batch:
        """Return the manifest of a sealed batch from the ledger, also of a batch that was requeued later.

        Raises :class:`BatchError` for an open batch, whose list is not final, and :class:`BatchMismatchError` if the
        sum of the parts differs from the counts at the seal: the database was restored to an earlier time.
        """
        row = self.find(batch_id)
        if row.state == "open":
            raise BatchError(f"Batch {batch_id} is still open: seal it first.")
        parts = self.parts(batch_id)
        total = sum(parts, Counts())
        if (len(parts), total) != (row.parts, row.counts):
            sealed = None if row.counts is None else row.counts.messages
            raise BatchMismatchError(
                f"Batch {batch_id} was sealed with {row.parts} parts and {sealed} messages, but the ledger lists "
                f"{len(parts)} and {total.messages}: the database was restored or changed; do not use the batch."
            )
        return Batch(
            batch_id=str(batch_id),
            queue=row.queue,
            state=row.state,
            paths=tuple(part.path for part in parts if part.path is not None),
            parts=sum(part.messages > 0 for part in parts),
            stage=row.stage,
            kept=row.kept,
            redacted=row.redacted,
            erased=row.erased,
            **total.counters,
        )

    def replace_parts(self, batch: Batch, erased: Sequence[ErasedPart]) -> None:
        """Enter parts from which messages were erased, and the counts of their batch, in the caller's transaction.

        Raises :class:`BatchError` if the batch is no longer as ``batch`` says.
        """
        messages = sum(each.messages for each in erased)
        size = sum(each.old.bytes - each.new.bytes for each in erased)
        values = (messages, size, messages, batch.batch_id, batch.state, batch.messages)
        replaced = self.session.value(self.query("ledger.erase"), *values)
        for each in erased:
            new = (str(each.new.id), each.new.path or "", each.new.messages, each.new.bytes)
            named = (batch.batch_id, str(each.old.id), each.old.messages)
            replaced = replaced and self.session.value(self.query("ledger.replace_part"), *new, *named)
        if replaced != 1:
            raise BatchError(f"Batch {batch.batch_id} changed meanwhile: nothing was erased from it; try again.")

    def consume(self, batch: Batch) -> None:
        """Mark a sealed batch consumed. Idempotent.

        Raises :class:`BatchMismatchError` if the manifest names other files than the ledger, so that a sweep would
        remove files that were not read, and :class:`BatchError` in any other case.
        """
        batch_id = batch.uuid
        row = self.find(batch_id)
        if row.state == "consumed":
            return
        if row.state == "sealed" and set(batch.paths) != {part.path for part in self.parts(batch_id)} - {None}:
            raise BatchMismatchError(
                f"Batch {batch_id} cannot be marked consumed: the manifest does not name the files that the ledger "
                "lists, so another batch was read; read the manifest of the ledger."
            )
        parts = -1 if row.parts is None else row.parts  # Not None, which the driver has to ask for; nothing equals it.
        if self.session.value(self.query("ledger.mark_consumed"), batch.batch_id, parts, batch.messages) == 1:
            return
        # Read again: the transaction that had locked the batch's row may have changed it.
        row = self.find(batch_id)
        if row.state == "consumed":
            return
        if row.state == "requeued":
            raise BatchError(
                f"Batch {batch_id} cannot be marked consumed: it was put back into {row.queue}, where its messages "
                "will be received again; undo the results of the read."
            )
        held = "" if row.counts is None else f" with {count_of(row.counts.messages, 'message')}"
        raise BatchError(
            f"Batch {batch_id} cannot be marked consumed: in the ledger it is {row.state}{held}, not sealed with "
            f"{count_of(batch.messages, 'message')}."
        )


def ledger_definitions(catalog: str, schema: str = LEDGER_SCHEMA) -> tuple[Definition, ...]:
    """Return the definitions of the ledger's tables and those beside it, for :func:`.tables.create.create`."""
    tables: tuple[type[OwnTable], ...] = (Ledger, _PartTable, MessageTable, Quarantine)
    return tuple(table.definition(catalog, schema) for table in tables)
