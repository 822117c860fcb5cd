"""A stream from a queue, as claims: each claim is a sealed batch in the table of staged messages.

RowVersions are not offsets: a row gets its number at the INSERT and becomes visible at the COMMIT, so a query by
RowVersion would miss rows that commit late. Therefore the messages of a micro-batch are first moved out of the queue,
into a batch that stays as it is until Spark has committed the micro-batch. An offset is the number of a batch.

Source: docs/design.md, "A stream from a queue".
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypedDict, TypeVar

from airflow_sqlqueue.client.client import QueueClient
from airflow_sqlqueue.drain.drain import Drain
from airflow_sqlqueue.drain.ledger import Ledger, Part
from airflow_sqlqueue.drain.locks import BatchLocks
from airflow_sqlqueue.drain.options import DrainOptions
from airflow_sqlqueue.drain.request import DrainRequest
from airflow_sqlqueue.drain.stages.staging_table import MessageTable
from airflow_sqlqueue.drain.stages.table import TableStage
from airflow_sqlqueue.drain.streams import StreamState, StreamTable, copy_of_stream, stream_id
from airflow_sqlqueue.errors import BatchError, BatchNotFoundError, ConfigurationError, WrongBatchError
from airflow_sqlqueue.messages.routing import ResolvedAddress
from airflow_sqlqueue.messages.row import Row
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.queue.copies import QueueCopy
from airflow_sqlqueue.queue.table_access import FIRST, LAST
from airflow_sqlqueue.server.reconnecting import Reconnecting
from airflow_sqlqueue.server.session import Session
from airflow_sqlqueue.spark.source.options import ServerAccess, SourceOptions
from airflow_sqlqueue.spark.source.staged import BatchShare, share_out
from airflow_sqlqueue.untrusted import units

T = TypeVar("T")

_LOCK_SECONDS = 10.0
"""Longest wait for the lock of a stream: a query that was just stopped, or has died, releases it soon."""

_IDLE_SECONDS = 0.5
"""The pause after a search that found no message: Spark asks again at once."""

_LATE_SECONDS = 30.0
"""Seconds between two searches of an idle stream for messages that committed late: each reads all gaps of its copy."""


class Offset(TypedDict):
    """Position of a query, which Spark keeps in its checkpoint: up to the claim ``number`` of a stream."""

    queue: str
    schema: str
    stream: str
    generation: str
    number: int


@dataclass(frozen=True)
class StreamOptions:
    """Options of a stream: a claim has at most ``max_messages`` and about ``max_bytes``, read in ``partitions``.

    With ``copy`` claims are copies of new messages, which stay in the queue.
    """

    queue: str
    stream: str
    max_messages: int
    partitions: int
    keep_expired: bool
    max_bytes: int | None = None
    copy: bool = False

    OPTIONS = ("queue", "stream", "maxMessages", "maxBytesPerTrigger", "partitions", "keepExpired", "copy")

    @classmethod
    def of(cls, options: SourceOptions) -> StreamOptions:
        stream = options.required("stream", "name the stream, one for each query and its checkpoint")
        if units(stream) > 200:
            raise ConfigurationError("The name of a stream has at most 200 characters: shorten it.")
        return cls(
            queue=options.required("queue", "give the queue's address"),
            stream=stream,
            max_messages=options.number("maxMessages", 100_000) or 1,
            partitions=options.partitions,
            keep_expired=options.flag("keepExpired"),
            max_bytes=options.size("maxBytesPerTrigger"),
            copy=options.flag("copy"),
        )


@dataclass
class Claims:
    """The claims of one stream. The first call connects and takes the stream's lock, which is held from then on.

    For one thread at a time. It can be pickled before the first call.
    """

    access: ServerAccess
    options: StreamOptions
    _up_to: int = field(default=LAST, init=False)
    _asks_for_late: float = field(default=0.0, init=False)
    _opened: _OpenStream | None = field(default=None, init=False, repr=False)

    def require(self) -> None:
        """Raise :class:`ConfigurationError` for a stream that no query has begun; nothing is created for it."""
        client = self.access.client()
        with client.session() as session:
            catalog = client.queue(self.options.queue).open_in(session).address.catalog
            StreamTable(session, catalog).known(self.options.stream)

    def begin(self) -> Offset:
        """Return the first offset of a query without a checkpoint: after the claims of this stream that are done."""
        opened = self._open()
        state = opened.state()
        return opened.offset(state, state.done)

    def stop_at_the_end(self) -> None:
        """Claim no message that is sent from now on."""
        ends = self._open().run(lambda session, queue: queue.ends())
        self._up_to = FIRST if ends is None else ends[1]

    def claim(self, start: Offset, max_messages: int | None, max_bytes: int | None = None) -> Offset:
        """Return the offset of the claim after ``start``: of an existing one, as after a crash, or of a new one.

        Returns ``start`` if the queue has no message to claim. A claim has at most a quarter more than ``max_bytes``,
        and one message more.

        Raises :class:`WrongBatchError` for an offset that this stream cannot have: the checkpoint is an old one or
        another stream's, or the database was restored. :class:`BatchError` for a claim that was put back.
        """
        opened = self._open()
        state = opened.check(start)
        number = start["number"] + 1
        batch_id = state.batch_id(number)
        known = opened.batch_state(batch_id)
        if known == "sealed":
            return opened.offset(state, number)
        if known not in (None, "open"):
            raise _out_of_step(state, f"its claim {number} is {known}")
        if known is None and not opened.run(lambda _, queue: self._has_messages(queue)):
            if self._up_to == LAST:
                time.sleep(_IDLE_SECONDS)
            return start
        if known is None and not self.options.copy and opened.kept(state.batch_id(start["number"])):
            raise WrongBatchError(
                f"The stream {state.name!r} has copied messages, which are in the queue still, and would take them "
                "again: give it copy=true, or consume the queue by a stream of another name."
            )
        opened.lock(batch_id)
        size = DrainOptions.bytes_per_statement
        options = DrainOptions(
            max_messages=max_messages,
            max_bytes=max_bytes,
            bytes_per_statement=size if max_bytes is None else min(size, max(1, max_bytes // 4)),
            up_to=None if self._up_to == LAST else self._up_to,
            keep_expired=self.options.keep_expired,
            locked_wait_seconds=0.0,
        )
        Drain(
            opened.client.session,
            opened.address,
            TableStage(),
            DrainRequest(
                batch_id=batch_id,
                origin=f"Spark stream {state.name}, claim {number}",
                owner=opened.lock_id,
                options=options,
                copy=self.options.copy,
                incremental=copy_of_stream(state.name) if self.options.copy else None,
            ),
        ).run()
        return opened.offset(state, number)

    def _has_messages(self, queue: QueueTable) -> bool:
        """Return whether the queue has a message for the next claim."""
        if self.options.copy:
            late = self._up_to != LAST or time.monotonic() >= self._asks_for_late
            copy = QueueCopy(queue, copy_of_stream(self.options.stream))
            new = copy.count(1, self._up_to, late=late)
            if late:
                self._asks_for_late = time.monotonic() + _LATE_SECONDS
            if new is not None:
                return new.total > 0
        ends = queue.ends()
        return ends is not None and ends[0] <= self._up_to

    def shares(self, start: Offset, end: Offset) -> list[BatchShare]:
        """Return the tasks' shares of the claims after ``start`` and up to ``end``: the same at every call."""
        opened = self._open()
        state = opened.check(start)
        found = []
        for number in range(start["number"] + 1, end["number"] + 1):
            batch_id = state.batch_id(number)
            opened.lock(batch_id)
            parts = opened.run(lambda session, _, batch_id=batch_id: opened.sealed_parts(session, state, batch_id))  # type: ignore[misc]
            if parts:
                shares = share_out(parts, self.options.partitions)
                found += [BatchShare(opened.address.catalog, batch_id, "table", tuple(share)) for share in shares]
        return found

    def commit(self, end: Offset) -> None:
        """Note that the claims up to ``end`` were processed, and remove their messages. Idempotent."""
        opened = self._open()
        opened.check(end, stale=False)
        opened.run(lambda session, _: opened.commit(session, end))

    @property
    def done(self) -> int:
        """Number of claims that are done."""
        return self._open().state().done

    def messages(self, number: int) -> Iterator[list[Row]] | None:
        """Return the messages of a sealed claim without their bodies, in pages; None where there is no such claim."""
        opened = self._open()
        state = opened.state()
        batch_id = state.batch_id(number)
        if opened.batch_state(batch_id) != "sealed":
            return None

        def pages() -> Iterator[list[Row]]:
            with opened.client.session() as session:
                table = MessageTable(session, opened.address.catalog)
                for part in opened.sealed_parts(session, state, batch_id):
                    yield from table.part(batch_id, part.id, part.messages, bodies=False)

        return pages()

    def commit_number(self, number: int) -> None:
        """Commit the claims up to this number."""
        opened = self._open()
        self.commit(opened.offset(opened.state(), number))

    def close(self) -> None:
        """Release the stream's lock."""
        opened, self._opened = self._opened, None
        if opened is not None:
            opened.close()

    def _open(self) -> _OpenStream:
        if self._opened is None:
            self._opened = _OpenStream(self.access, self.options.queue, self.options.stream)
        return self._opened


