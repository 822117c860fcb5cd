"""Speed of a drain on Spark's executors against threads of one process, on a cluster of this machine.

``python scripts/bench_executors.py [--json]``, as ``bench_queue.py``. Executors, threads and fakemssql share the cores
of this machine, so more executors than cores cannot be faster: the difference is the cost of Spark itself.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

from bench_drain import drain
from bench_report import Comparison, cores, report
from bench_setting import TURNS, best_rates, fill
from spark_cluster import SparkCluster

from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.spark import local_session
from airflow_sqlqueue.spark.executors import SparkEngine

THREADS, SPARK = "threads", "executors"


def compare_executors(
    queue: QueueTable, *, count: int = 60_000, turns: int = TURNS, executors: Sequence[int] = (1, 2, 4)
) -> list[Comparison]:
    """Compare drains by executors and by as many threads; the first drain of a session is a figure of its own."""
    compared, note = [], f"{cores()} cores"
    with SparkCluster(workers=1, executors=max(executors)) as cluster:
        for number in executors:
            with local_session("bench", cluster.url, cluster.settings(number)) as spark:
                engine = SparkEngine(spark, queue.session.settings)
                fill(queue, count)
                started = time.perf_counter()
                drain(queue, engine=engine)
                first = time.perf_counter() - started
                kinds = {SPARK: lambda: drain(queue, engine=engine), THREADS: lambda: drain(queue, number)}  # noqa: B023
                best = best_rates(kinds, turns, before=lambda name: fill(queue, count))
            threads = f"{number} {THREADS}"
            compared += [
                Comparison(f"{number} {SPARK}", best[SPARK], threads, best[THREADS], note=note),
                Comparison(
                    f"first drain by {number}", first, threads, count / best[THREADS], unit="s", note="executors start"
                ),
            ]
    return compared


if __name__ == "__main__":
    sys.exit(report(__doc__ or "", {"executors": compare_executors}))
