"""A batch that is staged in a table, read by Spark's tasks from the server."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

import pytest

from airflow_sqlqueue.drain.ledger import Ledger, Part
from airflow_sqlqueue.drain.manifest import Batch
from airflow_sqlqueue.drain.options import DrainOptions
from airflow_sqlqueue.drain.requeue import requeue
from airflow_sqlqueue.drain.stages.base import Stage
from airflow_sqlqueue.drain.stages.files import FileStage
from airflow_sqlqueue.drain.stages.table import TableStage
from airflow_sqlqueue.drain.storage.folder import StagingFolder
from airflow_sqlqueue.errors import BatchError, BatchMismatchError, ConfigurationError, StagingError
from airflow_sqlqueue.messages.message import Message
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.server.settings import ConnectionSettings
from airflow_sqlqueue.spark import read_batch, verify_count
from airflow_sqlqueue.spark.batch import raw_schema
from airflow_sqlqueue.spark.source.columns import SelectedColumns
from airflow_sqlqueue.spark.source.options import ServerAccess
from airflow_sqlqueue.spark.source.staged import TASK_BYTES, BatchShare, read_share, share_out
from airflow_sqlqueue.traffic import generate
from tests.contract.conftest import Connect, run_sql
from tests.drains import drain, fill

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Drained = Callable[..., Batch]


@pytest.fixture
def drained(connect: Connect, queue: QueueTable) -> Drained:
    """Drain the queue in parts of 100 messages; into the table where no stage is given."""

    def run(stage: Stage | None = None, count: int = 0) -> Batch:
        fill(queue, count)
        options = DrainOptions(rows_per_statement=30, rows_per_part=100, keep_expired=True)
        return drain(connect, queue, stage or TableStage(), options).batch

    return run


def test_a_batch_in_a_table_reads_like_one_in_files(
    spark: SparkSession,
    queue: QueueTable,
    drained: Drained,
    settings: ConnectionSettings,
    tmp_path: Path,
) -> None:
    """Column by column, but for the RowVersion, which a second send of the same messages changes."""
    messages = [replace(message, id=uuid.uuid4(), time_to_be_received=None) for message in generate(250, seed=3)]
    messages += [
        Message("", b"", None, uuid.uuid4()),
        Message("cut {", b"\0" * 300_000, None, uuid.uuid4()),
        Message({"Grüße": "☃ 😀"}, b"\xff", None, uuid.uuid4()),
    ]
    batches = []
    for stage in (FileStage(StagingFolder.of(tmp_path)), TableStage()):
        queue.send(messages)
        run_sql(queue.session, _TOUCHES.format(table=queue.address.qualified_name))
        batches.append(drained(stage))
    files, table = batches
    assert (table.messages, table.parts, table.paths) == (253, 3, ())
    read = [read_batch(spark, files), read_batch(spark, table, settings)]
    schemas = [[(field.name, field.dataType) for field in df.schema] for df in read]
    assert schemas[0] == schemas[1]
    names = [name for name in read[0].columns if name != "RowVersion"]
    from_files, from_table = ({row["Id"]: row for row in df.select(*names).collect()} for df in read)
    assert len(from_table) == 253
    assert from_table == from_files
    assert sum(row["Expires"] is not None for row in from_table.values()) > 20
    assert verify_count(read[1], table) == 253


_TOUCHES = """
UPDATE {table} SET [Expires] = '2020-02-29T23:59:59.997' WHERE DATALENGTH([Body]) % 4 = 1;
UPDATE {table} SET [Body] = NULL, [Recoverable] = 0 WHERE CAST([Headers] AS nvarchar(max)) = N'';
UPDATE {table} SET [CorrelationId] = '', [ReplyToAddress] = 'x ' WHERE [Body] = 0xFF;
"""


def test_the_login_is_in_no_plan_and_no_event_log(
    spark: SparkSession,
    drained: Drained,
    settings: ConnectionSettings,
) -> None:
    assert settings.password
    df = read_batch(spark, drained(count=3), settings)
    assert df.count() == 3
    plan = df._jdf.queryExecution().toString()
    folder = Path(urlsplit(str(spark.sparkContext.getConf().get("spark.eventLog.dir"))).path)
    log = "".join(path.read_text("utf-8") for path in folder.rglob("*") if path.is_file())
    assert "MapInArrow" in plan
    assert "MapInArrow" in log
    for text in (plan, log):
        assert settings.password not in text
        assert "ConnectionSettings" not in text


def test_missing_messages_are_noticed(
    spark: SparkSession,
    queue: QueueTable,
    drained: Drained,
    settings: ConnectionSettings,
) -> None:
    batch = drained(count=3)
    df = read_batch(spark, batch, settings)
    with pytest.raises(BatchMismatchError, match="has 4 messages, the ledger 3"):
        read_batch(spark, replace(batch, messages=4), settings)
    run_sql(queue.session, f"DELETE TOP (1) FROM [sqlqueue].[BatchMessage] WHERE [BatchId] = '{batch.batch_id}'")
    with pytest.raises(BatchMismatchError, match="not in its table any more"):
        verify_count(df, batch)


def test_a_message_changed_to_poison_is_reported_and_not_quoted(
    connect: Connect,
    queue: QueueTable,
    drained: Drained,
    settings: ConnectionSettings,
) -> None:
    batch_id = uuid.UUID(drained(count=3).batch_id)
    poison = "UPDATE [sqlqueue].[BatchMessage] SET [Headers] = N'secret ' + NCHAR(0xD83D)"
    run_sql(queue.session, f"{poison} WHERE [BatchId] = '{batch_id}' AND [Body] = CAST('body 1' AS varbinary(max))")
    catalog = queue.address.catalog
    with connect() as session:
        (part,) = Ledger(session, catalog).parts(batch_id)
    access, columns = ServerAccess(settings=settings), SelectedColumns.of(raw_schema())
    with pytest.raises(StagingError, match=r"\d+ \(RowVersion\) .*half a surrogate pair") as raised:
        list(read_share(access, columns, BatchShare(catalog, batch_id, "table", (part,))))
    assert raised.value.__cause__ is raised.value.__context__ is None


def test_a_batch_that_was_put_back_is_refused(
    spark: SparkSession,
    queue: QueueTable,
    drained: Drained,
    settings: ConnectionSettings,
) -> None:
    batch = drained(count=3)
    requeue(Ledger(queue.session, queue.address.catalog), uuid.UUID(batch.batch_id))
    with pytest.raises(BatchError, match="was put back into its queue"):
        read_batch(spark, batch, settings)


def test_an_empty_batch(spark: SparkSession, drained: Drained, settings: ConnectionSettings) -> None:
    batch = drained()
    assert verify_count(read_batch(spark, batch, settings), batch) == 0


def test_without_a_connection_or_a_master(settings: ConnectionSettings) -> None:
    batch = Batch(str(uuid.uuid4()), "audit@[dbo]@[shop]", "sealed", (), 1, stage="table", messages=1, bytes=1)
    with pytest.raises(ConfigurationError, match="give read_batch the connection to it"):
        read_batch(cast(Any, object()), batch)
    with pytest.raises(ConfigurationError, match="Spark Connect"):
        read_batch(cast(Any, object()), batch, settings)


def sizes(parts: list[int], at_least: int) -> list[list[int]]:
    made = [
        Part(uuid.uuid4(), None, messages=1, bytes=size, min_row_version=n, max_row_version=n)
        for n, size in enumerate(parts)
    ]
    return [[part.bytes for part in share] for share in share_out(made, at_least)]


def test_parts_are_shared_out_to_tasks() -> None:
    assert sizes([10], 4) == [[10]]
    assert sizes([10] * 8, 4) == [[10, 10]] * 4
    assert sizes([0] * 5, 2) == [[0] * 5]
    assert sizes([5, 90, 5], 2) == [[5], [90], [5]]
    large = TASK_BYTES - 1
    assert sizes([large, 1, large, 2], 1) == [[large, 1], [large], [2]]
