"""Batches in a ledger: list them, find stranded ones, and read one that a reference names."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

from airflow_sqlqueue.drain.counts import Counts
from airflow_sqlqueue.drain.ledger import Ledger
from airflow_sqlqueue.drain.locks import BatchLocks
from airflow_sqlqueue.drain.manifest import STATES, UNFINISHED, Batch
from airflow_sqlqueue.errors import ConfigurationError, StrandedBatchError
from airflow_sqlqueue.options.budget import count_of
from airflow_sqlqueue.queue.tables.own import stored_name
from airflow_sqlqueue.server.session import Session
from airflow_sqlqueue.server.sql import Fragment, passing


@dataclass(frozen=True)
class BatchInfo(Counts):
    """Listed batch, with its state, times and counts.

    ``age`` is how long the batch has been in its state, by the server's clock; times are in UTC. ``parts`` is the
    number of parts that hold messages; ``kept``: its messages were copied and stayed in the queue; ``redacted``:
    the fingerprint of the rules that changed them; ``erased``: the number of messages that were removed from it later.
    The counts of an open batch are those of its parts so far.
    """

    batch_id: uuid.UUID
    queue: str
    origin: str
    state: str
    stage: str
    age: timedelta
    opened: datetime
    sealed: datetime | None
    consumed: datetime | None
    requeued: datetime | None
    parts: int
    kept: bool = False
    redacted: str | None = None
    erased: int = 0

    def __str__(self) -> str:
        held = f"{count_of(self.messages, 'message')} in {count_of(self.parts, 'part')}"
        return f"{self.batch_id} ({self.state}, {held}, of {self.origin!r})"

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values only: ``age_seconds`` for the age, times in ISO 8601."""
        own = {name: _plain(value) for name, value in vars(self).items() if name not in self.counters}
        return {("age_seconds" if name == "age" else name): value for name, value in {**own, **self.counters}.items()}


def batches(
    ledger: Ledger,
    *,
    states: Sequence[str] = (),
    queue: str | None = None,
    batch_id: uuid.UUID | None = None,
    older_than: timedelta | None = None,
    newest: int | None = None,
) -> list[BatchInfo]:
    """Return the batches of a ledger that meet all conditions, in the order in which they were opened.

    ``queue`` is a canonical address, ``older_than`` is compared with the age in the present state. With ``newest`` only
    that number of batches is considered, those of the whole ledger that were opened last. A batch that is being put
    back at this moment is left out; with ``batch_id`` the call waits for it instead. The list is empty where no ledger
    exists yet. Raises :class:`ConfigurationError` for an unknown state.
    """
    for state in states:
        if state not in STATES:
            raise ConfigurationError(f"There is no batch state {state!r}: choose one of {', '.join(STATES)}.")
    if not ledger.exists():
        return []
    values: list[str | int] = list(states)
    conditions = [f"b.[State] IN ({', '.join('?' * len(states))})"] if states else []
    if queue is not None:
        conditions.append("b.[Queue] = ?")
        values.append(stored_name(queue))
    if batch_id is not None:
        conditions.append("b.[BatchId] = ?")
        values.append(str(batch_id))
    if newest is not None:
        conditions.append(f"b.[BatchId] IN ({ledger.query('ledger.newest').text})")
        values.append(newest)
    where = Fragment(" AND ".join(conditions) or "1 = 1")
    statement = ledger.query("ledger.list", where=where, passing=passing(batch_id is None))
    found = map(_info, ledger.session.run(statement, *values))
    return [info for info in found if older_than is None or info.age >= older_than]


def find_stranded(
    ledger: Ledger, locks: BatchLocks, batch_ids: Iterable[uuid.UUID], states: Sequence[str] = UNFINISHED
) -> list[BatchInfo]:
    """Return and lock the batches that are in one of the states and are not being worked on.

    Their task was killed, or marked failed or successful, or its machine died. ``locks`` holds them afterwards.
    """
    found = []
    for batch_id in batch_ids:
        if not locks.take(batch_id):
            continue
        # The task that held the lock a moment ago may have finished the batch.
        stranded = batches(ledger, batch_id=batch_id, states=states)
        if not stranded:
            locks.release(batch_id)
        found += stranded
    return found


def refuse_stranded(found: Iterable[BatchInfo]) -> None:
    """Raise :class:`StrandedBatchError` for stranded batches, with what can be done about each."""
    if listed := "; ".join(map(str, found)):
        raise StrandedBatchError(
            f"Earlier runs of this task left batches that no task works on: {listed}. Put their messages back with "
            "'sqlqueue abandon <id>' (open) or 'sqlqueue requeue <id>' (sealed), clear the task of their run, or set "
            "stranded to adopt or ignore."
        )


def recorded_batch(session: Session, values: Mapping[str, Any]) -> Batch:
    """Read from the ledger the batch that a dictionary of :meth:`.Batch.to_reference` or :meth:`.Batch.to_dict` names.

    Its names were checked (:meth:`.Batch.check_names`). The state may have changed since. Raises
    :class:`BatchMismatchError` where anything else differs, :class:`ConfigurationError` for a dictionary without a
    queue or a batch id, and as :meth:`.Ledger.manifest` does.
    """
    try:
        ledger, batch_id = Ledger.of(session, str(values["queue"])), uuid.UUID(str(values["batch_id"]))
    except ValueError as error:
        raise ConfigurationError("This is no manifest of a batch: it names no queue or no batch id.") from error
    batch = ledger.manifest(batch_id)
    batch.check_same(values)
    return batch


def _info(row: Any) -> BatchInfo:
    batch_id, queue, origin, state, stage, kept, redacted, erased, *rest = row
    *times, parts, messages, expired, quarantined, size, now = rest
    opened, sealed, consumed, requeued = times = [time and time.replace(tzinfo=timezone.utc) for time in times]
    return BatchInfo(
        batch_id=uuid.UUID(str(batch_id)),
        queue=queue,
        origin=origin,
        state=state,
        stage=stage,
        age=max(timedelta(0), now.replace(tzinfo=timezone.utc) - max(filter(None, times))),
        opened=opened,
        sealed=sealed,
        consumed=consumed,
        requeued=requeued,
        parts=int(parts),
        messages=int(messages),
        expired=int(expired),
        quarantined=int(quarantined),
        bytes=int(size),
        kept=bool(kept),
        redacted=redacted,
        erased=int(erased),
    )


def _plain(value: Any) -> Any:
    if isinstance(value, timedelta):
        return round(value.total_seconds(), 3)
    if isinstance(value, datetime):
        return value.isoformat(timespec="milliseconds")
    return str(value) if isinstance(value, uuid.UUID) else value
