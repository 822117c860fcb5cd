"""Streaming consumers as people look at them, and the end of one that nobody resumes: its claims go back."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any

from airflow_sqlqueue.drain.batches import batches
from airflow_sqlqueue.drain.consumers import ConsumerTable, lock_of
from airflow_sqlqueue.drain.ledger import Ledger
from airflow_sqlqueue.drain.liveness import BatchLocks
from airflow_sqlqueue.drain.requeue import requeue
from airflow_sqlqueue.errors import BatchError, ConfigurationError
from airflow_sqlqueue.tables.own import stored_name

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ConsumerInfo:
    """A consumer: its queue, how many claims are done, and how long ago it noted the last one, by the server's clock.

    ``claims`` are not done, and hold ``messages``. ``reading``: a query reads as this consumer now.
    """

    name: str
    queue: str
    done: int
    age: timedelta
    claims: int
    messages: int
    reading: bool

    def to_dict(self) -> dict[str, Any]:
        """JSON values only: ``age_seconds`` for the age."""
        values = asdict(self)
        return {**{k: v for k, v in values.items() if k != "age"}, "age_seconds": round(self.age.total_seconds(), 3)}


@dataclass(frozen=True)
class ReleaseResult:
    """What was put back into the queue when a consumer was released: its claims, and their messages."""

    name: str
    queue: str
    claims: int
    messages: int


def list_consumers(ledger: Ledger, locks: BatchLocks, queue: str | None = None) -> Sequence[ConsumerInfo]:
    """The consumers of a ledger, or those of a queue by its canonical address, by their names."""
    table = ConsumerTable(ledger.session, ledger.catalog, ledger.schema)
    if not table.exists():
        return []
    found = []
    for name, its_queue, done, age in table.rows():
        if queue is not None and its_queue != stored_name(queue):
            continue
        unfinished = ledger.unfinished(lock_of(name))
        messages = sum(info.messages for batch_id in unfinished for info in batches(ledger, batch_id=batch_id))
        free = locks.take(lock_of(name))
        if free:
            locks.release(lock_of(name))
        found.append(ConsumerInfo(name, its_queue, done, age, len(unfinished), messages, reading=not free))
    return found


def release_consumer(ledger: Ledger, locks: BatchLocks, name: str) -> ReleaseResult:
    """Put the claims of a consumer that are not done back into its queue, and forget the consumer.

    Each claim goes back in a transaction of its own, as a batch is put back; repeated after a failure, it goes on.
    A query that comes back with its checkpoint is refused. The last claim may be in the sink already: Spark commits it
    only when the next micro-batch begins, and a message of it that was put back comes a second time.

    Raises :class:`ConfigurationError` for a consumer that there is not, and :class:`BatchError` for one as which a
    query reads.
    """
    table = ConsumerTable(ledger.session, ledger.catalog, ledger.schema)
    state = table.find(name) if table.exists() else None
    if state is None:
        raise ConfigurationError(
            f"There is no consumer {name!r} in {ledger.catalog!r}: 'sqlqueue consumers' lists them."
        )
    if not locks.take(lock_of(name)):
        raise BatchError(f"A query reads as the consumer {name!r}: stop it first.")
    claims = messages = 0
    for batch_id in ledger.unfinished(lock_of(name)):
        ledger.seal(batch_id)
        messages += requeue(ledger, batch_id).batch.messages
        claims += 1
    table.forget(state)
    locks.release(lock_of(name))
    log.info("Consumer %r is released: %d messages of %d claims are in %s again", name, messages, claims, state.queue)
    return ReleaseResult(name, state.queue, claims, messages)
