"""Streams of Spark queries: the progress of each, in a table beside the ledger.

A stream takes messages as batches, numbered from 1; each batch is one claim. Claims up to the number ``done`` were
processed for good.

Source: docs/design.md, "A stream from a queue".
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any

from airflow_sqlqueue.drain.batches import batches
from airflow_sqlqueue.drain.ledger import Ledger
from airflow_sqlqueue.drain.locks import BatchLocks
from airflow_sqlqueue.errors import ConfigurationError, WrongBatchError
from airflow_sqlqueue.queue.tables.own import OwnTable, stored_name

_NAMESPACE = uuid.UUID("0d6f5a0e-93c5-5b0d-9d0a-5c0f6f3d7c55")


def stream_id(name: str) -> uuid.UUID:
    """Return the id of a stream: the owner of its claims in the ledger. A running query holds the lock of this id."""
    return uuid.uuid5(_NAMESPACE, name)


def copy_of_stream(name: str) -> str:
    """Name of the copy that a stream makes if it leaves the messages in the queue."""
    return f"Spark stream {name}"


@dataclass(frozen=True)
class StreamState:
    """Row of a stream in the table. ``generation`` is the id of this row: a stream that is made anew has another."""

    name: str
    queue: str
    generation: uuid.UUID
    done: int

    def batch_id(self, number: int) -> uuid.UUID:
        """Return the id of a claim's batch, the same for every attempt."""
        return uuid.uuid5(self.generation, str(number))


@dataclass(frozen=True)
class StreamInfo:
    """Listed stream: its queue, the number of claims done, and the time since the last one, by the server's clock.

    ``claims`` is the number of unfinished claims, which hold ``messages``. ``reading``: a query reads the stream now.
    """

    name: str
    queue: str
    done: int
    age: timedelta
    claims: int
    messages: int
    reading: bool

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values only: ``age_seconds`` for the age."""
        values = asdict(self)
        age: timedelta = values.pop("age")
        return {**values, "age_seconds": round(age.total_seconds(), 3)}


class StreamTable(OwnTable):
    """Table of the streams of one database, through one connection."""

    name = "Consumer"
    made_by = ("stream.make",)

    def enter(self, name: str, queue: str) -> StreamState:
        """Return the stream of that name and queue, made if it is new; the caller holds the stream's lock."""
        self.session.run(self.query("stream.enter"), name, stored_name(queue), str(uuid.uuid4()), name)
        state = self.find(name)
        if state is not None and state.name != name:
            # The lock and the owner of its claims are made of the name, letter by letter.
            raise WrongBatchError(
                f"The stream {name!r} would be {state.name!r} to the server: write that, or choose another name."
            )
        if state is None or state.queue != stored_name(queue):
            known = "nothing" if state is None else state.queue
            raise WrongBatchError(
                f"The stream {name!r} reads {known}, not {queue}: give each queue a stream of its own."
            )
        return state

    def find(self, name: str) -> StreamState | None:
        """Return the stream of that name by the server's rules, such as those of case; None for an unknown one."""
        for stored, queue, generation, done in self.session.run(self.query("stream.find"), name):
            return StreamState(stored, queue, uuid.UUID(str(generation)), int(done))
        return None

    def known(self, name: str) -> StreamState:
        """As :meth:`find`. Raises :class:`ConfigurationError` for an unknown stream."""
        state = self.find(name) if self.exists() else None
        if state is None:
            raise ConfigurationError(f"There is no stream {name!r} in {self.catalog!r}: 'sqlqueue streams' lists them.")
        return state

    def rows(self) -> list[tuple[str, str, int, timedelta]]:
        """Return name, queue, number of claims done and time since the last change of all streams, by name."""
        found = self.session.run(self.query("stream.list"))
        return [(name, queue, int(done), max(timedelta(0), now - at)) for name, queue, done, at, now in found]

    def forget(self, state: StreamState) -> None:
        """Delete a stream, whose lock the caller holds: its checkpoints are refused from now on."""
        self.session.run(self.query("stream.forget"), state.name, str(state.generation))

    def advance(self, state: StreamState, done: int) -> None:
        """Record that one more claim is done, in a transaction of the caller's."""
        if self.session.value(self.query("stream.advance"), done, state.name, str(state.generation), done - 1) != 1:
            raise WrongBatchError(
                f"The stream {state.name!r} has advanced meanwhile: stop the other query with its name."
            )


def list_streams(ledger: Ledger, locks: BatchLocks, queue: str | None = None) -> Sequence[StreamInfo]:
    """Return the streams of a ledger by name, or those of one queue, given by its canonical address."""
    table = StreamTable(ledger.session, ledger.catalog, ledger.schema)
    if not table.exists():
        return []
    found = []
    for name, its_queue, done, age in table.rows():
        if queue is not None and its_queue != stored_name(queue):
            continue
        owner = stream_id(name)
        claims = ledger.unfinished(owner)
        messages = sum(info.messages for batch_id in claims for info in batches(ledger, batch_id=batch_id))
        if free := locks.take(owner):
            locks.release(owner)
        found.append(StreamInfo(name, its_queue, done, age, len(claims), messages, reading=not free))
    return found
