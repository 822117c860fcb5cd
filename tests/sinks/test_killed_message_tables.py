"""Tables of message types in Parquet and Delta Lake where a run is killed: each message is in one table, once."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.sinks.message_tables import (
    AT_LENGTH,
    COMPACT_POINTS,
    PARQUET_POINTS,
    POINTS,
    REPARSE_POINTS,
    REWRITE_POINTS,
    check_killed_compaction,
    check_killed_reparse,
    check_killed_rewrite,
    check_killed_run,
    chosen,
    drawn,
    place,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FORMATS = ("parquet", "delta")
RUNS = [(name, *point) for name in (*FORMATS, "large parquet") for point in chosen(POINTS, 5)]
REWRITES = [("parquet", *point) for point in chosen(PARQUET_POINTS, 0)]
REWRITES += [("delta", *point) for point in chosen(REWRITE_POINTS, 0)]
REPARSES = [(name, *point) for name in FORMATS for point in chosen(REPARSE_POINTS, 2)]


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("name", "method", "number", "when"), drawn(RUNS) if AT_LENGTH else RUNS[::2])
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
@pytest.mark.parametrize(("name", "method", "number", "when"), REWRITES)
def test_a_killed_rewrite_is_repeated(
    name: str, method: str, number: int, when: str, spark: SparkSession, config: dict[str, str], tmp_path: Path
) -> None:
    check_killed_rewrite(place(name, spark, config, tmp_path), method, number, when)


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("method", "number", "when"), chosen(COMPACT_POINTS, 2))
def test_a_killed_compaction_is_repeated(
    method: str, number: int, when: str, spark: SparkSession, config: dict[str, str], tmp_path: Path
) -> None:
    check_killed_compaction(place("delta", spark, config, tmp_path), method, number, when)
