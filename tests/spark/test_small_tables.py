"""Small Parquet tables, which the driver writes: they are as those that Spark writes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.types import StructType

from airflow_sqlqueue.bodies.schemas import array, map_of, struct
from airflow_sqlqueue.bodies.types import LEAVES
from airflow_sqlqueue.client.schemas.files import SchemaFolder
from airflow_sqlqueue.messages.message import Message
from airflow_sqlqueue.spark.message_tables import work_folder as module
from airflow_sqlqueue.spark.message_tables import write_message_tables
from airflow_sqlqueue.spark.message_tables.parquet_file import write_file

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.spark.conftest import MakeBatch

NAME = "Shop.All"
VALUES: dict[str, Any] = {
    "binary": "AAECAw==",
    "boolean": True,
    "date": "0001-01-01",
    "string": "ä",
    "timestamp": "0001-01-02T00:00:00Z",
    "timestamp_ntz": "1582-10-10T12:00:00",
}


def all_leaves() -> Any:
    """A schema with each leaf type, by itself, in a struct, in a list and as the values of a map."""
    leaves = {name: "decimal(38,9)" if name == "decimal" else name for name in LEAVES}
    leaves |= {f"decimal_{digits}": f"decimal({digits},2)" for digits in (5, 12)}
    nested = {f"of_{name}": array(struct({"Each": kind, "Map": map_of(kind)})) for name, kind in leaves.items()}
    return struct({**leaves, **nested}, {"long": {"comment": "A number."}})


def body(is_full: bool) -> bytes:
    values: dict[str, Any] = {}
    for name in (*LEAVES, "decimal_5", "decimal_12"):
        value = VALUES.get(name, 1)
        values |= {name: value, f"of_{name}": [{"Each": value, "Map": {"k": value}}, None, {"Each": None, "Map": {}}]}
    return json.dumps(values if is_full else {"Extra": 1}).encode()


def test_a_small_table_is_as_spark_writes_it(
    spark: SparkSession, make_batch: MakeBatch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    headers = {"NServiceBus.EnclosedMessageTypes": NAME, "NServiceBus.ContentType": "application/json"}
    batch = make_batch([Message(headers, each) for each in (body(True), body(False), b"{")])
    schemas = SchemaFolder(tmp_path / "schemas")
    schemas.put(NAME, all_leaves())
    found = []
    for most in (module._SMALL_BYTES, 0):
        monkeypatch.setattr(module, "_SMALL_BYTES", most)
        lake = tmp_path / f"lake{most}"
        for _ in range(2):
            write_message_tables(spark, batch, str(lake), schemas=schemas, new_fields=False)
        for name in (NAME, f"{NAME}~unparsed"):
            (path,) = (lake / name).rglob("*.parquet")
            rows = spark.read.parquet(str(lake / name))
            noted = {key: text for key, text in pq.read_metadata(path).metadata.items() if key != b"ARROW:schema"}
            columns = json.loads(noted.pop(b"org.apache.spark.sql.parquet.row.metadata"))
            schema = pq.ParquetFile(path).schema.to_arrow_schema().remove_metadata()
            found.append((schema, noted, columns, rows.schema, sorted(rows.collect())))
    assert found[:2] == found[2:]
    assert found[0][-1][0]["of_date"][0]["Each"] == found[0][-1][0]["date"]


def test_rows_that_compress_well_are_not_held_at_once(tmp_path: Path) -> None:
    size, count, held = 4 * 1024 * 1024, 32, []

    def rows() -> Iterator[pa.RecordBatch]:
        for _ in range(count):
            held.append(pa.total_allocated_bytes())
            yield pa.RecordBatch.from_pydict({"Body": pa.array([bytes(size)], pa.binary())})

    write_file(str(tmp_path), StructType().add("Body", "binary"), rows(), "4.2.0")
    assert max(held) - held[0] < count // 2 * size
    (path,) = tmp_path.iterdir()
    assert pq.read_metadata(path).num_rows == count
    assert path.stat().st_size < size
