"""Folder of chunks: the messages of a batch, parsed and grouped by type, between the batch and its tables."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_sqlqueue.bodies.inference import Seen
from airflow_sqlqueue.drain.storage.folder import StagingFolder
from airflow_sqlqueue.drain.storage.object_stores import raise_staging_error
from airflow_sqlqueue.spark.message_tables.packing import (
    CHUNKS,
    PARSED,
    SEEN,
    UNPARSED_KIND,
    WAITING,
    Packing,
    Unpacking,
    part_of,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

_FILE_BYTES = 128 * 1024 * 1024
"""Bytes of chunks for each file of a table."""

_TASK_BYTES = 64 * 1024 * 1024
"""Bytes of chunks that a task may get at once: Spark gives up to 10,000 rows to Python in one piece."""

_ROW_GROUP = {
    "parquet.block.size": str(16 * 1024 * 1024),
    # A row is a chunk of megabytes, so that sizes are checked at each row.
    "parquet.block.size.row.check.min": "1",
    "parquet.page.size.row.check.min": "1",
}


@dataclass(frozen=True)
class Share:
    """Sums of the chunks of one type and kind."""

    messages: int
    rescued: int
    bytes: int
    rounds: frozenset[int]


class WorkFolder:
    """Folder of chunks: those of the first round, and those of the messages that waited for a schema."""

    def __init__(self, spark: SparkSession, folder: str) -> None:
        self._spark, self._folder = spark, folder

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
        chunks.write.mode("overwrite").options(**options).partitionBy("part").parquet(self._path(number))
        return int(seen.get["messages"]), int(seen.get["waiting"])

    def shares(self, rounds: Iterable[int] = (1,)) -> dict[tuple[str | None, str], Share]:
        """The sums of parsed and unparsed messages by type and kind. There are as many as tables."""
        from pyspark.sql import functions as sf

        sums = [sf.sum("messages"), sf.sum("rescued"), sf.sum(sf.octet_length("content"))]
        found: dict[tuple[str | None, str], Share] = {}
        for number in rounds:
            chunks = self._chunks([self._path(number)]).where(sf.col("kind").isin(PARSED, UNPARSED_KIND))
            for name, kind, *values in chunks.groupBy("message_type", "kind").agg(*sums).collect():
                old = found.get((name, kind), Share(0, 0, 0, frozenset()))
                found[name, kind] = Share(
                    old.messages + values[0], old.rescued + values[1], old.bytes + values[2], old.rounds | {number}
                )
        return found

    def waiting(self, columns: Sequence[str], schema: StructType) -> DataFrame:
        """The messages of the first round that wait for a schema."""
        chunks = self._chunks([f"{self._path(1)}/part={WAITING}"]).select("content")
        return chunks.mapInArrow(Unpacking(columns), schema)

    def seen(self, known: Iterable[str], most: int) -> dict[str, Seen]:
        """The statistics of the messages that wait: those of known types, and of the most frequent other ones."""
        from pyspark.sql import functions as sf

        found = self._chunks([f"{self._path(1)}/part={SEEN}"])
        totals = found.groupBy("message_type").agg(sf.sum("messages").alias("messages"))
        # A million types of one message each stay on the executors.
        is_known = sf.col("message_type").isin(list(known))
        new = totals.where(~is_known).orderBy(sf.desc("messages"), "message_type").limit(most)
        chosen = totals.where(is_known).select("message_type").union(new.select("message_type"))
        seen: dict[str, Seen] = {}
        rows = found.join(sf.broadcast(chosen), "message_type").select("message_type", "content")
        for name, content in rows.toLocalIterator():
            seen.setdefault(name, Seen()).merge(Seen.from_values(json.loads(content)))
        return seen

    def rows(self, name: str | None, kind: str, share: Share, unpacking: Unpacking, schema: StructType) -> DataFrame:
        """The rows of a table, in as many tasks as its size needs."""
        from pyspark.sql import functions as sf

        paths = [f"{self._path(number)}/part={part_of(name)}" for number in sorted(share.rounds)]
        own = (sf.col("kind") == kind) & sf.col("message_type").eqNullSafe(sf.lit(name))
        chunks = self._chunks(paths).where(own).select("content")
        tasks = -(-share.bytes // _TASK_BYTES)
        # A small table is one task; the chunks of a large one are spread, so that no task gets too many at once.
        chunks = chunks.coalesce(1) if tasks <= 1 else chunks.repartition(tasks)
        return chunks.mapInArrow(unpacking, schema).coalesce(max(1, share.bytes // _FILE_BYTES))

    def remove(self) -> None:
        """Remove the folder."""
        remove_folder(self._folder)

    def _path(self, number: int) -> str:
        return f"{self._folder}/{number}"

    def _chunks(self, paths: list[str]) -> DataFrame:
        return self._spark.read.schema(CHUNKS.partition(", ")[2]).parquet(*paths)


def remove_folder(path: str) -> None:
    """Remove a folder with its files; a missing one is no error."""
    folder = StagingFolder.of(path, "location of the tables")
    try:
        folder.filesystem.rm(folder.root, recursive=True)
    except FileNotFoundError:
        return
    except Exception as error:
        raise_staging_error(f"The files in {folder.uri} cannot be removed", error)
