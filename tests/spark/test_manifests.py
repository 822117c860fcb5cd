"""A batch that Spark reads by what XCom has, by its manifest's path, and by its id."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_sqlqueue.drain.drain import Drain
from airflow_sqlqueue.drain.manifest import Batch
from airflow_sqlqueue.drain.options import DrainOptions
from airflow_sqlqueue.drain.request import DrainRequest
from airflow_sqlqueue.drain.storage.folder import StagingFolder
from airflow_sqlqueue.errors import BatchMismatchError, BatchNotFoundError, ConfigurationError
from airflow_sqlqueue.messages.message import Message
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.server.settings import ConnectionSettings
from airflow_sqlqueue.spark import load_batch, read_batch
from tests.contract.conftest import Connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def batch(connect: Connect, queue: QueueTable, tmp_path: Path) -> Batch:
    """Of long names, too many for XCom."""
    queue.send(Message({}, b"%d" % n) for n in range(24))
    staging = StagingFolder.of(tmp_path.joinpath(*["x" * 200] * 3))
    batch = (
        Drain(connect, queue.address, staging, DrainRequest(options=DrainOptions(rows_per_part=2, workers=1)))
        .run()
        .batch
    )
    assert not batch.is_listed
    return batch


def rewrite(file: Path, **change: Any) -> None:
    file.write_text(json.dumps({**json.loads(file.read_text()), **change}))


def test_each_name_of_a_batch_reads_it(
    spark: SparkSession, batch: Batch, settings: ConnectionSettings, tmp_path: Path
) -> None:
    xcom = json.loads(json.dumps(batch.to_reference()))
    given = tmp_path / "manifest.json"
    given.write_text(json.dumps(batch.to_dict()))
    rows = read_batch(spark, xcom).select("Body").collect()
    assert sorted(int(row[0]) for row in rows) == list(range(24))
    for named in (batch, xcom, {"batch": xcom, "locked": 0}, batch.to_dict(), given, str(given), batch.manifest_path):
        assert load_batch(spark, named) == batch
    file = Path(batch.manifest_path.removeprefix("file://"))
    given.write_text(json.dumps(xcom))
    assert load_batch(spark, given) == load_batch(spark, file) == batch
    file.unlink()
    with pytest.raises(BatchMismatchError, match="is missing or cannot be read: read the batch by its id"):
        read_batch(spark, xcom)
    for named in (uuid.UUID(batch.batch_id), batch.batch_id, xcom, batch.to_dict(), given, json.dumps(xcom)):
        assert load_batch(spark, named, settings) == batch
    assert read_batch(spark, batch.batch_id, settings).count() == 24


def test_a_manifest_that_was_changed_is_noticed(
    spark: SparkSession, batch: Batch, settings: ConnectionSettings, tmp_path: Path
) -> None:
    xcom, file = batch.to_reference(), Path(batch.manifest_path.removeprefix("file://"))
    for change in ({"paths": ["/etc/passwd", *batch.paths[1:]]}, {"messages": 1}, {"paths": [], "parts": 0}, {"x": 1}):
        whole = file.read_text()
        rewrite(file, **change)
        for named in (xcom, batch.manifest_path, file):
            with pytest.raises(BatchMismatchError, match="is not the manifest that a drain wrote"):
                load_batch(spark, named)
        with pytest.raises(BatchMismatchError, match="is not the manifest"):
            load_batch(spark, file, settings)
        file.write_text(whole)
    other = tmp_path / "manifest.json"
    other.write_text(json.dumps(batch.to_dict()))
    rewrite(other, messages=23)
    with pytest.raises(BatchMismatchError, match="is not what its drain wrote"):
        load_batch(spark, other, settings)
    for named in ({**xcom, "messages": 23}, {**xcom, "manifest": f"file://{other}"}):
        for connection in (None, settings):
            with pytest.raises(BatchMismatchError, match=r"not (what|one that) its drain wrote"):
                load_batch(spark, named, connection)
    for text in ("", "[]", "[" * 100_000):
        other.write_text(text)
        with pytest.raises(BatchMismatchError, match="is not the manifest"):
            load_batch(spark, other)


def test_values_that_name_no_batch_are_refused(
    spark: SparkSession, queue: QueueTable, settings: ConnectionSettings
) -> None:
    for given, says in (
        (str(uuid.uuid4()), "give the connection"),
        (5, "not int"),
        ({}, "misses the manifest's"),
        ("no/such/manifest.json", "cannot be read"),
        ("http://example.org/manifest.json", "is not on a disk or a store"),
        ("file:///tmp/*/manifest.json", "is not on a disk or a store"),
    ):
        with pytest.raises(ConfigurationError, match=says):
            load_batch(spark, given)  # type: ignore[arg-type]
    for connection in (None, settings):
        with pytest.raises(ConfigurationError, match="misses the manifest's batch_id"):
            load_batch(spark, {"manifest": "file:///tmp/manifest.json"}, connection)
    with pytest.raises(BatchNotFoundError, match="does not know"):
        load_batch(spark, uuid.uuid4(), settings)
