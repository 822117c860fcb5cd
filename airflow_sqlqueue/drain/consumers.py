"""Streaming consumers: how far each has come, in a table beside the ledger.

A consumer takes messages as batches, numbered from 1, each of which is one claim of its stream. ``done`` is the number
up to which they were processed for good.

Source: docs/design.md, "A stream from a queue".
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from airflow_sqlqueue.errors import WrongBatchError
from airflow_sqlqueue.routing import ResolvedAddress
from airflow_sqlqueue.session import Session
from airflow_sqlqueue.sql import Query, identifier, query
from airflow_sqlqueue.tables.create import LEDGER_SCHEMA, Definition, ensure


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

    def create(self) -> None:
        """Make the table, and its schema, where it is missing."""
        ensure(self._session, self._definition)

    def enter(self, name: str, queue: str) -> ConsumerState:
        """The consumer of that name, made where it is new. Raises :class:`WrongBatchError` for another queue's.

        For the one who holds the consumer's lock.
        """
        self._session.run(self._query("enter"), name, queue[:400], str(uuid.uuid4()), name)
        known, generation, done = self._session.run(self._query("find"), name)[0]
        if known != queue[:400]:
            raise WrongBatchError(f"The consumer {name!r} reads {known}, not {queue}: give each queue one of its own.")
        return ConsumerState(name, known, uuid.UUID(str(generation)), int(done))

    def advance(self, state: ConsumerState, done: int) -> None:
        """Note that one more claim is done, in a transaction of the caller's."""
        if self._session.value(self._query("advance"), done, state.name, str(state.generation), done - 1) != 1:
            raise WrongBatchError(f"The consumer {state.name!r} went on meanwhile: is another query using its name?")
