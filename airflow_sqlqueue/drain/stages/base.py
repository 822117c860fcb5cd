"""What a worker asks of a stage: the place where a part's rows go until Spark reads them."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Protocol

from airflow_sqlqueue.drain.counts import PartCounts
from airflow_sqlqueue.drain.manifest import Batch
from airflow_sqlqueue.drain.options import DrainOptions
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.queue.quarantine import Quarantine
from airflow_sqlqueue.queue.window import Window


@dataclass(frozen=True)
class PartPlan:
    """A part to be taken: its ids, and the window that its rows come from."""

    batch_id: uuid.UUID
    part_id: uuid.UUID
    window: Window


class PartWriter(Protocol):
    """One part on its way, in a transaction of the worker's."""

    def take(self, rows: int) -> PartCounts | None:
        """Take up to so many rows of the window, the next ones; None where no row is left to take."""

    def close(self) -> str | None:
        """Make durable what was staged and return the URI of its file, None where there is none."""

    def abandon(self, *, remove: bool) -> None:
        """Abandon what was staged: the transaction is rolled back. With ``remove`` its files go.

        They go only where COMMIT was never sent: a COMMIT whose answer is lost may have put them into the ledger.
        """


class Stage(Protocol):
    """A way of staging. It is pickled where workers run on other machines."""

    @property
    def name(self) -> str:
        """As the ledger has it, one of :data:`~airflow_sqlqueue.drain.manifest.STAGES`."""

    def check(self, options: DrainOptions) -> None:
        """Raise :class:`StagingError` where nothing can be staged; asked before a batch is opened."""

    def copy(self, queue: QueueTable, plan: PartPlan, options: DrainOptions, wait: float | None) -> PartWriter:
        """A part that copies the queue's rows; ``wait`` as :meth:`~airflow_sqlqueue.drain.worker.Worker.copy_part` has.

        Raises :class:`ConfigurationError` for a stage that copies nothing.
        """

    def part(self, queue: QueueTable, quarantine: Quarantine, plan: PartPlan, options: DrainOptions) -> PartWriter:
        """A part that stages the queue's rows."""

    def publish(self, batch: Batch, options: DrainOptions) -> None:
        """Write what readers of a sealed batch need besides the ledger; every try does.

        Raises :class:`StagingError`.
        """
