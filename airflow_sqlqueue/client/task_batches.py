"""Batches of a task: that of a run, the same in all its tries, and those that earlier runs have left."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from airflow_sqlqueue.client.client import QueueClient
from airflow_sqlqueue.drain.batches import BatchInfo
from airflow_sqlqueue.drain.locks import BatchLocks
from airflow_sqlqueue.drain.manifest import Batch
from airflow_sqlqueue.drain.options import batch_id_for, owner_of


@dataclass(frozen=True)
class TaskBatches:
    """Batches that a task drains from the queue at an address.

    :param key: DAG, run, task and map index of the task instance; all but the run are the task, over its runs.
    :param renew: the run works on a new batch where its own was consumed or requeued.
    :param try_number: the number of the try, which clears of the task count on.
    """

    client: QueueClient
    address: str
    key: tuple[str, str, str, int]
    renew: bool = False
    try_number: int = 1

    @property
    def owner(self) -> uuid.UUID:
        """The owner of the batches of all runs."""
        dag_id, _, task_id, map_index = self.key
        return owner_of(dag_id, task_id, map_index)

    def own(self) -> uuid.UUID:
        """Return the id of this run's batch, which is known before it is opened.

        It is the batch that the last of the earlier tries has opened. If the ledger does not know one, as after a
        sweep, the id is one that no other try gives.
        """
        earlier = [batch_id_for(*self.key, number) for number in range(self.try_number - 1, 0, -1)]
        known = self.client.batches.first_known(earlier, self.address) if earlier else None
        batch_id = known or batch_id_for(*self.key, self.try_number)
        return self.client.batches.current(batch_id, self.address) if self.renew else batch_id

    def is_open(self) -> bool:
        """Return whether an earlier try has opened this run's batch."""
        return self.client.batches.info(self.own(), self.address) is not None

    def left(self, locks: BatchLocks, own: uuid.UUID, *, has_job: bool) -> Sequence[BatchInfo]:
        """Find the batches that earlier runs have left and that no run works on, and lock them."""
        # Without a job, a sealed batch waits for the task that reads it.
        states = ("open", "sealed") if has_job else ("open",)
        return self.client.batches.left_by(self.owner, locks, self.address, states=states, own=own)

    def adopt(
        self,
        found: Sequence[BatchInfo],
        locks: BatchLocks,
        log: logging.Logger | Any,
        *,
        has_job: bool,
        fingerprint: str = "",
    ) -> list[Batch]:
        """Seal the batches of :meth:`left`, and return those for the job; the locks of all others are released.

        :param fingerprint: that of the task's rules of redaction: a job may not see what they would have removed.
        """
        queue = self.client.find(self.address).canonical if found else None
        adopted = []
        for each in found:
            if each.queue != queue:
                log.warning(
                    "An earlier run left batch %s, of the queue %s: this task does not touch it", each, each.queue
                )
                locks.release(each.batch_id)
                continue
            if has_job and fingerprint and each.redacted != fingerprint:
                log.warning(
                    "An earlier run left batch %s, redacted by other rules or by none: this task does not touch it; "
                    "put it back into the queue, to be drained again",
                    each,
                )
                locks.release(each.batch_id)
                continue
            batch = self.client.batches.seal(each.batch_id, self.address)
            if has_job:
                log.warning("An earlier run left batch %s, and no run works on it: it is adopted", each)
                adopted.append(batch)
            else:
                log.warning("An earlier run left batch %s: it is sealed now, but no task reads it", each)
                locks.release(each.batch_id)
        return adopted
