"""Batches and checkpoints of earlier versions, read by Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from airflow_sqlqueue.errors import PermissionDeniedError
from airflow_sqlqueue.messages.message import Message
from airflow_sqlqueue.server.settings import ConnectionSettings
from airflow_sqlqueue.spark import read_batch, verify_count
from airflow_sqlqueue.versions.spark import STREAMS
from tests.spark.conftest import needs
from tests.upgrades import VERSIONS, Remains, bodies_of, restored, stream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(params=VERSIONS)
def remains(request: pytest.FixtureRequest, settings: ConnectionSettings, tmp_path: Path) -> Iterator[Remains]:
    """What each version left."""
    try:
        with restored(request.param, settings, tmp_path / "remains") as found:
            yield found
    except PermissionDeniedError:
        pytest.skip("the login of the test server may not create databases")


@pytest.mark.parametrize("name", ["audit", "events"])
def test_its_batches_are_read(spark: SparkSession, remains: Remains, name: str) -> None:
    """From files and from a table, with headers and typed columns."""
    rows = read_batch(spark, remains.state["references"][name], remains.settings, headers_map=True)
    verify_count(rows, remains.batch(name))
    found = rows.orderBy("RowVersion").select("Body", "headers", "headers_malformed").collect()
    assert [bytes(row["Body"]) for row in found] == bodies_of(name, 10)
    assert [row["headers"] for row in found] == [{"n": f"{n}"} for n in range(10)]
    assert not any(row["headers_malformed"] for row in found)


def test_its_files_are_plain_parquet(spark: SparkSession, remains: Remains) -> None:
    """As Spark reads them without this package: docs/guides/staging.md."""
    rows = spark.read.parquet(*remains.batch("audit").paths)
    read = rows.selectExpr("Id", "from_json(Headers, 'map<string,string>') AS headers", "Body", "RowVersion")
    found = read.orderBy("RowVersion").collect()
    assert [bytes(row["Body"]) for row in found] == bodies_of("audit", 10)
    assert [row["headers"] for row in found] == [{"n": f"{n}"} for n in range(10)]


@needs(STREAMS)
def test_its_stream_goes_on_from_its_checkpoint(spark: SparkSession, remains: Remains) -> None:
    """The micro-batch that Spark had not noted is read again, from its claim; then the rest of the queue."""
    sent, checkpoint = bodies_of("stream", 14), remains.folder / "checkpoint"
    remains.client.queue("stream").send([Message({}, sent[13])])
    assert sorted(stream(remains.settings, spark, checkpoint)) == sorted(sent[5:])
    assert stream(remains.settings, spark, checkpoint) == []
    assert sorted(path.name for path in (checkpoint / "commits").glob("[0-9]*")) == ["0", "1", "2"]
    (info,) = remains.client.streams.list()
    assert (info.done, info.claims, info.messages) == (2, 1, 4)
