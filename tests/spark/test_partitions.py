"""Sinks that need nothing but Spark: a folder of Parquet files with a partition for each batch, and its streams."""

from __future__ import annotations

import re
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from airflow_sqlqueue.errors import BatchError, BatchMismatchError, ConfigurationError
from airflow_sqlqueue.spark import MicroBatch, foreach_batch, read_batch, write_delta, write_iceberg, write_partitions
from airflow_sqlqueue.spark.sinks import partitions
from airflow_sqlqueue.versions.jars import DELTA, ICEBERG, missing_package, package_for
from tests.spark.conftest import MakeBatch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FIRST, SECOND = uuid.UUID(int=1), uuid.UUID(int=2)


def rows(spark: SparkSession, *numbers: int) -> DataFrame:
    return spark.createDataFrame([(n, n % 2) for n in numbers], "n int, half int")


def found(spark: SparkSession, path: str) -> list[tuple[str, int, int]]:
    table = spark.read.parquet(path).select("batch_id", "half", "n")
    return sorted((str(row["batch_id"]), int(row["half"]), int(row["n"])) for row in table.collect())


def test_a_second_run_replaces_its_own(spark: SparkSession, tmp_path: Path) -> None:
    """A write replaces all partitions of its batch, even without rows; other batches stay."""
    lake = str(tmp_path)
    assert write_partitions(rows(spark, 1, 2, 3), lake, FIRST, partition_by=["half"]) == 3
    assert write_partitions(rows(spark, 7, 8), f"{lake}/", SECOND, partition_by=["half"]) == 2
    other = [(str(SECOND), 0, 8), (str(SECOND), 1, 7)]
    assert write_partitions(rows(spark, 5, 6), lake, FIRST, partition_by=["half"]) == 2
    assert found(spark, lake) == [(str(FIRST), 0, 6), (str(FIRST), 1, 5), *other]
    assert write_partitions(rows(spark, 4), lake, FIRST, partition_by=["half"]) == 1
    assert found(spark, lake) == [(str(FIRST), 0, 4), *other]
    assert write_partitions(rows(spark, 1).where("n > 1"), lake, FIRST, partition_by=["half"]) == 0
    assert found(spark, lake) == other


def test_columns_of_single_values_have_no_dictionary(spark: SparkSession, tmp_path: Path) -> None:
    write_partitions(rows(spark, *range(100)), str(tmp_path), FIRST, without_dictionary=["n"])
    (file, *_) = sorted(tmp_path.rglob("*.parquet"))
    group = pq.read_metadata(file).row_group(0)
    encodings = {group.column(at).path_in_schema: set(group.column(at).encodings) for at in range(group.num_columns)}
    assert [name for name, found in encodings.items() if "RLE_DICTIONARY" in found or "PLAIN_DICTIONARY" in found] == [
        "half"
    ]
    with pytest.raises(ConfigurationError, match="no column x that partition_by, sort_by or without_dictionary could"):
        write_partitions(rows(spark, 1), str(tmp_path), FIRST, without_dictionary=["x"])


def test_a_batch_of_no_messages(spark: SparkSession, make_batch: MakeBatch, tmp_path: Path) -> None:
    batch = make_batch([])
    assert write_partitions(read_batch(spark, batch), str(tmp_path / "lake"), batch) == 0


