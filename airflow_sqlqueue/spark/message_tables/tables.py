"""Tables of message types: a batch becomes one table for each type, with the fields of its bodies as columns.

Source: docs/guides/bodies.md, "One table for each message type"; docs/design.md, "Tables of message types".
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

from airflow_sqlqueue.bodies.decoding import MAX_BYTES
from airflow_sqlqueue.bodies.extension import EMPTY
from airflow_sqlqueue.bodies.extension import differences as changes
from airflow_sqlqueue.bodies.inference import infer
from airflow_sqlqueue.bodies.names import BODY_COLUMNS, ENVELOPE, UNPARSED, column_key, column_names
from airflow_sqlqueue.bodies.patterns import Hints, TypePatterns
from airflow_sqlqueue.bodies.schemas import Struct, Type, fields_of
from airflow_sqlqueue.errors import BatchMismatchError, ConfigurationError, SqlQueueError
from airflow_sqlqueue.schemas.files import SchemaFolder, type_of
from airflow_sqlqueue.spark.batch import read_batch, typed_columns
from airflow_sqlqueue.spark.bodies import IF_UNPARSED, decoded, result_schema
from airflow_sqlqueue.spark.manifests import AnyBatch, load_batch
from airflow_sqlqueue.spark.message_tables.columns import adopted, as_fields, differences, refusal
from airflow_sqlqueue.spark.message_tables.lakes import (
    Format,
    Lake,
    ParquetLake,
    absolute,
    is_folder,
    lake_of,
    without_repeats,
)
from airflow_sqlqueue.spark.message_tables.packing import BODY, CONTENT_TYPE, PARSED, UNPARSED_KIND, Packing, Unpacking
from airflow_sqlqueue.spark.message_tables.reports import MessageTypeTable, Report, ShareLimit, ShareLimits
from airflow_sqlqueue.spark.message_tables.work import Key, Share, WorkFolder
from airflow_sqlqueue.spark.sinks.keys import AnyKey, partition_of
from airflow_sqlqueue.untrusted import quoted

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from airflow_sqlqueue.server.settings import ConnectionSettings

_log = logging.getLogger(__name__)
S = TypeVar("S")
T = TypeVar("T")
BodyForm: TypeAlias = Literal["text", "variant"]

MAX_TYPES = 1_000
"""The most types that get a schema without a person, over all batches."""

COLUMNS = (*ENVELOPE, "enclosed_types")
"""Columns of every table, beside the fields, ``_rescued``, ``batch_id`` and ``parse_attempt``."""

_THREADS = 4
"""Tables that are written at once: a small one keeps the driver busy longer than the executors."""


def write_message_tables(
    spark: SparkSession,
    batch: AnyBatch,
    location: str,
    *,
    format: Format = "parquet",  # noqa: A002 - Spark's own word
    schemas: SchemaFolder | str | os.PathLike[str] | None = None,
    types: TypePatterns | str | Sequence[str] | None = None,
    hints: Mapping[str, Mapping[str, Any]] | None = None,
    new_fields: bool = True,
    decoders: Mapping[str, Callable[[Column], Column]] | None = None,
    max_bytes: int = MAX_BYTES,
    work_folder: str | None = None,
    cluster_by: str | Sequence[str] = (),
    merge_on: str | Sequence[str] = (),
    body: BodyForm | None = None,
    max_rescued: ShareLimit = None,
    max_unparsed: ShareLimit = None,
    connection: ConnectionSettings | None = None,
    ledger_schema: str = "sqlqueue",
) -> list[MessageTypeTable]:
    """Write a batch to one table for each message type, once; return what each table got.

    Each message of the batch is a row of one table. The table of its type, the first of the enclosed ones, has the
    columns of :func:`parse_bodies`, ``enclosed_types``, ``batch_id`` and ``parse_attempt``. A message that is not
    parsed is in a table beside that, whose name ends with ``~unparsed``, with the reason, its body and its headers;
    :func:`reparse` moves it when the schema is better. The table ``~unparsed`` has the messages without a type.

    A repeated call for the same batch replaces its rows (Parquet) or writes nothing (Delta Lake, Iceberg), so a run may
    be killed at any point and run again, with the same arguments. Run one attempt of a batch at a time. Spark's workers
    need this package.

    :param location: the folder of the tables, a path or a URI: a table is a folder there, called as its type. A
        relative path begins in the working directory of this process, and has a slash if it has a dot. Or, for Iceberg
        and Delta Lake, a schema of a catalog, ``catalog.schema``: a table is called as its type, with underscores for
        dots, and its suffix is ``__unparsed``.
    :param format: ``parquet``, with a partition ``batch_id=...`` for each batch, ``delta`` or ``iceberg``; see
        :func:`write_partitions`, :func:`write_delta` and :func:`write_iceberg`.
    :param schemas: the folder of the schemas; ``_schemas`` in ``work_folder`` unless given. A type without a schema
        gets one from a sample of the batch, up to 1,000 types; messages of further types are with those without a type,
        and those of a schema that cannot be used have the reason ``schema``.
    :param types: the types that get tables: a pattern or several, ``["Shop.*", "!Shop.Internal.*"]``; all unless given.
        The messages of others are with those without a type.
    :param hints: types for fields without a column, by patterns of message types and paths; those of the file
        ``_hints.json`` in the folder of the schemas unless given. See docs/guides/bodies.md, "Hints".
    :param new_fields: whether fields that a schema has not become columns, in the schema's file as well. Values of
        another type than their column never change it: they are in ``_rescued``.
    :param decoders: as for ``parse_bodies``.
    :param max_bytes: the size above which a body is not parsed.
    :param work_folder: the folder of intermediate files; ``location`` unless given, which tables in a catalog need.
    :param cluster_by: columns that every table has, as ``time_sent``, by which the rows of a batch are sorted, so that
        readers leave out parts of files.
    :param merge_on: columns that every table has, as ``message_id``: a message is left out if a row of another batch
        has the same values, or an earlier one of its own. Messages without a value are all there. The tables' columns
        are read for it. Two batches at once do not see each other.
    :param body: keep the whole body of each parsed message beside its columns: ``text`` in a column ``body_text``, as
        it was sent, or ``variant`` in a column ``body_variant``, XML as JSON; null for what no variant can be, such as
        an object with a name that comes twice. Iceberg takes ``text`` only.
    :param max_rescued: the share of a type's messages, from 0 to 1, that may have rescued values: one number for all
        types, or a mapping by patterns of their names, ``{"Shop.*": 0.01}``; the first one that fits decides.
    :param max_unparsed: the same for messages that are not parsed. For those without a type or a table, which only
        ``*`` names, it is their share of the batch.
    :param connection: the server of a batch in a table (stage ``table``).
    :param ledger_schema: the schema of its ledger.

    Raises :class:`BatchError` for a batch that is open or requeued, :class:`BatchMismatchError` if Spark reads, or a
    table gets, another number of messages than the ledger has, and :class:`ConfigurationError` for a format that cannot
    be used. It raises the latter, too, for a schema with another type than its table: before anything is written the
    rows of that type are left out, and the error comes when those of other types are written; then use
    :func:`rewrite_message_table`. More rescued or unparsed messages than allowed are a :class:`TooManyRescuedError`
    once all tables are written, so that the batch is not marked consumed.
    """
    limits = ShareLimits(max_rescued, max_unparsed)
    columns = {"cluster_by": _own(cluster_by), "merge_on": _own(merge_on)}
    writer = TableWriter(spark, location, format, work_folder, schemas, decoders, max_bytes, body, types, hints)
    source = load_batch(spark, batch, connection, ledger_schema=ledger_schema)
    rows = read_batch(spark, source, connection, ledger_schema=ledger_schema)
    tables = writer.write(rows, source, new_fields=new_fields, messages=source.messages, **columns)
    limits.check(tables)
    return tables


def write_message_rows(
    rows: DataFrame,
    location: str,
    batch: AnyKey,
    *,
    format: Format = "parquet",  # noqa: A002
    schemas: SchemaFolder | str | os.PathLike[str] | None = None,
    types: TypePatterns | str | Sequence[str] | None = None,
    hints: Mapping[str, Mapping[str, Any]] | None = None,
    new_fields: bool = True,
    decoders: Mapping[str, Callable[[Column], Column]] | None = None,
    max_bytes: int = MAX_BYTES,
    work_folder: str | None = None,
    body: BodyForm | None = None,
) -> list[MessageTypeTable]:
    """Write rows to one table for each message type: :func:`write_message_tables` for a stream.

    ``foreach_batch(write_message_rows, "lake", format="delta")`` writes each micro-batch once.

    :param rows: rows of the format ``sqlqueue``, or of :func:`read_batch`.
    :param batch: the key of the rows: a :class:`MicroBatch`, a batch, or its id.

    The other parameters, the tables and the errors are those of :func:`write_message_tables`.
    """
    spark = rows.sparkSession
    writer = TableWriter(spark, location, format, work_folder, schemas, decoders, max_bytes, body, types, hints)
    typed = rows if "headers_raw" in rows.columns else typed_columns(rows)
    return writer.write(typed, batch, new_fields=new_fields)


def _own(columns: str | Sequence[str]) -> list[str]:
    """The columns of cluster_by or merge_on, which every table has."""
    names = [columns] if isinstance(columns, str) else list(columns)
    if others := [name for name in names if name not in COLUMNS or name == "enclosed_types"]:
        raise ConfigurationError(f"Not every table has a column {others[0]!r}: cluster_by and merge_on name others.")
    return names


def work_folder_of(format: Format, location: str, work_folder: str | None) -> str:  # noqa: A002
    """The folder of intermediate files and of schemas, without a slash at its end."""
    if work_folder is None and (format == "iceberg" or not is_folder(location)):
        raise ConfigurationError(
            "The tables are in a catalog: name a work_folder, for intermediate files and for schemas."
        )
    return absolute(work_folder or location)


def schema_folder(
    schemas: SchemaFolder | str | os.PathLike[str] | None,
    location: str,
    format: Format,  # noqa: A002
    work_folder: str | None,
) -> SchemaFolder:
    """The folder of the schemas."""
    if isinstance(schemas, SchemaFolder):
        return schemas
    return SchemaFolder(schemas or f"{work_folder_of(format, location, work_folder)}/_schemas")


class TableWriter:
    """Writer of messages to the tables of their types."""

    def __init__(
        self,
        spark: SparkSession,
        location: str,
        format: Format,  # noqa: A002
        work_folder: str | None,
        schemas: SchemaFolder | str | os.PathLike[str] | None,
        decoders: Mapping[str, Callable[[Column], Column]] | None,
        max_bytes: int,
        body: BodyForm | None,
        types: TypePatterns | str | Sequence[str] | None = None,
        hints: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        if body not in (None, *BODY_COLUMNS):
            names = " or ".join(map(repr, BODY_COLUMNS))
            raise ConfigurationError(f"Whole bodies are kept as {names}: name one as body.")
        if body == "variant" and format == "iceberg":
            raise ConfigurationError("Tables of Iceberg have no variant here: keep whole bodies as body='text'.")
        self.lake = lake_of(spark, format, location)
        self._folder = work_folder_of(format, location, work_folder)
        self._files = schema_folder(schemas, location, format, work_folder)
        self._decoders, self._max_bytes, self._body = decoders or {}, max_bytes, body
        self._types = TypePatterns.of(types)
        self._hints = self._files.hints() if hints is None else Hints(hints)
        self._unusable: dict[str, str] = {}
        self._warnings: list[str] = []

    def write(
        self,
        rows: DataFrame,
        key: AnyKey,
        *,
        new_fields: bool,
        messages: int | None = None,
        cluster_by: Sequence[str] = (),
        merge_on: Sequence[str] = (),
    ) -> list[MessageTypeTable]:
        """Parse the messages once, widen the schemas, and write each table."""
        work = WorkFolder(rows.sparkSession, f"{self._folder}/_work-{partition_of(key)}")
        # A run that was killed may have left chunks of a second round.
        work.remove()
        try:
            packed = self._pack(work, rows, key, new_fields, messages)
            refused = self.refused(packed)
            existing = set(map(column_key, self.lake.tables())) if merge_on else set()
            is_plain = not merge_on and not cluster_by and self._body != "variant"
            parquet = self.lake if is_plain and isinstance(self.lake, ParquetLake) else None
            small = work.small(packed.shares) if parquet else {}

            def write(each: Key) -> MessageTypeTable:
                table = packed.table(self.lake, *each)
                if parquet and each in small:
                    parquet.append_small(*packed.unpacked(*each, small[each]), table.table, key)
                else:
                    own = packed.rows(*each)
                    if merge_on:
                        exists = column_key(table.table) in existing
                        own = without_repeats(own, self.lake, table.table, exists, key, merge_on)
                        table = replace(table, repeated=table.messages - own.count())
                    own = own.sortWithinPartitions(*cluster_by) if cluster_by else own
                    self.lake.append(own, table.table, key)
                if not table.is_unparsed:
                    self._keep(str(table.message_type), packed)
                return table

            tables = self._at_once(write, [each for each in packed.ordered() if each not in refused])
            for name in packed.schemas.keys() - {name for name, kind in packed.shares if kind == PARSED}:
                self._keep(name, packed)
            untouched = {self.lake.table(name) for name, _ in refused}
            self.lake.check(key, {each.table: each.messages - each.repeated for each in tables}, untouched)
            for each in tables:
                if each.new_fields or each.rescued or each.is_unparsed:
                    _log.info("%s", each)
            for warning in self._warnings:
                _log.warning("%s", warning)
            for error in refused.values():
                raise error
            return [replace(each, warnings=tuple(self._warnings)) for each in tables[:1]] + tables[1:]
        finally:
            work.remove()

    def reparse(self, rows: DataFrame, work_name: str) -> Packed:
        """Parse rows of a table of unparsed messages by the schemas as they are; the caller removes the folder."""
        work = WorkFolder(rows.sparkSession, f"{self._folder}/_work-{work_name}")
        given, schemas = self.given(rows), self.schemas()
        work.pack(given, self._packing(schemas, new_types=False, new_fields=False))
        return Packed(work, work.read(), work.reports(), given.schema, schemas, schemas, self._body)

    def schemas(self) -> dict[str, Struct]:
        """The schemas of the types that have a table."""
        self._unusable.clear()
        found = _distinct(self._files.all(self._unusable))
        self._warnings = [
            f"the schema of {quoted(type_of(stem))} cannot be used, and its messages are not parsed: {why}"
            for stem, why in self._unusable.items()
        ]
        if 5 * len(found) >= 4 * MAX_TYPES:
            self._warnings.append(
                f"{len(found):,} message types have a schema, and {MAX_TYPES} at most get one without a person. Choose "
                "types by patterns."
            )
        return found

    def given(self, rows: DataFrame) -> DataFrame:
        """The columns that are packed."""
        if not self._decoders:
            return rows.select(*COLUMNS, *IF_UNPARSED)
        body, content_type = decoded(rows, self._decoders)
        return rows.select(*COLUMNS, *IF_UNPARSED, body.alias(BODY), content_type.alias(CONTENT_TYPE))

    def _pack(self, work: WorkFolder, rows: DataFrame, key: AnyKey, new_fields: bool, messages: int | None) -> Packed:
        given, known = self.given(rows), self.schemas()
        schemas = known
        packing = self._packing(known, new_types=len(known) < MAX_TYPES, new_fields=new_fields)
        count, waiting = work.pack(given, packing)
        if messages is not None and count != messages:
            raise BatchMismatchError(
                f"Spark reads {count} messages of batch {partition_of(key)}, the ledger has {messages}: find the "
                "missing files first."
            )
        if waiting:
            schemas = self._wider(work, known)
            packing = self._packing(schemas, new_types=False, new_fields=False)
            work.pack(work.waiting(given.columns, given.schema), packing, 2)
        packed = Packed(work, work.read(), work.reports(), given.schema, schemas, known, self._body)
        if packed.messages != count:
            raise BatchMismatchError(
                f"{packed.messages} of the {count} messages of batch {partition_of(key)} were parsed: run it again, "
                "one attempt at a time."
            )
        return packed

    def _at_once(self, call: Callable[[T], S], each: Iterable[T]) -> list[S]:
        with ThreadPoolExecutor(_THREADS, "message-tables") as pool:
            return list(pool.map(call, each))

    def refused(self, packed: Packed) -> dict[Key, SqlQueueError]:
        """Compare each schema with its table before any is written; return an error for each type that differs."""
        parsed = [each for each in packed.ordered() if each[1] == PARSED]
        errors = self._at_once(lambda each: refusal(self.lake, str(each[0]), packed.schemas[str(each[0])]), parsed)
        return {each: error for each, error in zip(parsed, errors, strict=True) if error is not None}

    def _keep(self, name: str, packed: Packed) -> None:
        """Put the new fields of a type into its file, which others may have changed meanwhile."""
        schema = packed.schemas[name]
        if schema == packed.known.get(name):
            return
        for path, has, wanted in differences(self._files.extend(name, schema), schema):
            raise ConfigurationError(
                f"Another job gave the field {quoted(path)} of {quoted(name)} the type {has} meanwhile, and this one "
                f"wrote {wanted}: run `sqlqueue tables rewrite` for the type, and then this again."
            )

    def _packing(self, schemas: dict[str, Struct], *, new_types: bool, new_fields: bool) -> Packing:
        return Packing(
            schemas,
            COLUMNS,
            IF_UNPARSED,
            max_bytes=self._max_bytes,
            new_types=new_types,
            new_fields=new_fields,
            types=self._types,
            unusable=self._unusable.keys(),
            body=self._body,
        )

    def _wider(self, work: WorkFolder, known: dict[str, Struct]) -> dict[str, Struct]:
        """The schemas with those of new types and with new fields."""
        new, left_out, more = work.new_types(known, max(0, MAX_TYPES - len(known)))
        if more:
            self._warnings.append(
                f"{more:,} message types get no table, because there are too many: {quoted(left_out[0])}. Choose types "
                "by patterns."
            )
        found = {}
        for name, statistics in work.seen([*known, *new]):
            old = known.get(name, EMPTY)
            found[name], warnings = infer(statistics, name, old, self._hints)
            self._warnings += warnings
            # A table that cannot be read is found once more, before it is written.
            with suppress(Exception):
                columns = self.lake.columns(name) or EMPTY
                found[name] = adopted(found[name], old, as_fields(columns, found[name]))
        # Of two new types that share a table the frequent one has it.
        return _distinct({**known, **{name: found[name] for name in (*known, *new) if name in found}})


@dataclass(frozen=True)
class Packed:
    """Messages in a work folder, ready for their tables."""

    work: WorkFolder
    shares: dict[Key, Share]
    reports: dict[str | None, Report]
    given: StructType
    schemas: dict[str, Struct]
    known: dict[str, Struct]
    """The schemas as they were before."""

    body: BodyForm | None = None

    @property
    def messages(self) -> int:
        return sum(share.messages for share in self.shares.values())

    def ordered(self) -> list[Key]:
        """The types and kinds in the order of their names."""
        return sorted(self.shares, key=lambda key: (key[0] is None, key[0] or "", key[1]))

    def table(self, lake: Lake, name: str | None, kind: str) -> MessageTypeTable:
        """The result for a table."""
        share, is_unparsed = self.shares[name, kind], kind == UNPARSED_KIND
        table, report = lake.table(name, is_unparsed=is_unparsed), self.reports.get(name, Report())
        if is_unparsed:
            return MessageTypeTable(name, table, True, share.messages, reasons=dict(report.reasons))
        schema, known = self.schemas[str(name)], self.known.get(str(name))
        new = () if known is None else tuple(each.path for each in changes(known, schema) if each.schema is None)
        return MessageTypeTable(name, table, False, share.messages, share.rescued, new, report.rescued_fields)

    def rows(self, name: str | None, kind: str) -> DataFrame:
        """The rows of a table."""
        unpacking, schema = self._layout(name, kind)
        rows = self.work.rows(name, kind, self.shares[name, kind], unpacking, schema)
        return with_variant(rows) if BODY_COLUMNS["variant"] in schema.names else rows

    def unpacked(self, name: str | None, kind: str, chunks: list[bytes]) -> tuple[Iterator[pa.RecordBatch], StructType]:
        """The rows of a table from its chunks, in this process."""
        import pyarrow as pa

        unpacking, schema = self._layout(name, kind)
        return unpacking(iter([pa.RecordBatch.from_arrays([pa.array(chunks, pa.binary())], ["content"])])), schema

    def _layout(self, name: str | None, kind: str) -> tuple[Unpacking, StructType]:
        fields: dict[str, Type] = {}
        if kind == UNPARSED_KIND:
            schema = unparsed_schema(self.given)
        else:
            own = self.schemas[str(name)]
            names = column_names(own, COLUMNS)
            fields = {names[field]: kind for field, kind in fields_of(own).items()}
            schema = result_schema(_selected(self.given, COLUMNS), own, unparsed=False)
            if self.body is not None:
                schema = schema.add(BODY_COLUMNS[self.body], "string")
        return Unpacking(schema.names, fields), schema


def with_variant(rows: DataFrame) -> DataFrame:
    """The rows with their JSON as a variant."""
    from pyspark.sql import functions as sf

    return rows.withColumn(BODY_COLUMNS["variant"], sf.try_parse_json(BODY_COLUMNS["variant"]))


def unparsed_schema(given: StructType) -> StructType:
    """The columns of a table of unparsed messages, from those that are packed."""
    return _selected(given, (*COLUMNS, *IF_UNPARSED)).add(UNPARSED, "string")


def _selected(schema: StructType, names: tuple[str, ...]) -> StructType:
    from pyspark.sql.types import StructType

    return StructType([schema[name] for name in names])


def _distinct(schemas: Mapping[str, Struct]) -> dict[str, Struct]:
    """The schemas without those of types whose tables some file systems and catalogs would take for an earlier one."""
    found: dict[str, tuple[str, Struct]] = {}
    for name, schema in schemas.items():
        found.setdefault(column_key(name), (name, schema))
    return dict(found.values())
