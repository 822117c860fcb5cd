"""Many bodies at once as Arrow columns: Arrow's own reader of JSON, and the rule of each body where that fails.

Arrow's reader, with the schema given, takes a block of bodies only if every value fits. A body that it refuses is found
by the row in its message, if that has one, else in spans of the block. Others with the same fault are then sorted out
before they are read. Fields that the schema has not are skipped, and the bodies that have such are found by counts of
their names. So a body that does not fit costs its own parse.

Source: docs/guides/bodies.md, "How bodies are parsed".
"""

from __future__ import annotations

import re
from functools import reduce
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

from airflow_sqlqueue.bodies.decoding import parse
from airflow_sqlqueue.bodies.fitting import Columns, Fitting
from airflow_sqlqueue.bodies.misfits import METADATA, Suspects, UnknownFields, has_more, may_have_other_case
from airflow_sqlqueue.bodies.schemas import Struct, Type, all_fields, fields_of
from airflow_sqlqueue.bodies.text import MAX_BYTES, kind_of
from airflow_sqlqueue.bodies.types import arrow_leaf, converted_leaf, reader_leaf
from airflow_sqlqueue.bodies.unlike import Unlike
from airflow_sqlqueue.errors import BodyError

if TYPE_CHECKING:
    import pyarrow as pa

BLOCK_BYTES = 16 * 1024 * 1024
"""Bytes of bodies that are parsed at once."""

_ONE_BY_ONE = 16
"""Bodies that are parsed in the time of one call of Arrow's reader."""

_PROBE = 512
_ROW = re.compile(r" in row (\d+)$")


class Refused(Exception):
    """Arrow's reader does not take a block.

    :param row: the body at fault, as far as its message tells.
    :param is_learned: whether such bodies are sorted out from now on.
    """

    def __init__(self, row: int | None = None, *, is_learned: bool = False) -> None:
        super().__init__()
        self.row, self.is_learned = row, is_learned


def arrow_type(kind: Type) -> pa.DataType:
    """The Arrow type of a column of a schema."""
    import pyarrow as pa

    if isinstance(kind, dict):
        if kind["type"] == "array":
            return pa.list_(arrow_type(kind["elementType"]))
        if kind["type"] == "map":
            return pa.map_(pa.string(), arrow_type(kind["valueType"]))
        return pa.struct([(each["name"], arrow_type(each["type"])) for each in kind["fields"]])
    return arrow_leaf(kind)


