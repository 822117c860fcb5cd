"""Speed of bodies as columns, against Spark's own reader of JSON, and of tables of 50 message types against one.

``python scripts/bench_bodies.py [--json]``, as ``bench_queue.py``. The bodies are those of ``bench_setting``, drained
to files; every side reads the same messages in one session, in turns.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from bench_report import Comparison, report
from bench_setting import TURNS, fill, messages
from bench_spark import least_seconds, run

from airflow_sqlqueue import Batch, HeaderNames, Message
from airflow_sqlqueue.drain.drain import Drain
from airflow_sqlqueue.drain.storage.folder import StagingFolder
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.schemas.files import SchemaFolder
from airflow_sqlqueue.session import Session
from airflow_sqlqueue.spark import local_session, parse_bodies, read_batch
from airflow_sqlqueue.spark.message_tables import write_message_tables

FIELDS, BARE, WITH_TYPE = "fields by a schema", "bare from_json", "from_json beside the content type"
ALONE = "fields by a schema, no headers"
MANY, ONE = "tables of 50 types", "the table of one type"
TYPES = 50


def compare_bodies(queue: QueueTable, *, count: int = 500_000, turns: int = TURNS) -> list[Comparison]:
    """Compare fields by a schema with ``from_json`` of the same schema, and many tables with one."""
    from pyspark.sql import functions as sf
    from pyspark.sql.types import StructType

    with tempfile.TemporaryDirectory(prefix="sqlqueue-bench-") as folder:
        batches = {name: _drained(queue, count, kinds, Path(folder)) for name, kinds in ((MANY, TYPES), (ONE, 1))}
        with local_session("bench") as spark:
            numbers = iter(range(1_000))

            def write(batch: Batch) -> None:
                lake = f"{folder}/lake{next(numbers)}"
                tables = write_message_tables(spark, batch, lake, schemas=f"{folder}/schemas")
                if sum(table.messages for table in tables) != count:
                    raise RuntimeError("Messages are missing in the tables.")

            # The first run makes the schemas, and warms the session up.
            write(batches[MANY])
            schema = SchemaFolder(f"{folder}/schemas").get("Shop.Event0") or {}
            rows = read_batch(spark, batches[ONE])
            fields = sf.from_json(sf.col("Body").cast("string"), StructType.fromJson(schema)).alias("_")
            sides: dict[str, Callable[[], object]] = {
                FIELDS: partial(run, parse_bodies(rows, schema, envelope=())),
                ALONE: partial(run, parse_bodies(rows.select("Body"), schema, envelope=())),
                BARE: partial(run, rows.select(fields).select("_.*")),
                WITH_TYPE: partial(run, rows.select(fields, "content_type").select("_.*", "content_type")),
                **{name: partial(write, batch) for name, batch in batches.items()},
            }
            best = least_seconds(sides, turns)
    # The bare reader never looks at the headers, which say what a body is: both sides of a bound read the same columns.
    bounds: tuple[tuple[str, str, float | None], ...] = (
        (FIELDS, BARE, None),
        (ALONE, BARE, 1.5),
        (FIELDS, WITH_TYPE, 1.5),
        (MANY, ONE, 1.5),
    )
    return [Comparison(name, best[name], base, best[base], bound, limit=True, unit="s") for name, base, bound in bounds]


def _drained(queue: QueueTable, count: int, kinds: int, folder: Path) -> Batch:
    fill(queue, count, partial(_typed, kinds=kinds))
    settings = queue.session.settings
    staging = StagingFolder.of(folder / f"staging{kinds}")
    return Drain(lambda: Session(settings), queue.address, staging).run().batch


def _typed(count: int, *, kinds: int) -> Iterator[Message]:
    for number, message in enumerate(messages(count)):
        headers = dict(message.headers)  # type: ignore[arg-type]
        headers[HeaderNames.ENCLOSED_MESSAGE_TYPES] = f"Shop.Event{number % kinds}, Shop"
        yield replace(message, headers=headers)


if __name__ == "__main__":
    sys.exit(report(__doc__ or "", {"bodies": compare_bodies}))
