"""Sinks that have each batch once: on a disk, on S3, and where Spark is killed before, in and after the commit."""

from __future__ import annotations

import re
import threading
import uuid
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from airflow_sqlqueue.drain.manifest import Batch
from airflow_sqlqueue.drain.options import DrainOptions
from airflow_sqlqueue.drain.storage.folder import StagingFolder
from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.messages.message import Message
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.queue.depth import depth
from airflow_sqlqueue.spark import MicroBatch, read_batch, write_delta, write_partitions
from airflow_sqlqueue.versions.spark import STREAMS
from tests.contract.conftest import Connect
from tests.drains import drain
from tests.faults.conftest import LONG
from tests.sinks.killing import kill
from tests.sinks.sinks_program import SINKS, sinks
from tests.stores.conftest import Bucket
from tests.stores.server import KEY, SECRET, S3Server

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MESSAGES = 12


def send(queue: QueueTable) -> dict[str, bytes]:
    """Messages by their id."""
    sent = [Message({}, b"%d" % n, id=uuid.uuid4()) for n in range(MESSAGES)]
    queue.send(sent)
    return {str(message.id): message.body for message in sent}


def drain_in_two_parts(connect: Connect, queue: QueueTable, staging: StagingFolder) -> Batch:
    options = DrainOptions(workers=1, rows_per_statement=6, rows_per_part=6)
    batch = drain(connect, queue, staging, options, batch_id=uuid.uuid4()).batch
    assert (batch.messages, batch.parts) == (MESSAGES, 2)
    return batch


def content(rows: DataFrame) -> Counter[tuple[str, bytes]]:
    return Counter(
        (row["message_id"].lower(), bytes(row["Body"])) for row in rows.select("message_id", "Body").collect()
    )


def table(spark: SparkSession, path: str, kind: str = "delta") -> Counter[tuple[str, bytes]]:
    return content(spark.read.format(kind).load(path))


