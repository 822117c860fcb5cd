"""Many bodies at once as Arrow columns: Arrow's own reader of JSON, and the rule of each body where that fails.

Arrow's reader takes a block only if every value fits. Once it has refused one, others with such a fault are sorted out
before they are read, or it begins again behind them; bodies with unknown fields are found by counts of their names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import json

from airflow_sqlqueue.bodies import misfits
from airflow_sqlqueue.bodies.coercion import Coercion, Columns
from airflow_sqlqueue.bodies.decoding import MAX_BYTES, kind_of, parse
from airflow_sqlqueue.bodies.schemas import Struct, Type, all_fields, fields_of, widest_item, width
from airflow_sqlqueue.bodies.tree import ALWAYS, GROWTH, MAX_NODES
from airflow_sqlqueue.bodies.types import arrow_leaf, converted_leaf, reader_leaf
from airflow_sqlqueue.errors import BodyError
from airflow_sqlqueue.messages.envelope import cloud_events

BLOCK_BYTES = 16 * 1024 * 1024
"""Bytes of bodies that are parsed at once."""

_MOST_VALUES = 1 << 24
"""Values in columns, nulls as well, that bodies take together: some bytes of a body may take thousands."""

_ONE_BY_ONE = 16
"""Bodies that are parsed in the time of one call of Arrow's reader."""

_PROBE = 512
_ROW = re.compile(r" in row (\d+)$")
_ITEM = r"\{|[\[,][ \t\r\n]*null"
"""A regular expression of the beginnings of structs, and of nulls in lists."""
_END = r"\}[ \t\r\n]*$"
_INFINITY = r"[:,\[][ \t\r\n]*-?(?:Inf(?:inity)?|NaN)[ \t\r\n]*[,\]}]"
"""A regular expression of numbers that are no JSON, which Arrow's reader takes in what it skips."""


class Refused(Exception):
    """Arrow's reader does not take a block; ``row`` is the body at fault, as far as its message tells."""

    def __init__(self, row: int | None = None, *, is_unknown: bool = False) -> None:
        super().__init__()
        self.row, self.is_unknown = row, is_unknown


def arrow_type(kind: Type, of_leaf: Callable[[str], pa.DataType] = arrow_leaf) -> pa.DataType:
    """Return the Arrow type of a column of a schema, or with ``reader_leaf`` the one by which Arrow's reader has it."""
    if isinstance(kind, str):
        return of_leaf(kind)
    if kind["type"] == "array":
        return pa.list_(arrow_type(kind["elementType"], of_leaf))
    if kind["type"] == "map":
        # Arrow's reader has no maps, and of nulls in a list it loses some: a body that has a map, or a text for one, is
        # read by itself.
        return pa.string() if of_leaf is reader_leaf else pa.map_(pa.string(), arrow_type(kind["valueType"], of_leaf))
    return pa.struct([(name, arrow_type(each, of_leaf)) for name, each in fields_of(kind).items()])


