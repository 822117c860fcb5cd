"""A batch that is staged in a table, read by Spark's tasks from the server."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_sqlqueue.drain.drain import Drain
from airflow_sqlqueue.drain.manifest import Batch
from airflow_sqlqueue.drain.options import DrainOptions
from airflow_sqlqueue.drain.stage import Stage
from airflow_sqlqueue.drain.staging import StagingFolder
from airflow_sqlqueue.drain.to_files import FileStage
from airflow_sqlqueue.drain.to_table import TableStage
from airflow_sqlqueue.message import Message
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.server.settings import ConnectionSettings
from airflow_sqlqueue.spark import read_batch, verify_count
from airflow_sqlqueue.traffic import generate
from tests.contract.conftest import (  # noqa: F401 - fixtures
    Connect,
    address_of,
    connect,
    queue,
    queue_name,
    run_sql,
    server_url,
    settings,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Drained = Callable[[Stage], Batch]


@pytest.fixture
def drained(connect: Connect, queue: QueueTable) -> Drained:  # noqa: F811
    """Drain the queue in parts of 100 messages."""

    def run(stage: Stage) -> Batch:
        options = DrainOptions(rows_per_statement=30, rows_per_part=100, keep_expired=True)
        return Drain(connect, queue.address, stage, options=options).run().batch

    return run


def values(df: DataFrame) -> list[tuple[Any, ...]]:
    """All rows, with what differs between two times that the same messages were sent left out."""
    names = [name for name in df.columns if name not in {"RowVersion", "BodyFile"}]
    return sorted((tuple(row) for row in df.select(*names).collect()), key=repr)


def test_it_reads_what_files_would_have(
    spark: SparkSession,
    queue: QueueTable,  # noqa: F811
    drained: Drained,
    settings: ConnectionSettings,  # noqa: F811
    tmp_path: Path,
) -> None:
    messages = [replace(message, id=uuid.uuid4()) for message in generate(700, seed=3)]
    messages += [
        Message("", b"", timedelta(seconds=-5), uuid.uuid4()),
        Message("cut {", b"\0" * 300_000, None, uuid.uuid4()),
        Message({"Grüße": "☃ 😀"}, b"\xff", None, uuid.uuid4()),
    ]
    messages = [
        message if message.time_to_be_received is None else replace(message, time_to_be_received=timedelta(-1))
        for message in messages
    ]
    queue.send(messages)
    files = drained(FileStage(StagingFolder.of(tmp_path)))
    queue.send(messages)
    table = drained(TableStage())
    assert (table.messages, table.parts, table.paths) == (703, 8, ())
    from_files, from_table = read_batch(spark, files), read_batch(spark, table, settings)
    assert from_table.schema.jsonValue().keys() == from_files.schema.jsonValue().keys()
    assert [(field.name, field.dataType) for field in from_table.schema] == [
        (field.name, field.dataType) for field in from_files.schema
    ]
    assert verify_count(from_table, table) == 703
