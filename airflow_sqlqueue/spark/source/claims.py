"""A stream from a queue: claims, each of them a sealed batch in the table of staged messages.

RowVersions are no offsets: a number is taken when a message is inserted and seen when that is committed, so what is
committed late would be passed over. What a micro-batch is to read is therefore moved out of the queue first, into a
batch that stays as it is until Spark has committed it. An offset is the number of a batch.

Source: docs/design.md, "A stream from a queue".
"""

from __future__ import annotations

import logging
import time
import uuid
from dataclasses import dataclass, field
from typing import Any, TypedDict

from airflow_sqlqueue.client import QueueClient
from airflow_sqlqueue.drain.drain import Drain
from airflow_sqlqueue.drain.ledger import Ledger
from airflow_sqlqueue.drain.locks import BatchLocks
from airflow_sqlqueue.drain.options import DrainOptions
from airflow_sqlqueue.drain.request import DrainRequest
from airflow_sqlqueue.drain.stages.message_table import MessageTable
from airflow_sqlqueue.drain.stages.table import TableStage
from airflow_sqlqueue.drain.streams import StreamState, StreamTable, stream_id
from airflow_sqlqueue.errors import BatchError, BatchNotFoundError, ConfigurationError, WrongBatchError
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.queue.table_access import FIRST, LAST
from airflow_sqlqueue.reconnecting import Reconnecting
from airflow_sqlqueue.routing import ResolvedAddress
from airflow_sqlqueue.session import Session
from airflow_sqlqueue.spark.source.options import MAX_PARTITIONS, ServerAccess, SourceOptions
from airflow_sqlqueue.spark.source.staged import BatchShare, share_out

log = logging.getLogger(__name__)

_LOCK_SECONDS = 10.0
"""How long to wait for the lock of a consumer: that of a query that was just stopped, or has died, is let go of."""

_IDLE_SECONDS = 0.5
"""The pause after a look that found nothing: Spark asks again at once."""


class Offset(TypedDict):
    """How far a query has come: up to the claim ``number`` of a consumer. What Spark keeps in its checkpoint."""

    queue: str
    schema: str
    consumer: str
    generation: str
    number: int


@dataclass(frozen=True)
class StreamOptions:
    """What a stream reads: claims of at most ``max_messages`` and about ``max_bytes``, in so many partitions each."""

    queue: str
    consumer: str
    max_messages: int
    partitions: int
    keep_expired: bool
    max_bytes: int | None = None

    OPTIONS = ("queue", "consumer", "maxMessages", "maxBytesPerTrigger", "partitions", "keepExpired")

    @classmethod
    def of(cls, options: SourceOptions) -> StreamOptions:
        consumer = options.required("consumer", "name the consumer, one for each query and its checkpoint")
        if len(consumer) > 200:
            raise ConfigurationError("The name of a consumer has at most 200 characters: shorten it.")
        return cls(
            queue=options.required("queue", "give the queue's address"),
            consumer=consumer,
            max_messages=options.number("maxMessages", 100_000) or 1,
            partitions=options.number("partitions", 8, most=MAX_PARTITIONS) or 1,
            keep_expired=options.flag("keepExpired"),
            max_bytes=options.size("maxBytesPerTrigger"),
        )


