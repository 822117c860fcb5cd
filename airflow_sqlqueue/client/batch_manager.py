"""Drained batches."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from airflow_sqlqueue.client.beginnings import id_beginning, only_one, whole_batch_id
from airflow_sqlqueue.client.connector import Manager, folder_of
from airflow_sqlqueue.drain.batches import BatchInfo, batches, find_stranded, recorded_batch
from airflow_sqlqueue.drain.ledger import Ledger
from airflow_sqlqueue.drain.locks import BatchLocks
from airflow_sqlqueue.drain.manifest import UNFINISHED, Batch, check_readable
from airflow_sqlqueue.errors import BatchNotFoundError, ConfigurationError, TransactionError
from airflow_sqlqueue.messages.message import ReceivedMessage
from airflow_sqlqueue.options import check_type
from airflow_sqlqueue.options.budget import Budget
from airflow_sqlqueue.queue.queue_table import received_message
from airflow_sqlqueue.queue.tables.create import require_database

if TYPE_CHECKING:
    from airflow_sqlqueue.client.connector import Staging
    from airflow_sqlqueue.client.conversation import Conversation
    from airflow_sqlqueue.drain.erase import EraseRequest, EraseResult
    from airflow_sqlqueue.drain.ledger import Part
    from airflow_sqlqueue.drain.options import SweepOptions
    from airflow_sqlqueue.drain.requeue import RequeueResult
    from airflow_sqlqueue.drain.sweep import SweepResult
    from airflow_sqlqueue.endpoint.databus.batch_payloads import StagedPayload
    from airflow_sqlqueue.endpoint.databus.data_bus import DataBus
    from airflow_sqlqueue.endpoint.databus.options import PayloadOptions
    from airflow_sqlqueue.endpoint.databus.payload_file import PayloadsResult
    from airflow_sqlqueue.server.session import Session

T = TypeVar("T")

BatchId = uuid.UUID | str | Batch | BatchInfo
"""A batch by its id, or itself, which names its queue too."""


def _named(batch: BatchId, queue_name: str | None) -> tuple[uuid.UUID, str | None]:
    """Return a batch's id, and the address that leads to its ledger."""
    if isinstance(batch, (Batch, BatchInfo)):
        return batch.uuid if isinstance(batch, Batch) else batch.batch_id, queue_name or batch.queue
    try:
        return uuid.UUID(str(batch)), queue_name
    except ValueError:
        raise ConfigurationError("A batch is named by its id, a UUID, or by a Batch: this is neither.") from None


def _whole(batch: Batch) -> Batch:
    """Return the batch. Raises :class:`ConfigurationError` for another value, such as its id."""
    if not isinstance(batch, Batch):
        raise ConfigurationError(
            f"A {type(batch).__name__} is no Batch: give the batch of a drain's result, or that of batches.get(id)."
        )
    return batch