class BodyParser:
    """Parser of the bodies of one schema; unless it ``rescues`` fields that the schema has not, it skips them."""

    def __init__(self, schema: Struct, *, rescues: bool = True, max_bytes: int = MAX_BYTES) -> None:
        self._schema, self._rescues, self._max_bytes = schema, rescues, max_bytes
        self._columns: dict[int, Columns] = {}
        self._fields, self._names = fields_of(schema), sorted(set(all_fields(schema)))
        self._known, self._unlike = misfits.known_names(schema), misfits.unlike(schema)
        self.result_type = pa.struct(
            [("fields", arrow_type(schema)), ("rescued", pa.string()), ("unparsed", pa.string())]
        )
        # Each field costs time in each object: the metadata are read once a body has some.
        self._metadata: tuple[str, ...] = ()
        self._explicit = arrow_type(schema, reader_leaf)
        self._skips = not rescues
        self._wrong: str | None = None
        self._probe, self._widest = _PROBE, widest_item(schema)
        self._marks = ['"$values"', '"$ref"'] if self._skips else []
        if not rescues:
            self._unlike.append((_INFINITY, None))
        if not {"$id", "$ref", "$values"}.isdisjoint(self._names) or "$type" in self._fields:
            # Whether it is a field or metadata, the rule of one body says.
            self._marks = ['"$', r"\u0024"]

    def portions(self, bodies: pa.Array) -> Iterator[tuple[int, int]]:
        """Yield the first body and the number of those that are parsed at once: their columns have a bounded size."""
        values = pa.repeat(width(self._schema), len(bodies))
        if self._widest:
            # Where items begin, in JSON and in XML; others count as well.
            items = pc.multiply(pc.fill_null(pc.count_substring_regex(bodies, "[{<]|null"), 0), self._widest)
            most = pc.max_element_wise(pc.multiply(pc.binary_length(bodies), GROWTH), ALWAYS)
            values = pc.add(values, pc.min_element_wise(items, most))
        numbers, start = pc.divide(pc.cumulative_sum(values), _MOST_VALUES), 0
        for count in pc.value_counts(numbers).field("counts").to_pylist():
            yield start, count
            start += count

    def parse(self, bodies: pa.Array, content_types: pa.Array) -> pa.StructArray:
        """Return the fields of each body, what did not fit as JSON by path, and the reason if it is not parsed."""
        pieces: list[pa.StructArray] = []
        # The first bodies of all show at little cost what does not fit.
        probe, self._probe = min(self._probe, len(bodies)), 0
        waiting = [(probe, len(bodies)), *[(0, probe)] * bool(probe)]
        while waiting:
            start, end = waiting.pop()
            middle = (start + end) // 2
            part = (bodies.slice(start, end - start), content_types.slice(start, end - start))
            if end - start > 1 and part[0].nbytes > BLOCK_BYTES:
                waiting += [(middle, end), (start, middle)]
                continue
            try:
                pieces.append(self._part(*part))
            except Refused as refused:
                if self._learns(refused, part[0]):
                    waiting.append((start, end))
                elif end - start <= _ONE_BY_ONE:
                    pieces.append(self._one_by_one(*part))
                else:
                    waiting += [(middle, end), (start, middle)]
        return pa.concat_arrays(pieces)

    def _learns(self, refused: Refused, bodies: pa.Array) -> bool:
        """Return whether bodies are read in another way from now on, after some were refused."""
        is_settled = self._metadata or self._marks
        if refused.is_unknown and not is_settled and pc.any(pc.match_substring(bodies, '"$')).as_py():
            self._metadata = misfits.METADATA
            self._explicit = pa.struct([*self._explicit, *((name, pa.string()) for name in self._metadata)])
        elif refused.is_unknown and not self._skips:
            self._skips = True
        elif not refused.is_unknown and self._wrong is None:
            self._wrong = misfits.wrong_kinds(self._explicit)
        else:
            return False
        return True

    def _part(self, bodies: pa.Array, content_types: pa.Array) -> pa.StructArray:
        """Parse the plain bodies by Arrow, the others one by one. Raises :class:`Refused`."""
        is_plain = self._plain(bodies, content_types)
        plain, others = pc.indices_nonzero(is_plain), pc.indices_nonzero(pc.invert(is_plain))
        if len(plain) == 0:
            return self._one_by_one(bodies, content_types)
        found, is_wrong = self._read(bodies if len(others) == 0 else bodies.take(plain))
        if pc.any(is_wrong).as_py():
            wrong, plain = plain.filter(is_wrong), plain.filter(pc.invert(is_wrong))
            others = pa.concat_arrays([others, wrong])
        if len(others) == 0:
            return found
        slow = self._one_by_one(bodies.take(others), content_types.take(others))
        return pa.concat_arrays([found, slow]).take(pc.sort_indices(pa.concat_arrays([plain, others])))

    def _plain(self, bodies: pa.Array, content_types: pa.Array) -> pa.Array:
        """Return true for each body that looks like JSON in UTF-8, to be read as it is."""
        # Where another value ends, the body may add a member to its line.
        found = pc.and_(pc.starts_with(bodies, "{"), pc.match_substring_regex(bodies, _END))
        sizes = pc.binary_length(bodies)
        found = pc.and_(found, pc.less_equal(sizes, self._max_bytes))
        if (pc.max(sizes).as_py() or 0) > MAX_NODES:
            found = pc.and_(found, pc.less(pc.count_substring_regex(bodies, r"[,\[{]"), MAX_NODES))
        if self._widest > GROWTH:
            cells = pc.multiply(pc.count_substring_regex(bodies, _ITEM), self._widest)
            found = pc.and_(found, pc.less_equal(cells, pc.max_element_wise(pc.multiply(sizes, GROWTH), ALWAYS)))
        for mark in self._marks:
            found = pc.and_(found, pc.invert(pc.match_substring(bodies, mark)))
        for pattern, number in self._unlike:
            found = pc.and_not(found, misfits.matches(bodies, pattern, number))
        if self._wrong:
            found = pc.and_not(found, misfits.matches(bodies, self._wrong))
        named = pc.fill_null(content_types, "")
        is_json = {each: _is_utf8_json(each) for each in pc.unique(named).to_pylist()}
        if not all(is_json.values()):
            allowed = pa.array([each for each, is_one in is_json.items() if is_one], pa.string())
            found = pc.and_(found, pc.is_in(named, allowed))
        return pc.fill_null(found, False)

    def _read(self, bodies: pa.Array) -> tuple[pa.StructArray, pa.Array]:
        """Parse bodies by Arrow's reader, but for those that are true in the second array."""
        # Each body is the value of a line's only field, so that no body can end or begin another one's line.
        prefix, suffix = (pa.scalar(each, bodies.type) for each in (b'{"b":', b"}\n"))
        try:
            lines = pc.binary_join_element_wise(prefix, bodies, suffix, b"").cast(pa.string())
        except pa.ArrowInvalid:
            read, refused = None, pa.array([not _is_utf8(each) for each in bodies.to_pylist()])
        else:
            read, refused = self._lines_read(lines)
        if read is None:
            right = pc.invert(refused)
            if not pc.any(right).as_py():
                return pa.array([], self.result_type), refused
            found, is_wrong = self._read(bodies.filter(right))
            return found, pc.replace_with_mask(refused, right, is_wrong)
        fields, is_wrong = _converted(read, self._schema)
        if self._metadata:
            # Another one than the number that serializers write is a field.
            is_number = pc.match_substring_regex(read.field("$id"), "^[0-9]+$")
            is_wrong = pc.or_(is_wrong, pc.invert(pc.fill_null(is_number, True)))
        rescued = nothing = pa.nulls(len(bodies), pa.string())
        if self._skips:
            has_unknown = misfits.has_more(bodies, _content(lines).to_pybytes(), read)
            if not self._rescues:
                is_alone = pc.or_(misfits.may_have_other_case(bodies, self._names), misfits.is_too_deep(bodies))
                is_alone = pc.and_(has_unknown, is_alone)
            else:
                texts = misfits.unknown_fields(bodies.filter(has_unknown).to_pylist(), self._known)
                rescued = pc.replace_with_mask(nothing, has_unknown, pa.array(texts, pa.string()))
                is_alone = pc.fill_null(pc.equal(rescued, misfits.ALONE), False)
            is_wrong = pc.or_(is_wrong, is_alone)
        result = pa.StructArray.from_arrays([fields, rescued, nothing], fields=list(self.result_type))
        return result.filter(pc.invert(is_wrong)), is_wrong

    def _lines_read(self, lines: pa.Array) -> tuple[pa.Array | None, pa.Array]:
        """Return what Arrow's reader reads of lines, None if it refuses some; and which these are."""
        offsets, text, start, few = memoryview(lines.buffers()[1]).cast("i"), _content(lines), 0, 1
        read, is_refused = None, [False] * len(lines)
        while start < len(lines):
            try:
                read = self._column(text.slice(offsets[start]), len(lines) - start)
                break
            except Refused as refused:
                if refused.row is None or refused.is_unknown or self._wrong is None:
                    raise
                row = start + refused.row
                # Where one after the other is refused, their neighbours are not tried.
                few = min(2 * few, _PROBE) if refused.row < _ONE_BY_ONE else 1
                start = min(row + few, len(lines))
                is_refused[row:start] = [True] * (start - row)
        return read if start == 0 else None, pa.array(is_refused)

    def _column(self, text: pa.Buffer, count: int) -> pa.StructArray:
        try:
            table = json.read_json(
                pa.BufferReader(text),
                read_options=json.ReadOptions(use_threads=False, block_size=text.size + 1),
                parse_options=json.ParseOptions(
                    explicit_schema=pa.schema([("b", self._explicit)]),
                    unexpected_field_behavior="ignore" if self._skips else "error",
                ),
            )
        except pa.ArrowInvalid as error:
            row, is_unknown = _ROW.search(str(error)), "unexpected field" in str(error)
            raise Refused(int(row[1]) if row and int(row[1]) < count else None, is_unknown=is_unknown) from error
        (read,) = table["b"].chunks
        if table.num_rows != count or read.null_count:
            raise Refused
        return read

    def _one_by_one(self, bodies: pa.Array, content_types: pa.Array) -> pa.StructArray:
        pairs = zip(bodies.to_pylist(), content_types.to_pylist(), strict=True)
        return pa.array([self._one(body or b"", content_type) for body, content_type in pairs], self.result_type)

    def _one(self, body: bytes, content_type: str | None) -> dict[str, Any]:
        try:
            tree = parse(body, content_type, max_bytes=self._max_bytes, fields=self._fields)
            fitting = Coercion(self._columns, len(body))
            fields = fitting.struct(tree, self._schema)
            rescued = fitting.rescued_text(len(body)) if self._rescues else None
            return {"fields": fields, "rescued": rescued, "unparsed": None}
        except BodyError as error:
            return {"fields": None, "rescued": None, "unparsed": error.reason}


