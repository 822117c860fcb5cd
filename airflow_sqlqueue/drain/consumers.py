"""Streaming consumers: how far each has come, in a table beside the ledger.

A consumer takes messages as batches, numbered from 1, each of which is one claim of its stream. ``done`` is the number
up to which they were processed for good.

Source: docs/design.md, "A stream from a queue".
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import timedelta

from airflow_sqlqueue.errors import WrongBatchError
from airflow_sqlqueue.routing import ResolvedAddress
from airflow_sqlqueue.session import Session
from airflow_sqlqueue.sql import Query, identifier, query
from airflow_sqlqueue.tables.create import LEDGER_SCHEMA, Definition, ensure
from airflow_sqlqueue.tables.reading import exists

_NAMESPACE = uuid.UUID("0d6f5a0e-93c5-5b0d-9d0a-5c0f6f3d7c55")


def lock_of(name: str) -> uuid.UUID:
    """The id whose lock the one who reads as a consumer holds, and the owner of its claims."""
    return uuid.uuid5(_NAMESPACE, name)


@dataclass(frozen=True)
class ConsumerState:
    """A consumer as the table has it. ``generation`` is the id of this row: one that is made anew has another."""

    name: str
    queue: str
    generation: uuid.UUID
    done: int

    def batch_id(self, number: int) -> uuid.UUID:
        """The batch of a claim: the same for every attempt."""
        return uuid.uuid5(self.generation, str(number))


def consumer_definition(catalog: str, schema: str = LEDGER_SCHEMA) -> Definition:
    """The table, for :func:`~airflow_sqlqueue.tables.create.create` and for scripts."""
    table = ResolvedAddress("Consumer", schema, catalog)
    return Definition(table, "ledger", (query("consumer.make", consumer=identifier(table)),), with_schema=True)


class ConsumerTable:
    """The streaming consumers of one database, through one connection."""

    def __init__(self, session: Session, catalog: str, schema: str = LEDGER_SCHEMA) -> None:
        self._session, self._definition = session, consumer_definition(catalog, schema)

    def _query(self, name: str) -> Query:
        return query(f"consumer.{name}", consumer=identifier(self._definition.table))

    def exists(self) -> bool:
        """Whether there is the table."""
        return exists(self._session, self._definition.table)

    def create(self) -> None:
        """Make the table, and its schema, where it is missing."""
        ensure(self._session, self._definition)

    def enter(self, name: str, queue: str) -> ConsumerState:
        """The consumer of that name, made where it is new. Raises :class:`WrongBatchError` for another queue's.

        For the one who holds the consumer's lock.
        """
        self._session.run(self._query("enter"), name, queue[:400], str(uuid.uuid4()), name)
        state = self.find(name)
        if state is None or state.queue != queue[:400]:
            known = "nothing" if state is None else state.queue
            raise WrongBatchError(f"The consumer {name!r} reads {known}, not {queue}: give each queue one of its own.")
        return state

    def find(self, name: str) -> ConsumerState | None:
        """The consumer of that name, None where there is none."""
        for queue, generation, done in self._session.run(self._query("find"), name):
            return ConsumerState(name, queue, uuid.UUID(str(generation)), int(done))
        return None

    def rows(self) -> list[tuple[str, str, int, timedelta]]:
        """All consumers by their names: name, queue, what is done, and how long ago that changed."""
        found = self._session.run(self._query("list"))
        return [(name, queue, int(done), max(timedelta(0), now - at)) for name, queue, done, at, now in found]

    def forget(self, state: ConsumerState) -> None:
        """Remove a consumer, for the one who holds its lock: a checkpoint of it is refused from now on."""
        self._session.run(self._query("forget"), state.name, str(state.generation))

    def advance(self, state: ConsumerState, done: int) -> None:
        """Note that one more claim is done, in a transaction of the caller's."""
        if self._session.value(self._query("advance"), done, state.name, str(state.generation), done - 1) != 1:
            raise WrongBatchError(f"The consumer {state.name!r} went on meanwhile: is another query using its name?")
