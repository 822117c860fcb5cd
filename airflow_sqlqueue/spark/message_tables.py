"""Tables of message types: a batch becomes one table for each type, with the fields of its bodies as columns.

Not public yet: the rows that it persists take more of Java's heap than a large batch leaves.

Source: docs/guides/bodies.md.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_sqlqueue.bodies import decoding
from airflow_sqlqueue.bodies.decoding import MAX_BYTES
from airflow_sqlqueue.bodies.inference import Seen, extended, struct_of
from airflow_sqlqueue.bodies.schemas import Struct, fields_of, is_column_name
from airflow_sqlqueue.drain.manifest import Batch
from airflow_sqlqueue.errors import BatchMismatchError, BodyError, ConfigurationError
from airflow_sqlqueue.schemas.files import SchemaFolder, file_stem
from airflow_sqlqueue.spark.batch import read_batch
from airflow_sqlqueue.spark.bodies import ENVELOPE, IF_UNPARSED, RESCUED, UNPARSED, parse_kept
from airflow_sqlqueue.spark.manifests import AnyBatch, load_batch
from airflow_sqlqueue.spark.sinks import write_delta, write_partitions

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession

    from airflow_sqlqueue.server.settings import ConnectionSettings

FORMATS = ("parquet", "delta")
MAX_TYPES = 1_000
"""The most tables that one batch is written to; the messages of further types are with the unparsed ones."""

_UNPARSED_SUFFIX = "~unparsed"
"""End of the name of a table of messages that are not parsed; no name of a type has this character in a path."""

_ROWS_PER_FILE = 100_000
_EMPTY: Struct = {"type": "struct", "fields": []}
_THREADS = 4
"""Tables that are written at once: a small one keeps the driver busy longer than the executors."""

_SAMPLE = 100
_SAMPLE_BYTES = 256 * 1024
"""Messages and bytes of a type without a schema that each task gives to the sample."""

_MOST_RESCUED = 10_000
"""Rescued values of a type that are looked at for new fields."""


@dataclass(frozen=True)
class MessageTypeTable:
    """Result of a batch for one table.

    :param message_type: the type of the messages; None for messages without a type.
    :param path: the folder of the table.
    :param is_unparsed: whether it is the table of the messages that are not parsed.
    :param messages: the rows of the batch in the table.
    :param rescued: those of them with values that fit no column.
    :param new_fields: the paths of the fields that are columns of the table since this batch.
    """

    message_type: str | None
    path: str
    is_unparsed: bool
    messages: int
    rescued: int = 0
    new_fields: tuple[str, ...] = ()


def write_message_tables(
    spark: SparkSession,
    batch: AnyBatch,
    location: str,
    *,
    format: str = "parquet",  # noqa: A002 - Spark's own word
    schemas: SchemaFolder | str | os.PathLike[str] | None = None,
    new_fields: bool = True,
    decoders: Mapping[str, Callable[[Column], Column]] | None = None,
    max_bytes: int = MAX_BYTES,
    connection: ConnectionSettings | None = None,
    ledger_schema: str = "sqlqueue",
) -> list[MessageTypeTable]:
    """Write a batch to one table for each message type, once; return what each table got.

    Each message of the batch is a row of one table. The table of its type, the first of the enclosed ones, has the
    columns of :func:`parse_bodies`. A message that is not parsed is in a table beside that, whose name ends with
    ``~unparsed``, with the reason, its body and its headers. The table ``~unparsed`` has the messages without a type.

    A repeated call for the same batch replaces its rows (Parquet) or writes nothing (Delta Lake), so a run may be
    killed at any point and run again, with the same arguments. Run one attempt of a batch at a time.

    :param location: the folder of the tables, a path or a URI: a table is a folder there, called as its type.
    :param format: ``parquet``, with a partition ``batch_id=...`` for each batch, or ``delta``.
    :param schemas: the folder of the schemas; ``_schemas`` in ``location`` unless given. A type without a schema gets
        one from a sample of the batch.
    :param new_fields: whether fields that a schema has not become columns, in the schema's file as well. Values of
        another type than their column never change it: they are in ``_rescued``.
    :param decoders: as for ``parse_bodies``.
    :param max_bytes: the size above which a body is not parsed.
    :param connection: the server of a batch in a table (stage ``table``).
    :param ledger_schema: the schema of its ledger.

    The rows of the batch are persisted during the call, on the disks of the executors. Spark persists 10,000 rows at a
    time, so that a task needs memory for as many bodies.

    Raises :class:`BatchError` for a batch that is open or requeued, :class:`BatchMismatchError` if a table has another
    number of rows than it was given, and :class:`ConfigurationError` for a format or a schema that cannot be used.
    """
    if format not in FORMATS:
        raise ConfigurationError(f"The format of the tables is one of {', '.join(FORMATS)}.")
    folder = location.rstrip("/")
    files = schemas if isinstance(schemas, SchemaFolder) else SchemaFolder(schemas or f"{folder}/_schemas")
    source = load_batch(spark, batch, connection, ledger_schema=ledger_schema)
    rows = read_batch(spark, source, connection, ledger_schema=ledger_schema).select(*ENVELOPE, *IF_UNPARSED)
    # Sorted, the blocks of the persisted rows have few types each, and Spark skips the blocks of others.
    with _persisted(rows.sortWithinPartitions("message_type")) as kept:
        counts = _counts(kept)
        if sum(counts.values()) != source.messages:
            raise BatchMismatchError(
                f"Spark reads {sum(counts.values())} messages of batch {source.batch_id}, the ledger has "
                f"{source.messages}: find the missing files first."
            )
        types = [name for name in counts if name is not None]
        known = files.all()
        known |= _sampled(kept, [name for name in types if name not in known], files)
        options = {"decoders": decoders, "max_bytes": max_bytes}
        writer = _TableWriter(source, folder, format, files if new_fields else None, options)
        with ThreadPoolExecutor(_THREADS, "message-tables") as pool:
            written = list(pool.map(lambda name: writer.write(kept, name, known[name], counts[name]), types))
        tables = [table for each in written for table in each]
        return tables + writer.write_without_type(kept, types, counts[None])


@contextmanager
def _persisted(df: DataFrame) -> Iterator[DataFrame]:
    from pyspark import StorageLevel

    # In memory the rows of a batch would take the room that tasks need.
    kept = df.persist(StorageLevel.DISK_ONLY)
    try:
        yield kept
    finally:
        kept.unpersist()


def _counts(df: DataFrame) -> dict[str | None, int]:
    """The numbers of messages of the most frequent types, and below None that of all other messages."""
    from pyspark.sql import functions as sf

    found = df.groupBy("message_type").agg(sf.count(sf.lit(1)).alias("messages")).persist()
    try:
        named = found.where(sf.col("message_type").isNotNull())
        # A million types of one message each stay on the executors.
        most = named.orderBy(sf.desc("messages"), "message_type").limit(MAX_TYPES).collect()
        total = found.agg(sf.coalesce(sf.sum("messages"), sf.lit(0))).collect()[0][0]
    finally:
        found.unpersist()
    counts: dict[str | None, int] = {row[0]: int(row[1]) for row in most}
    counts[None] = int(total) - sum(counts.values())
    return counts


def _sampled(kept: DataFrame, types: Sequence[str], files: SchemaFolder) -> dict[str, Struct]:
    """Schemas of types that have none, from the first messages that each task has of them; they are kept in files."""
    from pyspark.sql import functions as sf

    if not types:
        return {}
    seen = {name: Seen() for name in types}
    rows = kept.where(sf.col("message_type").isin(list(types)) & sf.col("Body").isNotNull())
    chosen = rows.select("message_type", "content_type", "Body").mapInArrow(
        _take_some, "message_type string, content_type string, Body binary"
    )
    for row in chosen.toLocalIterator():
        try:
            seen[row[0]].add(decoding.parse(bytes(row[2]), row[1]))
        except BodyError:
            continue
    schemas = {name: struct_of(each) for name, each in seen.items()}
    for name, schema in schemas.items():
        files.put(name, schema)
    return schemas


def _take_some(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The first messages of each type, for ``mapInArrow``."""
    import pyarrow as pa
    import pyarrow.compute as pc

    taken: dict[str, tuple[int, int]] = {}
    for batch in batches:
        names = batch.column(0).to_pylist()
        lengths = pc.binary_length(batch.column(2)).to_pylist()
        wanted = []
        for number, (name, length) in enumerate(zip(names, lengths, strict=True)):
            count, size = taken.get(name, (0, 0))
            if count < _SAMPLE and size + length <= _SAMPLE_BYTES:
                taken[name] = (count + 1, size + length)
                wanted.append(number)
        if wanted:
            yield batch.take(pa.array(wanted))


