"""Batches that nobody works on any more: their task was killed, marked failed or successful, or its machine died."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass

from airflow_sqlqueue.drain.ledger import Ledger
from airflow_sqlqueue.drain.liveness import BatchLocks
from airflow_sqlqueue.drain.manifest import UNFINISHED
from airflow_sqlqueue.errors import BatchNotFoundError, StrandedBatchError


@dataclass(frozen=True)
class StrandedBatch:
    """A batch that nobody works on. ``state`` is ``open`` or ``sealed``; the figures are those of its parts."""

    batch_id: uuid.UUID
    queue: str
    origin: str
    state: str
    parts: int
    messages: int

    def __str__(self) -> str:
        return f"{self.batch_id} ({self.state}, {self.messages} messages in {self.parts} parts, of {self.origin!r})"


def find_stranded(
    ledger: Ledger, locks: BatchLocks, batch_ids: Iterable[uuid.UUID], states: tuple[str, ...] = UNFINISHED
) -> list[StrandedBatch]:
    """Those of the batches that are in one of the states and that nobody works on; ``locks`` holds them afterwards."""
    found = []
    for batch_id in batch_ids:
        if not locks.take(batch_id):
            continue
        # Whoever had the lock a moment ago may have finished the batch.
        stranded = _read(ledger, batch_id)
        if stranded is None or stranded.state not in states:
            locks.release(batch_id)
        else:
            found.append(stranded)
    return found


def _read(ledger: Ledger, batch_id: uuid.UUID) -> StrandedBatch | None:
    try:
        row = ledger.find(batch_id)
    except BatchNotFoundError:
        return None
    parts = ledger.parts(batch_id)
    messages = sum(part.messages for part in parts)
    return StrandedBatch(batch_id, row.queue, row.origin, row.state, sum(part.messages > 0 for part in parts), messages)


def refuse_stranded(found: Iterable[StrandedBatch]) -> None:
    """Raise :class:`StrandedBatchError` where there are any, with what can be done about each."""
    listed = "; ".join(map(str, found))
    if listed:
        raise StrandedBatchError(
            f"Earlier runs of this task left batches that nobody works on: {listed}. Put their messages back with "
            "'sqlqueue abandon <id>' (open) or 'sqlqueue requeue <id>' (sealed), clear the task of their run, or set "
            "stranded to adopt or ignore."
        )