class BatchManager(Manager):
    """Batches in the ledgers of a server.

    The ledger is in the queue's database. A call without a queue reads the ledger of the connection's database.
    """

    def list(
        self, queue_name: str | None = None, *, states: Sequence[str] = (), older_than: timedelta | None = None
    ) -> Sequence[BatchInfo]:
        """List the batches of a queue, or of the whole ledger, that are ``older_than`` or longer in their state."""
        with self._connector.ledger_of(queue_name) as (ledger, queue):
            return batches(ledger, states=states, queue=queue, older_than=older_than)

    def info(self, batch_id: BatchId, queue_name: str | None = None) -> BatchInfo | None:
        """Return the ledger's present entry of a batch; None for an unknown batch."""
        batch_id, queue_name = _named(batch_id, queue_name)
        with self._connector.ledger(queue_name) as ledger:
            return next(iter(batches(ledger, batch_id=batch_id)), None)

    def named(self, beginning: str, queue_name: str | None = None) -> uuid.UUID:
        """Return the id of the only batch whose id begins with these characters, four or more of them.

        An id in full is returned as it is. Raises :class:`~airflow_sqlqueue.errors.ConfigurationError` for a text that
        begins no id or several, and :class:`~airflow_sqlqueue.errors.BatchNotFoundError`.
        """
        if (whole := whole_batch_id(beginning)) is not None:
            return whole
        with self._connector.ledger(queue_name) as ledger:
            found = [str(batch_id) for batch_id in ledger.beginning(id_beginning(beginning))]
        if not found:
            raise BatchNotFoundError(f"No id of a batch begins with {beginning!r}: 'sqlqueue batches' lists them.")
        return uuid.UUID(only_one(beginning, found))

    def locks(self, queue_name: str | None = None) -> BatchLocks:
        """Return locks, for a ``with`` block, on batches that the caller works on: other tasks leave these alone."""
        return self._connector.locks(queue_name)

    def current(self, batch_id: BatchId, queue_name: str | None = None) -> uuid.UUID:
        """Return the batch that a drain with ``renew`` works on: this one, or the first unfinished one after it."""
        batch_id, queue_name = _named(batch_id, queue_name)
        return self._repeated(f"Reading batch {batch_id}", queue_name, lambda ledger: ledger.current(batch_id))

    def first_known(self, batch_ids: Sequence[BatchId], queue_name: str | None = None) -> uuid.UUID | None:
        """Return the id of the first of these batches that the ledger knows; None if it knows none of them."""
        ids = [_named(batch_id, queue_name)[0] for batch_id in batch_ids]
        return self._repeated("Looking for a task's batch", queue_name, lambda ledger: ledger.first_known(ids))

    def left_by(
        self,
        owner: uuid.UUID,
        locks: BatchLocks,
        queue_name: str | None = None,
        *,
        states: Sequence[str] = UNFINISHED,
        own: uuid.UUID | None = None,
    ) -> Sequence[BatchInfo]:
        """Return the stranded batches of all runs of a task, the one that was opened first at the head.

        A batch is stranded when no task works on it. ``locks`` holds the batches afterwards; ``own`` is the caller's
        batch, which is left out.
        """

        def find(ledger: Ledger) -> Sequence[BatchInfo]:
            unfinished = ledger.unfinished(owner) if ledger.exists() else []
            others = [batch_id for batch_id in unfinished if batch_id != own]
            return find_stranded(ledger, locks, others, states)

        return self._repeated("Looking for batches that were left behind", queue_name, find)

    def stranded(
        self,
        queue_name: str | None = None,
        *,
        states: Sequence[str] = UNFINISHED,
        older_than: timedelta | None = None,
        session: Session | None = None,
    ) -> Sequence[BatchInfo]:
        """Return the batches of :meth:`list` that no task works on; ``session`` is used instead of a new one."""
        with self._connector.ledger_of(queue_name, session) as (ledger, queue):
            found = batches(ledger, states=states, queue=queue, older_than=older_than)
            if not found:
                return []
            with self.locks(queue_name) as locks:
                return find_stranded(ledger, locks, [info.batch_id for info in found], states)

    def seal(self, batch_id: BatchId, queue_name: str | None = None) -> Batch:
        """Close a batch to further parts and return its manifest; idempotent. A drain under way ends with an error.

        Raises :class:`~airflow_sqlqueue.errors.BatchNotFoundError`.
        """
        batch_id, queue_name = _named(batch_id, queue_name)
        return self._repeated(f"Sealing batch {batch_id}", queue_name, lambda ledger: ledger.seal(batch_id))

    def forget_empty(self, batch_id: BatchId, queue_name: str | None = None) -> bool:
        """Delete a sealed batch without parts from the ledger; return False, and delete nothing, for any other batch.

        A part with only expired or quarantined messages counts as a part. This is for a drain that alone has the batch
        id.
        """
        batch_id, queue_name = _named(batch_id, queue_name)
        with self._connector.ledger(queue_name) as ledger:
            return ledger.forget_empty(batch_id)

    def abandon(
        self,
        batch_id: BatchId,
        queue_name: str | None = None,
        *,
        staging: Staging | None = None,
        accept_redacted: bool = False,
    ) -> RequeueResult:
        """Abandon an open batch: seal it, then put its messages back, as :meth:`requeue` does.

        Raises :class:`~airflow_sqlqueue.errors.BatchError` for a batch that a task works on, and for one that is sealed
        or consumed; :class:`~airflow_sqlqueue.errors.TransactionError` in the client's transaction. See
        :func:`airflow_sqlqueue.drain.requeue.abandon`.
        """
        batch_id, queue_name = _named(batch_id, queue_name)
        from airflow_sqlqueue.drain.requeue import abandon

        if self._connector.in_transaction:
            raise TransactionError("The seal of a batch commits before its messages go: call it outside a transaction.")
        folder = folder_of(staging)

        def give_up(ledger: Ledger) -> RequeueResult:
            with self.locks(queue_name) as locks:
                return abandon(ledger, locks, batch_id, folder, accept_redacted=accept_redacted)

        return self._repeated(f"Putting back batch {batch_id}", queue_name, give_up)

    def get(self, batch_id: BatchId, queue_name: str | None = None) -> Batch:
        """Return the manifest of a sealed batch, from the ledger. Raises as :meth:`.drain.ledger.Ledger.manifest`."""
        batch_id, queue_name = _named(batch_id, queue_name)
        with self._connector.ledger(queue_name) as ledger:
            return ledger.manifest(batch_id)

    def load(self, values: Mapping[str, Any]) -> Batch:
        """Return the manifest, with all paths, of the batch in an XCom value, from the ledger.

        ``values`` are the result of a drain's operator, or its ``batch``. Raises as :meth:`get`, and
        :class:`~airflow_sqlqueue.errors.BatchMismatchError` where the values differ from the ledger's; a different
        state is no error.
        """
        values = values.get("batch", values) if isinstance(values, Mapping) else values
        Batch.check_names(values)
        with self._connector.enlisted_session() as session:
            return recorded_batch(session, values)

    def messages(self, batch: Batch, *, staging: Staging | None = None) -> Generator[ReceivedMessage, None, None]:
        """Iterate over the messages of a batch, in the order of the queue, without Spark; for a job on one machine.

        Messages are read one by one: memory holds the rows of one statement for each part that overlaps. ``expired``
        has its value of the time of the drain. Read to the end, then :meth:`mark_consumed`: at least once. ``staging``
        as for :meth:`requeue`.

        Raises :class:`~airflow_sqlqueue.errors.BatchError` for a batch that is open or was put back, and
        :class:`~airflow_sqlqueue.errors.BatchMismatchError` where its files differ from the ledger.
        """
        from airflow_sqlqueue.drain.batch_reader import batch_rows

        folder, batch = folder_of(staging), _whole(batch)
        with self._connector.enlisted_session() as session:
            # The ledger decides, because the manifest may come from an untrusted place.
            ledger = Ledger.of(session, batch.queue)
            entry = ledger.find(batch.uuid)
            check_readable(batch.uuid, entry.state)
            yield from map(received_message, batch_rows(ledger, batch.uuid, entry.stage, folder))

    def conversation(
        self,
        conversation_id: str,
        *,
        staging: Staging | None = None,
        catalogs: Sequence[str] = (),
        max_seconds: float | None = None,
        session: Session | None = None,
    ) -> Conversation:
        """Find the messages of a conversation in the newest sealed and consumed batches, as of an audit queue.

        It reads the headers of all their messages, until ``max_seconds`` have passed, and returns what it found. The
        batches are those of the connection's database, or of ``catalogs``. ``staging`` as for :meth:`requeue`;
        ``session`` is used instead of a new one. See :func:`airflow_sqlqueue.client.conversation.find_conversation`.
        """
        from airflow_sqlqueue.client.conversation import MAX_BATCHES, READABLE, find_conversation

        if isinstance(catalogs, str):
            raise ConfigurationError(f"catalogs is the text {catalogs!r}: give a list of names of databases.")
        catalogs = tuple(catalogs)
        folder, budget = folder_of(staging), Budget(max_seconds=max_seconds)
        with nullcontext(session) if session else self._connector.enlisted_session() as opened:
            found = []
            if session is None:
                # The page, which gives its session, names all databases of a connection, also one that is gone.
                for catalog in catalogs:
                    require_database(opened, catalog)
            for catalog in catalogs or (self._connector.settings.database,):
                ledger = Ledger(opened, catalog)
                found.append((ledger, batches(ledger, states=READABLE, newest=MAX_BATCHES)[::-1]))
            return find_conversation(found, conversation_id, staging=folder, budget=budget)

    def fetch_payloads(
        self,
        batch: Batch,
        data_bus: Staging | DataBus,
        *,
        staging: Staging | None = None,
        options: PayloadOptions | None = None,
        on_payload: Callable[[], None] | None = None,
    ) -> PayloadsResult:
        """Fetch the payloads of the data bus that the messages of a sealed batch name, beside the batch's parts.

        Call it soon after the drain: payloads disappear after their time to live. Idempotent, and a payload that is
        gone, too large or refused is recorded with the reason. ``data_bus`` as for :class:`~airflow_sqlqueue.DataBus`,
        ``staging`` as for :meth:`requeue`. See :func:`airflow_sqlqueue.endpoint.databus.batch_payloads.fetch_payloads`.
        """
        from airflow_sqlqueue.endpoint.databus.batch_payloads import fetch_payloads
        from airflow_sqlqueue.endpoint.databus.data_bus import DataBus

        known, parts = self._recorded(batch)
        return fetch_payloads(known, parts, DataBus.of(data_bus), folder_of(staging), options, on_payload)

    def payloads(self, batch: Batch, *, staging: Staging | None = None) -> Iterator[StagedPayload]:
        """Iterate over the payloads that :meth:`fetch_payloads` has staged, without Spark; ``staging`` as there.

        Raises :class:`~airflow_sqlqueue.errors.BatchError` if they were not fetched. See
        :func:`airflow_sqlqueue.endpoint.databus.batch_payloads.staged_payloads`.
        """
        from airflow_sqlqueue.endpoint.databus.batch_payloads import staged_payloads

        known, _ = self._recorded(batch)
        return staged_payloads(known, folder_of(staging))

    def _recorded(self, batch: Batch) -> tuple[Batch, Sequence[Part]]:
        """Return the batch and its parts from the ledger, because a manifest may come from an untrusted place."""
        batch = _whole(batch)

        def read(session: Session) -> tuple[Batch, Sequence[Part]]:
            ledger = Ledger.of(session, batch.queue)
            return ledger.manifest(batch.uuid), ledger.parts(batch.uuid)

        return self._connector.repeated(f"Reading batch {batch.uuid}", read)

    def mark_consumed(self, batch: Batch) -> None:
        """Mark a sealed batch consumed, after it was read. Idempotent; raises BatchError for any other state."""
        batch = _whole(batch)
        self._connector.repeated(
            f"Marking batch {batch.batch_id} consumed",
            lambda session: Ledger.of(session, batch.queue).consume(batch),
        )

    def requeue(
        self,
        batch_id: BatchId,
        queue_name: str | None = None,
        *,
        staging: Staging | None = None,
        accept_redacted: bool = False,
    ) -> RequeueResult:
        """Put a sealed batch back into its queue, in one transaction, or in the client's transaction under way.

        Ids and order stay the same; repeated calls put the messages back exactly once. ``staging`` is the folder of the
        batch's files, for an object store that needs more than the environment's credentials. A redacted batch goes
        back only with ``accept_redacted``. See :func:`airflow_sqlqueue.drain.requeue.requeue`.
        """
        batch_id, queue_name = _named(batch_id, queue_name)
        # It loads Arrow, which takes longer than most calls of a client.
        from airflow_sqlqueue.drain.requeue import requeue

        folder = folder_of(staging)
        what = f"Putting back batch {batch_id}"
        return self._repeated(
            what, queue_name, lambda ledger: requeue(ledger, batch_id, folder, accept_redacted=accept_redacted)
        )

    def erase(
        self,
        request: EraseRequest,
        queue_name: str | None = None,
        *,
        staging: Staging | None = None,
    ) -> EraseResult:
        """Erase single messages, such as those of one person, from batches that are not open.

        ``staging`` as for :meth:`requeue`. Repeat an interrupted call: it finishes. After a lost connection it starts
        again, and its counts start at 0. Raises :class:`~airflow_sqlqueue.errors.TransactionError` in the client's
        transaction. See :func:`airflow_sqlqueue.drain.erase.erase`.
        """
        from airflow_sqlqueue.drain.erase import EraseRequest, erase

        check_type("request", EraseRequest.__name__, request)
        folder = folder_of(staging)

        def work(ledger: Ledger) -> EraseResult:
            with self.locks(queue_name) as locks:
                return erase(ledger, locks, request, folder)

        return self._repeated("Erasing messages", queue_name, work)

    def sweep(
        self,
        staging: Staging | None = None,
        queue_name: str | None = None,
        options: SweepOptions | None = None,
    ) -> SweepResult:
        """Remove orphaned part files from a staging folder, and finished batches that are past their retention.

        Without a folder it removes only batches without files: those of the stage ``table``. It also drops private
        queues for replies that killed processes have left in the default schema. After a lost connection it starts
        again, and its counts start at 0. Raises :class:`~airflow_sqlqueue.errors.ConfigurationError` for a folder on a
        disk that does not exist. See :func:`airflow_sqlqueue.drain.sweep.sweep` and
        :func:`airflow_sqlqueue.queue.publishing.private_queue.sweep_private_queues`.
        """
        from airflow_sqlqueue.drain.options import SweepOptions
        from airflow_sqlqueue.drain.sweep import sweep
        from airflow_sqlqueue.queue.publishing.private_queue import sweep_private_queues

        folder, options = folder_of(staging), SweepOptions.or_default(options)
        if folder is not None:
            # A sweep of a mistyped name would find an empty folder.
            folder.check_exists()

        def run(ledger: Ledger) -> SweepResult:
            swept = sweep(ledger, folder, options)
            dropped = sweep_private_queues(ledger.session, self._connector.resolver, dry_run=swept.dry_run)
            return replace(swept, reply_queues=len(dropped))

        return self._repeated("Sweeping", queue_name, run)

    def _repeated(self, what: str, queue_name: str | None, work: Callable[[Ledger], T]) -> T:
        """Run work on the ledger of the queue's database, as :meth:`.Connector.repeated`."""

        def run(session: Session) -> T:
            with self._connector.ledger(queue_name, session) as ledger:
                return work(ledger)

        return self._connector.repeated(what, run)
