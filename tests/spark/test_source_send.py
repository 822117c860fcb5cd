"""``df.write.format("sqlqueue")``: tasks that fail, a driver that dies, and each message once."""

from __future__ import annotations

import os
import signal
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_sqlqueue.drain.drain import Drain
from airflow_sqlqueue.drain.stages.table import TableStage
from airflow_sqlqueue.messages.message import HeaderNames, Message
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.queue.outgoing import OutgoingTable
from airflow_sqlqueue.server.settings import ConnectionSettings
from airflow_sqlqueue.spark import read_batch, register
from tests.contract.conftest import Connect, run_sql
from tests.spark.conftest import event_log

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.datasource import WriterCommitMessage

COUNT = 900
TYPES = "A.B, C; D.E, F"


@pytest.fixture
def numbers(spark: SparkSession, settings: ConnectionSettings) -> DataFrame:
    register(spark, settings)
    return spark.range(0, COUNT, 1, 2).selectExpr("rpad(id, 1000, ' ') AS Body", "'Send' AS intent")


def send(df: DataFrame, queue: QueueTable, mode: str = "append", **options: str) -> None:
    df.write.format("sqlqueue").options(queue=queue.address.canonical, **options).mode(mode).save()


def numbers_in(queue: QueueTable) -> list[int]:
    return sorted(int(message.body) for message in queue.peek(2_000))


def staged(queue: QueueTable) -> int:
    return int(run_sql(queue.session, "SELECT COUNT(*) FROM [sqlqueue].[Outgoing]")[0][0])


@pytest.fixture
def clean(queue: QueueTable) -> None:
    """Remove staged rows before a test; the database is shared."""
    OutgoingTable(queue.session, queue.address.catalog).create()
    run_sql(queue.session, "DELETE FROM [sqlqueue].[Outgoing]")


def test_a_task_that_fails_in_the_middle_sends_nothing(
    spark: SparkSession,
    settings: ConnectionSettings,
    queue: QueueTable,
    clean: None,
    numbers: DataFrame,
    tmp_path: Path,
) -> None:
    """Its rows are staged under an attempt that no commit names."""
    mark = str(tmp_path / "failed")

    def fail_once(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import time
        from pathlib import Path

        from airflow_sqlqueue import QueueClient

        yield from batches
        if not Path(mark).exists():
            Path(mark).touch()
            until = time.monotonic() + 120
            while QueueClient(settings).run_sql("SELECT COUNT(*) FROM [sqlqueue].[Outgoing]")[0][0] == 0:
                assert time.monotonic() < until, "nothing was staged"
                time.sleep(0.1)
            raise RuntimeError("the first attempt")

    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "100")
    try:
        send(numbers.mapInArrow(fail_once, "Body string, intent string"), queue)
    finally:
        spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
    assert Path(mark).exists()
    assert numbers_in(queue) == list(range(COUNT))
    assert staged(queue) > 0


def test_a_driver_that_dies_between_the_commit_and_its_answer(
    spark: SparkSession, settings: ConnectionSettings, queue: QueueTable, clean: None, numbers: DataFrame
) -> None:
    """The process that commits is killed. Run again with the same send id the job sends nothing."""
    from airflow_sqlqueue.spark.source.data_source import data_source_for

    source = data_source_for(settings)

    def writer(self: Any, schema: Any, overwrite: bool) -> Any:
        made: Any = source.writer(self, schema, overwrite)

        def commit(self: Any, messages: list[WriterCommitMessage | None]) -> None:
            super(type(self), self).commit(messages)
            os.kill(os.getpid(), signal.SIGKILL)

        made.__class__ = type("Dying", (type(made),), {"commit": commit})
        return made

    spark.dataSource.register(type("DyingSource", (source,), {"writer": writer}))
    with pytest.raises(Exception, match=r"(?i)writ|worker|crash|abort"):
        send(numbers, queue, sendId="nightly 7")
    assert numbers_in(queue) == list(range(COUNT))
    register(spark, settings)
    send(numbers, queue, send_id="nightly 7")
    assert numbers_in(queue) == list(range(COUNT))
    assert staged(queue) == 0


def test_rows_that_were_read_can_be_sent(
    spark: SparkSession, settings: ConnectionSettings, connect: Connect, queue: QueueTable, server_url: str
) -> None:
    """A batch is sent back as it was, and its columns can be changed on the way. The login shows nowhere."""
    register(spark)
    messages = [
        Message({"own": "☃", HeaderNames.CORRELATION_ID: "c"}, b"1", None, uuid.uuid4()),
        Message({HeaderNames.ENCLOSED_MESSAGE_TYPES: TYPES, HeaderNames.MESSAGE_ID: "m"}, b"", None, uuid.uuid4()),
        Message("no JSON", b"2", None, uuid.uuid4()),
        Message({HeaderNames.TIME_SENT: "2026-01-02 01:04:05:600700 Z"}, b"3", None, uuid.uuid4()),
    ]
    queue.send(messages)
    before = {message.id: message for message in queue.peek()}
    batch = Drain(connect, queue.address, TableStage()).run().batch
    read = read_batch(spark, batch, settings)
    send(read, queue, url=server_url)
    after = {message.id: message for message in queue.peek()}
    assert {key: (m.headers, m.body, m.correlation_id) for key, m in after.items()} == {
        key: (m.headers, m.body, m.correlation_id) for key, m in before.items()
    }
    queue.receive(100)
    again = read_batch(spark, batch, settings, headers_map=True).where("message_id = 'm'")
    send(again.selectExpr("headers", "'Reply' AS intent"), queue, url=server_url)
    (reply,) = queue.peek()
    assert '"NServiceBus.MessageIntent":"Reply"' in reply.headers
    assert TYPES in reply.headers
    assert settings.password
    assert settings.password not in event_log(spark)


def test_a_write_that_cannot_be_done_is_refused(queue: QueueTable, numbers: DataFrame) -> None:
    with pytest.raises(Exception, match="ConfigurationError: The mode overwrite would delete the messages"):
        send(numbers, queue, "overwrite")
    with pytest.raises(Exception, match="ConfigurationError: A message has no column 'colour'"):
        send(numbers.selectExpr("Body", "'kitten-9' AS colour"), queue)
    assert numbers_in(queue) == []