class _TableWriter:
    """Writes the messages of one batch to the tables.

    :param files: the schemas' files, in which new fields are entered; None if a schema stays as it is.
    """

    def __init__(
        self,
        source: Batch,
        folder: str,
        format: str,  # noqa: A002
        files: SchemaFolder | None,
        options: Mapping[str, Any],
    ) -> None:
        self._source, self._folder, self._format, self._files, self._options = source, folder, format, files, options

    def write(self, kept: DataFrame, name: str, schema: Struct, messages: int) -> list[MessageTypeTable]:
        """Write the messages of a type: the parsed ones to its table, the others to the table beside it."""
        with _persisted(self._parsed(kept, name, schema)) as parsed:
            rescued, unparsed = _misfits(parsed)
            found = _new_fields(parsed, schema) if rescued and self._files is not None else _EMPTY
            if not found["fields"]:
                return self._write(parsed, name, messages, rescued, unparsed, ())
        # The columns of these fields are part of this batch too.
        wider = extended(schema, found)
        with _persisted(self._parsed(kept, name, wider)) as parsed:
            rescued, unparsed = _misfits(parsed)
            if self._files is not None:
                self._files.put(name, wider)
            return self._write(parsed, name, messages, rescued, unparsed, tuple(_paths(found)))

    def write_without_type(self, kept: DataFrame, types: Sequence[str], messages: int) -> list[MessageTypeTable]:
        """Write the messages without a type, and those of types beyond the limit."""
        from pyspark.sql import functions as sf

        if not messages:
            return []
        named = sf.col("message_type")
        rows = kept.where(named.isNull() | ~named.isin(list(types))).withColumn(UNPARSED, sf.lit("type"))
        return [self._put(rows, None, _UNPARSED_SUFFIX, messages)]

    def _parsed(self, kept: DataFrame, name: str, schema: Struct) -> DataFrame:
        return parse_kept(kept, schema, message_type=name, **self._options)

    def _write(
        self, parsed: DataFrame, name: str, messages: int, rescued: int, unparsed: int, new: tuple[str, ...]
    ) -> list[MessageTypeTable]:
        from pyspark.sql import functions as sf

        good = parsed.where(sf.col(UNPARSED).isNull()).drop(UNPARSED, *IF_UNPARSED)
        tables = [self._put(good, name, "", messages - unparsed, rescued, new)]
        if unparsed:
            columns = [name for name in (*ENVELOPE, *IF_UNPARSED, UNPARSED) if name in parsed.columns]
            bad = parsed.where(sf.col(UNPARSED).isNotNull()).select(*columns)
            tables.append(self._put(bad, name, _UNPARSED_SUFFIX, unparsed))
        return tables

    def _put(
        self, rows: DataFrame, name: str | None, suffix: str, messages: int, rescued: int = 0, new: tuple[str, ...] = ()
    ) -> MessageTypeTable:
        stem = "" if name is None else file_stem(name)
        path = f"{self._folder}/{stem}{suffix}"
        # Small types would leave a file for each task.
        rows = rows.coalesce(max(1, messages // _ROWS_PER_FILE))
        if self._format == "delta":
            write_delta(rows, path, self._source, merge_schema=True)
        elif write_partitions(rows, path, self._source) != messages:
            raise BatchMismatchError(
                f"The table {path} did not get the {messages} messages of batch {self._source.batch_id}: run it again."
            )
        return MessageTypeTable(name, path, bool(suffix), messages, rescued, new)


def _misfits(parsed: DataFrame) -> tuple[int, int]:
    """The numbers of rows with rescued values, and of those that are not parsed; they fill the persisted rows."""
    from pyspark.sql import functions as sf

    ((rescued, unparsed),) = parsed.agg(sf.count(RESCUED), sf.count(UNPARSED)).collect()
    return int(rescued), int(unparsed)


def _new_fields(parsed: DataFrame, schema: Struct) -> Struct:
    """The struct of the fields that the schema has not, from rescued values; values of another type are left out."""
    from pyspark.sql import functions as sf

    seen = Seen()
    rows = parsed.where(sf.col(RESCUED).isNotNull()).select(RESCUED).limit(_MOST_RESCUED)
    for row in rows.toLocalIterator():
        try:
            values = decoding.parse_json(row[0])
        except BodyError:
            continue
        seen.add(_nested(values, schema))
    return struct_of(seen)


def _nested(rescued: Mapping[str, Any], schema: Struct) -> dict[str, Any]:
    """The new fields among the rescued values of a body, nested as they are in it; those in lists are left out."""
    found: dict[str, Any] = {}
    for path, value in rescued.items():
        names = path.split(".")
        place, kind = found, schema
        for name in names[:-1]:
            inner = fields_of(kind).get(name)
            if not isinstance(inner, dict) or inner["type"] != "struct":
                break
            place, kind = place.setdefault(name, {}), inner
        else:
            if names[-1] not in fields_of(kind) and is_column_name(names[-1]):
                place[names[-1]] = value
    return found


def _paths(schema: Struct, path: str = "") -> Iterator[str]:
    for name, kind in fields_of(schema).items():
        if isinstance(kind, dict) and kind["type"] == "struct":
            yield from _paths(kind, f"{path}{name}.")
        else:
            yield f"{path}{name}"
