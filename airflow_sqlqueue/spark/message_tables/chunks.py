"""Packing of messages: one pass over a batch parses the messages of all types, and packs each type's by itself.

A row of Spark holds a chunk: messages of one type as an Arrow stream. So tables with different columns come from one
job. Runs in Spark's Python workers. Source: docs/design.md, "Tables of message types".
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING

from airflow_sqlqueue.bodies.coercion import to_json
from airflow_sqlqueue.bodies.decoding import MAX_BYTES, kind_of, parse_xml, read_text
from airflow_sqlqueue.bodies.names import BODY_COLUMNS, ENVELOPE, RESCUED, UNPARSED, column_names
from airflow_sqlqueue.bodies.patterns import ALL_TYPES, TypePatterns
from airflow_sqlqueue.bodies.schemas import Struct, Type, fields_of, item_of
from airflow_sqlqueue.bodies.types import MOST_DIGITS, read_or_none
from airflow_sqlqueue.client.schemas.files import file_stem
from airflow_sqlqueue.exports import LazyModule
from airflow_sqlqueue.messages.envelope import cloud_events
from airflow_sqlqueue.spark.bodies import IF_UNPARSED, decoded
from airflow_sqlqueue.spark.message_tables.reports import Report
from airflow_sqlqueue.spark.message_tables.samples import statistics_of, with_new_fields

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyspark.sql import Column, DataFrame

    from airflow_sqlqueue.bodies.arrow_parser import BodyParser
else:
    pa, pc = LazyModule("pyarrow"), LazyModule("pyarrow.compute")

COLUMNS = (*ENVELOPE, "enclosed_types")
"""Columns of every table, beside the fields, ``_rescued``, ``batch_id`` and ``parse_attempt``."""

CHUNKS = "part string, kind string, message_type string, messages long, rescued long, content binary"
"""Columns of chunks. ``part`` is the folder of their files: a share of the types, or the kind."""

PARSED, UNPARSED_KIND, WAITING, SEEN, REPORT = "parsed", "unparsed", "waiting", "seen", "report"
"""Kinds of chunks: rows of a table, rows of the table of unparsed messages, messages that wait for a schema,
statistics of these messages, and a task's counts of what was rescued or is not parsed."""

BODY, CONTENT_TYPE = "_body", "_content_type"
"""Columns of the decoded body and its content type, where decoders are given."""

_PARTS = 24
"""Folders of chunks; Spark lists up to 32 without a job."""

_BLOCK_BYTES = 32 * 1024 * 1024
"""Bytes of messages that are grouped by type at once."""

_CHUNK_BYTES = 4 * 1024 * 1024
"""Bytes of rows in a chunk, unless one row is larger."""


_LONG_NUMBER = re.compile(r"[:,\[][ \t\r\n]*-?[\d.]*(?:[\d.]{39}|\d[eE])", re.ASCII)
"""A regular expression of bodies with a number of more than 38 digits, or with an exponent."""


def part_of(message_type: str | None) -> str:
    """Return the folder of the chunks of a type."""
    return "none" if message_type is None else str(zlib.crc32(message_type.encode()) % _PARTS)


def to_pack(rows: DataFrame, decoders: Mapping[str, Callable[[Column], Column]]) -> DataFrame:
    """Return the columns of messages that are packed."""
    body, content_type = decoded(rows, decoders)
    own = (body.alias(BODY), content_type.alias(CONTENT_TYPE)) if decoders else ()
    return rows.select(*COLUMNS, *IF_UNPARSED, *own)