def test_another_writer_of_the_partition_is_noticed(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = partitions._write

    def beside(df: DataFrame, path: str, *columns: list[str]) -> int:
        written = write(df, path, *columns)
        rows(spark, 9).write.mode("append").parquet(f"{tmp_path}/batch_id={FIRST}")
        return written

    monkeypatch.setattr(partitions, "_write", beside)
    with pytest.raises(BatchMismatchError, match="other rows than the 2 that were written"):
        write_partitions(rows(spark, 1, 2), str(tmp_path), FIRST)


def test_a_micro_batch_that_comes_again(spark: SparkSession, tmp_path: Path) -> None:
    """Spark has not noted the write; the next ones are beside it."""
    source, lake, checkpoint = tmp_path / "source", str(tmp_path / "lake"), tmp_path / "checkpoint"

    def run(**options: str) -> str:
        stream = spark.readStream.schema("n int, half int").parquet(str(source))
        writer = stream.writeStream.foreachBatch(foreach_batch(write_partitions, lake, **options))
        query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
        query.awaitTermination()
        return str(query.id)

    rows(spark, 1, 2).write.mode("append").parquet(str(source))
    run()
    for path in (checkpoint / "commits").iterdir():
        path.unlink()
    name = run()
    rows(spark, 3).write.mode("append").parquet(str(source))
    run()
    first, second = f"{name}-000000000", f"{name}-000000001"
    assert found(spark, lake) == [(first, 0, 2), (first, 1, 1), (second, 1, 3)]


def test_no_query_to_ask_for_its_id(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="name the stream"):
        foreach_batch(write_partitions, str(tmp_path))(rows(spark, 1), 0)
    foreach_batch(write_partitions, str(tmp_path), stream="mine")(rows(spark, 1), 3)
    assert found(spark, str(tmp_path)) == [("mine-000000003", 1, 1)]


def test_the_guide_names_streams_that_key_a_sink() -> None:
    guide = Path(__file__).parents[2] / "docs" / "guides" / "spark-sinks.md"
    names = re.findall(r'stream="([^"]*)"', guide.read_text())
    assert [MicroBatch(name, 0).stream for name in names] == ["lake", "lake-of-May"]


def advice(what: str, spark: SparkSession) -> str:
    """The package of this Spark, or that there is none."""
    package = package_for(what, spark.version)
    found = f"start it with spark.jars.packages={package}" if package else missing_package(what, spark.version)
    return re.escape(f"This session has no {what}: {found}")


def test_a_session_without_delta(spark: SparkSession, tmp_path: Path) -> None:
    for merge_on in (None, "n"):
        with pytest.raises(ConfigurationError, match=advice(DELTA, spark)):
            write_delta(rows(spark, 1), str(tmp_path / "table"), FIRST, merge_on=merge_on)


def test_a_session_without_iceberg(spark: SparkSession) -> None:
    """Without its jar, and with a catalog of Iceberg without the jar."""
    spark.conf.set("spark.sql.catalog.iceberg", "org.apache.iceberg.spark.SparkCatalog")
    for table in ("iceberg.shop.audit", "lake.shop.audit", "default.audit", "audit"):
        for merge_on in (None, "n"):
            with pytest.raises(ConfigurationError, match=advice(ICEBERG, spark)):
                write_iceberg(rows(spark, 1), table, FIRST, merge_on=merge_on)


def test_invalid_sinks(spark: SparkSession, make_batch: MakeBatch, tmp_path: Path) -> None:
    some, lake = rows(spark, 1), str(tmp_path)
    for column in ("missing", ["missing"]):
        for name in ("partition_by", "sort_by", "without_dictionary"):
            with pytest.raises(ConfigurationError, match="no column missing"):
                write_partitions(some, lake, FIRST, **{name: column})  # type: ignore[arg-type]
        with pytest.raises(ConfigurationError, match="no column missing"):
            write_delta(some, lake, FIRST, partition_by=column)
    for name in ("batch_id", "Batch_Id"):
        with pytest.raises(ConfigurationError, match="have a column batch_id, which is the partition's"):
            write_partitions(some.withColumnRenamed("n", name), lake, FIRST)
    with pytest.raises(ConfigurationError, match="must not contain a backslash"):
        write_partitions(some, f"{lake}/*", FIRST)
    with pytest.raises(BatchError, match="is open"):
        write_partitions(some, lake, make_batch(["{}"], state="open"))
    with pytest.raises(ConfigurationError, match="no column missing"):
        write_delta(some, lake, FIRST, merge_on=["n", "missing"])
    with pytest.raises(ConfigurationError, match="its path, which has a slash"):
        write_delta(some, "not a name", FIRST)
    with pytest.raises(ConfigurationError, match="A step's name"):
        write_delta(some, lake, FIRST, step="a/b")
    for key in ("", "a/b", "..", "x" * 129):
        with pytest.raises(ConfigurationError, match="that keys a sink"):
            write_partitions(some, lake, key)
        with pytest.raises(ConfigurationError, match="that keys a sink"):
            MicroBatch(key, 0)
    with pytest.raises(ConfigurationError, match="whole number"):
        MicroBatch("mine", -1)
    with pytest.raises(ConfigurationError, match="not to int"):
        write_partitions(some, lake, 7)  # type: ignore[arg-type]
