"""Batches that are drained, and a ledger of their own."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta

import pytest

from airflow_sqlqueue.drain.ledger import Ledger
from airflow_sqlqueue.drain.manifest import Batch
from airflow_sqlqueue.drain.options import SweepOptions
from airflow_sqlqueue.drain.request import DrainRequest
from airflow_sqlqueue.drain.stages.base import Stage
from airflow_sqlqueue.drain.stages.files import FileStage
from airflow_sqlqueue.drain.stages.table import TableStage
from airflow_sqlqueue.drain.storage.folder import StagingFolder
from airflow_sqlqueue.drain.sweep import sweep
from airflow_sqlqueue.drain.worker import Worker, WorkPlan
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.queue.window import Window
from airflow_sqlqueue.server.session import Session
from airflow_sqlqueue.server.settings import ConnectionSettings
from tests.contract.conftest import Connect, drop_schema
from tests.drains import SMALL_PARTS, fill
from tests.drains import drain as drain_queue

SCHEMA = f"batches_{uuid.uuid4().hex[:10]}"
"""A ledger of this module's own: a sweep takes whatever is past its retention."""

NOW = SweepOptions(retain=timedelta(0), grace=timedelta(0))

DrainIt = Callable[..., Batch]


@pytest.fixture(scope="session")
def settings(settings: ConnectionSettings) -> ConnectionSettings:
    return replace(settings, ledger_schema=SCHEMA)


@pytest.fixture(scope="module", autouse=True)
def ledger_schema(settings: ConnectionSettings) -> Iterator[None]:
    """Drop the ledger afterwards."""
    yield
    with Session(settings) as session:
        drop_schema(session, SCHEMA)


@pytest.fixture(params=["files", "table"])
def stage(
    request: pytest.FixtureRequest, queue_name: str, settings: ConnectionSettings, staging: StagingFolder
) -> Iterator[Stage]:
    """Each of the stages; the fixture sweeps finished rows of the table, which other sweeps would see."""
    yield FileStage(staging) if request.param == "files" else TableStage()
    with Session(settings) as session:
        sweep(Ledger(session, settings.database), None, NOW)


@pytest.fixture
def ledger(queue: QueueTable) -> Ledger:
    ledger = Ledger(queue.session, queue.address.catalog)
    ledger.create()
    return ledger


@pytest.fixture
def drain(connect: Connect, queue: QueueTable, staging: StagingFolder) -> DrainIt:
    """Send this number of messages and drain them."""

    def run(
        count: int = 0,
        *,
        staging: StagingFolder | Stage = staging,
        batch_id: uuid.UUID | None = None,
        settings: ConnectionSettings | None = None,
    ) -> Batch:
        fill(queue, count)
        open_session = connect if settings is None else lambda: Session(settings)
        return drain_queue(open_session, queue, staging, batch_id=batch_id).batch

    return run


def worker_of(queue: QueueTable, batch_id: uuid.UUID, staging: StagingFolder | Stage) -> Worker:
    stage = FileStage(staging) if isinstance(staging, StagingFolder) else staging
    work = WorkPlan(batch_id, queue.address, stage, SMALL_PARTS)
    return Worker(queue.session, replace(work, folder=work.ledger(queue.session).folder(batch_id)))


def open_batch(queue: QueueTable, ledger: Ledger, staging: StagingFolder | Stage, parts: int) -> uuid.UUID:
    """A batch that was interrupted after this number of parts."""
    batch_id = uuid.uuid4()
    name = "files" if isinstance(staging, StagingFolder) else staging.name
    ledger.open(batch_id, queue.address.canonical, queue.ends()[1], name, DrainRequest(origin="test"))
    worker = worker_of(queue, batch_id, staging)
    for _ in range(parts):
        assert worker.drain_part(Window(), None) is not None
    return batch_id
