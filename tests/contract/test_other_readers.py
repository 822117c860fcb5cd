"""Staged files as DuckDB and Polars read them, which know nothing of this package."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import duckdb
import polars
import pytest

from airflow_sqlqueue.drain.batch_reader import batch_rows
from airflow_sqlqueue.drain.ledger import Ledger
from airflow_sqlqueue.drain.manifest import Batch
from airflow_sqlqueue.drain.options import DrainOptions
from airflow_sqlqueue.drain.storage.folder import StagingFolder
from airflow_sqlqueue.messages.message import Message
from airflow_sqlqueue.queue import QueueTable
from tests.contract.conftest import Connect
from tests.drains import drain

Rows = list[dict[str, Any]]
SMALL = DrainOptions(rows_per_statement=7, rows_per_part=7, inline_body_bytes=1_000, locked_wait_seconds=0)


def by_duckdb(paths: list[str]) -> Rows:
    with duckdb.connect() as connection:
        found = connection.sql("SELECT * FROM read_parquet($paths) ORDER BY RowVersion", params={"paths": paths})
        rows: Rows = found.to_arrow_table().to_pylist()
        return rows


def by_polars(paths: list[str]) -> Rows:
    return polars.read_parquet(paths).sort("RowVersion").to_dicts()


@pytest.mark.parametrize("read", [by_duckdb, by_polars])
def test_a_batch_is_read_from_the_files_of_its_manifest(
    connect: Connect, queue: QueueTable, tmp_path: Path, read: Callable[[list[str]], Rows]
) -> None:
    """All columns, in several parts, from a folder with blanks and letters; a large body is in the file beside."""
    sent = [Message({"n": f"{n} ☃"}, b"\x00body %d" % n, id=uuid.uuid4()) for n in range(20)]
    sent[3] = Message("no JSON", b"", id=uuid.uuid4(), time_to_be_received=timedelta(days=1))
    sent[4] = Message({}, b"x" * 5_000, id=uuid.uuid4())
    queue.send(sent)
    batch = drain(connect, queue, StagingFolder.of(tmp_path / "a folder ü"), SMALL).batch
    manifest = json.loads(json.dumps(batch.to_dict()))
    assert len(manifest["paths"]) > 2
    rows = read(manifest["paths"])
    with connect() as session:
        ledger = Ledger(session, queue.address.catalog)
        expected = list(batch_rows(ledger, uuid.UUID(batch.batch_id), batch.stage))
    assert [row["Id"] for row in rows] == [str(message.id) for message in sent]
    assert [row["RowVersion"] for row in rows] == [row.row_version for row in expected]
    assert [row["Headers"] for row in rows] == [row.headers for row in expected]
    assert json.loads(rows[0]["Headers"]) == {"n": "0 ☃"}
    assert [row["Body"] for row in rows] == [None if n == 4 else message.body for n, message in enumerate(sent)]
    assert Path(rows[4]["BodyFile"].removeprefix("file://")).read_bytes() == sent[4].body
    left = rows[3]["Expires"].replace(tzinfo=timezone.utc) - datetime.now(timezone.utc)
    assert timedelta(hours=23) < left <= timedelta(days=1, minutes=5)
    assert {row["Expired"] for row in rows} == {False}
    assert Batch.from_dict(manifest) == batch
