"""Tables of message types in Parquet and Delta Lake where a run is killed: each message is in one table, once."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.sinks.message_tables import POINTS, REPARSE_POINTS, Place, check_killed_reparse, check_killed_run, chosen

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(params=["parquet", "delta"])
def place(request: pytest.FixtureRequest, spark: SparkSession, config: dict[str, str], tmp_path: Path) -> Place:
    """An empty lake on a disk."""
    lake = tmp_path / "lake"
    return Place(spark, config, request.param, str(lake), lake, tmp_path)


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("method", "number", "when"), chosen(POINTS, 5))
def test_a_killed_run_is_repeated(place: Place, method: str, number: int, when: str) -> None:
    check_killed_run(place, method, number, when)


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("method", "number", "when"), chosen(REPARSE_POINTS, 2))
def test_a_killed_second_parse_is_repeated(place: Place, method: str, number: int, when: str) -> None:
    check_killed_reparse(place, method, number, when)