@dataclass
class Packing:
    """Function for ``mapInArrow`` that makes chunks of messages."""

    schemas: Mapping[str, Struct]
    # Messages of types without a schema, or with fields that theirs has not, wait for one; else they are not parsed,
    # or the fields are rescued.
    new_types: bool = False
    new_fields: bool = False
    max_bytes: int = MAX_BYTES
    types: TypePatterns = ALL_TYPES
    # The names of the files of schemas that cannot be used.
    unusable: Collection[str] = ()
    body: str | None = None
    _parsers: dict[str, BodyParser] = field(init=False, default_factory=dict)
    _waiting: list[pa.RecordBatch] = field(init=False, default_factory=list)
    _reports: dict[str | None, Report] = field(init=False, default_factory=dict)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for rows in blocks(batches):
            without_table = []
            for name, group in by_type(rows):
                if name is None or not self.types.matches(name):
                    without_table.append(group)
                elif name in self.schemas:
                    yield from self._all_parsed(name, group)
                elif self.unusable and file_stem(name) in self.unusable:
                    yield from self._unparsed(name, group, pa.repeat("schema", group.num_rows))
                elif self.new_types:
                    found = statistics_of(group, *bodies_of(group), max_bytes=self.max_bytes)
                    yield _chunk(SEEN, name, group.num_rows, json.dumps(found.to_values()).encode())
                    self._waiting.append(group)
                else:
                    without_table.append(group)
            # Together, because there may be as many types as messages.
            if without_table:
                others = _together(without_table)
                yield from self._unparsed(None, others, pa.repeat("type", others.num_rows))
            if self._waiting:
                yield from _chunks(WAITING, None, _together(self._waiting))
                self._waiting = []
        for name, report in self._reports.items():
            yield _chunk(REPORT, name, 0, json.dumps(report.to_values()).encode())
        self._reports = {}

    def _all_parsed(self, name: str, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        from airflow_sqlqueue.bodies.arrow_parser import BodyParser

        if name not in self._parsers:
            self._parsers[name] = BodyParser(self.schemas[name], max_bytes=self.max_bytes)
        for start, count in self._parsers[name].portions(bodies_of(rows)[0]):
            yield from self._parsed(name, rows.slice(start, count))

    def _parsed(self, name: str, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        schema = self.schemas[name]
        parsed = self._parsers[name].parse(*bodies_of(rows))
        rescued = parsed.field("rescued")
        reasons = pc.if_else(pc.is_valid(rows["BodyFile"]), "file", parsed.field("unparsed"))
        if self.new_fields and rescued.null_count < len(rescued):
            waits, seen = with_new_fields(rows, rescued, schema, bodies_of(rows)[0])
            if waits:
                mask = pa.array([number in waits for number in range(len(rescued))])
                yield _chunk(SEEN, name, len(waits), json.dumps(seen.to_values()).encode())
                self._waiting.append(rows.filter(mask))
                rest = pc.invert(mask)
                rows, parsed, rescued, reasons = (each.filter(rest) for each in (rows, parsed, rescued, reasons))
        if rescued.null_count < len(rescued):
            self._reports.setdefault(name, Report()).add(rescued.drop_null().to_pylist())
        is_unparsed = pc.is_valid(reasons)
        if pc.any(is_unparsed).as_py():
            yield from self._unparsed(name, rows.filter(is_unparsed), reasons.filter(is_unparsed))
            fits = pc.invert(is_unparsed)
            rows, parsed, rescued = (each.filter(fits) for each in (rows, parsed, rescued))
        columns = {each: rows[each] for each in COLUMNS}
        fields = pc.struct_field(parsed, "fields").flatten()
        columns |= dict(zip(column_names(schema, ()).values(), fields, strict=True))
        columns[RESCUED] = rescued
        if self.body:
            columns[BODY_COLUMNS[self.body]] = self._whole(rows)
        yield from _chunks(PARSED, name, pa.RecordBatch.from_pydict(columns))

    def _whole(self, rows: pa.RecordBatch) -> pa.Array:
        """Return the texts of bodies that are parsed; for a variant, JSON in place of XML, null for what it changes."""
        texts: list[str | None] = []
        bodies, content_types = bodies_of(rows)
        for body, content_type in zip(bodies, content_types.to_pylist(), strict=True):
            # An event is JSON in UTF-8, whatever charset its content type names.
            named = None if cloud_events.is_structured(content_type) else content_type
            text = read_text(body.as_py(), named, max_bytes=self.max_bytes).text
            if self.body == "text":
                texts.append(text)
            elif kind_of(named, text) == "xml":
                texts.append(to_json(parse_xml(text)))
            else:
                texts.append(text if _keeps_numbers(text) else None)
        return pa.array(texts, pa.string())

    def _unparsed(self, name: str | None, rows: pa.RecordBatch, reasons: pa.Array) -> Iterator[pa.RecordBatch]:
        self._reports.setdefault(name, Report()).reasons.update(reasons.to_pylist())
        columns = {each: rows[each] for each in (*COLUMNS, *IF_UNPARSED)}
        yield from _chunks(UNPARSED_KIND, name, pa.RecordBatch.from_pydict({**columns, UNPARSED: reasons}))


def _keeps_numbers(text: str) -> bool:
    """Return whether a variant has all numbers of a JSON text as they are: as decimals, others as doubles."""
    if not _LONG_NUMBER.search(text):
        return True
    numbers: list[str] = []
    json.loads(text, parse_int=numbers.append, parse_float=numbers.append)
    return all(map(_is_kept, numbers))


def _is_kept(number: str) -> bool:
    if "e" not in number.lower():
        _, digits, exponent = Decimal(number).as_tuple()
        if len(digits) <= MOST_DIGITS and -int(exponent) <= MOST_DIGITS:
            return True
    return read_or_none("double", number, "number") is not None


@dataclass(frozen=True)
class Unpacking:
    """Function for ``mapInArrow`` that gives the rows of chunks with these columns; later ``fields`` are null."""

    columns: Sequence[str]
    fields: Mapping[str, Type] = field(default_factory=dict)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for chunks in batches:
            for content in chunks.column(0):
                for rows in pa.ipc.open_stream(content.as_buffer()):
                    known = dict(zip(rows.schema.names, rows.columns, strict=True))
                    columns = [
                        _widened(known.get(name), self.fields[name], len(rows)) if name in self.fields else rows[name]
                        for name in self.columns
                    ]
                    yield pa.RecordBatch.from_arrays(columns, self.columns)


def blocks(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Put small batches together, and cut large ones, into blocks of bounded size."""
    held: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        pieces = max(1, -(-batch.nbytes // _BLOCK_BYTES))
        step = -(-batch.num_rows // pieces)
        for start in range(0, batch.num_rows, max(1, step)):
            piece = batch.slice(start, step)
            if held and size + piece.nbytes > _BLOCK_BYTES:
                yield _together(held)
                held, size = [], 0
            held.append(piece)
            size += piece.nbytes
    if held:
        yield _together(held)


def _together(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    # The function of pyarrow for it is new in 19.
    return pa.RecordBatch.from_struct_array(pa.concat_arrays([each.to_struct_array() for each in batches]))


def by_type(rows: pa.RecordBatch) -> Iterator[tuple[str | None, pa.RecordBatch]]:
    """Yield the rows of each type; a message without a type has None."""
    codes = pc.dictionary_encode(rows["message_type"].cast(pa.string()), null_encoding="encode")
    ordered = rows.take(pc.sort_indices(codes.indices))
    counts = {each["values"]: each["counts"] for each in pc.value_counts(codes.indices).to_pylist()}
    start = 0
    for code, name in enumerate(codes.dictionary.to_pylist()):
        yield name, ordered.slice(start, counts[code])
        start += counts[code]


def bodies_of(rows: pa.RecordBatch) -> tuple[pa.Array, pa.Array]:
    """Return the bodies to parse, and their content types."""
    has_decoded = BODY in rows.schema.names
    body, content_type = (BODY, CONTENT_TYPE) if has_decoded else ("Body", "content_type")
    return rows[body].cast(pa.binary()), rows[content_type].cast(pa.string())


def _chunks(kind: str, name: str | None, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield the rows as chunks of bounded size."""
    if not rows.num_rows:
        return
    step = max(1, rows.num_rows * _CHUNK_BYTES // max(rows.nbytes, 1))
    for start in range(0, rows.num_rows, step):
        some = rows.slice(start, step)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, some.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as stream:
            stream.write_batch(some)
        rescued = pc.count(some[RESCUED]).as_py() if kind == PARSED else 0
        yield _chunk(kind, name, some.num_rows, sink.getvalue().to_pybytes(), rescued)


def _chunk(kind: str, name: str | None, messages: int, content: bytes, rescued: int = 0) -> pa.RecordBatch:
    part = kind if kind in (WAITING, SEEN, REPORT) else part_of(name)
    texts = [pa.array([text], pa.string()) for text in (part, kind, name)]
    columns = [*texts, pa.array([messages]), pa.array([rescued]), pa.array([content])]
    return pa.RecordBatch.from_arrays(columns, ["part", "kind", "message_type", "messages", "rescued", "content"])


def _widened(values: pa.Array | None, kind: Type, count: int) -> pa.Array:
    """Return a column with the fields that its type has since; new ones are null."""
    from airflow_sqlqueue.bodies.arrow_parser import arrow_type

    wanted = arrow_type(kind)
    if values is None:
        return pa.nulls(count, wanted)
    if isinstance(kind, str) or values.type == wanted:
        return values
    item = item_of(kind)
    if item is None:
        known = dict(zip([each.name for each in values.type], values.flatten(), strict=True))
        children = [_widened(known.get(name), each, count) for name, each in fields_of(kind).items()]
        return pa.StructArray.from_arrays(children, fields=list(wanted), mask=values.is_null())
    if kind["type"] == "array":
        items = _widened(values.values, item, len(values.values))
    else:
        both = [values.keys, _widened(values.items, item, len(values.items))]
        items = pa.StructArray.from_arrays(both, fields=[wanted.key_field, wanted.item_field])
    return pa.Array.from_buffers(
        wanted, len(values), values.buffers()[:2], values.null_count, values.offset, children=[items]
    )
