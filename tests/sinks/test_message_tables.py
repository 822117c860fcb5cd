"""Tables of message types in Parquet and Delta Lake where a run is killed: each message is in one table, once."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from airflow_sqlqueue.errors import SparkJobError
from airflow_sqlqueue.spark.message_tables import compact_message_tables, write_message_tables
from tests.sinks.message_tables import (
    AT_LENGTH,
    COMPACT_POINTS,
    POINTS,
    REPARSE_POINTS,
    Place,
    check_killed_compaction,
    check_killed_reparse,
    check_killed_run,
    chosen,
    drawn,
    sent,
)
from tests.spark.conftest import batches_in

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


FORMATS = ("parquet", "delta")
RUNS = [(name, *point) for name in FORMATS for point in chosen(POINTS, 5)]
REPARSES = [(name, *point) for name in FORMATS for point in chosen(REPARSE_POINTS, 2)]


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("name", "method", "number", "when"), drawn(RUNS) if AT_LENGTH else RUNS[:1])
def test_a_killed_run_is_repeated(
    name: str, method: str, number: int, when: str, spark: SparkSession, config: dict[str, str], tmp_path: Path
) -> None:
    check_killed_run(place(name, spark, config, tmp_path), method, number, when)


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("name", "method", "number", "when"), REPARSES if AT_LENGTH else REPARSES[-1:])
def test_a_killed_second_parse_is_repeated(
    name: str, method: str, number: int, when: str, spark: SparkSession, config: dict[str, str], tmp_path: Path
) -> None:
    check_killed_reparse(place(name, spark, config, tmp_path), method, number, when)


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("method", "number", "when"), chosen(COMPACT_POINTS, 2))
def test_a_killed_compaction_is_repeated(
    method: str, number: int, when: str, spark: SparkSession, config: dict[str, str], tmp_path: Path
) -> None:
    check_killed_compaction(place("delta", spark, config, tmp_path), method, number, when)


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


def place(name: str, spark: SparkSession, config: dict[str, str], tmp_path: Path) -> Place:
    """An empty lake on a disk."""
    lake = tmp_path / "lake"
    return Place(spark, config, name, str(lake), lake, tmp_path)
