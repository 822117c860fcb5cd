"""Tables of message types: a batch becomes one table for each type, with the fields of its bodies as columns.

Source: docs/guides/bodies.md, "One table for each message type"; docs/design.md, "Tables of message types".
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

from airflow_sqlqueue.bodies.decoding import MAX_BYTES
from airflow_sqlqueue.bodies.extension import EMPTY
from airflow_sqlqueue.bodies.extension import differences as changes
from airflow_sqlqueue.bodies.inference import infer
from airflow_sqlqueue.bodies.names import BODY_COLUMNS, ENVELOPE, UNPARSED, column_names, name_key
from airflow_sqlqueue.bodies.patterns import Hints, TypePatterns
from airflow_sqlqueue.bodies.schemas import Struct, Type, fields_of, read_schema
from airflow_sqlqueue.client.schemas.files import SchemaFolder, type_of
from airflow_sqlqueue.errors import BatchMismatchError, ConfigurationError, SqlQueueError
from airflow_sqlqueue.options.budget import count_of
from airflow_sqlqueue.spark.batch import read_batch, typed_columns
from airflow_sqlqueue.spark.bodies import IF_UNPARSED, result_schema
from airflow_sqlqueue.spark.manifests import AnyBatch, load_batch
from airflow_sqlqueue.spark.message_tables.chunks import COLUMNS, PARSED, UNPARSED_KIND, Packing, Unpacking, to_pack
from airflow_sqlqueue.spark.message_tables.columns import adopted, as_fields, differences, refusal, with_former
from airflow_sqlqueue.spark.message_tables.parquet import ParquetFormat
from airflow_sqlqueue.spark.message_tables.places import absolute, is_folder
from airflow_sqlqueue.spark.message_tables.reports import MessageTypeTable, Report, ShareLimit, check_shares
from airflow_sqlqueue.spark.message_tables.table_formats import Format, TableFormat, table_format, without_repeats
from airflow_sqlqueue.spark.message_tables.work_folder import Key, WorkFolder
from airflow_sqlqueue.spark.sinks.checks import columns_in
from airflow_sqlqueue.spark.sinks.keys import AnyKey, partition_of
from airflow_sqlqueue.untrusted import quoted

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, Row, SparkSession
    from pyspark.sql.types import StructType

    from airflow_sqlqueue.server.settings import ConnectionSettings

_log = logging.getLogger(__name__)
S = TypeVar("S")
T = TypeVar("T")
BodyForm: TypeAlias = Literal["text", "variant"]

MAX_TYPES = 1_000
"""The most types that get a schema without a person, over all batches."""

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
) -> list[MessageTypeTable]:
    """Write a batch to one table for each message type, once; return what each table got.

    Each message of the batch is a row of one table. The table of its type, the first of the enclosed ones, has the
    columns of :func:`parse_bodies`, ``enclosed_types``, ``batch_id`` and ``parse_attempt``. A message that is not
    parsed is in a table beside that, whose name ends with ``~unparsed``, with the reason, its body and its headers;
    the table ``~unparsed`` has the messages without a type. See docs/guides/bodies.md.

    A repeated call for the same batch replaces its rows (Parquet) or writes nothing (Delta Lake, Iceberg), so a run may
    be killed at any point and run again, with the same arguments. Run one attempt of a batch at a time. Spark's workers
    need this package.

    :param location: the folder of the tables, a path or a URI; a relative path has a slash if it has a dot. Or, for
        Iceberg and Delta Lake, a schema of a catalog, ``catalog.schema``.
    :param format: ``parquet``, with a partition ``batch_id=...`` for each batch, ``delta`` or ``iceberg``.
    :param schemas: the folder of the schemas; ``_schemas`` in ``work_folder`` unless given. A type without a schema
        gets one from a sample of the batch, up to 1,000 types.
    :param types: the types that get tables: a pattern or several, ``["Shop.*", "!Shop.Internal.*"]``; all unless given.
    :param hints: types for fields without a column, by patterns of message types and paths; those of the file
        ``_hints.json`` in the folder of the schemas unless given.
    :param new_fields: whether fields that a schema has not become columns, in the schema's file as well. Values of
        another type than their column never change it: they are in ``_rescued``.
    :param decoders: as for ``parse_bodies``.
    :param max_bytes: the size above which a body is not parsed.
    :param work_folder: the folder of intermediate files; ``location`` unless given, which tables in a catalog need.
    :param cluster_by: columns of the envelope, as ``time_sent``, by which the rows of a batch are sorted.
    :param merge_on: columns of the envelope, as ``message_id``: a message is left out if a row of another batch, which
        is not written at the same time, or an earlier one of its own has the same values. Nulls are never the same.
    :param body: keep the whole body of each parsed message beside its columns: ``text`` in a column ``body_text``, as
        it was sent, or ``variant`` in a column ``body_variant``, XML as JSON; null for what no variant can be, such as
        an object with a name that comes twice. Iceberg takes ``text`` only.
    :param max_rescued: the share of a type's messages, from 0 to 1, that may have rescued values: one number for all
        types, or a mapping by patterns of their names, ``{"Shop.*": 0.01}``; the first one that fits decides.
    :param max_unparsed: the same for messages that are not parsed. For those without a type or a table, which only
        ``*`` names, it is their share of the batch.
    :param connection: the server of a batch in a table (stage ``table``).

    Raises :class:`BatchError` for a batch that is open or requeued, :class:`BatchMismatchError` if Spark reads, or a
    table gets, another number of messages than the ledger has, and :class:`ConfigurationError` for what cannot be used.
    It raises the latter, too, for a schema with another type than its table, once those of other types are written:
    then use :func:`rewrite_message_table`. More rescued or unparsed messages than allowed are a
    :class:`TooManyRescuedError` once all tables are written.
    """
    # A wrong share is an error before anything is read.
    check_shares([], max_rescued, max_unparsed)
    writer = TableWriter(
        spark,
        location,
        format,
        schemas=schemas,
        types=types,
        hints=hints,
        new_fields=new_fields,
        decoders=decoders,
        max_bytes=max_bytes,
        work_folder=work_folder,
        body=body,
        cluster_by=cluster_by,
        merge_on=merge_on,
    )
    source = load_batch(spark, batch, connection)
    tables = writer.write(read_batch(spark, source, connection), source, source.messages)
    check_shares(tables, max_rescued, max_unparsed)
    return tables


def write_message_rows(rows: DataFrame, location: str, batch: AnyKey, **options: Any) -> list[MessageTypeTable]:
    """Write rows to one table for each message type: :func:`write_message_tables` for a stream.

    ``foreach_batch(write_message_rows, "lake", format="delta")`` writes each micro-batch once.

    :param rows: rows of the format ``sqlqueue``, or of :func:`read_batch`.
    :param batch: the key of the rows: a :class:`MicroBatch`, a batch, or its id.
    :param options: those of ``write_message_tables`` from ``format`` to ``body``; tables and errors are the same.
    """
    known = [each.name for each in fields(TableWriter)][2:]
    for name in sorted(options.keys() - known):
        raise TypeError(f"write_message_rows() has no option {name!r}. It has {', '.join(known)}.")
    typed = rows if "headers_raw" in rows.columns else typed_columns(rows)
    return TableWriter(rows.sparkSession, location, **options).write(typed, batch)


@dataclass
class TableWriter:
    """Writer of messages to the tables of their types; its parameters are those of :func:`write_message_tables`."""

    spark: SparkSession
    location: str
    format: Format = "parquet"
    schemas: SchemaFolder | str | os.PathLike[str] | None = None
    types: TypePatterns | str | Sequence[str] | None = None
    hints: Mapping[str, Mapping[str, Any]] | None = None
    new_fields: bool = True
    decoders: Mapping[str, Callable[[Column], Column]] | None = None
    max_bytes: int = MAX_BYTES
    work_folder: str | None = None
    body: BodyForm | None = None
    cluster_by: str | Sequence[str] = ()
    merge_on: str | Sequence[str] = ()

    def __post_init__(self) -> None:
        self._cluster_by, self._merge_on = columns_in(self.cluster_by), columns_in(self.merge_on)
        others = {*self._cluster_by, *self._merge_on}.difference(ENVELOPE)
        if others:
            raise ConfigurationError(
                f"Not every table has a column {min(others)!r}: cluster_by and merge_on name others."
            )
        if self.body not in (None, *BODY_COLUMNS):
            names = " or ".join(map(repr, BODY_COLUMNS))
            raise ConfigurationError(f"Whole bodies are kept as {names}: name one as body.")
        if self.body == "variant" and self.format == "iceberg":
            raise ConfigurationError("Tables of Iceberg have no variant here: keep whole bodies as body='text'.")
        self.lake = table_format(self.spark, self.format, self.location)
        self._packing = Packing({}, max_bytes=self.max_bytes, types=TypePatterns.of(self.types), body=self.body)
        self._warnings: list[str] = []

    @cached_property
    def folder(self) -> str:
        """The folder of intermediate files and of schemas, without a slash at its end."""
        if self.work_folder is None and (self.format == "iceberg" or not is_folder(self.location)):
            raise ConfigurationError(
                "The tables are in a catalog: name a work_folder, for intermediate files and for schemas."
            )
        return absolute(self.work_folder or self.location)

    @cached_property
    def files(self) -> SchemaFolder:
        """The folder of the schemas."""
        if isinstance(self.schemas, SchemaFolder):
            return self.schemas
        return SchemaFolder(self.schemas or f"{self.folder}/_schemas")

    def write(self, rows: DataFrame, key: AnyKey, messages: int | None = None) -> list[MessageTypeTable]:
        """Parse the messages once, widen the schemas, and write each table."""
        work = WorkFolder(rows.sparkSession, f"{self.folder}/_work-{partition_of(key)}")
        # A run that was killed may have left chunks of a second round.
        work.remove()
        try:
            packed = self.pack(work, rows, key, messages)
            refused = self.refused(packed)
            existing = set(map(name_key, self.lake.tables())) if self._merge_on else set()
            is_plain = not self._merge_on and not self._cluster_by and self.body != "variant"
            parquet = self.lake if is_plain and isinstance(self.lake, ParquetFormat) else None
            small = work.small(packed.shares) if parquet else {}

            def write(each: Key) -> MessageTypeTable:
                table = packed.table(self.lake, *each)
                if parquet and each in small:
                    parquet.append_small(*packed.unpacked(*each, small[each]), table.table, key)
                else:
                    own = packed.rows(*each)
                    if self._merge_on:
                        exists = name_key(table.table) in existing
                        own = without_repeats(own, self.lake, table.table, exists, key, self._merge_on)
                        table = replace(table, repeated=table.messages - own.count())
                    own = own.sortWithinPartitions(*self._cluster_by) if self._cluster_by else own
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

    def _first(self) -> Packing:
        """Return the packing by the schemas of the types that have a table."""
        unusable: dict[str, str] = {}
        found = _distinct(self.files.all(unusable))
        self._warnings = [
            f"the schema of {quoted(type_of(stem))} cannot be used, and its messages are not parsed: {why}"
            for stem, why in unusable.items()
        ]
        if 5 * len(found) >= 4 * MAX_TYPES:
            self._warnings.append(
                f"{len(found):,} message types have a schema, and {MAX_TYPES} at most get one without a person. Choose "
                "types by patterns."
            )
        return replace(self._packing, schemas=found, unusable=frozenset(unusable))

    def pack(
        self, work: WorkFolder, rows: DataFrame, key: AnyKey, messages: int | None = None, *, is_again: bool = False
    ) -> Packed:
        """Parse messages into the folder; a second time by the schemas as they are."""
        given, first = to_pack(rows, self.decoders or {}), self._first()
        hints = self.files.hints() if self.hints is None else Hints(self.hints)
        new_types, new_fields = len(first.schemas) < MAX_TYPES and not is_again, self.new_fields and not is_again
        count, waiting = work.pack(given, replace(first, new_types=new_types, new_fields=new_fields))
        if messages is not None and count != messages:
            raise BatchMismatchError(
                f"Spark reads {count} messages of batch {partition_of(key)}, the ledger has {messages}: find the "
                "missing files first."
            )
        last = first
        if waiting:
            last = replace(first, schemas=self._wider(work, first.schemas, hints))
            work.pack(work.waiting(given.columns, given.schema), last, 2)
        packed = Packed(work, *work.read(), given.schema, last.schemas, first.schemas, self.body)
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
        found = self._at_once(lambda each: refusal(self.lake, str(each[0]), packed.schemas[str(each[0])]), parsed)
        if isinstance(self.lake, ParquetFormat):
            # The newest file of a table says what it has: there are no commits that do.
            for (name, _), (_, has) in zip(parsed, found, strict=True):
                with suppress(ConfigurationError):
                    packed.layouts[str(name)] = read_schema(with_former(packed.schemas[str(name)], has))
        return {each: error for each, (error, _) in zip(parsed, found, strict=True) if error is not None}

    def _keep(self, name: str, packed: Packed) -> None:
        """Put the new fields of a type into its file, which others may have changed meanwhile."""
        schema = packed.schemas[name]
        if schema == packed.known.get(name):
            return
        for path, has, wanted in differences(self.files.extend(name, schema), schema):
            raise ConfigurationError(
                f"Another job gave the field {quoted(path)} of {quoted(name)} the type {has} meanwhile, and this one "
                f"wrote {wanted}: run `sqlqueue tables rewrite` for the type, and then this again."
            )

    def _wider(self, work: WorkFolder, known: Mapping[str, Struct], hints: Hints) -> dict[str, Struct]:
        """Return the schemas with those of new types and with new fields."""
        new, left_out, more = work.new_types(known, max(0, MAX_TYPES - len(known)))
        if more:
            self._warnings.append(
                f"There is no table for {count_of(more, 'message type')}, because there are too many: "
                f"{quoted(left_out[0])}. Choose types by patterns."
            )
        found = {}
        for name, statistics in work.seen([*known, *new]):
            old = known.get(name, EMPTY)
            found[name], warnings = infer(statistics, name, old, hints)
            self._warnings += warnings
            # A table that cannot be read, or has a type that no schema has, is found once more, before it is written.
            with suppress(Exception):
                columns = self.lake.columns(self.lake.table(name)) or EMPTY
                found[name] = read_schema(adopted(found[name], old, as_fields(columns, found[name])))
        # The more frequent one of two new types that share a table gets it.
        return _distinct({**known, **{name: found[name] for name in (*known, *new) if name in found}})


@dataclass(frozen=True)
class Packed:
    """Messages in a work folder, ready for their tables."""

    work: WorkFolder
    shares: dict[Key, Row]
    reports: dict[str | None, Report]
    given: StructType
    schemas: Mapping[str, Struct]
    known: Mapping[str, Struct]
    """The schemas as they were before."""

    body: BodyForm | None = None
    layouts: dict[str, Struct] = field(default_factory=dict)
    """The fields of tables that have more than their schemas."""

    @property
    def messages(self) -> int:
        return sum(share.messages for share in self.shares.values())

    def ordered(self) -> list[Key]:
        """Return the types and kinds in the order of their names."""
        return sorted(self.shares, key=lambda key: (key[0] is None, key[0] or "", key[1]))

    def table(self, lake: TableFormat, name: str | None, kind: str) -> MessageTypeTable:
        """Return the result for a table."""
        share, is_unparsed = self.shares[name, kind], kind == UNPARSED_KIND
        table, report = lake.table(name, is_unparsed=is_unparsed), self.reports.get(name, Report())
        if is_unparsed:
            return MessageTypeTable(name, table, True, share.messages, reasons=dict(report.reasons))
        schema, known = self.schemas[str(name)], self.known.get(str(name))
        new = () if known is None else tuple(each.path for each in changes(known, schema) if each.schema is None)
        return MessageTypeTable(name, table, False, share.messages, share.rescued, new, report.rescued_fields)

    def rows(self, name: str | None, kind: str) -> DataFrame:
        """Return the rows of a table."""
        unpacking, schema = self._layout(name, kind)
        rows = self.work.rows(name, kind, self.shares[name, kind], unpacking, schema)
        return with_variant(rows) if BODY_COLUMNS["variant"] in schema.names else rows

    def unpacked(self, name: str | None, kind: str, chunks: list[bytes]) -> tuple[Iterator[pa.RecordBatch], StructType]:
        """Return the rows of a table from its chunks, in this process."""
        import pyarrow as pa

        unpacking, schema = self._layout(name, kind)
        return unpacking(iter([pa.RecordBatch.from_arrays([pa.array(chunks, pa.binary())], ["content"])])), schema

    def _layout(self, name: str | None, kind: str) -> tuple[Unpacking, StructType]:
        fields: dict[str, Type] = {}
        if kind == UNPARSED_KIND:
            schema = unparsed_schema(self.given)
        else:
            own = self.layouts.get(str(name), self.schemas[str(name)])
            names = column_names(own, COLUMNS)
            fields = {names[field]: kind for field, kind in fields_of(own).items()}
            schema = result_schema(_selected(self.given, COLUMNS), own, unparsed=False)
            if self.body is not None:
                schema = schema.add(BODY_COLUMNS[self.body], "string")
        return Unpacking(schema.names, fields), schema


def with_variant(rows: DataFrame) -> DataFrame:
    """Return the rows with their JSON as a variant."""
    from pyspark.sql import functions as sf

    return rows.withColumn(BODY_COLUMNS["variant"], sf.try_parse_json(BODY_COLUMNS["variant"]))


def unparsed_schema(given: StructType) -> StructType:
    """Return the columns of a table of unparsed messages, from those that are packed."""
    return _selected(given, (*COLUMNS, *IF_UNPARSED)).add(UNPARSED, "string")


def _selected(schema: StructType, names: tuple[str, ...]) -> StructType:
    from pyspark.sql.types import StructType

    return StructType([schema[name] for name in names])


def _distinct(schemas: Mapping[str, Struct]) -> dict[str, Struct]:
    """Return the schemas, but of types whose tables are one to some file systems and catalogs only the first."""
    found: dict[str, tuple[str, Struct]] = {}
    for name, schema in schemas.items():
        found.setdefault(name_key(name), (name, schema))
    return dict(found.values())
