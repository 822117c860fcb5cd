"""The connection is cut before, during and after the round trips that decide, or passes COMMIT on too late."""

from __future__ import annotations

import os
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest

from airflow_sqlqueue.drain.drain import Drain, DrainResult
from airflow_sqlqueue.drain.options import DrainOptions
from airflow_sqlqueue.drain.request import DrainRequest
from airflow_sqlqueue.drain.stages.base import Stage
from airflow_sqlqueue.drain.stages.files import FileStage
from airflow_sqlqueue.drain.storage.folder import StagingFolder
from airflow_sqlqueue.errors import BatchError, SqlQueueError, TransientError
from airflow_sqlqueue.messages.message import Message
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.server.session import Session
from airflow_sqlqueue.server.sql import Query
from tests.contract.conftest import Connect
from tests.drains import drain
from tests.faults.account import Account
from tests.faults.conftest import LONG
from tests.faults.proxy import BEFORE, DURING, MOMENTS, Link, Proxy

OPTIONS = DrainOptions(rows_per_statement=7, rows_per_part=20, locked_wait_seconds=20)

WORKER = f":{os.getpid()}:"
ROUND_TRIPS = {
    "delete": "DELETE FROM head",
    # The worker's name travels in the round trip that holds the ledger row and COMMIT, whether the driver sends the
    # statement's text with it or the handle under which the server knows it.
    "commit": WORKER,
    "seal": "SET [State] = 'sealed'",
    "open": "'open', @P",
}
OF_EACH = {"delete": ("files", "table"), "seal": ("table",), "open": ("files",)}
"""Stages of the short form: a batch is opened and sealed alike in both."""


def drain_twice(proxy: Proxy, queue: QueueTable, stage: Stage, batch_id: uuid.UUID) -> DrainResult:
    """As Airflow does it: a try that fails for a reason that passes is followed by another with the same batch id."""

    def connect() -> Session:
        return Session(proxy.settings, lock_timeout=10)

    def attempt() -> DrainResult:
        return drain(connect, queue, stage, OPTIONS, batch_id=batch_id)

    try:
        return attempt()
    except TransientError:
        return attempt()


@pytest.mark.parametrize(
    ("round_trip", "moment", "stage"),
    [
        (round_trip, moment, stage)
        for round_trip in ROUND_TRIPS
        for moment in MOMENTS
        for stage in ("files", "table")
        # One that is cut during COMMIT is the subject of the test after the next.
        if LONG or (moment != DURING if round_trip == "commit" else moment == DURING and stage in OF_EACH[round_trip])
    ],
    indirect=["stage"],
)
def test_a_cut_connection_loses_and_duplicates_nothing(
    proxy: Proxy,
    queue: QueueTable,
    stage: Stage,
    account: Account,
    batch_id: uuid.UUID,
    round_trip: str,
    moment: str,
) -> None:
    account.send(50)
    proxy.set_trap(ROUND_TRIPS[round_trip], moment)
    result = drain_twice(proxy, queue, stage, batch_id)
    assert proxy.left == 0, "the connection was cut"
    assert (result.batch.state, result.locked) == ("sealed", 0)
    account.check(batch_id)
    assert account.queued() == 0


@pytest.mark.parametrize("moment", MOMENTS if LONG else [DURING])
def test_the_files_of_a_part_that_lost_its_server_before_the_commit_are_removed(
    proxy: Proxy, queue: QueueTable, staging: StagingFolder, batch_id: uuid.UUID, moment: str
) -> None:
    """The body was durable when the connection was cut at the DELETE of its row; the next part writes another file."""
    queue.send([Message({}, bytes([n]) * 9_000_000) for n in range(2)])
    proxy.set_trap("[RowVersion] = @P1 AND [Id] = @P2", moment)
    batch = drain_twice(proxy, queue, FileStage(staging), batch_id).batch
    assert proxy.left == 0, "the connection was cut"
    assert batch.messages == 2
    files = [path.name for path in Path(staging.root).rglob("*") if path.is_file()]
    assert sorted(name.partition("-")[0] for name in files) == ["body", "body"] + ["part"] * batch.parts


@pytest.mark.parametrize("moment", MOMENTS if LONG else [DURING])
def test_cut_after_cut_loses_and_duplicates_nothing(
    proxy: Proxy, queue: QueueTable, stage: Stage, account: Account, batch_id: uuid.UUID, moment: str
) -> None:
    """A COMMIT whose answer was lost is neither repeated nor given up: a new part is taken."""
    cuts = 6 if LONG else 2
    account.send(20 * cuts)
    proxy.set_trap(ROUND_TRIPS["commit"], moment, times=cuts)
    result = drain_twice(proxy, queue, stage, batch_id)
    assert proxy.left == 0
    assert (result.batch.state, result.locked) == ("sealed", 0)
    account.check(batch_id)
    assert account.queued() == 0


def test_a_commit_that_arrives_after_the_seal_is_undone(
    proxy: Proxy, connect: Connect, queue: QueueTable, stage: Stage, account: Account, batch_id: uuid.UUID
) -> None:
    """The network held it back; meanwhile another try sealed and listed the batch. The server undoes the part."""
    released = threading.Event()

    def hold_back(_: Link) -> None:
        assert released.wait(60)

    account.send(50)
    proxy.set_trap(ROUND_TRIPS["commit"], BEFORE, hold_back)
    impatient = replace(OPTIONS, locked_wait_seconds=0)
    with ThreadPoolExecutor(1) as pool:
        zombie = pool.submit(drain_twice, proxy, queue, stage, batch_id)
        try:
            assert proxy.sprung.wait(30)
            result = Drain(connect, queue.address, stage, DrainRequest(batch_id=batch_id, options=impatient)).run()
        finally:
            released.set()
        with pytest.raises(BatchError, match="was sealed meanwhile"):
            zombie.result(60)
    assert result.locked >= 1
    account.check(batch_id)
    assert account.queued() > 0


def test_parameters_are_whole_after_a_first_connection_that_is_cut(proxy: Proxy) -> None:
    """pyodbc keeps what the driver has told about itself on the first connection, and defaults where it has not."""
    moment = datetime(2026, 1, 2, 3, 4, 5, 678901)  # noqa: DTZ001 - the server's type has no zone
    proxy.set_trap("sp_datatype_info", BEFORE)
    with suppress(SqlQueueError), Session(proxy.settings):
        pass
    assert proxy.left == 0, "the connection was cut"
    with Session(proxy.settings) as session:
        assert session.value(Query("test.moment", "return a time", "SELECT CAST(? AS datetime2)"), moment) == moment
