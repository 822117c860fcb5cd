"""Protocols of a stage, which holds the rows of a batch until Spark reads them, and of its writers."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from airflow_sqlqueue.bodies.redaction.redactor import Redactor
from airflow_sqlqueue.drain.counts import PartCounts
from airflow_sqlqueue.drain.manifest import Batch
from airflow_sqlqueue.drain.options import DrainOptions
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.queue.window import Window


@dataclass(frozen=True)
class PartPlan:
    """Plan of a part: the queue and the window of its rows, its ids, what redacts the rows, and the batch's folder."""

    queue: QueueTable
    options: DrainOptions
    batch_id: uuid.UUID
    part_id: uuid.UUID
    folder: str
    window: Window
    redactor: Redactor | None = None


class PartWriter(Protocol):
    """Writer of one part, in a transaction of the worker's."""

    def take(self, rows: int) -> PartCounts | None:
        """Take up to ``rows`` next rows of the window; None if no row is left to take."""

    def close(self) -> str | None:
        """Make the staged rows durable and return the URI of their file, None without a file."""

    def abandon(self, *, remove: bool) -> None:
        """Abandon the staged rows: the transaction is rolled back. With ``remove`` their files are removed.

        They are removed only if COMMIT was never sent: a COMMIT whose answer is lost may have added them to the ledger.
        """


class CopyWriter(PartWriter, Protocol):
    """Writer of one part of a copy."""

    @property
    def copied(self) -> Sequence[int]:
        """RowVersions that the part has looked at, also of messages that it left out, such as expired ones."""


class Stage(Protocol):
    """Stage of a batch. It is pickled if workers run on other machines."""

    @property
    def name(self) -> str:
        """Name in the ledger, one of :data:`~airflow_sqlqueue.drain.manifest.STAGES`."""

    def check(self, options: DrainOptions) -> None:
        """Raise :class:`StagingError` if the stage cannot be written; called before a batch is opened."""

    def copy(self, plan: PartPlan, wait: float | None) -> CopyWriter:
        """Make a writer that copies rows; ``wait`` as for :meth:`~airflow_sqlqueue.drain.worker.Worker.copy_part`."""

    def part(self, plan: PartPlan) -> PartWriter:
        """Make a writer that takes rows out of the queue."""

    def publish(self, batch: Batch, options: DrainOptions) -> None:
        """Write the files that readers of a sealed batch need besides the ledger; every try writes them."""
