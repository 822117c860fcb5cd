"""Tables of message types: a batch becomes one table for each type, with the fields of its bodies as columns.

Source: docs/guides/bodies.md, "One table for each message type"; docs/design.md, "Tables of message types".
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

from airflow_sqlqueue.bodies.hints import Hints
from airflow_sqlqueue.bodies.inference import infer
from airflow_sqlqueue.bodies.names import BODY_COLUMNS, ENVELOPE, UNPARSED, column_key, column_names
from airflow_sqlqueue.bodies.patterns import ALL_TYPES, TypePatterns
from airflow_sqlqueue.bodies.schemas import Struct, Type, fields_of
from airflow_sqlqueue.bodies.text import MAX_BYTES
from airflow_sqlqueue.bodies.warnings import SchemaWarning
from airflow_sqlqueue.errors import BatchMismatchError, ConfigurationError, SqlQueueError
from airflow_sqlqueue.schemas.files import SchemaFolder, type_of
from airflow_sqlqueue.spark.batch import read_batch, typed_columns
from airflow_sqlqueue.spark.bodies import IF_UNPARSED, decoded, result_schema
from airflow_sqlqueue.spark.manifests import AnyBatch, load_batch
from airflow_sqlqueue.spark.message_tables.columns import adopted, as_fields, refusal
from airflow_sqlqueue.spark.message_tables.lakes import Format, Lake, absolute, is_folder, lake_of, without_repeats
from airflow_sqlqueue.spark.message_tables.packing import BODY, CONTENT_TYPE, PARSED, UNPARSED_KIND, Packing, Unpacking
from airflow_sqlqueue.spark.message_tables.reports import MessageTypeTable, Report, ShareLimit, ShareLimits
from airflow_sqlqueue.spark.message_tables.work import Share, WorkFolder
from airflow_sqlqueue.spark.sinks.keys import AnyKey, partition_of

if TYPE_CHECKING:
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

_EMPTY: Struct = {"type": "struct", "fields": []}
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
    be killed at any point and run again, with the same arguments. Run one attempt of a batch at a time.

    :param location: the folder of the tables, a path or a URI: a table is a folder there, called as its type. A
        relative path begins in the working directory of this process, and has a slash if it has a dot. For Iceberg,
        and for Delta Lake if it is to be so, a schema that exists in a catalog of the session, ``catalog.schema``: a
        table is called as its type, with underscores for dots, and its suffix is ``__unparsed``.
    :param format: ``parquet``, with a partition ``batch_id=...`` for each batch, ``delta`` or ``iceberg``; see
        :func:`write_partitions`, :func:`write_delta` and :func:`write_iceberg`.
    :param schemas: the folder of the schemas; ``_schemas`` in ``work_folder`` unless given. A type without a schema
        gets one from a sample of the batch, up to 1,000 types; messages of further types are with those without a type.
        A schema that cannot be used costs its own type: its messages have the reason ``schema``.
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

    The batch is read once, by one job that parses the messages of all types and keeps them in a folder ``_work-...`` of
    ``work_folder``; a job for each table follows, and the folder is removed. Spark's workers need this package.

    Raises :class:`BatchError` for a batch that is open or requeued, :class:`BatchMismatchError` if Spark reads, or a
    table gets, another number of messages than the ledger has, and :class:`ConfigurationError` for a format or a schema
    that cannot be used. A schema with another type than its table has, in a way that the format cannot change, is one:
    it is found before anything is written, the rows of that type are not written, and the error comes when those of the
    other types are. :func:`rewrite_message_table` makes the table anew; the batch is then run again. With more rescued
    or unparsed messages than allowed it raises :class:`TooManyRescuedError` once all tables are written, so that the
    batch is not marked consumed; a later run writes nothing twice.
    """
    limits = ShareLimits(max_rescued, max_unparsed)
    columns = {"cluster_by": _own(cluster_by), "merge_on": _own(merge_on)}
    lake = lake_of(spark, format, location)
    source = load_batch(spark, batch, connection, ledger_schema=ledger_schema)
    rows = read_batch(spark, source, connection, ledger_schema=ledger_schema)
    check_body(body, format)
    folder, chosen = work_folder_of(format, location, work_folder), TypePatterns.of(types)
    writer = TableWriter(lake, folder, schemas, decoders, max_bytes, body, types=chosen, hints=hints)
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
    lake = lake_of(rows.sparkSession, format, location)
    typed = rows if "headers_raw" in rows.columns else typed_columns(rows)
    check_body(body, format)
    folder, chosen = work_folder_of(format, location, work_folder), TypePatterns.of(types)
    writer = TableWriter(lake, folder, schemas, decoders, max_bytes, body, types=chosen, hints=hints)
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


