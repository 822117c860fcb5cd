"""Folder of chunks: the messages of a batch, parsed and grouped by type, between the batch and its tables."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import groupby
from operator import or_
from typing import TYPE_CHECKING, TypeAlias

from airflow_sqlqueue.bodies.statistics import Statistics
from airflow_sqlqueue.drain.storage.folder import StagingFolder
from airflow_sqlqueue.drain.storage.object_stores import raise_staging_error
from airflow_sqlqueue.spark.message_tables.packing import (
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
from airflow_sqlqueue.spark.message_tables.reports import Report

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

_FIELDS = CHUNKS.partition(", ")[2]
"""Columns in the files of chunks."""

_FILE_BYTES = 128 * 1024 * 1024
"""Bytes of chunks for each file of a table."""

_TASK_BYTES = 64 * 1024 * 1024
"""Bytes of chunks that a task may get at once: Spark gives up to 10,000 rows to Python in one piece."""

_SMALL_BYTES = 32 * 1024 * 1024
"""Bytes of chunks of all tables together that the driver writes by itself."""

_ROW_GROUP = {
    "parquet.block.size": str(16 * 1024 * 1024),
    # A row is a chunk of megabytes, so that sizes are checked at each row.
    "parquet.block.size.row.check.min": "1",
    "parquet.page.size.row.check.min": "1",
}


Key: TypeAlias = "tuple[str | None, str]"
"""A type and a kind of its messages: those of one table."""


@dataclass(frozen=True)
class Share:
    """Sums of the chunks of one type and kind."""

    messages: int
    rescued: int
    bytes: int


class WorkFolder:
    """Folder of chunks: those of the first round, and those of the messages that waited for a schema."""

    def __init__(self, spark: SparkSession, folder: str) -> None:
        self._spark, self._folder = spark, folder
        self._all = spark.range(0).toDF("content")
        self._has_reports = False

    def pack(self, rows: DataFrame, packing: Packing, number: int = 1) -> tuple[int, int]:
        """Write the chunks of a round; return the number of their messages, and of those that wait for a schema."""
        from pyspark.sql import Observation
        from pyspark.sql import functions as sf

        seen = Observation()

        def total(where: Column, name: str) -> Column:
            return sf.coalesce(sf.sum(sf.when(where, sf.col("messages"))), sf.lit(0)).alias(name)

        kind = sf.col("kind")
        sums = (total(kind != SEEN, "messages"), total(kind == WAITING, "waiting"))
        chunks = rows.mapInArrow(packing, CHUNKS).observe(seen, *sums)
        # A static overwrite: nothing of an earlier run may stay.
        options = {**_ROW_GROUP, "partitionOverwriteMode": "static"}
        chunks.write.mode("overwrite").options(**options).partitionBy("part").parquet(self._round(number))
        return int(seen.get["messages"]), int(seen.get["waiting"])

    def read(self) -> dict[Key, Share]:
        """Look at the chunks of all rounds, for :meth:`rows`; return the sums of messages by type and kind."""
        from pyspark.sql import functions as sf

        # One look for all tables: each read of its own would list the files again.
        self._all = self._spark.read.schema(f"{_FIELDS}, round int, part string").parquet(self._folder)
        rows = self._all.where(sf.col("kind").isin(PARSED, UNPARSED_KIND, REPORT))
        sums = (sf.sum("messages"), sf.sum("rescued"), sf.sum(sf.octet_length("content")))
        found = rows.groupBy("message_type", "kind").agg(*sums).collect()
        self._has_reports = any(kind == REPORT for _, kind, *_ in found)
        return {(name, kind): Share(*values) for name, kind, *values in found if kind != REPORT}

    def reports(self) -> dict[str | None, Report]:
        """The reports on the messages that :meth:`read` has seen, by type."""
        from pyspark.sql import functions as sf

        found: dict[str | None, Report] = {}
        if self._has_reports:
            chunks = self._all.where(sf.col("part") == REPORT).select("message_type", "content")
            for name, content in chunks.toLocalIterator():
                found.setdefault(name, Report()).merge(json.loads(content))
        return found

    def waiting(self, columns: Sequence[str], schema: StructType) -> DataFrame:
        """The messages of the first round that wait for a schema."""
        chunks = self._first(WAITING).select("content")
        return chunks.mapInArrow(Unpacking(columns), schema)

    def new_types(self, known: Iterable[str], most: int) -> tuple[list[str], list[str], int]:
        """The types that wait without a schema, frequent ones first, up to a number; the first that is left out; and
        the number of these."""
        from pyspark.sql import functions as sf

        # A million types of one message each stay on the executors.
        totals = self._first(SEEN).where(~sf.col("message_type").isin(list(known))).groupBy("message_type")
        ordered = totals.agg(sf.sum("messages").alias("messages")).orderBy(sf.desc("messages"), "message_type")
        names = [each.message_type for each in ordered.limit(most + 1).collect()]
        more = totals.count().count() - most if len(names) > most else 0
        return names[:most], names[most:], more

    def seen(self, types: Iterable[str]) -> Iterator[tuple[str, Statistics]]:
        """The statistics of the messages that wait, type by type, so that those of one are held at once."""
        from pyspark.sql import functions as sf

        rows = self._first(SEEN).where(sf.col("message_type").isin(list(types))).select("message_type", "content")
        ordered = rows.coalesce(1).sortWithinPartitions("message_type").toLocalIterator()
        for name, chunks in groupby(ordered, key=lambda row: row.message_type):
            found = Statistics()
            for chunk in chunks:
                found.merge(json.loads(chunk.content))
            yield name, found

    def rows(self, name: str | None, kind: str, share: Share, unpacking: Unpacking, schema: StructType) -> DataFrame:
        """The rows of a table, in as many tasks as its size needs."""
        from pyspark.sql import functions as sf

        own = (sf.col("kind") == kind) & sf.col("message_type").eqNullSafe(sf.lit(name))
        chunks = self._all.where((sf.col("part") == part_of(name)) & own).select("content")
        tasks = -(-share.bytes // _TASK_BYTES)
        # A small table is one task; the chunks of a large one are spread, so that no task gets too many at once.
        chunks = chunks.coalesce(1) if tasks <= 1 else chunks.repartition(tasks)
        return chunks.mapInArrow(unpacking, schema).coalesce(max(1, share.bytes // _FILE_BYTES))

    def small(self, shares: Mapping[Key, Share]) -> dict[Key, list[bytes]]:
        """The chunks of the smallest tables, as many as this process holds at once."""
        from pyspark.sql import functions as sf

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

    def _round(self, number: int) -> str:
        return f"{self._folder}/round={number}"

    def _first(self, part: str) -> DataFrame:
        return self._spark.read.schema(_FIELDS).parquet(f"{self._round(1)}/part={part}")


def remove_folder(path: str) -> None:
    """Remove a folder with its files; a missing one is no error."""
    folder = StagingFolder.of(path, "location of the tables")
    try:
        folder.filesystem.rm(folder.root, recursive=True)
    except FileNotFoundError:
        return
    except Exception as error:
        raise_staging_error(f"The files in {folder.uri} cannot be removed", error)
