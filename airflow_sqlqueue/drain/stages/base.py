"""What a worker asks of a stage: the place where a part's rows go until Spark reads them."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from airflow_sqlqueue.drain.manifest import Batch
from airflow_sqlqueue.drain.options import DrainOptions
from airflow_sqlqueue.drain.quarantine import Quarantine
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.queue.browsing import Span


@dataclass(frozen=True)
class PartCounts:
    """What one statement took out of the queue: counts, bytes of headers and bodies staged, and the RowVersions."""

    messages: int
    expired: int
    quarantined: int
    bytes: int
    low: int
    high: int

    @property
    def rows(self) -> int:
        return self.messages + self.expired + self.quarantined

    def __add__(self, other: PartCounts) -> PartCounts:
        return PartCounts(
            self.messages + other.messages,
            self.expired + other.expired,
            self.quarantined + other.quarantined,
            self.bytes + other.bytes,
            min(self.low, other.low),
            max(self.high, other.high),
        )


@dataclass(frozen=True)
class PartWindow:
    """The part to be taken: its ids, and the window, RowVersions above ``after`` and not above ``up_to``.

    With ``chosen``, which ascend, only the rows of the window that have these RowVersions.
    """

    batch_id: uuid.UUID
    part_id: uuid.UUID
    after: int
    up_to: int
    chosen: tuple[int, ...] | None = None

    def pieces_above(self, after: int) -> Iterator[Span]:
        """What is above a RowVersion, in pieces each of which one statement can name."""
        return Span(self.after, self.up_to, self.chosen).above(after).pieces()


class PartWriter(Protocol):
    """One part on its way, in a transaction of the worker's."""

    def take(self, rows: int) -> PartCounts | None:
        """Take up to so many rows of the window, the next ones; None where no row is left to take."""

    def close(self) -> str | None:
        """Make durable what was staged and return the URI of its file, None where there is none."""

    def abandon(self) -> None:
        """Abandon what was staged: the transaction is rolled back."""


class Stage(Protocol):
    """A way of staging. It is pickled where workers run on other machines."""

    @property
    def name(self) -> str:
        """As the ledger has it, one of :data:`~airflow_sqlqueue.drain.manifest.STAGES`."""

    def check(self, options: DrainOptions) -> None:
        """Raise :class:`StagingError` where nothing can be staged; asked before a batch is opened."""

    def copy(self, queue: QueueTable, plan: PartWindow, options: DrainOptions, wait: float | None) -> PartWriter:
        """A part that copies the queue's rows; ``wait`` as :meth:`~airflow_sqlqueue.drain.worker.Worker.copy_part` has.

        Raises :class:`ConfigurationError` for a stage that copies nothing.
        """

    def part(self, queue: QueueTable, quarantine: Quarantine, plan: PartWindow, options: DrainOptions) -> PartWriter:
        """A part that stages the queue's rows."""

    def publish(self, batch: Batch, options: DrainOptions) -> None:
        """Write what readers of a sealed batch need besides the ledger; every try does.

        Raises :class:`StagingError`.
        """
