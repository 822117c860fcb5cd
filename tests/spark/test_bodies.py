"""Bodies in files of their own, as a drain leaves them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_sqlqueue.drain.manifest import Batch
from airflow_sqlqueue.errors import BatchMismatchError
from airflow_sqlqueue.row import drained_row_schema
from airflow_sqlqueue.spark import read_batch, read_bodies, verify_count

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BODIES = [b"small", b"", None, b"large" * 1000, b"larger" * 1000]
IN_FILES = (3, 4)


@pytest.fixture
def batch(tmp_path: Path) -> Batch:
    folder = tmp_path / "key=a b%20"
    folder.mkdir()
    rows = []
    for n, body in enumerate(BODIES):
        row = {"Id": str(n), "Headers": "{}", "Body": body, "RowVersion": n, "Expired": False}
        if n in IN_FILES:
            path = folder / f"body-1-{n}.bin"
            path.write_bytes(body or b"")
            row |= {"Body": None, "BodyFile": f"file://{path}"}
        rows.append(row)
    part = folder / "part-1.parquet"
    pq.write_table(pa.Table.from_pylist(rows, schema=drained_row_schema()), part)
    return Batch("b", "audit@[dbo]@[shop]", "sealed", (f"file://{part}",), len(rows), 0, 0, 1)


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


def test_without_large_bodies_nothing_is_read(spark: SparkSession, batch: Batch) -> None:
    read = read_batch(spark, batch).where("BodyFile IS NULL")
    assert read_bodies(read, batch) is read


def test_a_missing_body_is_told(spark: SparkSession, batch: Batch) -> None:
    next(Path(batch.paths[0].removeprefix("file://")).parent.glob("body-*")).unlink()
    with pytest.raises(BatchMismatchError, match="is missing"):
        read_bodies(read_batch(spark, batch), batch).collect()
