"""More than one machine: a cluster whose executors, workers and drivers are killed while they drain, read and write.

Each test has what Spark does with queues under way at once: a drain into files and one into a table, the read of a
sealed batch, a stream, and a send; ``make faults`` has all of it in each test. When each of them is in the middle of a
part, or has staged what a task sends, one process is killed.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pyarrow.parquet as pq
import pytest
from spark_cluster import SparkCluster

from airflow_sqlqueue.drain.drain import Drain
from airflow_sqlqueue.drain.options import DrainOptions
from airflow_sqlqueue.drain.request import DrainRequest
from airflow_sqlqueue.drain.stages.table import TableStage
from airflow_sqlqueue.drain.storage.folder import StagingFolder
from airflow_sqlqueue.messages.message import Message
from airflow_sqlqueue.messages.routing import AddressResolver
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.queue.tables.create import create_queue, drop_queue
from airflow_sqlqueue.server.settings import ConnectionSettings
from tests.contract.conftest import Connect
from tests.faults.account import Account
from tests.faults.conftest import LONG
from tests.spark.drivers import WORKS, Driver, Scene, work_at_once
from tests.spark.kill_barrier import DRIVER, EXECUTOR, WORKER, KillBarrier

# A cluster and several sessions start, on machines with two cores as well.
pytestmark = [pytest.mark.spark, pytest.mark.timeout(1500)]

EXECUTORS = 2
CORES = 3
"""Of each executor. Together enough for one task of each work that waits for the others."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[SparkCluster]:
    with SparkCluster(workers=EXECUTORS, cores=CORES) as started:
        yield started


@pytest.fixture(scope="module")
def drivers(cluster: SparkCluster) -> Iterator[list[Driver]]:
    """The driver that is alive is the last one."""
    found = [Driver(cluster, EXECUTORS)]
    try:
        yield found
    finally:
        for driver in found:
            driver.close()


class Accounts:
    """The accounts of a scene."""

    def __init__(self, scene: Scene, connect: Connect, address_of: AddressResolver) -> None:
        self.scene, self._connect, self._address_of = scene, connect, address_of
        self._drained = {work: self._account(work) for work in scene.batches}

    def _account(self, work: str) -> Account:
        address = self._address_of.resolve(self.scene.queues[work])
        return Account(self._connect, address, StagingFolder.of(self.scene.folder / "staging"))

    def send(self) -> None:
        for account in self._drained.values():
            account.send(90)
        with self._connect() as session:
            numbered = [Message({}, b"%d" % number) for number in range(60)]
            for work in {"read", "stream"} & {*WORKS}:
                QueueTable(session, self._address_of.resolve(self.scene.queues[work])).send(numbered)
        options = DrainOptions(rows_per_statement=5, rows_per_part=10)
        address = self._address_of.resolve(self.scene.queues["read"])
        Drain(self._connect, address, TableStage(), DrainRequest(batch_id=self.scene.sealed, options=options)).run()

    def check(self, results: dict[str, list[int]]) -> None:
        """Check that no message is lost or duplicated, in batches, sink and queues."""
        for work in self._drained.keys() & results.keys():
            account = self._drained[work]
            account.check(self.scene.batches[work])
            assert account.queued() == 0
            assert results[work] == [90]
        if "read" in results:
            assert results["read"] == list(range(60))
        if "stream" in results:
            assert self._sink() == list(range(60))
        if "write" in results:
            with self._connect() as session:
                sent = QueueTable(session, self._address_of.resolve(self.scene.queues["write"])).peek(200)
            assert sorted(int(message.body) for message in sent) == list(range(60))

    def _sink(self) -> list[int]:
        """The bodies that the sink of the stream has: in the files that its log names, and in no others."""
        logs = [path for path in (self.scene.sink / "_spark_metadata").iterdir() if path.name.isdigit()]
        entries = [json.loads(line) for log in logs for line in log.read_text().splitlines()[1:]]
        files = {urlsplit(entry["path"]).path for entry in entries}
        return sorted(int(body) for file in files for body in pq.read_table(file)["Body"].to_pylist())


@pytest.fixture
def accounts(
    connect: Connect, address_of: AddressResolver, settings: ConnectionSettings, tmp_path: Path
) -> Iterator[Accounts]:
    name = f"cluster.{uuid.uuid4().hex[:12]}"
    queues = {work: f"{name}.{work}" for work in WORKS}
    scene = Scene(settings, queues, {"files": uuid.uuid4(), "table": uuid.uuid4()}, uuid.uuid4(), tmp_path, name)
    with connect() as session:
        for queue in queues.values():
            create_queue(session, address_of.resolve(queue))
        found = Accounts(scene, connect, address_of)
        found.send()
        yield found
        for queue in queues.values():
            drop_queue(session, address_of.resolve(queue), force=True)


def barrier_of(scene: Scene, works: tuple[str, ...], victim: str, driver: Driver) -> KillBarrier:
    folder = scene.folder / "barrier"
    folder.mkdir()
    return KillBarrier(folder, works, victim, driver.group)


SHORT = [(EXECUTOR, tuple(work for work in WORKS if work in ("files", "stream")))]


@pytest.mark.parametrize(("victim", "works"), [(WORKER, ("files", "table")), (EXECUTOR, WORKS)] if LONG else SHORT)
def test_an_executor_or_a_worker_is_lost(
    cluster: SparkCluster, drivers: list[Driver], accounts: Accounts, victim: str, works: tuple[str, ...]
) -> None:
    driver = drivers[-1]
    barrier = barrier_of(accounts.scene, works, victim, driver)
    driver.begin(work_at_once, accounts.scene, works, barrier)
    results = driver.result()
    assert results.keys() == set(works)
    accounts.check(results)
    assert barrier.over
    if victim == WORKER:
        cluster.add_worker()


def test_a_driver_is_lost_and_another_one_goes_on(
    cluster: SparkCluster, drivers: list[Driver], accounts: Accounts
) -> None:
    driver = drivers[-1]
    works = WORKS if LONG else tuple(work for work in WORKS if work in ("table", "stream", "write"))
    driver.begin(work_at_once, accounts.scene, works, barrier_of(accounts.scene, works, DRIVER, driver))
    assert driver.was_killed()
    drivers.append(Driver(cluster, EXECUTORS))
    drivers[-1].begin(work_at_once, accounts.scene, works, None)
    results = drivers[-1].result()
    assert results.keys() == set(works)
    accounts.check(results)
