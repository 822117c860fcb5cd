"""Fixtures of the fault tests; ``SQLQUEUE_FAULTS=long`` (``make faults``) runs them at length."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator

import pytest

from airflow_sqlqueue.drain.stages.base import Stage
from airflow_sqlqueue.drain.stages.files import FileStage
from airflow_sqlqueue.drain.stages.table import TableStage
from airflow_sqlqueue.drain.storage.folder import StagingFolder
from airflow_sqlqueue.queue import QueueTable
from tests.contract.conftest import Connect, run_sql
from tests.faults.account import Account

LONG = os.environ.get("SQLQUEUE_FAULTS") == "long"


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
        for table in ("orders", "orders.Delayed", "billing", "audit", "acknowledged", "error", "parked", "Archive"):
            run_sql(session, f"DROP TABLE IF EXISTS [{name}].[{table}]")
        run_sql(session, f"DROP SCHEMA [{name}]")


@pytest.fixture(params=["files", "table"])
def stage(request: pytest.FixtureRequest, staging: StagingFolder) -> Stage:
    """Stage of a drain: files or a table."""
    return FileStage(staging) if request.param == "files" else TableStage()


@pytest.fixture
def account(connect: Connect, queue: QueueTable, staging: StagingFolder) -> Account:
    """The account of an empty queue: nothing was sent yet."""
    return Account(connect, queue.address, staging)
