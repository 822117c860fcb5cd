"""Tables of message types: a batch becomes one table for each type, with the fields of its bodies as columns.

Source: docs/guides/bodies.md, "One table for each message type"; docs/design.md, "Tables of message types".
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from airflow_sqlqueue.bodies.decoding import MAX_BYTES
from airflow_sqlqueue.bodies.inference import Seen, extended, struct_of
from airflow_sqlqueue.bodies.schemas import Struct, fields_of
from airflow_sqlqueue.drain.manifest import Batch
from airflow_sqlqueue.drain.storage.folder import StagingFolder
from airflow_sqlqueue.drain.storage.object_stores import raise_staging_error
from airflow_sqlqueue.errors import BatchMismatchError, ConfigurationError
from airflow_sqlqueue.schemas.files import SchemaFolder, file_stem
from airflow_sqlqueue.spark.batch import read_batch
from airflow_sqlqueue.spark.bodies import ENVELOPE, IF_UNPARSED, UNPARSED, column_names, decoded, result_schema
from airflow_sqlqueue.spark.manifests import AnyBatch, load_batch
from airflow_sqlqueue.spark.message_tables.packing import (
    BODY,
    CHUNKS,
    CONTENT_TYPE,
    PARSED,
    SEEN,
    UNPARSED_KIND,
    WAITING,
    Packing,
    Unpacking,
    part_of,
)
from airflow_sqlqueue.spark.sinks import write_delta, write_partitions
from airflow_sqlqueue.spark.sinks.partitions import COLUMN

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from airflow_sqlqueue.server.settings import ConnectionSettings

Format = Literal["parquet", "delta"]
FORMATS = ("parquet", "delta")

MAX_TYPES = 1_000
"""The most types that get a schema without a person, over all batches."""

COLUMNS = (*ENVELOPE, "enclosed_types")
"""Columns of every table, beside the fields, ``_rescued`` and ``batch_id``."""

_UNPARSED_SUFFIX = "~unparsed"
"""End of the name of a table of messages that are not parsed; no name of a type has this character in a path."""

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
_EMPTY: Struct = {"type": "struct", "fields": []}
_THREADS = 4
"""Tables that are written at once: a small one keeps the driver busy longer than the executors."""


@dataclass(frozen=True)
class MessageTypeTable:
    """Result of a batch for one table.

    :param message_type: the type of the messages; None for messages without a type, and those of too many types.
    :param table: the folder of the table.
    :param is_unparsed: whether it is the table of the messages that are not parsed.
    :param messages: the rows of the batch in the table.
    :param rescued: those of them with values that fit no column.
    :param new_fields: the paths of the fields that are columns of the table since this batch.
    """

    message_type: str | None
    table: str
    is_unparsed: bool
    messages: int
    rescued: int = 0
    new_fields: tuple[str, ...] = ()


@dataclass(frozen=True)
class TableOptions:
    """Options of tables of message types; see :func:`write_message_tables`."""

    format: Format = "parquet"
    schemas: SchemaFolder | str | os.PathLike[str] | None = None
    new_fields: bool = True
    decoders: Mapping[str, Callable[[Column], Column]] | None = None
    max_bytes: int = MAX_BYTES


def write_message_tables(
    spark: SparkSession,
    batch: AnyBatch,
    location: str,
    *,
    format: Format = "parquet",  # noqa: A002 - Spark's own word
    schemas: SchemaFolder | str | os.PathLike[str] | None = None,
    new_fields: bool = True,
    decoders: Mapping[str, Callable[[Column], Column]] | None = None,
    max_bytes: int = MAX_BYTES,
    connection: ConnectionSettings | None = None,
    ledger_schema: str = "sqlqueue",
) -> list[MessageTypeTable]:
    """Write a batch to one table for each message type, once; return what each table got.

    Each message of the batch is a row of one table. The table of its type, the first of the enclosed ones, has the
    columns of :func:`parse_bodies`, ``enclosed_types`` and ``batch_id``. A message that is not parsed is in a table
    beside that, whose name ends with ``~unparsed``, with the reason, its body and its headers; :func:`reparse` moves it
    when the schema is better. The table ``~unparsed`` has the messages without a type.

    A repeated call for the same batch replaces its rows (Parquet) or writes nothing (Delta Lake), so a run may be
    killed at any point and run again, with the same arguments. Run one attempt of a batch at a time.

    :param location: the folder of the tables, a path or a URI: a table is a folder there, called as its type.
    :param format: ``parquet``, with a partition ``batch_id=...`` for each batch, or ``delta``.
    :param schemas: the folder of the schemas; ``_schemas`` in ``location`` unless given. A type without a schema gets
        one from a sample of the batch, up to 1,000 types; messages of further types are with those without a type.
    :param new_fields: whether fields that a schema has not become columns, in the schema's file as well. Values of
        another type than their column never change it: they are in ``_rescued``.
    :param decoders: as for ``parse_bodies``.
    :param max_bytes: the size above which a body is not parsed.
    :param connection: the server of a batch in a table (stage ``table``).
    :param ledger_schema: the schema of its ledger.

    The batch is read once, by one job that parses the messages of all types and keeps them in a folder ``_work-...`` of
    ``location``; a job for each table follows, and the folder is removed. Spark's workers need this package.

    Raises :class:`BatchError` for a batch that is open or requeued, :class:`BatchMismatchError` if Spark reads, or a
    table gets, another number of messages than the ledger has, and :class:`ConfigurationError` for a format or a schema
    that cannot be used.
    """
    if format not in FORMATS:
        raise ConfigurationError(f"The format of the tables is one of {', '.join(FORMATS)}.")
    options = TableOptions(format, schemas, new_fields, decoders, max_bytes)
    source = load_batch(spark, batch, connection, ledger_schema=ledger_schema)
    rows = read_batch(spark, source, connection, ledger_schema=ledger_schema)
    work = _Work(spark, f"{location.rstrip('/')}/_work-{source.batch_id}")
    try:
        return _Writer(source, location.rstrip("/"), options, work).write(rows)
    finally:
        work.remove()


@dataclass(frozen=True)
class _Share:
    """Sums of the chunks of one type and kind."""

    messages: int
    rescued: int
    bytes: int
    rounds: frozenset[int]


class _Work:
    """Folder of chunks: those of the first round, and those of the messages that waited for a schema."""

    def __init__(self, spark: SparkSession, folder: str) -> None:
        self._spark, self._folder = spark, folder

    def pack(self, rows: DataFrame, packing: Packing, number: int) -> tuple[int, int]:
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

    def shares(self, rounds: Iterable[int]) -> dict[tuple[str | None, str], _Share]:
        """The sums of parsed and unparsed messages by type and kind. There are as many as tables."""
        from pyspark.sql import functions as sf

        sums = [sf.sum("messages"), sf.sum("rescued"), sf.sum(sf.octet_length("content"))]
        found: dict[tuple[str | None, str], _Share] = {}
        for number in rounds:
            chunks = self._chunks([self._path(number)]).where(sf.col("kind").isin(PARSED, UNPARSED_KIND))
            for name, kind, *values in chunks.groupBy("message_type", "kind").agg(*sums).collect():
                old = found.get((name, kind), _Share(0, 0, 0, frozenset()))
                found[name, kind] = _Share(
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

    def rows(self, name: str | None, kind: str, share: _Share, unpacking: Unpacking, schema: StructType) -> DataFrame:
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
        folder = StagingFolder.of(self._folder)
        try:
            folder.filesystem.rm(folder.root, recursive=True)
        except FileNotFoundError:
            return
        except Exception as error:
            raise_staging_error(f"The intermediate files in {folder.uri} cannot be removed", error)

    def _path(self, number: int) -> str:
        return f"{self._folder}/{number}"

    def _chunks(self, paths: list[str]) -> DataFrame:
        return self._spark.read.schema(CHUNKS.partition(", ")[2]).parquet(*paths)


class _Writer:
    """Writes the messages of one batch to the tables."""

    def __init__(self, source: Batch, location: str, options: TableOptions, work: _Work) -> None:
        schemas = options.schemas
        self._files = schemas if isinstance(schemas, SchemaFolder) else SchemaFolder(schemas or f"{location}/_schemas")
        self._source, self._location, self._options, self._work = source, location, options, work

    def write(self, rows: DataFrame) -> list[MessageTypeTable]:
        """Parse the messages once, widen the schemas, and write each table."""
        given = self._given(rows)
        schemas = known = _distinct(self._files.all())
        packing = self._packing(known, new_types=len(known) < MAX_TYPES, new_fields=self._options.new_fields)
        messages, waiting = self._work.pack(given, packing, 1)
        self._check_count(messages)
        if waiting:
            schemas = self._wider(known)
            packing = self._packing(schemas, new_types=False, new_fields=False)
            self._work.pack(self._work.waiting(given.columns, given.schema), packing, 2)
        shares = self._work.shares([1, 2] if waiting else [1])
        self._check_count(sum(share.messages for share in shares.values()))
        envelope = given.select(*COLUMNS).schema
        unparsed = given.select(*COLUMNS, *IF_UNPARSED).schema.add(UNPARSED, "string")

        def write(key: tuple[str | None, str]) -> MessageTypeTable:
            (name, kind), share = key, shares[key]
            if name is None or kind == UNPARSED_KIND:
                unpacking, schema = Unpacking(unparsed.names), unparsed
            else:
                schema = result_schema(envelope, schemas[name], unparsed=False)
                names = column_names(schemas[name], COLUMNS)
                fields = {names[field]: kind for field, kind in fields_of(schemas[name]).items()}
                unpacking = Unpacking(schema.names, fields)
            rows = self._work.rows(name, kind, share, unpacking, schema)
            is_widened = name in known and kind == PARSED
            new = tuple(_new_paths(known[name], schemas[name])) if name is not None and is_widened else ()
            return self._put(rows, name, kind, share, new)

        ordered = sorted(shares, key=lambda key: (key[0] is None, key[0] or "", key[1]))
        with ThreadPoolExecutor(_THREADS, "message-tables") as pool:
            return list(pool.map(write, ordered))

    def _given(self, rows: DataFrame) -> DataFrame:
        decoders = self._options.decoders
        if not decoders:
            return rows.select(*COLUMNS, *IF_UNPARSED)
        body, content_type = decoded(rows, decoders)
        return rows.select(*COLUMNS, *IF_UNPARSED, body.alias(BODY), content_type.alias(CONTENT_TYPE))

    def _check_count(self, messages: int) -> None:
        if messages != self._source.messages:
            raise BatchMismatchError(
                f"Spark reads {messages} messages of batch {self._source.batch_id}, the ledger has "
                f"{self._source.messages}: find the missing files first."
            )

    def _packing(self, schemas: dict[str, Struct], *, new_types: bool, new_fields: bool) -> Packing:
        size = self._options.max_bytes
        return Packing(schemas, COLUMNS, IF_UNPARSED, max_bytes=size, new_types=new_types, new_fields=new_fields)

    def _wider(self, known: dict[str, Struct]) -> dict[str, Struct]:
        """The schemas with those of new types and with new fields; they are written to the files."""
        seen = self._work.seen(known, MAX_TYPES - len(known))
        found = {name: extended(known.get(name, _EMPTY), struct_of(each)) for name, each in seen.items()}
        schemas = _distinct({**known, **found})
        for name in sorted(found.keys() & schemas.keys()):
            if schemas[name] != known.get(name):
                self._files.put(name, schemas[name])
        return schemas

    def _put(
        self, rows: DataFrame, name: str | None, kind: str, share: _Share, new: tuple[str, ...]
    ) -> MessageTypeTable:
        from pyspark.sql import functions as sf

        is_unparsed = kind == UNPARSED_KIND
        stem = ("" if name is None else file_stem(name)) + (_UNPARSED_SUFFIX if is_unparsed else "")
        table = f"{self._location}/{stem}"
        if self._options.format == "delta":
            write_delta(rows.withColumn(COLUMN, sf.lit(self._source.batch_id)), table, self._source, merge_schema=True)
        elif write_partitions(rows, table, self._source) != share.messages:
            raise BatchMismatchError(
                f"The table {table} did not get the {share.messages} messages of batch {self._source.batch_id}: run "
                "it again."
            )
        return MessageTypeTable(name, table, is_unparsed, share.messages, share.rescued, new)


def _distinct(schemas: Mapping[str, Struct]) -> dict[str, Struct]:
    """The schemas without those of types whose names differ from an earlier one in case alone.

    Some file systems and catalogs would take their tables for one.
    """
    found: dict[str, Struct] = {}
    taken: set[str] = set()
    for name, schema in schemas.items():
        if file_stem(name).lower() not in taken:
            taken.add(file_stem(name).lower())
            found[name] = schema
    return found


def _new_paths(old: Struct, new: Struct, path: str = "") -> Iterator[str]:
    """The paths of the fields that a schema has in addition."""
    before = fields_of(old)
    for name, kind in fields_of(new).items():
        known = before.get(name, _EMPTY)
        if isinstance(kind, dict) and kind["type"] == "struct" and isinstance(known, dict):
            yield from _new_paths(known, kind, f"{path}{name}.")
        elif name not in before:
            yield f"{path}{name}"
