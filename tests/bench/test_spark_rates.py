"""Short run of ``scripts/bench_spark.py``; ``make bench`` checks the ratios."""

from __future__ import annotations

from typing import Any

import bench_spark
import pytest
from bench_spark import JDBC_JARS

from airflow_sqlqueue.queue.depth import depth

BY_JDBC = {"a look at a queue": "JDBC reader of the queue", "a batch in a table": "JDBC reader of the table"}


@pytest.mark.spark
def test_every_reading_is_measured_against_its_base(queue: Any) -> None:
    found = bench_spark.compare_spark(queue, count=60, turns=1, counted=40)
    assert depth(queue).messages == (12 if JDBC_JARS else 0)
    assert {(each.name, each.base_name): (each.bound, each.limit) for each in found[:5]} == {
        ("typed columns", "bare from_json"): (2.5, True),
        ("typed columns and the map", "bare from_json"): (None, True),
        ("all columns", "bare from_json and the raw columns"): (4.5, True),
        ("the audit table", "rewrite"): (3.0, True),
        ("40 messages to counts by type", "the same of bare Parquet"): (None, True),
    }
    jdbc = {each.name: each.base_name for each in found[5:-1]}
    assert jdbc == (BY_JDBC if JDBC_JARS else {})
    assert all(each.ratio > 0 for each in found)
