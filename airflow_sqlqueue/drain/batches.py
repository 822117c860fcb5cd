"""The batches that a ledger knows: open, waiting to be read, or finished."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

from airflow_sqlqueue.drain.counts import Counts
from airflow_sqlqueue.drain.ledger import Ledger
from airflow_sqlqueue.drain.manifest import STATES, Batch
from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.routing import AddressResolver
from airflow_sqlqueue.session import Session
from airflow_sqlqueue.sql import Fragment, passing
from airflow_sqlqueue.tables.create import LEDGER_SCHEMA
from airflow_sqlqueue.tables.own import stored_name


@dataclass(frozen=True)
class BatchInfo(Counts):
    """One batch as people look at it.

    ``age`` is how long the batch has been in its state, by the server's clock; times are in UTC. ``parts`` are those
    that hold messages; ``kept``: its messages were copied and stayed in the queue. The counts of an open batch are
    those of its parts so far.
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

    def to_dict(self) -> dict[str, Any]:
        """JSON values only: ``age_seconds`` for the age, times in ISO 8601."""
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
    """The batches of a ledger that match all that is given, the one that was opened first at the head.

    ``queue`` is a canonical address, ``older_than`` is compared with the age in the present state. ``newest`` is how
    many of the whole ledger are looked at, those that were opened last. A batch that is being put back at this moment
    is left out, but for one that ``batch_id`` names, which is waited for. Empty where there is no ledger yet. Raises
    :class:`ConfigurationError` for a state that there is not.
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


def recorded_batch(session: Session, values: Mapping[str, Any], ledger_schema: str = LEDGER_SCHEMA) -> Batch:
    """The batch that a dictionary of :meth:`.Batch.to_reference` or :meth:`.Batch.to_dict` names, as the ledger has it.

    Its names were checked (:meth:`.Batch.check_names`). The state may have changed since. Raises
    :class:`BatchMismatchError` where anything else differs, :class:`ConfigurationError` for what names no queue or no
    batch, and as :meth:`.Ledger.manifest` does.
    """
    try:
        catalog, batch_id = AddressResolver().resolve(str(values["queue"])).catalog, uuid.UUID(str(values["batch_id"]))
    except ValueError as error:
        raise ConfigurationError("This is no manifest of a batch: it names no queue or no batch id.") from error
    batch = Ledger(session, catalog, ledger_schema).manifest(batch_id)
    batch.check_same(values)
    return batch


def _info(row: Any) -> BatchInfo:
    identity, queue, origin, state, stage, kept, *times, parts, messages, expired, quarantined, size, now = row
    opened, sealed, consumed, requeued = (time and time.replace(tzinfo=timezone.utc) for time in times)
    since = max(time for time in (opened, sealed, consumed, requeued) if time)
    return BatchInfo(
        batch_id=uuid.UUID(str(identity)),
        queue=queue,
        origin=origin,
        state=state,
        stage=stage,
        age=max(timedelta(0), now.replace(tzinfo=timezone.utc) - since),
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
    )


def _plain(value: Any) -> Any:
    if isinstance(value, timedelta):
        return round(value.total_seconds(), 3)
    if isinstance(value, datetime):
        return value.isoformat(timespec="milliseconds")
    return str(value) if isinstance(value, uuid.UUID) else value
