"""Fixtures of the fault tests; ``SQLQUEUE_FAULTS=long`` (``make faults``) runs them at length.

``SQLQUEUE_KILLS`` is the number of kills of each kind of work, and ``SQLQUEUE_SEED`` the seed of their moments.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from functools import partial

import pytest

from airflow_sqlqueue import QueueClient
from airflow_sqlqueue.drain import worker
from airflow_sqlqueue.drain.stages.base import Stage
from airflow_sqlqueue.drain.stages.files import FileStage
from airflow_sqlqueue.drain.stages.table import TableStage
from airflow_sqlqueue.drain.storage.folder import StagingFolder
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.server import reconnecting
from airflow_sqlqueue.server.settings import ConnectionSettings
from tests.contract.conftest import Connect, drop_schema, run_sql
from tests.faults.account import Account
from tests.faults.killing import KILLS, LONG, MANY, SEED
from tests.faults.proxy import Proxy

__all__ = ["KILLS", "LONG", "MANY", "SEED"]


def pytest_report_header() -> str:
    return f"kills of each kind of work: {KILLS}, by the seed {SEED}"


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """A drain looks soon whether the rows that a dead session held are free, and lost connections are soon replaced."""
    monkeypatch.setattr(worker, "LONGEST_WAIT", 0.1)
    if not LONG:
        monkeypatch.setattr(reconnecting, "pause_after", partial(reconnecting.pause_after, first=0.02))


@pytest.fixture
def batch_id() -> uuid.UUID:
    return uuid.uuid4()


@pytest.fixture
def schema(connect: Connect) -> Iterator[str]:
    """A schema of the test's own, for the queues of consumers; it goes with its tables."""
    name = f"s{uuid.uuid4().hex[:10]}"
    with connect() as session:
        run_sql(session, f"CREATE SCHEMA [{name}]")
        yield name
        drop_schema(session, name)


@pytest.fixture(params=["files", "table"])
def stage(request: pytest.FixtureRequest, staging: StagingFolder) -> Stage:
    """Stage of a drain: files or a table."""
    return FileStage(staging) if request.param == "files" else TableStage()


@pytest.fixture
def account(connect: Connect, queue: QueueTable, staging: StagingFolder) -> Account:
    """The account of an empty queue: nothing was sent yet."""
    return Account(connect, queue.address, staging)


@pytest.fixture
def proxy(settings: ConnectionSettings) -> Iterator[Proxy]:
    with Proxy(settings) as proxy:
        yield proxy


@pytest.fixture
def queues(settings: ConnectionSettings) -> Iterator[dict[str, str]]:
    """Addresses of the queues of an endpoint, by what they are for."""
    client, own = QueueClient(settings), uuid.uuid4().hex[:10]
    queues = {name: f"test.{own}.{name}" for name in ("orders", "billing", "error")}
    for name in queues.values():
        client.tables.create(name)
    yield queues
    for name in queues.values():
        client.tables.drop(name, force=True)
