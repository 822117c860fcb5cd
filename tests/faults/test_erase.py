"""Erasures that are killed at every step: the batch is as it was or without the messages, and a repetition ends it."""

from __future__ import annotations

import json
import os
import signal
import uuid
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from airflow_sqlqueue.drain.batch_reader import batch_rows
from airflow_sqlqueue.drain.erase import EraseRequest, erase
from airflow_sqlqueue.drain.ledger import Ledger
from airflow_sqlqueue.drain.locks import BatchLocks
from airflow_sqlqueue.drain.options import DrainOptions
from airflow_sqlqueue.drain.stages.table import TableStage
from airflow_sqlqueue.drain.storage.folder import StagingFolder
from airflow_sqlqueue.messages.message import Message
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.server.session import Session
from airflow_sqlqueue.server.settings import ConnectionSettings
from tests.conftest import Connect
from tests.drains import drain
from tests.forks import fork

DRAIN = "airflow_sqlqueue.drain"
STEPS = {
    "before a file is written": (f"{DRAIN}.erased_parts", "FileEraser.rewrite", "before", 1),
    "while a file is written": (f"{DRAIN}.stages.part_file", "PartFile.write_batch", "after", 1),
    "after a body is copied": (f"{DRAIN}.stages.part_file", "PartFile.write_body", "after", 1),
    "after the files are written": (f"{DRAIN}.erased_parts", "FileEraser.rewrite", "after", 1),
    "in the transaction": (f"{DRAIN}.ledger", "Ledger.replace_parts", "after", 1),
    "at the end of the transaction": (f"{DRAIN}.erased_parts", "FileEraser.publish", "after", 1),
    "after the transaction": (f"{DRAIN}.erased_parts", "FileEraser.remove_unlisted", "before", 1),
    "before an old file is removed": (f"{DRAIN}.erased_parts", "remove", "before", 2),
    "after all files are removed": (f"{DRAIN}.erased_parts", "FileEraser.remove_unlisted", "after", 1),
}
TABLE_STEPS = {
    "after rows are deleted": (f"{DRAIN}.stages.staging_table", "MessageTable.erase", "after", 1),
    "in the transaction": STEPS["in the transaction"],
    "after the transaction": (f"{DRAIN}.locks", "BatchLocks.release", "before", 1),
}
OPTIONS = DrainOptions(rows_per_statement=5, rows_per_part=10, inline_body_bytes=300, locked_wait_seconds=0, workers=1)
ALL, REST = list(range(30)), [n for n in range(30) if n % 3 != 1]
REQUEST: dict[str, Any] = {"headers": {"Person": "b"}}


def die_at(module: str, name: str, when: str, nth: int) -> None:
    """Let the process kill itself before or after the nth call of a function."""
    owner: Any = import_module(module)
    *owners, last = name.split(".")
    for each in owners:
        owner = vars(owner)[each]
    function: Callable[..., Any] = vars(owner)[last]
    calls = 0

    def dying(*arguments: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == nth and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        result = function(*arguments, **named)
        if calls == nth:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    setattr(owner, last, dying)


def erase_and_die(url: str, catalog: str, batch_id: uuid.UUID, step: tuple[str, str, str, int]) -> None:
    settings = ConnectionSettings.from_url(url)
    die_at(*step)
    with Session(settings) as session, BatchLocks(lambda: Session(settings), catalog) as locks:
        erase(Ledger(session, catalog), locks, EraseRequest(**REQUEST, batch_ids=[batch_id]))


def numbers(connect: Connect, catalog: str, batch_id: uuid.UUID) -> list[int]:
    with connect() as session:
        ledger = Ledger(session, catalog)
        batch = ledger.manifest(batch_id)
        rows = list(batch_rows(ledger, batch_id, batch.stage))
    assert batch.messages == len(rows)
    return [json.loads(row.body or b"")["Id"] for row in rows]


def persons(staging: StagingFolder) -> set[str]:
    """Persons in all part files, those of the ledger and others."""
    tables = [pq.read_table(file) for file in Path(staging.root).rglob("*.parquet")]
    return {json.loads(headers)["Person"] for table in tables for headers in table["Headers"].to_pylist()}


CASES = [("files", step) for step in STEPS] + [("table", step) for step in TABLE_STEPS]


@pytest.mark.parametrize(("stage", "step"), CASES)
def test_a_kill_leaves_the_old_or_the_new_batch(
    connect: Connect, queue: QueueTable, staging: StagingFolder, server_url: str, stage: str, step: str
) -> None:
    queue.send(
        Message({"Person": "abc"[n % 3]}, json.dumps({"Id": n, "Note": "x" * (400 if n % 10 == 1 else 0)}).encode())
        for n in range(30)
    )
    batch = drain(connect, queue, staging if stage == "files" else TableStage(), OPTIONS).batch
    batch_id, catalog = uuid.UUID(batch.batch_id), queue.address.catalog
    kill = (STEPS if stage == "files" else TABLE_STEPS)[step]
    process = fork(erase_and_die, server_url, catalog, batch_id, kill)
    process.join(60)
    assert process.exitcode == -signal.SIGKILL
    committed = step in ("after the transaction", "before an old file is removed", "after all files are removed")
    assert sorted(numbers(connect, catalog, batch_id)) == (REST if committed else ALL)
    with BatchLocks(connect, catalog) as locks, connect() as session:
        # The server notices the end of the killed process only after a moment.
        assert locks.take(batch_id, wait=30)
        done = erase(Ledger(session, catalog), locks, EraseRequest(**REQUEST, batch_ids=[batch_id]))
    assert done.messages == (0 if committed else 10)
    assert sorted(numbers(connect, catalog, batch_id)) == REST
    assert persons(staging) == ({"a", "c"} if stage == "files" else set())
    parts = Ledger(queue.session, catalog).parts(batch_id)
    assert len(list(Path(staging.root).rglob("*.parquet"))) == sum(part.path is not None for part in parts)