class _OpenStream:
    """A stream whose lock is held, and the connection for its statements."""

    def __init__(self, access: ServerAccess, queue: str, name: str) -> None:
        self.client: QueueClient = access.client()
        self._name = name
        self._connection = Reconnecting(self.client.session, f"Reading {queue} as the stream {name!r}")
        self.address: ResolvedAddress = self._connection.run(
            lambda session: self.client.queue(queue).open_in(session).address
        )
        self._locks = BatchLocks(self.client.session, self.address.catalog)
        self.lock_id = stream_id(name)
        if not self.lock(self.lock_id, _LOCK_SECONDS):
            self._locks.close()
            raise WrongBatchError(
                f"Another query reads as the stream {name!r}: stop it, or give this one a name of its own."
            )
        try:
            self.run(self._create)
        except BaseException:
            self.close()
            raise

    def _create(self, session: Session, queue: QueueTable) -> None:
        queue.require()
        self._ledger(session).create()
        self._streams(session).create()

    def _ledger(self, session: Session) -> Ledger:
        return Ledger(session, self.address.catalog)

    def _streams(self, session: Session) -> StreamTable:
        return StreamTable(session, self.address.catalog)

    def run(self, work: Callable[[Session, QueueTable], T]) -> T:
        """Return the result of ``work(session, queue)``; after a lost connection it runs again on a new one."""
        return self._connection.run(lambda session: work(session, QueueTable(session, self.address)))

    def lock(self, batch_id: uuid.UUID, wait: float = 0.0) -> bool:
        """:meth:`.BatchLocks.take`, repeated if its connection was lost."""
        return self._connection.run(lambda _: self._locks.take(batch_id, wait))

    def state(self) -> StreamState:
        """Return the stream's row as it is now."""
        return self.run(lambda session, _: self._streams(session).enter(self._name, self.address.canonical))

    def offset(self, state: StreamState, number: int) -> Offset:
        """Return the offset of a claim."""
        return {
            "queue": self.address.canonical,
            "schema": self.client.settings.ledger_schema,
            "stream": self._name,
            "generation": str(state.generation),
            "number": number,
        }

    def batch_state(self, batch_id: uuid.UUID) -> str | None:
        """Return the state of a claim's batch; None if the ledger does not have it."""
        try:
            return self.run(lambda session, _: self._ledger(session).find(batch_id).state)
        except BatchNotFoundError:
            return None

    def kept(self, batch_id: uuid.UUID) -> bool:
        """Return whether the messages of a claim stayed in the queue; False for one that the ledger has forgotten."""
        try:
            return self.run(lambda session, _: self._ledger(session).find(batch_id).kept)
        except BatchNotFoundError:
            return False

    def check(self, offset: Offset, *, stale: bool = True) -> StreamState:
        """Return the stream's row. Raise :class:`WrongBatchError` for an offset that this stream cannot have.

        Such an offset is another stream's, or its claim does not exist, or, with ``stale``, a later claim is done.
        """
        state = self.state()
        number: Any = offset.get("number") if isinstance(offset, dict) else None
        if not isinstance(number, int) or offset != self.offset(state, number):
            raise _out_of_step(state, "the checkpoint is that of another stream or database")
        if stale and number < state.done:
            raise _out_of_step(state, f"the checkpoint ends with claim {number}, and {state.done} are done")
        if number > state.done and self.batch_state(state.batch_id(number)) != "sealed":
            raise _out_of_step(state, f"the claim {number} of the checkpoint is not there")
        return state

    def sealed_parts(self, session: Session, state: StreamState, batch_id: uuid.UUID) -> list[Part]:
        ledger = self._ledger(session)
        batch = ledger.manifest(batch_id)
        if batch.state != "sealed":
            raise _out_of_step(state, f"its claim in batch {batch_id} is {batch.state}")
        return [part for part in ledger.parts(batch_id) if part.messages]

    def commit(self, session: Session, end: Offset) -> None:
        ledger, streams = self._ledger(session), self._streams(session)
        messages = MessageTable(session, self.address.catalog)
        state = self.state()
        for number in range(state.done + 1, end["number"] + 1):
            batch_id = state.batch_id(number)
            with session.transaction():
                ledger.consume(ledger.manifest(batch_id))
                streams.advance(state, number)
            self._locks.release(batch_id)
        # The last claim again, because an earlier try may have ended before this. A sweep removes other remains.
        for number in range(min(state.done + 1, end["number"]), end["number"] + 1):
            messages.remove(state.batch_id(number))

    def close(self) -> None:
        self._connection.close()
        self._locks.close()


def _out_of_step(state: StreamState, why: str) -> BatchError:
    return WrongBatchError(
        f"The stream {state.name!r} cannot go on, as {why}: find out which messages the sink has, then begin with a "
        "new checkpoint and another name."
    )
