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
from airflow_sqlqueue.tables.own import OwnTable, stored_name

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


class ConsumerTable(OwnTable):
    """The streaming consumers of one database, through one connection."""

    name = "Consumer"
    made_by = ("consumer.make",)

    def enter(self, name: str, queue: str) -> ConsumerState:
        """The consumer of that name, made where it is new. Raises :class:`WrongBatchError` for another queue's.

        For the one who holds the consumer's lock.
        """
        self.session.run(self.query("consumer.enter"), name, stored_name(queue), str(uuid.uuid4()), name)
        state = self.find(name)
        if state is None or state.queue != stored_name(queue):
            known = "nothing" if state is None else state.queue
            raise WrongBatchError(f"The consumer {name!r} reads {known}, not {queue}: give each queue one of its own.")
        return state

    def find(self, name: str) -> ConsumerState | None:
        """The consumer of that name, None where there is none."""
        for queue, generation, done in self.session.run(self.query("consumer.find"), name):
            return ConsumerState(name, queue, uuid.UUID(str(generation)), int(done))
        return None

    def rows(self) -> list[tuple[str, str, int, timedelta]]:
        """All consumers by their names: name, queue, what is done, and how long ago that changed."""
        found = self.session.run(self.query("consumer.list"))
        return [(name, queue, int(done), max(timedelta(0), now - at)) for name, queue, done, at, now in found]

    def forget(self, state: ConsumerState) -> None:
        """Remove a consumer, for the one who holds its lock: a checkpoint of it is refused from now on."""
        self.session.run(self.query("consumer.forget"), state.name, str(state.generation))

    def advance(self, state: ConsumerState, done: int) -> None:
        """Note that one more claim is done, in a transaction of the caller's."""
        if self.session.value(self.query("consumer.advance"), done, state.name, str(state.generation), done - 1) != 1:
            raise WrongBatchError(f"The consumer {state.name!r} went on meanwhile: is another query using its name?")