@pytest.fixture
def rows(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame([(f"m{n}", b"x") for n in range(4)], "message_id string, Body binary")


def test_a_batch_is_in_a_delta_table_once(spark: SparkSession, rows: DataFrame, tmp_path: Path) -> None:
    """On a disk and in the catalog; micro-batches, and steps of one job, are distinguished."""
    path, first = str(tmp_path / "table"), uuid.uuid4()
    for batch in (first, uuid.uuid4(), str(first), MicroBatch("one", 0), MicroBatch("one", 1), MicroBatch("one", 0)):
        write_delta(rows, path, batch)
    for _ in range(2):
        write_delta(rows, path, first, step="failures")
    assert spark.read.format("delta").load(path).count() == 5 * 4
    spark.sql(f"RESTORE TABLE delta.`{path}` TO VERSION AS OF 0")
    write_delta(rows, path, MicroBatch("one", 1))
    assert spark.read.format("delta").load(path).count() == 4
    write_delta(rows, path, f"{first}-again")
    assert spark.read.format("delta").load(path).count() == 2 * 4
    for _ in range(2):
        write_delta(rows, "audited", first, partition_by=["message_id"])
    assert spark.table("audited").count() == 4
    assert spark.sql("DESCRIBE DETAIL audited").first()["partitionColumns"] == ["message_id"]


def test_a_merge_leaves_out_messages_that_are_there(spark: SparkSession, rows: DataFrame, tmp_path: Path) -> None:
    path = str(tmp_path / "a {rows} `table`")
    write_delta(rows, path, "first", merge_on="message_id")
    again = rows.where("message_id > 'm1'")
    more = again.unionByName(again.selectExpr("message_id || '+' AS message_id", "Body")).unionByName(again)
    for _ in range(2):
        write_delta(more, path, "second", merge_on=["message_id"])
    found = [row["message_id"] for row in spark.read.format("delta").load(path).collect()]
    assert sorted(found) == ["m0", "m1", "m2", "m2+", "m3", "m3+"]
    for name in ("merged", "default.merged"):
        write_delta(rows, name, "first", merge_on="message_id")
    assert spark.table("merged").count() == 4
    with pytest.raises(Exception, match="no value in a column of merge_on"):
        write_delta(rows.selectExpr("nullif(message_id, 'm1') AS message_id", "Body"), path, "x", merge_on="message_id")


def test_a_merge_leaves_no_column_out_in_silence(spark: SparkSession, rows: DataFrame, tmp_path: Path) -> None:
    more = rows.selectExpr("message_id || '+' AS message_id", "BODY", "1 AS `More.of it`")
    for table in (str(tmp_path / "table"), "columns_of_a_merge"):
        write_delta(rows, table, "first", merge_on="message_id")
        with pytest.raises(ConfigurationError, match=r"has no column 'More.of it', and a merge adds none"):
            write_delta(more, table, "second", merge_on="message_id")
        with pytest.raises(ConfigurationError, match="leave out merge_schema"):
            write_delta(more, table, "second", merge_on="message_id", merge_schema=True)
        write_delta(more.select("BODY", "message_id"), table, "second", merge_on="message_id")
        found = spark.read.format("delta").load(table) if "/" in table else spark.table(table)
        assert found.count() == 2 * rows.count()


class Doors:
    """Holds the requests at which the sinks are to be killed until all of them have come to theirs."""

    def __init__(self, point: str, names: list[str], root: str) -> None:
        log = "_delta_log/0{19}%d[.]json"
        commits = {
            "delta": f"PUT {root}/delta/{log % 0}",
            "merged": f"PUT {root}/merged/{log % 1}",
            "streamed": f"PUT {root}/streamed/{log % 0}",
            "lake": f"PUT {root}/lake/batch_id=[^/]+/part-",
        }
        staged = {**commits, "lake": f"PUT {root}/lake/[.]spark-staging-[^/]+/.*/part-"}
        self._before = staged if point == "before" else {}
        self._in = commits if point == "in" else {}
        self._names = set(names)
        self.held: set[str] = set()
        self.all_held, self._killed = threading.Event(), threading.Event()

    def enter(self, request: str) -> None:
        self._hold(self._before, request)

    def leave(self, request: str) -> None:
        self._hold(self._in, request)

    def open(self) -> None:
        self._killed.set()

    def _hold(self, held: dict[str, str], request: str) -> None:
        for name, pattern in held.items():
            if re.match(pattern, request):
                self.held.add(name)
                if self.held == self._names:
                    self.all_held.set()
                self._killed.wait(300)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("point", ["before", "in", "after"] if LONG else ["in"])
def test_killed_and_run_again(
    point: str,
    spark: SparkSession,
    config: dict[str, str],
    s3: S3Server,
    bucket: Bucket,
    staging: StagingFolder,
    connect: Connect,
    queue: QueueTable,
    server_url: str,
    tmp_path: Path,
) -> None:
    """From the queue to S3 and from there to tables on S3. Spark dies when all has been written but the commit, when
    the store has taken the commit and not answered, or before the job could say that it had ended.

    The folder is killed when its first file was moved to where an earlier run's files were.
    """
    in_batch = send(queue)
    batch = drain_in_two_parts(connect, queue, staging)
    in_queue = send(queue)
    plan = {
        "config": config,
        "batch": batch.to_dict(),
        "root": f"s3a://{bucket.name}/tables",
        "server": server_url,
        "queue": queue.address.canonical,
        "stream": f"sinks {uuid.uuid4()}",
        "checkpoint": str(tmp_path / "checkpoint"),
        # A merge commits as an append does, and takes longest.
        "sinks": [
            name
            for name in SINKS
            if (name != "merged" or point == "in") and (name != "streamed" or STREAMS.is_available)
        ],
    }
    if point == "in":
        sinks(spark, plan)["lake"]()
    doors = Doors(point, plan["sinks"], f"/{bucket.name}/tables")
    with s3.behind(doors.enter, doors.leave):
        kill(plan, tmp_path, None if point == "after" else doors.all_held)
        doors.open()
    for sink in sinks(spark, plan).values():
        sink()
    root = plan["root"]
    assert table(spark, f"{root}/delta") == Counter(in_batch.items())
    assert point != "in" or table(spark, f"{root}/merged") == Counter(in_batch.items())
    assert table(spark, f"{root}/lake", "parquet") == Counter(in_batch.items())
    if STREAMS.is_available:
        assert table(spark, f"{root}/streamed") == Counter(in_queue.items())
    assert depth(queue).messages == (0 if STREAMS.is_available else MESSAGES)


def test_read_from_s3_and_written_there(
    spark: SparkSession, connect: Connect, queue: QueueTable, staging: StagingFolder, bucket: Bucket
) -> None:
    """All columns that ``read_batch`` gives, from the drain's files to both kinds of table."""
    sent = send(queue)
    batch = drain_in_two_parts(connect, queue, staging)
    read, root = read_batch(spark, batch), f"s3a://{bucket.name}/sinks"
    for _ in range(2):
        write_delta(read, f"{root}/delta", batch)
        assert write_partitions(read, f"{root}/lake", batch) == MESSAGES
    assert table(spark, f"{root}/delta") == Counter(sent.items())
    assert table(spark, f"{root}/lake", "parquet") == Counter(sent.items())
    assert spark.read.format("delta").load(f"{root}/delta").schema.simpleString() == read.schema.simpleString()


def test_a_reader_of_delta_without_spark(
    spark: SparkSession, rows: DataFrame, bucket: Bucket, s3: S3Server, tmp_path: Path
) -> None:
    """delta-rs, on a disk and on S3, with a column that came later and the batches that the table has."""
    deltalake = pytest.importorskip("deltalake", reason="deltalake is not installed")
    options = {
        "AWS_ENDPOINT_URL": s3.url,
        "AWS_ALLOW_HTTP": "true",
        "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET,
    }
    for path, read in (
        (str(tmp_path / "table"), str(tmp_path / "table")),
        (f"s3a://{bucket.name}/table", f"s3://{bucket.name}/table"),
    ):
        for batch, written in {"first": rows, "second": rows.selectExpr("*", "named_struct('n', 1) AS more")}.items():
            for _ in range(2):
                write_delta(written, path, batch, merge_schema=True)
        found = deltalake.DeltaTable(read, storage_options=options)
        content = [(row["message_id"], row["Body"], str(row["more"])) for row in found.to_pyarrow_table().to_pylist()]
        assert sorted(content) == sorted((f"m{n}", b"x", more) for n in range(4) for more in ("None", "{'n': 1}"))
        assert {found.transaction_version(f"sqlqueue batch {batch}") for batch in ("first", "second")} == {0}
