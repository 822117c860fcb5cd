"""How fast Spark reads a batch, beside its own readers of JSON and of JDBC, and beside writing the same rows again.

``python scripts/bench_spark.py [--json]``, as ``bench_queue.py``. The messages are a shop's, drained to files; every
side reads the same files in one session, in turns.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from bench_counts import compare_counts
from bench_jdbc import NEEDED, jdbc_comparisons, jdbc_frames
from bench_report import Comparison, report
from bench_setting import TURNS
from jars import forget_java

from airflow_sqlqueue.drain.drain import Drain
from airflow_sqlqueue.drain.manifest import Batch
from airflow_sqlqueue.drain.storage.folder import StagingFolder
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.session import Session
from airflow_sqlqueue.spark import local_session, raw_schema, read_batch
from airflow_sqlqueue.spark.jobs.audit import audit_rows, write_audit_rows
from airflow_sqlqueue.traffic import generate

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BARE, TYPED, MAP = "bare from_json", "typed columns", "typed columns and the map"
REWRITE, TABLE = "rewrite", "the audit table"
_NOT_TYPED = {"headers", "headers_raw"}


def compare_spark(
    queue: QueueTable, *, count: int = 100_000, turns: int = TURNS, counted: int = 1_000_000
) -> list[Comparison]:
    """Columns against what reading JSON takes at the least, the table against writing its rows; a session's start."""
    with tempfile.TemporaryDirectory(prefix="sqlqueue-bench-") as folder:
        batch = _shop(queue, count, Path(folder, "staging"))
        if NEEDED:
            forget_java()
        started = time.perf_counter()
        with local_session("bench", config={"spark.jars": ",".join(NEEDED)}) as spark:
            spark.range(1).count()
            session = time.perf_counter() - started
            best = _least_seconds(_kinds(spark, batch, Path(folder)), turns)
            counts = compare_counts(spark, queue, counted, partial(_least_seconds, turns=turns))
            found = jdbc_frames(spark, queue, count // 5) if NEEDED else {}
            reads = _least_seconds({name: partial(_run, frame) for name, frame in found.items()}, turns)
    pairs = (
        (TYPED, BARE, 2.5, "all of them"),
        (MAP, BARE, None, ""),
        (TABLE, REWRITE, 3.0, "parses and sorts"),
    )
    compared = [
        Comparison(name, best[name], base, best[base], bound, limit=True, unit="s", note=note)
        for name, base, bound, note in pairs
    ]
    compared += counts
    if reads:
        compared += jdbc_comparisons(reads)
    return [*compared, Comparison("session and first job", session, REWRITE, best[REWRITE], unit="s", note="cold")]


def _shop(queue: QueueTable, count: int, staging: Path) -> Batch:
    queue.send(generate(count, seed=1))
    settings = queue.session.settings
    return Drain(lambda: Session(settings), queue.address, StagingFolder.of(staging)).run().batch


def _kinds(spark: SparkSession, batch: Batch, folder: Path) -> dict[str, Callable[[], object]]:
    from pyspark.sql import functions as sf

    raw = spark.read.schema(raw_schema()).parquet(*batch.paths)
    rows = read_batch(spark, batch)
    typed = [name for name in rows.columns if name not in {*raw.columns, *_NOT_TYPED}]
    again = raw.write.mode("overwrite").option("compression", "zstd")
    return {
        BARE: partial(_run, raw.select(sf.from_json("Headers", "map<string,string>"))),
        TYPED: partial(_run, rows.select(*typed)),
        MAP: partial(_run, rows.select("headers", *typed)),
        REWRITE: partial(again.parquet, str(folder / "again")),
        TABLE: partial(write_audit_rows, audit_rows(spark, batch), str(folder / "lake"), batch),
    }


def _run(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def _least_seconds(kinds: dict[str, Callable[[], object]], turns: int) -> dict[str, float]:
    """The fastest turn of each; the first of each, which loads and compiles, does not count."""
    best: dict[str, float] = {}
    for turn in range(turns + 1):
        for name, work in kinds.items():
            started = time.perf_counter()
            work()
            if turn:
                best[name] = min(best.get(name, float("inf")), time.perf_counter() - started)
    return best


if __name__ == "__main__":
    sys.exit(report(__doc__ or "", {"spark": compare_spark}))