def _content(lines: pa.Array) -> pa.Buffer:
    """Return the texts of an array without offset, one behind the other."""
    _, offsets, content = lines.buffers()
    return content.slice(0, memoryview(offsets).cast("i")[len(lines)])


def _is_utf8(body: bytes) -> bool:
    try:
        body.decode()
    except UnicodeDecodeError:
        return False
    return True


def _is_utf8_json(content_type: str) -> bool:
    try:
        kind = kind_of(content_type, "{")
    except BodyError:
        return False
    return (
        kind == "json"
        and not cloud_events.is_structured(content_type)
        and "charset" not in content_type.lower().replace("charset=utf-8", "")
    )


def _converted(read: pa.Array, kind: Type) -> tuple[pa.Array, pa.Array]:
    """Return the column of a type from what Arrow's reader read, and where it has values that do not fit."""
    is_null = pc.is_null(read) if read.null_count else None
    is_wrong = pa.repeat(False, len(read))
    if isinstance(kind, dict) and kind["type"] == "struct":
        columns = [_converted(read.field(each["name"]), each["type"]) for each in kind["fields"]]
        if not columns:
            return pa.array([{} if each else None for each in read.is_valid().to_pylist()], pa.struct([])), is_wrong
        children = [column for column, _ in columns]
        column = pa.StructArray.from_arrays(children, fields=list(arrow_type(kind)), mask=is_null)
        return column, reduce(pc.or_, (each for _, each in columns))
    if isinstance(kind, dict) and kind["type"] == "map":
        return pa.nulls(len(read), arrow_type(kind)), pc.is_valid(read)
    if isinstance(kind, dict):
        values, are_wrong = _converted(read.values, kind["elementType"])
        column = pa.ListArray.from_arrays(read.offsets, values, mask=is_null)
        if pc.any(are_wrong).as_py():
            lists = pc.list_parent_indices(read).filter(are_wrong)
            is_wrong = pc.is_in(pa.array(range(len(read)), lists.type), lists)
        return column, is_wrong
    column = converted_leaf(read, kind)
    if column.null_count != read.null_count:
        is_wrong = pc.and_(pc.is_null(column), pc.is_valid(read))
    return column, is_wrong
