"""The batches of a task over its runs and tries, without Airflow."""

from __future__ import annotations

import logging
import uuid
from dataclasses import replace
from datetime import timedelta

import pytest

from airflow_sqlqueue import QueueClient, SweepOptions
from airflow_sqlqueue.client.task_batches import TaskBatches
from airflow_sqlqueue.drain.ledger import Ledger
from airflow_sqlqueue.drain.manifest import Batch
from airflow_sqlqueue.drain.storage.folder import StagingFolder
from airflow_sqlqueue.queue import QueueTable
from tests.conftest import Connect
from tests.contract.batches.conftest import SCHEMA
from tests.drains import drain, fill

LOG = logging.getLogger(__name__)


@pytest.fixture
def task(server_url: str, queue_name: str) -> TaskBatches:
    """The second run of a task."""
    client = QueueClient.from_url(server_url, ledger_schema=SCHEMA)
    return TaskBatches(client, queue_name, (f"shop {uuid.uuid4()}", "run 2", "drain", -1))


def earlier(task: TaskBatches) -> TaskBatches:
    return replace(task, key=(task.key[0], f"run {uuid.uuid4()}", *task.key[2:]))


def drained(run: TaskBatches, connect: Connect, queue: QueueTable, staging: StagingFolder) -> Batch:
    fill(queue, 30)
    return drain(connect, queue, staging, batch_id=run.own(), owner=run.owner).batch


def test_a_try_finds_the_batch_that_an_earlier_one_has_opened(
    task: TaskBatches, connect: Connect, queue: QueueTable, staging: StagingFolder
) -> None:
    assert not task.is_open()
    batch = drained(task, connect, queue, staging)
    assert task.is_open()
    assert task.own() == batch.uuid
    assert not earlier(task).is_open()
    assert not replace(task, key=(*task.key[:3], 0)).is_open(), "another map index"


def test_a_renewed_run_goes_on_to_a_new_batch_once_its_own_is_consumed(
    task: TaskBatches, connect: Connect, queue: QueueTable, staging: StagingFolder
) -> None:
    batch, renewed = drained(task, connect, queue, staging), replace(task, renew=True)
    assert renewed.own() == batch.uuid
    task.client.batches.mark_consumed(batch)
    assert renewed.own() != batch.uuid
    assert not renewed.is_open()


def test_a_try_after_a_sweep_opens_a_batch_with_an_id_that_no_sink_has(
    task: TaskBatches, connect: Connect, queue: QueueTable, staging: StagingFolder
) -> None:
    cleared, again = replace(task, try_number=2), replace(task, try_number=3)
    old = drained(task, connect, queue, staging)
    assert cleared.own() == old.uuid
    task.client.batches.mark_consumed(old)
    task.client.batches.sweep(staging, task.address, SweepOptions(retain=timedelta(0)))
    assert not cleared.is_open()
    new = drained(cleared, connect, queue, staging)
    assert new.uuid != old.uuid
    assert again.own() == new.uuid
    # The first try was slow, and opens its batch only now.
    assert drained(task, connect, queue, staging).uuid == old.uuid
    assert again.own() == new.uuid


def test_a_job_gets_the_batches_of_earlier_runs_in_their_order(
    task: TaskBatches, connect: Connect, queue: QueueTable, ledger: Ledger, staging: StagingFolder
) -> None:
    before = [drained(earlier(task), connect, queue, staging) for _ in range(2)]
    own = drained(task, connect, queue, staging)
    with task.client.batches.locks(task.address) as locks, task.client.batches.locks(task.address) as others:
        found = task.left(locks, own.uuid, has_job=True)
        adopted = task.adopt(found, locks, LOG, has_job=True)
        assert adopted == before
        assert [others.take(batch.uuid) for batch in adopted] == [False, False], "they stay locked for the job"


def test_a_batch_that_another_run_works_on_is_left_alone(
    task: TaskBatches, connect: Connect, queue: QueueTable, staging: StagingFolder
) -> None:
    batch = drained(earlier(task), connect, queue, staging)
    with task.client.batches.locks(task.address) as others, task.client.batches.locks(task.address) as locks:
        assert others.take(batch.uuid)
        assert task.left(locks, task.own(), has_job=True) == []


def test_a_sealed_batch_waits_for_its_reader_where_there_is_no_job(
    task: TaskBatches, connect: Connect, queue: QueueTable, staging: StagingFolder
) -> None:
    drained(earlier(task), connect, queue, staging)
    with task.client.batches.locks(task.address) as locks:
        assert task.left(locks, task.own(), has_job=False) == []


def test_a_batch_of_another_queue_is_not_touched(
    task: TaskBatches, connect: Connect, queue: QueueTable, staging: StagingFolder, caplog: pytest.LogCaptureFixture
) -> None:
    batch = drained(earlier(task), connect, queue, staging)
    other = f"{task.address}.other"
    task.client.tables.create(other)
    try:
        moved = replace(task, address=other)
        with task.client.batches.locks(other) as locks, task.client.batches.locks(other) as others:
            found = moved.left(locks, moved.own(), has_job=True)
            assert [info.batch_id for info in found] == [batch.uuid]
            assert moved.adopt(found, locks, LOG, has_job=True) == []
            assert others.take(batch.uuid), "its lock is released"
    finally:
        task.client.tables.drop(other)
    assert "this task does not touch it" in caplog.text


def test_a_batch_that_other_rules_have_redacted_is_not_touched(
    task: TaskBatches, connect: Connect, queue: QueueTable, staging: StagingFolder, caplog: pytest.LogCaptureFixture
) -> None:
    batch = drained(earlier(task), connect, queue, staging)
    with task.client.batches.locks(task.address) as locks, task.client.batches.locks(task.address) as others:
        found = task.left(locks, task.own(), has_job=True)
        assert task.adopt(found, locks, LOG, has_job=True, fingerprint="that of other rules") == []
        assert others.take(batch.uuid), "its lock is released"
    assert "redacted by other rules or by none: this task does not touch it" in caplog.text
