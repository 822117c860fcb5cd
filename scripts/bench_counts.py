"""From a queue of small messages to counts by type: the drain, and Spark's count beside one of bare Parquet files.

Part of ``bench_spark.py``. The bare side takes the one header out of the text and knows nothing of messages: not that
malformed headers have no type, nor that a type's name ends where its assembly begins.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from bench_report import Comparison
from bench_setting import fill, messages

from airflow_sqlqueue.drain.drain import Drain
from airflow_sqlqueue.drain.storage.folder import StagingFolder
from airflow_sqlqueue.message import HeaderNames, Message
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.session import Session
from airflow_sqlqueue.spark import raw_schema, read_batch

if TYPE_CHECKING:
    from pyspark.sql import GroupedData, SparkSession

TYPES = 20
OURS, BARE = "messages to counts by type", "the same of bare Parquet"


def compare_counts(
    spark: SparkSession,
    queue: QueueTable,
    count: int,
    least: Callable[[dict[str, Callable[[], object]]], dict[str, float]],
) -> list[Comparison]:
    """Drain ``count`` messages of an empty queue and count them; ``least`` gives the least seconds of each side.

    Raises :class:`RuntimeError` where a side counts other messages than were drained.
    """
    fill(queue, count, typed)
    settings = queue.session.settings
    with tempfile.TemporaryDirectory(prefix="sqlqueue-bench-") as folder:
        started = time.perf_counter()
        batch = Drain(lambda: Session(settings), queue.address, StagingFolder.of(Path(folder))).run().batch
        drained = time.perf_counter() - started
        from pyspark.sql import functions as sf

        header = sf.get_json_object("Headers", f"$['{HeaderNames.ENCLOSED_MESSAGE_TYPES}']")
        raw = spark.read.schema(raw_schema()).parquet(*batch.paths)
        frames = {OURS: read_batch(spark, batch).groupBy("message_type"), BARE: raw.groupBy(header)}
        found = least({name: partial(_count, rows, count) for name, rows in frames.items()})
    note = f"drained in {drained:,.0f} s before"
    return [Comparison(f"{count:,} {OURS}", found[OURS], BARE, found[BARE], limit=True, unit="s", note=note)]


def typed(count: int) -> Iterator[Message]:
    """Small messages of :data:`TYPES` types in turns."""
    for number, message in enumerate(messages(count)):
        kind = f"Shop.Messages.Event{number % TYPES}, Shop.Messages"
        headers = {**dict(message.headers), HeaderNames.ENCLOSED_MESSAGE_TYPES: kind}  # type: ignore[arg-type]
        yield replace(message, headers=headers, body=message.body[:100])


def _count(groups: GroupedData, wanted: int) -> None:
    # A DataFrame of its own each time: one that is collected again takes what its shuffle has kept.
    found = [row["count"] for row in groups.count().collect()]
    if (len(found), sum(found)) != (min(TYPES, wanted), wanted):
        raise RuntimeError(f"{sum(found)} messages of {len(found)} types were counted, {wanted} were drained.")
