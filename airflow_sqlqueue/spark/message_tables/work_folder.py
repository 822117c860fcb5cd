"""Folder of chunks: the messages of a batch, parsed and grouped by type, between the batch and its tables."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import reduce
from itertools import groupby
from operator import or_
from typing import TYPE_CHECKING, TypeAlias

from airflow_sqlqueue.bodies.statistics import Statistics
from airflow_sqlqueue.exports import LazyModule
from airflow_sqlqueue.spark.bodies import mapped
from airflow_sqlqueue.spark.message_tables.chunks import (
    CHUNKS,
    PARSED,
    REPORT,
    SEEN,
    UNPARSED_KIND,
    WAITING,
    Packing,
    Unpacking,
    part_of,
)
from airflow_sqlqueue.spark.message_tables.places import remove_folder
from airflow_sqlqueue.spark.message_tables.reports import Report

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession
    from pyspark.sql import functions as sf
    from pyspark.sql.types import StructType
else:
    sf = LazyModule("pyspark.sql.functions")

_FIELDS = CHUNKS.partition(", ")[2]
"""Columns in the files of chunks."""

_FILE_BYTES = 128 * 1024 * 1024
"""Bytes of chunks for each file of a table."""

_TASK_BYTES = 64 * 1024 * 1024
"""Bytes of chunks that a task may get at once: Spark gives up to 10,000 rows to Python in one piece."""

_SMALL_BYTES = 64 * 1024 * 1024
"""Bytes of chunks of all tables together that the driver writes by itself."""

_ROW_GROUP = {
    "parquet.block.size": str(16 * 1024 * 1024),
    # A row is a chunk of megabytes, so that sizes are checked at each row.
    "parquet.block.size.row.check.min": "1",
    "parquet.page.size.row.check.min": "1",
}

Key: TypeAlias = "tuple[str | None, str]"
"""A type and a kind of its messages: those of one table."""


class WorkFolder:
    """Folder of chunks: those of the first round, and those of the messages that waited for a schema."""

    def __init__(self, spark: SparkSession, folder: str) -> None:
        self._spark, self._folder = spark, folder
        self._all = spark.range(0).toDF("content")

    def pack(self, rows: DataFrame, packing: Packing, number: int = 1) -> tuple[int, int]:
        """Write the chunks of a round; return the number of their messages, and of those that wait for a schema."""
        from pyspark.sql import Observation

        seen = Observation()
        sums = [
            sf.expr(f"coalesce(sum(if({where}, messages, 0)), 0) AS {name}")
            for name, where in (("messages", f"kind != '{SEEN}'"), ("waiting", f"kind = '{WAITING}'"))
        ]
        chunks = rows.mapInArrow(packing, CHUNKS).observe(seen, *sums)
        # A static overwrite: nothing of an earlier run may stay.
        options = {**_ROW_GROUP, "partitionOverwriteMode": "static"}
        chunks.write.mode("overwrite").options(**options).partitionBy("part").parquet(f"{self._folder}/round={number}")
        return int(seen.get["messages"]), int(seen.get["waiting"])

    def read(self) -> tuple[dict[Key, Row], dict[str | None, Report]]:
        """Look at the chunks of all rounds, for :meth:`rows`.

        Return the sums of ``messages``, ``rescued`` and ``bytes`` by type and kind, and the reports by type.
        """
        # One look for all tables: each read of its own would list the files again.
        self._all = self._spark.read.schema(f"{_FIELDS}, round int, part string").parquet(self._folder)
        sums = ("sum(messages) AS messages", "sum(rescued) AS rescued", "sum(octet_length(content)) AS bytes")
        rows = self._all.where(sf.col("kind").isin(PARSED, UNPARSED_KIND, REPORT)).groupBy("message_type", "kind")
        found = {(each.message_type, each.kind): each for each in rows.agg(*map(sf.expr, sums)).collect()}
        reports: dict[str | None, Report] = {}
        if any(kind == REPORT for _, kind in found):
            for each in self._all.where(sf.col("part") == REPORT).toLocalIterator():
                reports.setdefault(each.message_type, Report()).merge(json.loads(each.content))
        return {key: each for key, each in found.items() if key[1] != REPORT}, reports

    def waiting(self, columns: Sequence[str], schema: StructType) -> DataFrame:
        """Return the messages of the first round that wait for a schema."""
        return self._first(WAITING).select("content").mapInArrow(Unpacking(columns), schema)

    def new_types(self, known: Iterable[str], most: int) -> tuple[list[str], list[str], int]:
        """Return the types that wait without a schema, frequent ones first, up to a number; the first that is left out;
        and the number of these.
        """
        # A million types of one message each stay on the executors.
        totals = self._first(SEEN).where(~sf.col("message_type").isin(list(known))).groupBy("message_type")
        ordered = totals.agg(sf.sum("messages").alias("messages")).orderBy(sf.desc("messages"), "message_type")
        names = [each.message_type for each in ordered.limit(most + 1).collect()]
        more = totals.count().count() - most if len(names) > most else 0
        return names[:most], names[most:], more

    def seen(self, types: Iterable[str]) -> Iterator[tuple[str, Statistics]]:
        """Yield the statistics of the messages that wait, type by type, so that those of one are held at once."""
        rows = self._first(SEEN).where(sf.col("message_type").isin(list(types))).select("message_type", "content")
        ordered = rows.coalesce(1).sortWithinPartitions("message_type").toLocalIterator()
        for name, chunks in groupby(ordered, key=lambda row: row.message_type):
            found = Statistics()
            for chunk in chunks:
                found.merge(json.loads(chunk.content))
            yield name, found

    def rows(self, name: str | None, kind: str, share: Row, unpacking: Unpacking, schema: StructType) -> DataFrame:
        """Return the rows of a table, in as many tasks as its size needs."""
        own = (sf.col("kind") == kind) & sf.col("message_type").eqNullSafe(sf.lit(name))
        chunks = self._all.where((sf.col("part") == part_of(name)) & own).select("content")
        tasks = -(-share.bytes // _TASK_BYTES)
        # A small table is one task; the chunks of a large one are spread, so that no task gets too many at once.
        chunks = chunks.coalesce(1) if tasks <= 1 else chunks.repartition(tasks)
        return mapped(chunks, unpacking, schema).coalesce(max(1, share.bytes // _FILE_BYTES))

    def small(self, shares: Mapping[Key, Row]) -> dict[Key, list[bytes]]:
        """Return the chunks of the smallest tables, as many as this process holds at once."""
        found: dict[Key, list[bytes]] = {}
        most = _SMALL_BYTES
        for key, share in sorted(shares.items(), key=lambda item: item[1].bytes):
            most -= share.bytes
            if most >= 0:
                found[key] = []
        if found:
            of_kinds = [
                (sf.col("kind") == kind) & sf.coalesce("message_type", sf.lit("")).isin(sorted(names))
                for kind in (PARSED, UNPARSED_KIND)
                if (names := {name or "" for name, each in found if each == kind})
            ]
            rows = self._all.where(
                reduce(or_, of_kinds) & sf.col("part").isin(sorted({part_of(name) for name, _ in found}))
            )
            for name, kind, content in rows.select("message_type", "kind", "content").coalesce(1).toLocalIterator():
                found[name, kind].append(bytes(content))
        return found

    def remove(self) -> None:
        """Remove the folder."""
        remove_folder(self._folder)

    def _first(self, part: str) -> DataFrame:
        return self._spark.read.schema(_FIELDS).parquet(f"{self._folder}/round=1/part={part}")
