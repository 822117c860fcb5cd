"""Speed of bodies as columns, against Spark's own reader of JSON.

``python scripts/bench_bodies.py [--json]``, as ``bench_queue.py``. The bodies are those of ``bench_setting``,
drained to files; both sides read the same messages in one session, in turns.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from bench_report import Comparison, report
from bench_setting import TURNS, fill, messages
from bench_spark import least_seconds, run

from airflow_sqlqueue.bodies.decoding import parse
from airflow_sqlqueue.bodies.inference import Seen, struct_of
from airflow_sqlqueue.drain.drain import Drain
from airflow_sqlqueue.drain.storage.folder import StagingFolder
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.session import Session
from airflow_sqlqueue.spark import local_session, parse_bodies, read_batch

FIELDS, BARE = "fields by a schema", "bare from_json"


def compare_bodies(queue: QueueTable, *, count: int = 200_000, turns: int = TURNS) -> list[Comparison]:
    """Compare fields by a schema, with the values that do not fit, with ``from_json`` of the same schema."""
    from pyspark.sql import functions as sf
    from pyspark.sql.types import StructType

    seen = Seen()
    for message in messages(100):
        seen.add(parse(message.body))
    schema = struct_of(seen)
    fill(queue, count)
    settings = queue.session.settings
    with tempfile.TemporaryDirectory(prefix="sqlqueue-bench-") as folder:
        batch = Drain(lambda: Session(settings), queue.address, StagingFolder.of(Path(folder))).run().batch
        with local_session("bench") as spark:
            rows = read_batch(spark, batch)
            bare = sf.from_json(sf.col("Body").cast("string"), StructType.fromJson(schema))
            sides: dict[str, Callable[[], object]] = {
                FIELDS: partial(run, parse_bodies(rows, schema, envelope=())),
                BARE: partial(run, rows.select(bare.alias("_")).select("_.*")),
            }
            best = least_seconds(sides, turns)
    return [Comparison(FIELDS, best[FIELDS], BARE, best[BARE], 1.5, limit=True, unit="s")]


if __name__ == "__main__":
    sys.exit(report(__doc__ or "", {"bodies": compare_bodies}))
