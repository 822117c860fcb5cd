"""Many bodies at once as Arrow columns: Arrow's own reader of JSON, and the rule of each body where that fails.

Arrow's reader, with the schema given, takes a body only if every value fits and no field is unknown. Where it refuses a
block of bodies, the block is halved, so that a body that does not fit costs its own parse, and few of its neighbours'.

Source: docs/guides/bodies.md, "How bodies are parsed".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from airflow_sqlqueue.bodies.decoding import parse
from airflow_sqlqueue.bodies.fitting import Columns, Fitting
from airflow_sqlqueue.bodies.names import column_key
from airflow_sqlqueue.bodies.schemas import Struct, Type
from airflow_sqlqueue.bodies.text import MAX_BYTES, kind_of
from airflow_sqlqueue.bodies.tree import is_empty
from airflow_sqlqueue.bodies.types import arrow_leaf, converted_leaf, reader_leaf
from airflow_sqlqueue.bodies.unlike import Unlike
from airflow_sqlqueue.errors import BodyError

if TYPE_CHECKING:
    import pyarrow as pa

BLOCK_BYTES = 16 * 1024 * 1024
"""Bytes of bodies that are parsed at once."""

_ONE_BY_ONE = 8
"""Bodies of a refused block that are no longer halved."""

_MOST_LEARNED = 1_000
_METADATA = ("$type", "$id")


class Refused(Exception):
    """Arrow's reader does not take a block."""


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
        self._learned: dict[tuple[str, ...], pa.DataType] = {}
        self.type = arrow_type(schema)
        self.result_type = pa.struct([("fields", self.type), ("rescued", pa.string()), ("unparsed", pa.string())])
        # Each field costs time in each object, even if no body has it: these are read once a body has one.
        self._has_metadata = False
        self._explicit = self._reader_type()
        self._unlike = Unlike(schema)
        # Arrow's reader refuses these as unknown fields, but where it skips such. Once seen, they are sorted out first.
        self._has_references = others == "skip"

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
        """Parse the plain bodies by Arrow, the others one by one, and put both in order."""
        import pyarrow as pa
        import pyarrow.compute as pc

        is_plain = self._plain(bodies, content_types)
        plain = pc.indices_nonzero(is_plain)
        others = pc.indices_nonzero(pc.invert(is_plain))
        if len(others) == 0:
            return self._halved(bodies, content_types)
        found = [self._halved(bodies.take(plain), content_types.take(plain))] if len(plain) else []
        found.append(self._one_by_one(bodies.take(others), content_types.take(others)))
        order = pc.sort_indices(pa.concat_arrays([plain, others]))
        return pa.concat_arrays(found).take(order)

    def _plain(self, bodies: pa.Array, content_types: pa.Array) -> pa.Array:
        """Return true for each body that looks like JSON in UTF-8, to be read as it is."""
        import pyarrow as pa
        import pyarrow.compute as pc

        found = pc.starts_with(bodies, "{")
        found = pc.and_(found, pc.less_equal(pc.binary_length(bodies), self._max_bytes))
        if self._has_references:
            for mark in ('"$values"', '"$ref"'):
                found = pc.and_(found, pc.invert(pc.match_substring(bodies, mark)))
        found = pc.and_not(found, self._unlike.found(bodies))
        named = pc.fill_null(content_types, "")
        is_json = {each: _is_utf8_json(each) for each in pc.unique(named).to_pylist()}
        if not all(is_json.values()):
            allowed = pa.array([each for each, is_one in is_json.items() if is_one], pa.string())
            found = pc.and_(found, pc.is_in(named, allowed))
        return pc.fill_null(found, False)

    def _halved(self, bodies: pa.Array, content_types: pa.Array) -> pa.StructArray:
        import pyarrow as pa

        try:
            return self._at_once(bodies)
        except Refused:
            if len(bodies) <= _ONE_BY_ONE:
                return self._one_by_one(bodies, content_types)
        middle = len(bodies) // 2
        spans = ((0, middle), (middle, len(bodies) - middle))
        return pa.concat_arrays([self._halved(bodies.slice(*span), content_types.slice(*span)) for span in spans])

    def _at_once(self, bodies: pa.Array) -> pa.StructArray:
        """Parse bodies by Arrow's reader. Raises :class:`Refused` unless it takes all of them."""
        import pyarrow as pa
        import pyarrow.compute as pc
        from pyarrow import json

        # Each body is the value of a line's only field, so that no body can end or begin another one's line.
        prefix, suffix = (pa.scalar(each, bodies.type) for each in (b'{"b":', b"}\n"))
        try:
            lines = pc.binary_join_element_wise(prefix, bodies, suffix, b"").cast(pa.string())
            text = _content(lines)
            table = json.read_json(
                pa.BufferReader(text),
                read_options=json.ReadOptions(use_threads=False, block_size=text.size + 1),
                parse_options=json.ParseOptions(
                    explicit_schema=pa.schema([("b", self._explicit)]),
                    unexpected_field_behavior="error" if self._others == "rescue" else "ignore",
                ),
            )
        except pa.ArrowInvalid as error:
            raise Refused from error
        if table.num_rows != len(bodies):
            raise Refused
        (read,) = table["b"].chunks
        if read.null_count or not self._is_metadata(read):
            raise Refused
        try:
            fields = _converted(read, self._schema)
        except ValueError as error:
            raise Refused from error
        nothing = pa.nulls(len(bodies), pa.string())
        return pa.StructArray.from_arrays([fields, nothing, nothing], fields=list(self.result_type))

    def _is_metadata(self, read: pa.Array) -> bool:
        """Whether each ``$id`` of a root is a number, as serializers write it; another one is a field."""
        import pyarrow.compute as pc

        if not self._has_metadata or read.type.get_field_index("$id") < 0:
            return True
        return bool(pc.all(pc.match_substring_regex(read.field("$id"), "^[0-9]+$"), min_count=0).as_py())

    def _one_by_one(self, bodies: pa.Array, content_types: pa.Array) -> pa.StructArray:
        import pyarrow as pa

        rows: list[dict[str, Any]] = []
        for body, content_type in zip(bodies, content_types.to_pylist(), strict=True):
            rows.append(self._one(body.as_py() or b"", content_type))
        return pa.array(rows, self.result_type)

    def _one(self, body: bytes, content_type: str | None) -> dict[str, Any]:
        self._has_references |= b'"$values"' in body or b'"$ref"' in body
        if not self._has_metadata and any(b'"%s"' % name.encode() in body for name in _METADATA):
            self._has_metadata = True
            self._explicit = self._reader_type()
        try:
            tree = parse(body, content_type, max_bytes=self._max_bytes)
            self._learn(tree, self._schema, ())
            fitting = Fitting(self._columns)
            fields = fitting.struct(tree, self._schema)
            rescued = fitting.rescued_text() if self._others == "rescue" else None
            return {"fields": fields, "rescued": rescued, "unparsed": None}
        except BodyError as error:
            return {"fields": None, "rescued": None, "unparsed": error.reason}

    def _learn(self, value: Any, kind: Type, path: tuple[str, ...]) -> None:
        """Note unknown fields that are null or empty: Arrow's reader then takes bodies with them."""
        if isinstance(value, list) and isinstance(kind, dict) and kind["type"] == "array":
            for each in value[:10]:
                self._learn(each, kind["elementType"], path)
        if not isinstance(value, dict) or not isinstance(kind, dict) or kind["type"] != "struct":
            return
        known = {each["name"]: each["type"] for each in kind["fields"]}
        keys = set(map(column_key, known))
        for name, each in value.items():
            if name in known:
                self._learn(each, known[name], (*path, name))
            elif is_empty(each) and column_key(name) not in keys:
                self._learn_empty((*path, name), each)

    def _learn_empty(self, path: tuple[str, ...], value: Any) -> None:
        import pyarrow as pa

        kinds: dict[type, pa.DataType] = {list: pa.list_(pa.struct([])), dict: pa.struct([])}
        kind = kinds.get(type(value), pa.null())
        known = self._learned.get(path)
        if (known is None and len(self._learned) < _MOST_LEARNED) or (known == pa.null() and kind != known):
            self._learned[path] = kind
            self._explicit = self._reader_type()

    def _reader_type(self) -> pa.DataType:
        return _read_as(self._schema, (), self._learned, _METADATA if self._has_metadata else ())


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