@dataclass
class Claims:
    """The claims of one consumer. Connects when it is first asked, and holds the consumer's lock from then on.

    For one thread at a time. It can be pickled before it is first asked.
    """

    access: ServerAccess
    options: StreamOptions
    _up_to: int = field(default=LAST, init=False)
    _opened: _Opened | None = field(default=None, init=False, repr=False)

    def begin(self) -> Offset:
        """Where a query without a checkpoint begins: behind what this consumer has done."""
        opened = self._open()
        state = opened.state()
        return opened.offset(state, state.done)

    def stop_at_the_end(self) -> None:
        """Claim nothing that is sent from now on."""
        ends = self._open().run(lambda session, queue: queue.ends())
        self._up_to = FIRST if ends is None else ends[1]

    def claim(self, start: Offset, max_messages: int | None, max_bytes: int | None = None) -> Offset:
        """The claim after ``start``: the one that is there, as after a crash, or a new one; ``start`` for none.

        A claim has at most a quarter more than ``max_bytes``, and one message more.

        Raises :class:`WrongBatchError` for an offset that this consumer cannot have: the checkpoint is an old one, or
        another consumer's, or the database went back in time. :class:`BatchError` for a claim that was put back.
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
        if known is None and not opened.run(lambda _, queue: self._waiting(queue)):
            if self._up_to == LAST:
                time.sleep(_IDLE_SECONDS)
            return start
        opened.lock(batch_id)
        size = DrainOptions.bytes_per_statement
        options = DrainOptions(
            max_messages=max_messages,
            max_bytes=max_bytes,
            bytes_per_statement=size if max_bytes is None else min(size, max(1, max_bytes // 4)),
            up_to=None if self._up_to == LAST else self._up_to,
            keep_expired=self.options.keep_expired,
            settle_seconds=0.0,
        )
        Drain(
            opened.client.session,
            opened.address,
            TableStage(self.access.ledger_schema),
            DrainRequest(
                batch_id=batch_id,
                origin=f"Spark stream {state.name}, claim {number}",
                owner=opened.lock_id,
                options=options,
            ),
            ledger_schema=self.access.ledger_schema,
        ).run()
        return opened.offset(state, number)

    def _waiting(self, queue: QueueTable) -> bool:
        ends = queue.ends()
        return ends is not None and ends[0] <= self._up_to

    def shares(self, start: Offset, end: Offset) -> list[BatchShare]:
        """What tasks read of the claims after ``start`` and up to ``end``: the same however often it is asked."""
        opened = self._open()
        state = opened.check(start)
        found = []
        for number in range(start["number"] + 1, end["number"] + 1):
            batch_id = state.batch_id(number)
            opened.lock(batch_id)
            parts = opened.run(lambda session, _, batch_id=batch_id: opened.sealed_parts(session, state, batch_id))
            if parts:
                shares = share_out(parts, self.options.partitions)
                found += [BatchShare(opened.address.catalog, batch_id, "table", tuple(share)) for share in shares]
        return found

    def commit(self, end: Offset) -> None:
        """Note that the claims up to ``end`` were processed, and remove their messages. Idempotent."""
        opened = self._open()
        opened.check(end, stale=False)
        opened.run(lambda session, _: _commit(session, opened, end))

    def close(self) -> None:
        """Let go of the lock."""
        opened, self._opened = self._opened, None
        if opened is not None:
            opened.close()

    def _open(self) -> _Opened:
        if self._opened is None:
            self._opened = _Opened(self.access, self.options.queue, self.options.consumer)
        return self._opened


class _Opened:
    """A consumer whose lock is held, and the connection for its statements."""

    def __init__(self, access: ServerAccess, queue: str, consumer: str) -> None:
        self.client: QueueClient = access.client()
        self.schema = access.ledger_schema
        self._consumer = consumer
        self._connection = Reconnecting(self.client.session, f"Reading {queue} as the consumer {consumer!r}")
        self.address: ResolvedAddress = self._connection.run(lambda _: self.client.find(queue))
        self.locks = BatchLocks(self.client.session, self.address.catalog, self.schema)
        self.lock_id = stream_id(consumer)
        if not self.lock(self.lock_id, _LOCK_SECONDS):
            self.locks.close()
            raise WrongBatchError(
                f"Another query reads as the consumer {consumer!r}: stop it, or give this one a name of its own."
            )
        try:
            self.run(lambda session, queue: self._create(session, queue))
        except BaseException:
            self.close()
            raise

    def _create(self, session: Session, queue: QueueTable) -> None:
        queue.require()
        Ledger(session, self.address.catalog, self.schema).create()
        StreamTable(session, self.address.catalog, self.schema).create()

    def run(self, work: Any) -> Any:
        """What ``work(session, queue)`` returns, again on a new connection where one was lost."""
        return self._connection.run(lambda session: work(session, QueueTable(session, self.address)))

    def lock(self, batch_id: uuid.UUID, wait: float = 0.0) -> bool:
        """:meth:`.BatchLocks.take`, again where its connection was lost."""
        return self._connection.run(lambda _: self.locks.take(batch_id, wait))

    def state(self) -> StreamState:
        """The consumer as it is now."""
        table = self.address.canonical

        def enter(session: Session, _: QueueTable) -> StreamState:
            return StreamTable(session, self.address.catalog, self.schema).enter(self._consumer, table)

        state: StreamState = self.run(enter)
        return state

    def offset(self, state: StreamState, number: int) -> Offset:
        """The offset of a claim."""
        return {
            "queue": self.address.canonical,
            "schema": self.schema,
            "consumer": self._consumer,
            "generation": str(state.generation),
            "number": number,
        }

    def batch_state(self, batch_id: uuid.UUID) -> str | None:
        """The state of a claim's batch; None for one that there is not."""

        def find(session: Session, _: QueueTable) -> str | None:
            try:
                return Ledger(session, self.address.catalog, self.schema).find(batch_id).state
            except BatchNotFoundError:
                return None

        found: str | None = self.run(find)
        return found

    def check(self, offset: Offset, *, stale: bool = True) -> StreamState:
        """The consumer, if the offset can be one of its: neither of a claim that is done for longer, nor of none."""
        state = self.state()
        if offset != self.offset(state, offset["number"]):
            raise _out_of_step(state, "the checkpoint is that of another consumer or database")
        number = offset["number"]
        if stale and number < state.done:
            raise _out_of_step(state, f"the checkpoint ends with claim {number}, and {state.done} are done")
        if number > state.done and self.batch_state(state.batch_id(number)) != "sealed":
            raise _out_of_step(state, f"the claim {number} of the checkpoint is not there")
        return state

    def sealed_parts(self, session: Session, state: StreamState, batch_id: uuid.UUID) -> list[Any]:
        ledger = Ledger(session, self.address.catalog, self.schema)
        batch = ledger.manifest(batch_id)
        if batch.state != "sealed":
            raise _out_of_step(state, f"its claim in batch {batch_id} is {batch.state}")
        return [part for part in ledger.parts(batch_id) if part.messages]

    def close(self) -> None:
        self._connection.close()
        self.locks.close()


def _commit(session: Session, opened: _Opened, end: Offset) -> None:
    ledger = Ledger(session, opened.address.catalog, opened.schema)
    consumers = StreamTable(session, opened.address.catalog, opened.schema)
    messages = MessageTable(session, opened.address.catalog, opened.schema)
    state = opened.state()
    for number in range(state.done + 1, end["number"] + 1):
        batch_id = state.batch_id(number)
        with session.transaction():
            ledger.consume(ledger.manifest(batch_id))
            consumers.advance(state, number)
        opened.locks.release(batch_id)
    # The last one also where an earlier try came no further. What is left all the same, a sweep removes.
    for number in range(min(state.done + 1, end["number"]), end["number"] + 1):
        messages.remove(state.batch_id(number))


def _out_of_step(state: StreamState, why: str) -> BatchError:
    return WrongBatchError(
        f"The consumer {state.name!r} cannot go on, as {why}: find out what the sink has, then begin with a new "
        "checkpoint and another name."
    )
