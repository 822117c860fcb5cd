"""Tables of message types in Parquet and Delta Lake, on a disk and in a catalog."""

from __future__ import annotations

import json
import shutil
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_sqlqueue.bodies.schemas import struct
from airflow_sqlqueue.client.schemas.files import SchemaFolder
from airflow_sqlqueue.errors import ConfigurationError, SparkJobError
from airflow_sqlqueue.spark.message_tables import (
    compact_message_tables,
    reparse,
    rewrite_message_table,
    write_message_tables,
)
from airflow_sqlqueue.spark.sinks.checks import session_settings
from tests.sinks.accounts import check_account
from tests.sinks.message_tables import (
    TYPES,
    Place,
    check_other_schemas,
    message,
    place,
    sent,
)
from tests.sinks.names import check_names, check_rows
from tests.spark.conftest import batches_in
from tests.spark.test_retention import CLICKS, ORDER, check_merge, expired
from tests.spark.test_rewriting import check_other_types_are_parsed_again
from tests.spark.test_table_times import check_readers, messages
from tests.table_readers import check_types, read_by_all

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


FORMATS = ("parquet", "delta")


@pytest.mark.timeout(600)
def test_a_batch_that_is_repeated_with_other_schemas_is_in_one_table(
    spark: SparkSession, config: dict[str, str], tmp_path: Path
) -> None:
    check_other_schemas(place("delta", spark, config, tmp_path))


def test_a_foreign_table_keeps_no_other_from_its_compaction(
    spark: SparkSession, config: dict[str, str], tmp_path: Path
) -> None:
    lake = place("delta", spark, config, tmp_path)
    make = batches_in(tmp_path)
    for each in range(2):
        write_message_tables(spark, make(sent(100 * each, 4), batch_id=f"batch-{each}"), lake.location, **lake.options)
    for name in ("A.Foreign", "Z.Foreign"):
        Path(lake.location, name).mkdir()
        Path(lake.location, name, "notes.txt").write_text("no table")
    said = r"could not compact the table '.*A.Foreign' and 1 more; the other \d+ tables are compacted"
    with pytest.raises(SparkJobError, match=said) as raised:
        compact_message_tables(spark, lake.location, format="delta")
    assert raised.value.__cause__ is not None
    for name in ("A.Foreign", "Z.Foreign"):
        shutil.rmtree(Path(lake.location, name))
    again = compact_message_tables(spark, lake.location, format="delta")
    assert {(each.merged_files, each.new_files) for each in again} == {(0, 0)}


def test_a_folder_that_is_no_table_stops_no_batch(spark: SparkSession, config: dict[str, str], tmp_path: Path) -> None:
    """As a run that was killed before its first commit leaves one, or a person."""
    lake = place("delta", spark, config, tmp_path)
    folders = [Path(lake.location, f"{name}~unparsed") for name in (TYPES[0], "")]
    for folder in folders:
        folder.mkdir(parents=True)
        (folder / "part-0.parquet").write_bytes(b"half")
    spark.range(1).write.format("delta").save(str(Path(lake.location, f"{TYPES[1]}~unparsed")))
    messages = [message(TYPES[n % 2], json.dumps({"N": n})) for n in range(4)]
    batch = batches_in(tmp_path)(messages)
    for _ in range(2):
        found = write_message_tables(spark, batch, lake.location, **lake.options)
        assert {each.message_type: each.messages for each in found} == dict.fromkeys(TYPES[:2], 2)


@pytest.mark.timeout(600)
def test_times_that_come_later_are_read_by_all(spark: SparkSession, config: dict[str, str], tmp_path: Path) -> None:
    lake = place("delta", spark, config, tmp_path)
    with session_settings(spark, {"spark.sql.parquet.outputTimestampType": "INT96"}):
        for number in range(2):
            batch = batches_in(tmp_path)(messages(is_later=number == 1), batch_id=f"batch-{number}")
            for _ in range(2):
                write_message_tables(spark, batch, lake.location, **lake.options)
        compact_message_tables(spark, lake.location, format="delta")
    check_types(lake.folder / "Shop.Dates", {"At": True, "Local": False})
    check_readers(lake.folder / "Shop.Dates", is_delta=True)


@pytest.mark.timeout(600)
def test_old_rows_are_deleted_by_type(spark: SparkSession, tmp_path: Path) -> None:
    def read(table: str) -> list[Any]:
        return spark.read.format("delta").load(table).select("batch_id").collect()

    counts, kept = expired(spark, batches_in(tmp_path), str(tmp_path / "lake"), read, format="delta")
    assert counts == {CLICKS: 4, f"{CLICKS}~unparsed": 1, ORDER: 1}
    assert kept == {
        (CLICKS, "batch-1"): 2, (CLICKS, "batch-2"): 1, (f"{CLICKS}~unparsed", "batch-2"): 1,
        (ORDER, "batch-0"): 1, (ORDER, "batch-2"): 1, ("~unparsed", "batch-1"): 1,
    }  # fmt: skip


