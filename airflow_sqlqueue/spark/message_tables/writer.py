"""Writer of messages to the tables of their types: it parses them once, widens the schemas, and writes each table."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from airflow_sqlqueue.bodies.decoding import MAX_BYTES
from airflow_sqlqueue.bodies.extension import EMPTY
from airflow_sqlqueue.bodies.inference import infer
from airflow_sqlqueue.bodies.names import BODY_COLUMNS, ENVELOPE, name_key
from airflow_sqlqueue.bodies.patterns import Hints, TypePatterns
from airflow_sqlqueue.bodies.schemas import Struct, read_schema
from airflow_sqlqueue.client.schemas.files import SchemaFolder, type_of
from airflow_sqlqueue.errors import BatchMismatchError, ConfigurationError, SqlQueueError
from airflow_sqlqueue.options.budget import count_of
from airflow_sqlqueue.spark.message_tables.chunks import PARSED, Packing, to_pack
from airflow_sqlqueue.spark.message_tables.columns import adopted, as_fields, differences, refusal, with_former
from airflow_sqlqueue.spark.message_tables.packed import BodyForm, Packed
from airflow_sqlqueue.spark.message_tables.parquet import ParquetFormat
from airflow_sqlqueue.spark.message_tables.places import absolute, is_folder
from airflow_sqlqueue.spark.message_tables.reports import MessageTypeTable
from airflow_sqlqueue.spark.message_tables.table_formats import Format, table_format, without_repeats
from airflow_sqlqueue.spark.message_tables.work_folder import Key, WorkFolder
from airflow_sqlqueue.spark.sinks.checks import columns_in
from airflow_sqlqueue.spark.sinks.keys import AnyKey, partition_of
from airflow_sqlqueue.untrusted import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


_log = logging.getLogger(__name__)
S = TypeVar("S")
T = TypeVar("T")

MAX_TYPES = 1_000
"""The most types that get a schema without a person, over all batches."""

_THREADS = 4
"""Tables that are written at once: a small one keeps the driver busy longer than the executors."""


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


def _distinct(schemas: Mapping[str, Struct]) -> dict[str, Struct]:
    """Return the schemas, but of types whose tables are one to some file systems and catalogs only the first."""
    found: dict[str, tuple[str, Struct]] = {}
    for name, schema in schemas.items():
        found.setdefault(name_key(name), (name, schema))
    return dict(found.values())
