"""``spark.readStream.format("sqlqueue")`` over restarts, and the stream writer behind it.

That no statement of the reader can be the one at which it must not die is in ``tests/faults/test_claims.py``.
"""

from __future__ import annotations

import shutil
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.functions import expr

from airflow_sqlqueue import QueueClient
from airflow_sqlqueue.errors import BatchError, ConfigurationError
from airflow_sqlqueue.messages.message import Message
from airflow_sqlqueue.messages.routing import AddressResolver
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.queue.depth import depth
from airflow_sqlqueue.queue.tables.create import create_queue
from airflow_sqlqueue.server.settings import ConnectionSettings
from airflow_sqlqueue.spark import finish_stream, raw_schema, register
from airflow_sqlqueue.versions.spark import STREAMS
from tests.contract.conftest import run_sql
from tests.spark.conftest import event_log, needs

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = needs(STREAMS)

FAULTS = ("claim", "claimed", "partitions", "read", "commit")
"""Moments of a kill of the reader's process: before and after a claim, after its offset is written, in a task (Spark
repeats it), and before a commit."""


def dying(settings: ConnectionSettings, faults: str) -> type:
    """The format, of whose reader a process kills itself once where a file of the fault's name says so."""
    from airflow_sqlqueue.spark.source.data_source import data_source_for

    source: Any = data_source_for(settings)

    def die(fault: str) -> None:
        import os
        import signal
        from pathlib import Path

        try:
            Path(faults, fault).unlink()
        except FileNotFoundError:
            return
        os.kill(os.getpid(), signal.SIGKILL)

    def stream_reader(self: Any, schema: Any) -> Any:
        reader: Any = source.streamReader(self, schema)
        kind: Any = type(reader)

        def latest_offset(self: Any, start: Any, limit: Any) -> Any:
            die("claim")
            end = kind.latestOffset(self, start, limit)
            die("claimed")
            return end

        def partitions(self: Any, start: Any, end: Any) -> Any:
            found = kind.partitions(self, start, end)
            die("partitions")
            return found

        def read(self: Any, partition: Any) -> Any:
            for batch in kind.read(self, partition):
                yield batch
                die("read")

        def commit(self: Any, end: Any) -> None:
            die("commit")
            kind.commit(self, end)

        steps = {"latestOffset": latest_offset, "partitions": partitions, "read": read, "commit": commit}
        reader.__class__ = type("DyingReader", (kind,), steps)
        return reader

    return type("DyingSource", (source,), {"streamReader": stream_reader})


def test_a_stream_that_keeps_leaves_the_messages_in_the_queue(
    spark: SparkSession, settings: ConnectionSettings, queue: QueueTable, tmp_path: Path
) -> None:
    register(spark, settings)
    options = {"queue": queue.address.canonical, "stream": f"lake {uuid.uuid4()}", "maxMessages": "5", "copy": "true"}

    def run() -> int:
        stream = spark.readStream.format("sqlqueue").options(**options).load().select("Body")
        writer = stream.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = writer.trigger(availableNow=True).start(str(tmp_path / "sink"))
        query.awaitTermination()
        return spark.read.parquet(str(tmp_path / "sink")).distinct().count()

    queue.send(Message({}, b"%d" % n) for n in range(12))
    assert run() == 12
    queue.send(Message({}, b"%d" % n) for n in range(12, 15))
    assert run() == 15
    assert spark.read.parquet(str(tmp_path / "sink")).count() == 15
    assert depth(queue).messages == 15


def test_a_sink_has_each_message_once(
    spark: SparkSession, settings: ConnectionSettings, server_url: str, queue: QueueTable, tmp_path: Path
) -> None:
    """Whichever process dies; then an old checkpoint is refused. The login is in no plan and no event log."""
    faults, checkpoint, sink = tmp_path / "faults", tmp_path / "checkpoint", str(tmp_path / "sink")
    faults.mkdir()
    spark.dataSource.register(dying(settings, str(faults)))
    name = f"lake {uuid.uuid4()}"

    def run() -> Any:
        options = {"url": server_url, "queue": queue.address.canonical, "stream": name, "maxMessages": "20"}
        stream = spark.readStream.format("sqlqueue").options(**options, partitions=2).load()
        assert stream.schema == raw_schema()
        writer = stream.select("Body").writeStream.format("parquet").option("checkpointLocation", str(checkpoint))
        query = writer.trigger(availableNow=True).start(sink)
        query.awaitTermination()
        return query

    sent, failed = 0, []
    for fault in FAULTS:
        (faults / fault).touch()
        queue.send(Message({}, b"%d" % n) for n in range(sent, sent + 12))
        sent += 12
        try:
            run()
        except Exception:
            failed.append(fault)
        assert not any(faults.iterdir())
    assert failed == [fault for fault in FAULTS if fault != "read"]
    shutil.copytree(checkpoint, tmp_path / "yesterday")
    queue.send(Message({}, b"%d" % n) for n in range(sent, sent + 25))
    sent += 25
    query = run()
    read = spark.read.parquet(sink)
    assert sorted(int(row["Body"]) for row in read.collect()) == list(range(sent))
    assert depth(queue).messages == 0
    assert claimed(queue) == 1
    assert finish_stream(query, settings) > 4
    assert claimed(queue) == 0

    shutil.rmtree(checkpoint)
    shutil.move(tmp_path / "yesterday", checkpoint)
    with pytest.raises(Exception, match=r"WrongBatchError: The stream 'lake .*' cannot go on"):
        run()
    assert settings.password
    assert settings.password not in event_log(spark)