@pytest.mark.timeout(600)
def test_a_repeated_message_is_one_row(spark: SparkSession, tmp_path: Path) -> None:
    check_merge(spark, batches_in(tmp_path), str(tmp_path / "lake"), format="delta")
    compact_message_tables(spark, str(tmp_path / "lake"), format="delta")
    check_merge(spark, batches_in(tmp_path), str(tmp_path / "lake"), format="delta")


@pytest.mark.timeout(600)
def test_a_type_that_waits_for_its_rewrite_stops_no_other(spark: SparkSession, tmp_path: Path) -> None:
    check_other_types_are_parsed_again(spark, batches_in(tmp_path), str(tmp_path / "lake"), format="delta")


@pytest.mark.timeout(600)
def test_a_rewrite_counts_broken_texts_and_keeps_the_clustering(spark: SparkSession, tmp_path: Path) -> None:
    lake, name = str(tmp_path / "lake"), "Shop.Left"
    SchemaFolder(f"{lake}/_schemas").put(name, struct({"N": "long"}))
    batch = batches_in(tmp_path)([message(name, f'{{"N":{n},"Left":{n}}}') for n in range(3)])
    write_message_tables(spark, batch, lake, format="delta", new_fields=False)
    assert rewrite_message_table(spark, lake, name, format="delta").warnings == ()
    spark.sql(f"ALTER TABLE delta.`{lake}/{name}` CLUSTER BY (time_sent, N)")
    spark.sql(f"UPDATE delta.`{lake}/{name}` SET _rescued = '[1' WHERE N = 1")
    (warning,) = rewrite_message_table(spark, lake, name, format="delta").warnings
    assert warning.startswith("In 1 of 3 rows _rescued is no JSON object")
    rows = spark.read.format("delta").load(f"{lake}/{name}").selectExpr("N", "_rescued").collect()
    assert sorted(map(tuple, rows)) == [(0, '{"Left":0}'), (1, "[1"), (2, '{"Left":2}')]
    for clustered, schema in ((["time_sent", "N"], struct({"Left": "long"})), (["time_sent"], struct({}))):
        assert spark.sql(f"DESCRIBE DETAIL delta.`{lake}/{name}`").collect()[0]["clusteringColumns"] == clustered
        SchemaFolder(f"{lake}/_schemas").put(name, schema)
        rewrite_message_table(spark, lake, name, format="delta")


@pytest.mark.timeout(600)
def test_tables_have_names_in_a_catalog(spark: SparkSession, config: dict[str, str], tmp_path: Path) -> None:
    """A batch with new times, a repetition, a second parse and a compaction, in a schema of the session's catalog."""
    from pyspark.sql import functions as sf

    name, make = f"n{uuid.uuid4().hex}", batches_in(tmp_path)
    spark.sql(f"CREATE SCHEMA {name}")
    lake = Place(spark, config, "delta", f"spark_catalog.{name}", tmp_path, tmp_path)
    with pytest.raises(ConfigurationError, match="name a work_folder"):
        write_message_tables(spark, make(messages()), lake.location, format="delta")
    for number in range(2):
        batch = make([*messages(is_later=number == 1), *sent(0, 10)], batch_id=f"batch-{number}")
        for _ in range(2):
            tables = write_message_tables(spark, batch, lake.location, **lake.options)
    assert tables[0].table == f"{lake.location}.Shop_Dates"
    dates = spark.table(f"{lake.location}.Shop_Dates")
    assert (dates.count(), dates.where("Local IS NOT NULL").count(), dates.schema["Local"].dataType.typeName()) == (
        8, 4, "timestamp_ntz",
    )  # fmt: skip
    spark.range(1).createOrReplaceTempView("a_view_of_the_session")
    merged = compact_message_tables(spark, lake.location, format="delta")
    assert {each.new_files for each in merged} == {1}
    unpacked = {"application/json": lambda body: sf.to_json(sf.struct(sf.decode(body, "UTF-8").alias("said")))}
    moved = reparse(spark, lake.location, decoders=unpacked, **lake.options)
    assert sum(each.messages for each in moved) == 4
    assert spark.table(f"{lake.location}.Shop_Type0__unparsed").count() == 0
    assert [path.name for path in (tmp_path / "work").iterdir()] == ["_schemas"]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", FORMATS)
def test_a_zoo_of_names(name: str, spark: SparkSession, config: dict[str, str], tmp_path: Path) -> None:
    """Each name is a column that every reader finds, or its values are rescued; with a change data feed as well."""
    lake = place(name, spark, config, tmp_path)
    with session_settings(spark, {"spark.databricks.delta.properties.defaults.enableChangeDataFeed": "true"}):
        table, schemas = check_names(lake)
    numbers = [0, 1, 2, 3, 4] if name == "parquet" else [0, 1, 3, 4]
    for reader, found in read_by_all(Path(table), is_delta=name == "delta").items():
        assert len(set(found.schema.names)) == len(found.schema.names), reader
        check_rows(found.to_pylist(), schemas, numbers)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", FORMATS)
def test_every_value_is_accounted_for(name: str, spark: SparkSession, config: dict[str, str], tmp_path: Path) -> None:
    check_account(place(name, spark, config, tmp_path))