def _read_as(
    kind: Type, path: tuple[str, ...], learned: Mapping[tuple[str, ...], pa.DataType], metadata: tuple[str, ...]
) -> pa.DataType:
    """The type by which Arrow's reader reads a type."""
    import pyarrow as pa

    if not isinstance(kind, dict):
        return reader_leaf(kind)
    if kind["type"] == "map":
        # Arrow's reader has no maps: a body that has one is read by itself.
        return pa.null()
    if kind["type"] == "array":
        return pa.list_(_read_as(kind["elementType"], path, learned, metadata))
    fields = [
        (each["name"], _read_as(each["type"], (*path, each["name"]), learned, metadata)) for each in kind["fields"]
    ]
    if not path:
        names = {name for name, _ in fields}
        fields += [(name, pa.string()) for name in metadata if name not in names]
    fields += [(each[-1], learned[each]) for each in sorted(learned) if each[:-1] == path and each[-1] not in _METADATA]
    return pa.struct(fields)


def _converted(read: pa.Array, kind: Type) -> pa.Array:
    """The column of a type from what Arrow's reader read. Raises ValueError for values that do not fit."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if isinstance(kind, dict) and kind["type"] == "struct":
        children = [_converted(read.field(each["name"]), each["type"]) for each in kind["fields"]]
        if not children:
            return pa.array([{}] * len(read), pa.struct([]))
        is_null = pc.is_null(read) if read.null_count else None
        return pa.StructArray.from_arrays(children, fields=list(arrow_type(kind)), mask=is_null)
    if isinstance(kind, dict) and kind["type"] == "map":
        return pa.nulls(len(read), arrow_type(kind))
    if isinstance(kind, dict):
        values = _converted(read.values, kind["elementType"])
        return pa.ListArray.from_arrays(read.offsets, values, mask=pc.is_null(read) if read.null_count else None)
    return converted_leaf(read, kind)