def claimed(queue: QueueTable) -> int:
    sealed = f"SELECT COUNT(*) FROM [sqlqueue].[Batch] WHERE [Queue] = N'{queue.address.canonical}'"
    return int(run_sql(queue.session, f"{sealed} AND [State] <> 'consumed'")[0][0])


def test_the_table_of_a_stream_tells_which_claims_it_has(
    spark: SparkSession, settings: ConnectionSettings, queue: QueueTable, tmp_path: Path
) -> None:
    """Without a query: what the table has is committed and does not go back, and all else does."""
    register(spark, settings)
    client, sink = QueueClient(settings), str(tmp_path / "sink")
    named = {"queue": queue.address.canonical, "stream": f"lake {uuid.uuid4()}"}

    def run() -> None:
        stream = spark.readStream.format("sqlqueue").options(**named, maxMessages=7).load()
        writer = stream.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
        writer.trigger(availableNow=True).start(sink).awaitTermination()

    queue.send(Message({}, b"%d" % n) for n in range(12))
    run()
    table = spark.read.parquet(sink)
    assert (table.count(), claimed(queue)) == (12, 1)
    with pytest.raises(BatchError, match="may have the last 5 messages"):
        client.streams.release(named["stream"])
    for partial in (table.where("RowVersion % 2 = 0"), table.limit(0).unionAll(table.orderBy("RowVersion").offset(10))):
        with pytest.raises(BatchError, match=r"The table has \d of the 5 messages of claim 2"):
            finish_stream(partial, settings, **named)
    assert finish_stream(table.limit(0), settings, **named) == 1
    other = table.withColumn("Id", expr("uuid()"))
    assert finish_stream(other, settings, **named) == 1, "the RowVersions of another queue's messages"
    for column in ("Id", "RowVersion"):
        with pytest.raises(ConfigurationError, match=f"has no column {column} as a queue has it"):
            finish_stream(table.withColumn(column, expr("1 > 0")), settings, **named)
    with pytest.raises(ConfigurationError, match="name the stream and its queue"):
        finish_stream(table, settings, stream=named["stream"])
    with pytest.raises(ConfigurationError, match=r"There is no stream 'lake of nobody' in '.*': 'sqlqueue streams'"):
        finish_stream(table, settings, stream="lake of nobody", queue=named["queue"])
    assert "lake of nobody" not in {info.name for info in client.streams.list()}
    assert claimed(queue) == 1
    assert finish_stream(table, settings, **named) == 2
    assert finish_stream(table, settings, **named) == 2
    assert claimed(queue) == 0
    queue.send([Message({}, b"12")])
    run()
    assert finish_stream(spark.read.parquet(sink), settings, **named) == 3
    assert client.streams.release(named["stream"]).messages == 0
    assert depth(queue).messages == 0


def test_from_queue_to_queue(
    spark: SparkSession,
    settings: ConnectionSettings,
    queue: QueueTable,
    address_of: AddressResolver,
    tmp_path: Path,
) -> None:
    """The stream writer sends each micro-batch once, also where Spark has not noted that it was.

    Spark gives the name of the query to the writer, as an option.
    """
    register(spark, settings)
    target = QueueTable(queue.session, address_of.resolve(f"{queue.address.table}.t"))
    create_queue(queue.session, target.address)
    options = {"queue": queue.address.canonical, "stream": f"copy {uuid.uuid4()}", "maxMessages": "20"}

    def run() -> DataFrame:
        stream = spark.readStream.format("sqlqueue").options(**options).load()
        writer = stream.select("Body").writeStream.format("sqlqueue").option("queue", target.address.canonical)
        query = writer.option("checkpointLocation", str(tmp_path)).queryName("copy").trigger(availableNow=True).start()
        query.awaitTermination()
        return query

    queue.send(Message({}, b"%d" % n) for n in range(30))
    run()
    last = max((path for path in (tmp_path / "commits").glob("[0-9]*")), key=lambda path: int(path.name))
    last.unlink()
    (tmp_path / "commits" / f".{last.name}.crc").unlink(missing_ok=True)
    run()
    found = sorted(int(message.body) for message in target.peek(100))
    run_sql(queue.session, f"DROP TABLE {target.address.qualified_name}")
    assert found == list(range(30))
