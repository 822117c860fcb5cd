"""Short run of ``scripts/bench_bodies.py``; ``make bench`` checks the ratios."""

from __future__ import annotations

import bench_bodies
import pytest

from airflow_sqlqueue.queue import QueueTable


# Delta Lake's default of 50 tasks for a table's log is slow, which is what this side shows.
@pytest.mark.timeout(900)
@pytest.mark.spark
def test_all_sides_are_measured(queue: QueueTable) -> None:
    found = bench_bodies.compare_bodies(queue, count=60, turns=1, types=4, few=2)
    assert [(each.name, each.base_name) for each in found] == [
        (bench_bodies.FIELDS, bench_bodies.BARE),
        (bench_bodies.ALONE, bench_bodies.BARE),
        (bench_bodies.FIELDS, bench_bodies.WITH_TYPE),
        (bench_bodies.MANY, bench_bodies.ONE),
        (bench_bodies.FEW_OF_MANY, bench_bodies.FEW_OF_ONE),
        *([(bench_bodies.OWN, bench_bodies.DEFAULT)] if bench_bodies.DELTA_JARS else []),
        (bench_bodies.UNKNOWN, bench_bodies.FITS),
        (bench_bodies.EACH_UNKNOWN, bench_bodies.FITS),
        (bench_bodies.TEXT, bench_bodies.FITS),
        (bench_bodies.FRACTION, bench_bodies.FITS),
    ]
