"""The server is killed, with everything it runs, in the middle of a drain, and started again on the same data."""

from __future__ import annotations

import os
import random
import threading
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from airflow_sqlqueue.drain.options import DrainOptions
from airflow_sqlqueue.drain.stages.base import Stage
from airflow_sqlqueue.drain.storage.folder import StagingFolder
from airflow_sqlqueue.errors import ServerUnreachableError
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.server.session import Session
from airflow_sqlqueue.server.settings import ConnectionSettings
from fakemssql import FakeServer
from tests.contract.conftest import Connect
from tests.drains import drain
from tests.faults.account import Account
from tests.faults.conftest import LONG
from tests.faults.proxy import DURING, MOMENTS, Link, Proxy

SMALL_PARTS = DrainOptions(rows_per_statement=3, inline_body_bytes=8000, rows_per_part=6, locked_wait_seconds=20)
KILLS = 20 if LONG else 1

pytestmark = pytest.mark.skipif(
    "SQLQUEUE_TEST_SERVER" in os.environ, reason="the server that SQLQUEUE_TEST_SERVER names is not ours to kill"
)


@pytest.fixture(scope="module")
def own_server() -> Iterator[FakeServer]:
    """A server of this module's own, on data that outlive a kill."""
    with FakeServer(databases=["sqlqueue"]) as server:
        yield server


@pytest.fixture
def settings(own_server: FakeServer) -> ConnectionSettings:
    return ConnectionSettings.from_url(own_server.url())


def sessions(settings: ConnectionSettings) -> Connect:
    return lambda: Session(settings, lock_timeout=10)


@pytest.mark.parametrize("stage", ["files", "table"] if LONG else ["table"], indirect=True)
@pytest.mark.parametrize("moment", MOMENTS if LONG else [DURING])
def test_a_server_killed_around_commit_loses_and_duplicates_nothing(
    own_server: FakeServer,
    settings: ConnectionSettings,
    queue: QueueTable,
    stage: Stage,
    account: Account,
    batch_id: uuid.UUID,
    moment: str,
) -> None:
    """The drain waits for the server to come back, asks the ledger, and goes on."""
    account.send(60)
    killed = threading.Event()

    def kill(link: Link) -> None:
        own_server.kill()
        link.cut()
        killed.set()

    with Proxy(settings) as proxy, ThreadPoolExecutor(1) as pool:
        # The name of the worker, in the round trip that holds the ledger row and COMMIT.
        proxy.set_trap(f":{os.getpid()}:", moment, kill)
        draining = pool.submit(drain, sessions(proxy.settings), queue, stage, SMALL_PARTS, batch_id=batch_id)
        assert killed.wait(60)
        own_server.restart()
        result = draining.result(120)
        assert proxy.left == 0
    assert (result.batch.state, result.locked) == ("sealed", 0)
    account.check(batch_id)
    assert account.queued() == 0


def test_a_server_that_stays_away_ends_the_try_and_not_the_batch(
    own_server: FakeServer,
    settings: ConnectionSettings,
    queue: QueueTable,
    staging: StagingFolder,
    account: Account,
    batch_id: uuid.UUID,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The try ends with an error; the next one resumes the batch."""
    monkeypatch.setattr("airflow_sqlqueue.server.reconnecting.pause_after", lambda _: 0)
    monkeypatch.setattr("airflow_sqlqueue.server.reconnecting.MAX_SECONDS", 0)
    account.send(60)

    def kill(link: Link) -> None:
        own_server.kill()
        link.cut()

    with Proxy(settings) as proxy:
        proxy.set_trap(f":{os.getpid()}:", DURING, kill)
        with pytest.raises(ServerUnreachableError):
            drain(sessions(proxy.settings), queue, staging, SMALL_PARTS, batch_id=batch_id)
    own_server.restart()
    account.check(batch_id)
    result = drain(sessions(settings), queue, staging, SMALL_PARTS, batch_id=batch_id)
    assert (result.batch.state, result.locked) == ("sealed", 0)
    account.check(batch_id)
    assert account.queued() == 0


@pytest.mark.timeout(1800)
def test_a_server_killed_at_random_moments_loses_and_duplicates_nothing(
    own_server: FakeServer, settings: ConnectionSettings, connect: Connect, queue: QueueTable, staging: StagingFolder
) -> None:
    chance = random.Random(2)

    def kill() -> None:
        own_server.kill()
        own_server.restart()

    for turn in range(KILLS):
        account, batch_id = Account(connect, queue.address, staging), uuid.uuid4()
        account.send(150, seed=turn)
        killing = threading.Timer(chance.uniform(0, 0.5), kill)
        killing.start()
        result = drain(sessions(settings), queue, staging, SMALL_PARTS, batch_id=batch_id)
        killing.join()
        assert (result.batch.state, result.locked) == ("sealed", 0)
        account.check(batch_id)
        assert account.queued() == 0
