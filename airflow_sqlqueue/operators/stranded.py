"""Stranded batches of a drain task: earlier runs of the task left them open or sealed."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_sqlqueue.drain.manifest import Batch
from airflow_sqlqueue.errors import ConfigurationError

if TYPE_CHECKING:
    from airflow.sdk.types import Logger

    from airflow_sqlqueue.client import QueueClient
    from airflow_sqlqueue.drain.liveness import BatchLocks
    from airflow_sqlqueue.operators.metrics import Metrics

STRANDED = ("adopt", "fail", "ignore")
"""Actions on stranded batches."""


def check_choices(stranded: str, rerun: str | None, *, renew: bool) -> None:
    """Raise :class:`ConfigurationError` for unknown or contradictory values of these parameters."""
    if stranded not in STRANDED:
        raise ConfigurationError(f"stranded is one of {', '.join(STRANDED)}, not {stranded!r}.")
    if rerun not in (None, "job"):
        raise ConfigurationError(f'rerun is None or "job", not {rerun!r}.')
    if rerun is not None and renew:
        raise ConfigurationError("Both rerun and renew are given: run the job again, or drain a new batch.")


@dataclass(frozen=True)
class StrandedBatches:
    """Stranded batches of one task, which is their ``owner``."""

    client: QueueClient
    queue_name: str
    owner: uuid.UUID
    log: Logger
    metrics: Metrics

    def adopt(self, locks: BatchLocks, own: uuid.UUID, stranded: str, *, has_job: bool) -> list[Batch]:
        """Adopt the batches for the task's job, sealed and locked; ``own`` is the batch of this run."""
        if stranded == "ignore":
            return []
        from airflow_sqlqueue.drain.stranded import refuse_stranded

        batches = self.client.batches
        # Without a job, a sealed batch waits for the task that reads it.
        states = ("open", "sealed") if has_job else ("open",)
        found = batches.left_by(self.owner, locks, self.queue_name, states=states, own=own)
        self.metrics.gauge("batches.stranded", len(found))
        if stranded == "fail":
            refuse_stranded(found)
        queue = self.client.queue(self.queue_name).address.canonical if found else None
        adopted = []
        for each in found:
            if each.queue != queue:
                self.log.warning(
                    "An earlier run left batch %s, of the queue %s: this task does not touch it", each, each.queue
                )
                locks.release(each.batch_id)
                continue
            batch = batches.seal(each.batch_id, self.queue_name)
            if has_job:
                self.log.warning("An earlier run left batch %s, and no run works on it: it is adopted", each)
                adopted.append(batch)
            else:
                self.log.warning("An earlier run left batch %s: it is sealed now, but no task reads it", each)
                locks.release(each.batch_id)
        return adopted
