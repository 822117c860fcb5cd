"""Bodies in files of their own, as a drain leaves them."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_sqlqueue.bodies.schemas import struct
from airflow_sqlqueue.drain.manifest import Batch
from airflow_sqlqueue.errors import BatchMismatchError
from airflow_sqlqueue.messages.row import drained_row_schema
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.spark import parse_bodies, read_batch, read_bodies, verify_count
from airflow_sqlqueue.spark.jobs import replay as replay_program
from airflow_sqlqueue.spark.source.messages import message_row

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BODIES = [b"small", b"", None, b"large" * 1000, b"larger" * 1000]
IN_FILES = (3, 4)
BATCH, PART = "5f0f4d0e-7d5a-5c7b-8f61-2a4f8c1f7a10", "0b9c1c52-6c55-4b52-a1a0-6d8c6f6d0c11"


@pytest.fixture
def batch(tmp_path: Path) -> Batch:
    folder = tmp_path / "key=a b%20" / BATCH
    folder.mkdir(parents=True)
    rows = []
    for n, body in enumerate(BODIES):
        row_id = f"00000000-0000-4000-a000-{n:012}"
        row = {"Id": row_id, "Headers": "{}", "Body": body, "RowVersion": n, "Expired": False}
        if n in IN_FILES:
            path = folder / f"body-{PART}-{n:06}.bin"
            path.write_bytes(body or b"")
            row |= {"Body": None, "BodyFile": f"file://{path}"}
        rows.append(row)
    part = folder / f"part-{PART}.parquet"
    pq.write_table(pa.Table.from_pylist(rows, schema=drained_row_schema()), part)
    return Batch(BATCH, "audit@[dbo]@[shop]", "sealed", (f"file://{part}",), 1, messages=len(rows))


def test_large_bodies_stay_in_their_files_until_they_are_asked_for(spark: SparkSession, batch: Batch) -> None:
    read = read_batch(spark, batch)
    found = {row["RowVersion"]: row["Body"] for row in read.select("RowVersion", "Body").collect()}
    assert found == {n: None if n in IN_FILES else body for n, body in enumerate(BODIES)}
    whole = read_bodies(read, batch)
    assert whole.columns == read.columns
    assert {row["RowVersion"]: row["Body"] for row in whole.select("RowVersion", "Body").collect()} == dict(
        enumerate(BODIES)
    )
    assert verify_count(whole, batch) == len(BODIES)


def test_a_large_body_that_was_fetched_is_parsed_and_sent(spark: SparkSession, batch: Batch) -> None:
    (name,) = Path(batch.paths[0].removeprefix("file://")).parent.glob(f"body-{PART}-{IN_FILES[0]:06}.bin")
    name.write_bytes(b'{"Id":7}')
    whole = read_bodies(read_batch(spark, batch), batch).where(f"RowVersion = {IN_FILES[0]}")
    (parsed,) = parse_bodies(whole, struct({"Id": "long"})).select("Id", "_unparsed").collect()
    assert (parsed["Id"], parsed["_unparsed"]) == (7, None)
    (row,) = whole.select("headers_raw", "Body", "BodyFile").collect()
    assert message_row(row.asDict()).body == b'{"Id":7}'


def test_the_program_of_a_replay_fetches_large_bodies(
    spark: SparkSession,
    batch: Batch,
    tmp_path: Path,
    queue: QueueTable,
    server_url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "0")  # as spark-submit has it
    monkeypatch.setenv("SQLQUEUE_URL", server_url)
    manifest = tmp_path / "manifest.json"
    manifest.write_text(json.dumps(batch.to_dict()), "utf-8")
    source = ["--manifest", str(manifest), "--where", "RowVersion > 1"]
    assert replay_program.main([*source, "--queue", queue.address.canonical, "--send-id", "large"]) == 0
    assert Counter(message.body or None for message in queue.peek(10)) == Counter(BODIES[2:])


def test_without_large_bodies_nothing_is_read(spark: SparkSession, batch: Batch) -> None:
    read = read_batch(spark, batch).where("BodyFile IS NULL")
    assert read_bodies(read, batch) is read


def test_a_missing_body_is_reported(spark: SparkSession, batch: Batch) -> None:
    next(Path(batch.paths[0].removeprefix("file://")).parent.glob("body-*")).unlink()
    with pytest.raises(BatchMismatchError, match="is missing"):
        read_bodies(read_batch(spark, batch), batch).collect()


OTHER = "11111111-6c55-4b52-a1a0-6d8c6f6d0c11"


@pytest.mark.parametrize(
    "name",
    ["/etc/passwd", "file:///etc/passwd", f"file:///elsewhere/{BATCH}/body-{PART}-000001.bin",
     f"{{folder}}/../body-{PART}-000001.bin", "{folder}/secrets.txt", f"{{folder}}/body-{OTHER}-000001.bin",
     f"{{folder}}/body-{PART}-*.bin", f"{{folder}}/part-{PART}.parquet"],
)  # fmt: skip
def test_a_body_file_that_the_drain_did_not_write_beside_its_part_is_not_read(
    spark: SparkSession, batch: Batch, name: str
) -> None:
    from pyspark.sql import functions as sf

    folder = batch.paths[0].rpartition("/")[0]
    read = read_batch(spark, batch).withColumn("BodyFile", sf.lit(name.replace("{folder}", folder)))
    with pytest.raises(BatchMismatchError, match=r"The file of a body of batch .* is not one that its drain wrote"):
        read_bodies(read, batch)


def test_an_edited_manifest_reads_no_other_files_of_the_machine(spark: SparkSession, batch: Batch) -> None:
    folder, _, name = batch.paths[0].rpartition("/")
    paths = (f"file:///etc/{name}", f"{folder}/*.parquet", f"{folder}/../{BATCH}/{name}", f"{folder}/part-{PART}")
    for path in paths:
        with pytest.raises(BatchMismatchError, match=r"A part file of batch .* is not one that its drain wrote"):
            read_batch(spark, replace(batch, paths=(path,)))
    for store in (
        "http://example.org",
        "https://example.org",
        "ftp://example.org",
        "jar:file:///tmp/a.zip!",
        "s3a::file:",
    ):
        with pytest.raises(BatchMismatchError, match=r"A part file of batch .* is not one that its drain wrote"):
            read_batch(spark, replace(batch, paths=(f"{store}/staging/{BATCH}/{name}",)))
    elsewhere = f"file:///elsewhere/{BATCH}/part-{OTHER}.parquet"
    with pytest.raises(BatchMismatchError, match="is not one that its drain wrote"):
        read_batch(spark, replace(batch, paths=(*batch.paths, elsewhere), parts=2))
