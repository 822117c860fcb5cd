"""Tables of message types in Iceberg where a run is killed: each message is in one table, once."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest
from jars import stop_java
from pyiceberg.table import StaticTable

from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.spark import local_session
from airflow_sqlqueue.spark.message_tables import compact_message_tables, table_formats, write_message_tables
from tests.sinks.accounts import check_account
from tests.sinks.conftest import ICEBERG_JARS
from tests.sinks.message_tables import (
    COMPACT_POINTS,
    POINTS,
    REPARSE_POINTS,
    REWRITE_POINTS,
    Place,
    check_killed_compaction,
    check_killed_reparse,
    check_killed_rewrite,
    check_killed_run,
    check_other_schemas,
    chosen,
    expected,
    sent,
)
from tests.sinks.names import check_names, check_rows
from tests.spark.conftest import batches_in
from tests.spark.test_table_times import INSTANTS, messages, microseconds
from tests.table_readers import check_types

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# In threads, PySpark 4.1 leaves the sockets of collect() to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Settings of a session with a catalog ``lake`` on a disk."""
    return {
        "spark.jars": ",".join(ICEBERG_JARS or ()),
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.lake.type": "hadoop",
        "spark.sql.catalog.lake.warehouse": tmp_path_factory.mktemp("lake").as_uri(),
    }


@pytest.fixture(scope="module")
def spark(config: dict[str, str]) -> Iterator[SparkSession]:
    """A session in a Java machine of its own."""
    stop_java()
    with local_session("iceberg", "local[4]", config) as session:
        yield session
    stop_java()


@pytest.fixture
def place(spark: SparkSession, config: dict[str, str], tmp_path: Path) -> Place:
    """An empty namespace."""
    name = f"n{uuid.uuid4().hex}"
    spark.sql(f"CREATE NAMESPACE lake.{name}")
    folder = Path(urlsplit(config["spark.sql.catalog.lake.warehouse"]).path, name)
    return Place(spark, config, "iceberg", f"lake.{name}", folder, tmp_path)


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("method", "number", "when"), chosen(POINTS, 6))
def test_a_killed_run_is_repeated(place: Place, method: str, number: int, when: str) -> None:
    check_killed_run(place, method, number, when)


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("method", "number", "when"), chosen(REPARSE_POINTS, 2))
def test_a_killed_second_parse_is_repeated(place: Place, method: str, number: int, when: str) -> None:
    check_killed_reparse(place, method, number, when)


@pytest.mark.timeout(600)
def test_a_batch_that_is_repeated_with_other_schemas_is_in_one_table(place: Place) -> None:
    check_other_schemas(place)


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("method", "number", "when"), chosen(REWRITE_POINTS, 0))
def test_a_killed_rewrite_is_repeated(place: Place, method: str, number: int, when: str) -> None:
    check_killed_rewrite(place, method, number, when)


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("method", "number", "when"), chosen(COMPACT_POINTS, 2))
def test_a_killed_compaction_is_repeated(place: Place, method: str, number: int, when: str) -> None:
    check_killed_compaction(place, method, number, when)


def test_a_session_works_on_what_another_has_committed(place: Place) -> None:
    """Iceberg's catalog keeps tables as a session has read them, without the files that the other has committed."""
    make, messages = batches_in(place.tmp_path), [sent(100 * each, 40) for each in range(2)]
    batches = [make(some, batch_id=f"batch-{each}") for each, some in enumerate(messages)]
    write_message_tables(place.spark, batches[0], place.location, **place.options)
    other = place.spark.newSession()
    write_message_tables(other, batches[1], place.location, **place.options)
    wanted = sum((expected(some, f"batch-{each}") for each, some in enumerate(messages)), Counter[tuple[str, str]]())
    merged = [compact_message_tables(session, place.location, format="iceberg") for session in (place.spark, other)]
    assert [{each.merged_files for each in tables} - {2} for tables in merged] == [set(), {0}]
    assert place.content() == wanted


def test_times_are_64_bit_microseconds(place: Place) -> None:
    for number in range(2):
        batch = batches_in(place.tmp_path)(messages(is_later=number == 1), batch_id=f"batch-{number}")
        write_message_tables(place.spark, batch, place.location, **place.options)
    check_types(place.folder / "Shop_Dates", {"At": True, "Local": False})
    found = place.spark.sql(f"SELECT unix_micros(At) AS at FROM {place.location}.Shop_Dates").collect()
    assert sorted(row["at"] for row in found) == sorted(2 * [microseconds(text) for text in INSTANTS])


def test_names_of_tables(place: Place) -> None:
    lake = table_formats.IcebergFormat(place.spark, place.location)
    names = [
        lake.table(name).rpartition(".")[2]
        for name in ("Shop.A", "Shop_A", "Shop.A_B", "Shop.A`1[[Shop.B]]", "x" * 200)
    ]
    assert names[0] == "Shop_A"
    assert len(set(names)) == 5
    assert all(name.isidentifier() and len(name) <= 97 for name in names)
    assert lake.table("Shop.A", is_unparsed=True) == f"{place.location}.Shop_A__unparsed"


def test_a_namespace_and_a_folder_are_needed(place: Place) -> None:
    batch = batches_in(place.tmp_path)(sent(0, 5))
    with pytest.raises(ConfigurationError, match="name a work_folder"):
        write_message_tables(place.spark, batch, place.location, format="iceberg")
    with pytest.raises(ConfigurationError, match="give the location as catalog"):
        write_message_tables(place.spark, batch, "s3://lake", format="iceberg", work_folder="w")


@pytest.mark.timeout(600)
def test_a_zoo_of_names(place: Place) -> None:
    table, schemas = check_names(place)
    metadata = sorted((place.folder / table.rpartition(".")[2] / "metadata").glob("v*.metadata.json"))
    latest = max(metadata, key=lambda path: int(path.name.split(".")[0][1:]))
    found = StaticTable.from_metadata(str(latest)).scan().to_arrow()
    check_rows(found.to_pylist(), schemas, [0, 1, 3, 4])


@pytest.mark.timeout(600)
def test_every_value_is_accounted_for(place: Place) -> None:
    check_account(place)
