"""Speed of bodies as columns, against Spark's own reader of JSON; of tables of many message types against one; and of
bodies that do not fit their schema against those that do.

The bodies are those of ``bench_setting``, drained to files; every side reads the same in one session, in turns.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from bench_report import Comparison
from bench_setting import TURNS, drained, fill, messages
from bench_spark import least_seconds, run
from jars import jars_for, stop_java

from airflow_sqlqueue import Batch, HeaderNames, Message
from airflow_sqlqueue.bodies.arrow_parser import BodyParser
from airflow_sqlqueue.bodies.schemas import read_schema, struct
from airflow_sqlqueue.client.schemas.files import SchemaFolder
from airflow_sqlqueue.drain.storage.folder import StagingFolder
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.spark import MicroBatch, local_session, parse_bodies, read_batch
from airflow_sqlqueue.spark.message_tables import write_message_rows, write_message_tables

FIELDS, BARE, WITH_TYPE = "fields by a schema", "bare from_json", "from_json beside the content type"
ALONE = "fields by a schema, no headers"
MANY, ONE = "tables of 50 types", "the table of one type"
TYPES, FEW_TYPES = 50, 40
FEW_OF_MANY, FEW_OF_ONE = "10,000 messages to tables of 40 types", "the same to the table of one type"
OWN, DEFAULT = "5 tables of Delta Lake in our session", "the same with 50 tasks, Delta's default"
DELTA_JARS = jars_for("delta") or []
"""The jars of Delta Lake; without them (``make jars``) the comparison with its default is left out."""
FITS, UNKNOWN, EACH_UNKNOWN = "bodies that fit", "an unknown field in a hundredth", "an unknown field in each"
TEXT, FRACTION = "a text for a number in a hundredth", "a fraction for a whole number in a hundredth"


def compare_bodies(
    queue: QueueTable, *, count: int = 500_000, turns: int = TURNS, types: int = TYPES, few: int = FEW_TYPES
) -> list[Comparison]:
    """Compare fields by a schema with ``from_json`` of the same schema, and tables of ``types`` types with one.

    The names of the sides are those of the bench, which takes the defaults.
    """
    from pyspark.sql import functions as sf
    from pyspark.sql.types import StructType

    with tempfile.TemporaryDirectory(prefix="sqlqueue-bench-") as folder:
        batches = {name: _drained(queue, count, kinds, Path(folder)) for name, kinds in ((MANY, types), (ONE, 1))}
        with local_session("bench") as spark:
            numbers = iter(range(1_000))

            def write(batch: Batch) -> None:
                lake = f"{folder}/lake{next(numbers)}"
                tables = write_message_tables(spark, batch, lake, schemas=f"{folder}/schemas")
                if sum(table.messages for table in tables) != batch.messages:
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
            of_few = {
                name: partial(write, _drained(queue, min(count, 10_000), kinds, Path(folder)))
                for name, kinds in ((FEW_OF_MANY, few), (FEW_OF_ONE, 1))
            }
            best |= least_seconds(of_few, turns)
        if DELTA_JARS:
            batch = _drained(queue, min(count, 10_000), min(few, 5), Path(folder))
            best |= _delta_seconds(batch, f"{folder}/delta", turns)
    # The bare reader never looks at the headers, which say what a body is: both sides of a bound read the same columns.
    bounds: tuple[tuple[str, str, float | None], ...] = (
        (FIELDS, BARE, None),
        (ALONE, BARE, 1.5),
        (FIELDS, WITH_TYPE, 1.5),
        (MANY, ONE, 1.5),
        (FEW_OF_MANY, FEW_OF_ONE, 2.5),
        *([(OWN, DEFAULT, 1.0)] if DELTA_JARS else []),
    )
    compared = [
        Comparison(name, best[name], base, best[base], bound, limit=True, unit="s") for name, base, bound in bounds
    ]
    return [*compared, *compare_misfits(min(count, 20_000))]


def _delta_seconds(batch: Batch, lake: str, turns: int) -> dict[str, float]:
    """Return the seconds of writes to tables that exist, by the number of tasks that read a table's log."""
    numbers = iter(range(1_000))
    settings = {
        "spark.jars": ",".join(DELTA_JARS),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    }
    stop_java()
    with local_session("bench", config=settings) as spark:
        tasks = "spark.databricks.delta.snapshotPartitions"
        own = spark.conf.get(tasks)

        def write(number: str | None) -> None:
            spark.conf.set(tasks, str(number))
            write_message_rows(read_batch(spark, batch), lake, MicroBatch("bench", next(numbers)), format="delta")

        write(own)
        found = least_seconds({OWN: partial(write, own), DEFAULT: partial(write, "50")}, turns)
    stop_java()
    return found


def compare_misfits(count: int) -> list[Comparison]:
    """Compare bodies that do not fit their schema with those that do, without Spark and by the time of the process."""
    import pyarrow as pa

    schema = read_schema(struct({"OrderId": "string", "Number": "long", "Total": "decimal(38,9)"}))
    fitting = [f'{{"OrderId":"{number:08}","Number":{number},"Total":{number}.25}}' for number in range(count)]
    sides = {
        FITS: fitting,
        UNKNOWN: _hundredth(fitting, lambda body: f'{body[:-1]},"Extra":"x"}}'),
        EACH_UNKNOWN: [f'{body[:-1]},"Extra":"x"}}' for body in fitting],
        TEXT: _hundredth(fitting, lambda body: body.replace('"Number":', '"Number":"x","":')),
        FRACTION: _hundredth(fitting, lambda body: body.replace('"Number":', '"Number":0.5,"":')),
    }
    best = dict.fromkeys(sides, 0.0)
    for _ in range(5):
        for name, texts in sides.items():
            bodies = pa.array([text.encode() for text in texts], pa.binary())
            started = time.process_time()
            BodyParser(schema).parse(bodies, pa.nulls(count, pa.string()))
            best[name] = max(best[name], count / (time.process_time() - started))
    bounds = {UNKNOWN: 0.5, EACH_UNKNOWN: 0.2, TEXT: 0.5, FRACTION: 0.4}
    return [Comparison(name, best[name], FITS, best[FITS], bound) for name, bound in bounds.items()]


def _hundredth(bodies: list[str], change: Callable[[str], str]) -> list[str]:
    return [change(body) if number % 100 == 50 else body for number, body in enumerate(bodies)]


def _drained(queue: QueueTable, count: int, kinds: int, folder: Path) -> Batch:
    fill(queue, count, partial(_typed, kinds=kinds))
    return drained(queue, StagingFolder.of(folder / f"staging{kinds}"))


def _typed(count: int, *, kinds: int) -> Iterator[Message]:
    for number, message in enumerate(messages(count)):
        headers = dict(message.headers)  # type: ignore[arg-type]
        headers[HeaderNames.ENCLOSED_MESSAGE_TYPES] = f"Shop.Event{number % kinds}, Shop"
        yield replace(message, headers=headers)