def check_body(body: str | None, format: str) -> None:  # noqa: A002
    """Refuse a form of whole bodies that is unknown, or that the format of the tables has not."""
    if body not in (None, *BODY_COLUMNS):
        raise ConfigurationError(f"Whole bodies are kept as {' or '.join(map(repr, BODY_COLUMNS))}: name one as body.")
    if body == "variant" and format == "iceberg":
        raise ConfigurationError("Tables of Iceberg have no variant here: keep whole bodies as body='text'.")


class TableWriter:
    """Writes messages to the tables of their types."""

    def __init__(
        self,
        lake: Lake,
        folder: str,
        schemas: SchemaFolder | str | os.PathLike[str] | None,
        decoders: Mapping[str, Callable[[Column], Column]] | None,
        max_bytes: int,
        body: BodyForm | None = None,
        *,
        types: TypePatterns = ALL_TYPES,
        hints: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        self._body = body
        self._files = schemas if isinstance(schemas, SchemaFolder) else SchemaFolder(schemas or f"{folder}/_schemas")
        self._lake, self._folder, self._decoders, self._max_bytes = lake, folder, decoders or {}, max_bytes
        self._types, self._hints = types, self._files.hints() if hints is None else Hints.read(hints)
        self._unusable: dict[str, str] = {}
        self.warnings: list[SchemaWarning] = []
        """Limits that a batch reaches, and schemas that cannot be used."""

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
            existing = set(map(column_key, self._lake.tables())) if merge_on else set()

            def write(name: str | None, kind: str) -> MessageTypeTable:
                table, own = packed.table(self._lake, name, kind), packed.rows(name, kind)
                if merge_on:
                    exists = column_key(table.table) in existing
                    own = without_repeats(own, self._lake, table.table, exists, key, merge_on)
                    table = replace(table, repeated=table.messages - own.count())
                own = own.sortWithinPartitions(*cluster_by) if cluster_by else own
                self._lake.append(own, table.table, key)
                if name is not None and kind == PARSED:
                    self._keep(name, packed)
                return table

            written = [each for each in packed.ordered() if each[0] not in refused or each[1] != PARSED]
            tables = self._at_once(lambda each: write(*each), written)
            for name in packed.schemas.keys() - {name for name, kind in packed.shares if kind == PARSED}:
                self._keep(name, packed)
            untouched = {self._lake.table(name) for name in refused}
            self._lake.check(key, {each.table: each.messages - each.repeated for each in tables}, untouched)
            for each in tables:
                if each.new_fields or each.rescued or each.is_unparsed:
                    _log.info("%s", each)
            places = {each.message_type: number for number, each in enumerate(tables)}
            for warning in self.warnings:
                _log.warning("%s", warning)
                if tables:
                    number = places.get(warning.message_type, 0)
                    tables[number] = replace(tables[number], warnings=(*tables[number].warnings, str(warning)))
            for error in refused.values():
                raise error
            return tables
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
        self.warnings = [SchemaWarning("schema", type_of(stem), 1, why) for stem, why in self._unusable.items()]
        if 5 * len(found) >= 4 * MAX_TYPES:
            self.warnings.append(SchemaWarning("many types", None, len(found), str(MAX_TYPES)))
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

    def refused(self, packed: Packed) -> dict[str, SqlQueueError]:
        """Compare each schema with its table before any is written; return an error for each type that differs.

        Its rows are not written, those of other types are: the batch is not complete, and is run again.
        """
        names = [name for name, kind in packed.shares if name is not None and kind == PARSED]
        found = zip(
            names, self._at_once(lambda name: refusal(self._lake, name, packed.schemas[name]), names), strict=True
        )
        return {name: error for name, error in sorted(found) if error is not None}

    def _keep(self, name: str, packed: Packed) -> None:
        """Put the new fields of a type into its file, which others may have changed meanwhile."""
        schema = packed.schemas[name]
        if schema != packed.known.get(name):
            self._files.extend(name, schema)

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
            self.warnings.append(SchemaWarning("types", None, more, left_out[0]))
        found = {}
        for name, statistics in work.seen([*known, *new]):
            old = known.get(name, _EMPTY)
            inferred = infer(statistics, name, old, self._hints)
            found[name] = self._adopted(name, inferred.schema, old)
            self.warnings += inferred.warnings
        # Of two new types that share a table the frequent one has it.
        return _distinct({**known, **{name: found[name] for name in (*known, *new) if name in found}})

    def _adopted(self, name: str, schema: Struct, old: Struct) -> Struct:
        """The schema with the types that new fields have in the table."""
        try:
            return adopted(schema, old, as_fields(self._lake.columns(name) or _EMPTY, schema))
        except Exception:
            # The table is compared once more, before it is written.
            return schema


@dataclass(frozen=True)
class Packed:
    """Messages in a work folder, ready for their tables."""

    work: WorkFolder
    shares: dict[tuple[str | None, str], Share]
    reports: dict[str | None, Report]
    given: StructType
    schemas: dict[str, Struct]
    known: dict[str, Struct]
    """The schemas as they were before."""

    body: BodyForm | None = None

    @property
    def messages(self) -> int:
        return sum(share.messages for share in self.shares.values())

    def ordered(self) -> list[tuple[str | None, str]]:
        """The types and kinds in the order of their names."""
        return sorted(self.shares, key=lambda key: (key[0] is None, key[0] or "", key[1]))

    def table(self, lake: Lake, name: str | None, kind: str) -> MessageTypeTable:
        """The result for a table."""
        share, is_unparsed = self.shares[name, kind], kind == UNPARSED_KIND
        is_widened = kind == PARSED and name in self.known
        new = tuple(_new_paths(self.known[name], self.schemas[name])) if name is not None and is_widened else ()
        table = lake.table(name, is_unparsed=is_unparsed)
        report = self.reports.get(name, Report())
        rescued, reasons = ((), dict(report.reasons)) if is_unparsed else (report.rescued_fields, {})
        return MessageTypeTable(name, table, is_unparsed, share.messages, share.rescued, new, rescued, reasons)

    def rows(self, name: str | None, kind: str) -> DataFrame:
        """The rows of a table."""
        fields: dict[str, Type] = {}
        body = self.body if kind == PARSED else None
        if name is None or kind == UNPARSED_KIND:
            schema = unparsed_schema(self.given)
        else:
            own = self.schemas[name]
            names = column_names(own, COLUMNS)
            fields = {names[field]: kind for field, kind in fields_of(own).items()}
            schema = result_schema(_selected(self.given, COLUMNS), own, unparsed=False)
        if body is not None:
            schema = schema.add(BODY_COLUMNS[body], "string")
        rows = self.work.rows(name, kind, self.shares[name, kind], Unpacking(schema.names, fields), schema)
        return with_variant(rows) if body == "variant" else rows


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
    """The schemas without those of types whose names differ from an earlier one in case alone.

    Some file systems and catalogs would take their tables for one.
    """
    found: dict[str, Struct] = {}
    taken: set[str] = set()
    for name, schema in schemas.items():
        if column_key(name) not in taken:
            taken.add(column_key(name))
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