class BodyParser:
    """Parser of the bodies of one schema.

    :param schema: the schema; see :func:`~airflow_sqlqueue.bodies.schemas.read_schema`.
    :param others: the treatment of fields that the schema has not: ``rescue`` or ``skip``.
    :param max_bytes: the most bytes of a body that is parsed.
    """

    def __init__(
        self, schema: Struct, *, others: Literal["rescue", "skip"] = "rescue", max_bytes: int = MAX_BYTES
    ) -> None:
        import pyarrow as pa

        self._schema, self._others, self._max_bytes = schema, others, max_bytes
        self._columns: dict[int, Columns] = {}
        self._fields = fields_of(schema)
        self.type = arrow_type(schema)
        self.result_type = pa.struct([("fields", self.type), ("rescued", pa.string()), ("unparsed", pa.string())])
        # Each field costs time in each object, even if no body has it: these are read once a body has one.
        self._has_metadata = False
        self._explicit = _read_as(schema)
        self._is_new = True
        # Arrow's reader refuses unknown fields; once seen, they are skipped and found by counts.
        self._skips = others == "skip"
        self._suspects, self._unknown = Suspects(self._explicit), UnknownFields(schema)
        self._unlike = Unlike(schema)
        # Arrow's reader refuses these as unknown fields, but where it skips such. Once seen, they are sorted out first.
        self._marks = ['"$values"', '"$ref"'] if others == "skip" else []
        self._names = sorted(set(all_fields(schema)))
        if "$id" in self._names or "$type" in self._fields:
            # Whether it is a field or metadata, the rule of one body says.
            self._marks = ['"$', r"\u0024"]

    def parse(self, bodies: pa.Array, content_types: pa.Array) -> pa.StructArray:
        """Return the fields of each body, what did not fit as JSON by path, and the reason if it is not parsed.

        ``bodies`` is a binary array, ``content_types`` a string array of the same length. A body that is null has the
        reason ``empty``. The memory that is needed is a few times that of the bodies.
        """
        import pyarrow as pa

        pieces = [self._block(bodies.slice(*span), content_types.slice(*span)) for span in self._spans(bodies)]
        return pa.concat_arrays(pieces) if pieces else pa.array([], self.result_type)

    def _spans(self, bodies: pa.Array) -> list[tuple[int, int]]:
        import pyarrow.compute as pc

        if bodies.nbytes <= BLOCK_BYTES:
            return [(0, len(bodies))] if len(bodies) else []
        spans, start, size = [], 0, 0
        for number, length in enumerate(pc.fill_null(pc.binary_length(bodies), 0).to_pylist()):
            if size and size + length > BLOCK_BYTES:
                spans.append((start, number - start))
                start, size = number, 0
            size += length
        if len(bodies) > start:
            spans.append((start, len(bodies) - start))
        return spans

    def _block(self, bodies: pa.Array, content_types: pa.Array) -> pa.StructArray:
        import pyarrow as pa

        pieces: dict[int, pa.StructArray] = {}
        # The first bodies show at little cost what does not fit.
        waiting = [(_PROBE, len(bodies)), (0, _PROBE)] if self._is_new and len(bodies) > _PROBE else [(0, len(bodies))]
        self._is_new = False
        while waiting:
            start, end = waiting.pop()
            part = (bodies.slice(start, end - start), content_types.slice(start, end - start))
            try:
                pieces[start] = self._part(*part)
            except Refused as refused:
                if refused.is_learned:
                    waiting.append((start, end))
                elif end - start <= _ONE_BY_ONE:
                    pieces[start] = self._one_by_one(*part)
                    for each in part[0].to_pylist():
                        self._suspects.learn(each or b"")
                else:
                    # Small spans come first: what they show is known when larger ones are read.
                    cuts = [start, *(start + (end - start) // each for each in (8, 4, 2, 1))]
                    waiting += [*pairwise(cuts)][::-1]
        return pa.concat_arrays([pieces[start] for start in sorted(pieces)])

    def _part(self, bodies: pa.Array, content_types: pa.Array) -> pa.StructArray:
        """Parse the plain bodies by Arrow, the others one by one. Raises :class:`Refused`."""
        import pyarrow as pa
        import pyarrow.compute as pc

        is_plain = self._plain(bodies, content_types)
        plain, others = pc.indices_nonzero(is_plain), pc.indices_nonzero(pc.invert(is_plain))
        if len(plain) == 0:
            return self._one_by_one(bodies, content_types)
        found, is_wrong = self._at_once(bodies if len(others) == 0 else bodies.take(plain))
        if pc.any(is_wrong).as_py():
            wrong, plain = plain.filter(is_wrong), plain.filter(pc.invert(is_wrong))
            others = pa.concat_arrays([others, wrong])
        if len(others) == 0:
            return found
        slow = self._one_by_one(bodies.take(others), content_types.take(others))
        return pa.concat_arrays([found, slow]).take(pc.sort_indices(pa.concat_arrays([plain, others])))

    def _plain(self, bodies: pa.Array, content_types: pa.Array) -> pa.Array:
        """Return true for each body that looks like JSON in UTF-8, to be read as it is."""
        import pyarrow as pa
        import pyarrow.compute as pc

        found = pc.starts_with(bodies, "{")
        found = pc.and_(found, pc.less_equal(pc.binary_length(bodies), self._max_bytes))
        for mark in self._marks:
            found = pc.and_(found, pc.invert(pc.match_substring(bodies, mark)))
        found = pc.and_not(found, self._unlike.found(bodies))
        for pattern in self._suspects.patterns:
            found = pc.and_(found, pc.invert(pc.match_substring_regex(bodies, pattern)))
        named = pc.fill_null(content_types, "")
        is_json = {each: _is_utf8_json(each) for each in pc.unique(named).to_pylist()}
        if not all(is_json.values()):
            allowed = pa.array([each for each, is_one in is_json.items() if is_one], pa.string())
            found = pc.and_(found, pc.is_in(named, allowed))
        return pc.fill_null(found, False)

    def _at_once(self, bodies: pa.Array) -> tuple[pa.StructArray, pa.Array]:
        """Parse bodies by Arrow's reader; those that are true in the second array have to be parsed by themselves.

        Raises :class:`Refused`.
        """
        import pyarrow.compute as pc

        try:
            return self._read(bodies, skips=self._skips)
        except Refused as refused:
            if self._skips or refused.is_learned:
                raise
        if not self._has_metadata and pc.any(pc.match_substring(bodies, '"$')).as_py():
            self._has_metadata = True
            self._explicit = _read_as(self._schema, METADATA)
            return self._at_once(bodies)
        found = self._read(bodies, skips=True)
        self._skips = True
        return found

    def _read(self, bodies: pa.Array, *, skips: bool) -> tuple[pa.StructArray, pa.Array]:
        import pyarrow as pa
        import pyarrow.compute as pc

        # Each body is the value of a line's only field, so that no body can end or begin another one's line.
        prefix, suffix = (pa.scalar(each, bodies.type) for each in (b'{"b":', b"}\n"))
        try:
            lines = pc.binary_join_element_wise(prefix, bodies, suffix, b"").cast(pa.string())
        except pa.ArrowInvalid as error:
            raise Refused from error
        read, refused = self._lines_read(bodies, lines, skips=skips)
        if read is None:
            right = pc.invert(refused)
            if not pc.any(right).as_py():
                return pa.array([], self.result_type), refused
            found, is_wrong = self._read(bodies.filter(right), skips=skips)
            return found, pc.replace_with_mask(refused, right, is_wrong)
        fields, is_wrong = _converted(read, self._schema)
        if self._has_metadata:
            # Another one than the number that serializers write is a field.
            is_number = pc.match_substring_regex(read.field("$id"), "^[0-9]+$")
            is_wrong = pc.or_(is_wrong, pc.invert(pc.fill_null(is_number, True)))
        rescued = nothing = pa.nulls(len(bodies), pa.string())
        if skips:
            names, has_unknown = has_more(bodies, _content(lines), read)
            if self._others == "skip":
                has_unknown = pc.and_(has_unknown, may_have_other_case(bodies, self._names))
            found = self._unknown.texts(bodies.filter(has_unknown).to_pylist(), names.filter(has_unknown).to_pylist())
            is_kept = self._others == "rescue"
            texts = pa.array([each if is_kept and each is not True else None for each in found], pa.string())
            rescued = pc.replace_with_mask(nothing, has_unknown, texts)
            is_alone = pc.replace_with_mask(
                has_unknown, has_unknown, pa.array([each is True for each in found], pa.bool_())
            )
            is_wrong = pc.or_(is_wrong, is_alone)
        result = pa.StructArray.from_arrays([fields, rescued, nothing], fields=list(self.result_type))
        return result.filter(pc.invert(is_wrong)), is_wrong

    def _lines_read(self, bodies: pa.Array, lines: pa.Array, *, skips: bool) -> tuple[pa.Array | None, pa.Array]:
        """Return what Arrow's reader reads of lines, None if it refuses some; and which these are."""
        import pyarrow as pa

        offsets, text, start, few = memoryview(lines.buffers()[1]).cast("i"), _content(lines), 0, 1
        read, is_refused = None, [False] * len(bodies)
        while start < len(bodies):
            try:
                read = self._column(text.slice(offsets[start]), len(bodies) - start, skips=skips)
                break
            except Refused as refused:
                if refused.row is None:
                    raise
                row = start + refused.row
                if self._suspects.learn(bodies[row].as_py()):
                    raise Refused(is_learned=True) from refused
                # Where one after the other is refused, their neighbours are not tried.
                few = min(2 * few, _PROBE) if refused.row < _ONE_BY_ONE else 1
                start = min(row + few, len(bodies))
                is_refused[row:start] = [True] * (start - row)
        return read if start == 0 else None, pa.array(is_refused)

    def _column(self, text: pa.Buffer, count: int, *, skips: bool) -> pa.StructArray:
        import pyarrow as pa
        from pyarrow import json

        try:
            table = json.read_json(
                pa.BufferReader(text),
                read_options=json.ReadOptions(use_threads=False, block_size=text.size + 1),
                parse_options=json.ParseOptions(
                    explicit_schema=pa.schema([("b", self._explicit)]),
                    unexpected_field_behavior="ignore" if skips else "error",
                ),
            )
        except pa.ArrowInvalid as error:
            row = _ROW.search(str(error))
            raise Refused(int(row[1]) if row and int(row[1]) < count else None) from error
        (read,) = table["b"].chunks
        if table.num_rows != count or read.null_count:
            raise Refused
        return read

    def _one_by_one(self, bodies: pa.Array, content_types: pa.Array) -> pa.StructArray:
        import pyarrow as pa

        rows: list[dict[str, Any]] = []
        for body, content_type in zip(bodies.to_pylist(), content_types.to_pylist(), strict=True):
            rows.append(self._one(body or b"", content_type))
        return pa.array(rows, self.result_type)

    def _one(self, body: bytes, content_type: str | None) -> dict[str, Any]:
        if not self._marks and (b'"$values"' in body or b'"$ref"' in body):
            self._marks = ['"$values"', '"$ref"']
        try:
            tree = parse(body, content_type, max_bytes=self._max_bytes, fields=self._fields)
            fitting = Fitting(self._columns)
            fields = fitting.struct(tree, self._schema)
            rescued = fitting.rescued_text() if self._others == "rescue" else None
            return {"fields": fields, "rescued": rescued, "unparsed": None}
        except BodyError as error:
            return {"fields": None, "rescued": None, "unparsed": error.reason}


def _content(lines: pa.Array) -> pa.Buffer:
    """The texts of an array without offset, one behind the other."""
    _, offsets, content = lines.buffers()
    return content.slice(0, memoryview(offsets).cast("i")[len(lines)])


def _is_utf8_json(content_type: str) -> bool:
    try:
        kind = kind_of(content_type, "{")
    except BodyError:
        return False
    return kind == "json" and "charset" not in content_type.lower().replace("charset=utf-8", "")


def _read_as(kind: Type, metadata: tuple[str, ...] = ()) -> pa.DataType:
    """The type by which Arrow's reader reads a type, with texts for the metadata of its root."""
    import pyarrow as pa

    if not isinstance(kind, dict):
        return reader_leaf(kind)
    if kind["type"] == "map":
        # Arrow's reader has no maps: a body that has one is read by itself.
        return pa.null()
    if kind["type"] == "array":
        return pa.list_(_read_as(kind["elementType"]))
    fields = [(each["name"], _read_as(each["type"])) for each in kind["fields"]]
    return pa.struct(fields + [(name, pa.string()) for name in metadata])


def _converted(read: pa.Array, kind: Type) -> tuple[pa.Array, pa.Array]:
    """The column of a type from what Arrow's reader read, and where it has values that do not fit."""
    import pyarrow as pa
    import pyarrow.compute as pc

    is_null = pc.is_null(read) if read.null_count else None
    is_wrong = pa.repeat(False, len(read))
    if isinstance(kind, dict) and kind["type"] == "struct":
        columns = [_converted(read.field(each["name"]), each["type"]) for each in kind["fields"]]
        if not columns:
            return pa.array([{}] * len(read), pa.struct([])), is_wrong
        children = [column for column, _ in columns]
        column = pa.StructArray.from_arrays(children, fields=list(arrow_type(kind)), mask=is_null)
        return column, reduce(pc.or_, (each for _, each in columns))
    if isinstance(kind, dict) and kind["type"] == "map":
        return pa.nulls(len(read), arrow_type(kind)), is_wrong
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
