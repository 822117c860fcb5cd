"""An account of every value: in its column, or rescued with its digits and its path, or a reason for the whole body.

The bodies are those of .NET's serializers, and the schemas come from other bodies. Two plain walkers, which share no
code with the product, list the values of a body: one walks the model that JSON is written from, before there are
references and wrappers, the other one an ElementTree.
"""

from __future__ import annotations

import base64
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import date, datetime, timezone
from decimal import Decimal
from itertools import count
from typing import Any
from xml.etree import ElementTree

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from airflow_sqlqueue.bodies.arrow_parser import BodyParser
from airflow_sqlqueue.bodies.decoding import parse
from airflow_sqlqueue.bodies.extension import KnownFields
from airflow_sqlqueue.bodies.inference import struct_of
from airflow_sqlqueue.bodies.names import Path, read_path
from airflow_sqlqueue.bodies.schemas import read_schema, struct
from airflow_sqlqueue.bodies.statistics import Statistics
from airflow_sqlqueue.client.schemas.sampling import Misfits

XSI = "http://www.w3.org/2001/XMLSchema-instance"
BLANKS = " \t\r\n"
Leaf = tuple[tuple[Any, ...], str]
"""The path of a value, and its text."""


# What a row says


class Members(list[tuple[str, Any]]):
    """Members of an object, in their order."""


class Written(str):
    """A number as it is written."""

    __slots__ = ()


def walked(text: str) -> Any:
    return json.loads(text, object_pairs_hook=Members, parse_int=Written, parse_float=Written)


def leaves_of(value: Any, path: tuple[Any, ...] = ()) -> Iterator[Leaf]:
    """The values of JSON; of members with one name the last one has its path, others -2 and so on."""
    if isinstance(value, Members):
        later = Counter(name for name, _ in value)
        for name, each in value:
            later[name] -= 1
            yield from leaves_of(each, (*path, name, -1 - later[name]) if later[name] else (*path, name))
    elif isinstance(value, list):
        for number, each in enumerate(value):
            yield from leaves_of(each, (*path, number))
    elif value is not None:
        yield path, {True: "true", False: "false"}.get(value, value) if isinstance(value, bool) else str(value)


def path_of(text: str) -> tuple[Any, ...]:
    steps = re.findall(r'\[(-?\d+)\]|\[("(?:[^"\\]|\\.)*")\]|\.?([^.\[\]"]+)', text)
    return tuple(int(number) if number else json.loads(quoted) if quoted else name for number, quoted, name in steps)


def columns_of(value: Any, kind: Any, path: tuple[Any, ...]) -> Iterator[Leaf]:
    """The values in the columns of a row."""
    if value is None:
        return
    if not isinstance(kind, dict):
        if isinstance(value, str) and value[:1] in ("{", "[") and value[-1:] in ("}", "]"):
            # An object in a column of texts.
            yield from leaves_of(walked(value), path)
        elif isinstance(value, bool):
            yield path, str(value).lower()
        elif isinstance(value, float):
            # Python has no float of single precision, whose shortest text is shorter.
            yield path, pa.scalar(value, pa.float32()).cast(pa.string()).as_py() if kind == "float" else repr(value)
        elif isinstance(value, bytes):
            yield path, base64.b64encode(value).decode()
        else:
            yield path, value.isoformat() if isinstance(value, (date, datetime)) else str(value)
    elif kind["type"] == "struct":
        for each in kind["fields"]:
            yield from columns_of(value[each["name"]], each["type"], (*path, each["name"]))
    else:
        is_map = kind["type"] == "map"
        for step, each in value if is_map else enumerate(value):
            yield from columns_of(each, kind["valueType" if is_map else "elementType"], (*path, step))


def comparable(text: str) -> str:
    """A text that is the same for two values of any type that mean the same."""
    plain = text.strip(BLANKS)
    if re.fullmatch(r"[+-]?\d+\.?\d*([eE][+-]?\d+)?", plain):
        return str(Decimal(plain).normalize()) if Decimal(plain) else "0"
    if re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)?", plain):
        found = datetime.fromisoformat(
            re.sub(r"(?<=\.)\d+", lambda part: part[0].ljust(6, "0"), plain.replace("Z", "+00:00"))
        )
        return str(found.astimezone(timezone.utc) if found.tzinfo else found)
    return plain if plain in ("true", "false") else text


def lowered(path: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(step.lower() if isinstance(step, str) else step for step in path)


def rows_of(bodies: list[bytes], schema: Any, content_type: str | None = None) -> list[Any]:
    """The rows of bodies that are parsed one by one, which must be the same as those that are parsed together."""
    parser = BodyParser(schema)
    alone = [parser._one(body, content_type) for body in bodies]
    rows = pa.array(alone, parser.result_type)
    rows.validate(full=True)
    # The second time the reader has learned what is in them.
    many = pa.array(bodies * 2, pa.binary())
    parser = BodyParser(schema)
    for _ in range(2):
        together = parser.parse(many, pa.array([content_type] * len(many), pa.string()))
        assert repr(together.to_pylist()) == repr(rows.to_pylist() * 2)
    return list(rows.to_pylist())


def found_in(row: Any, schema: Any) -> tuple[list[Leaf], list[Leaf]]:
    """The values in the columns and the rescued ones."""
    in_columns = [each for each in columns_of(row["fields"], schema, ()) if each[1].strip(BLANKS)]
    rescued: list[Leaf] = []
    for name, value in walked(row["rescued"] or "{}"):
        rescued += leaves_of(value, path_of(name))
    assert len({name for name, _ in walked(row["rescued"] or "{}")}) == len(walked(row["rescued"] or "{}"))
    return in_columns, rescued


def inferred(samples: list[bytes], content_type: str | None) -> Any:
    seen = Statistics()
    for sample in samples:
        seen.add(parse(sample, content_type))
    return read_schema(struct_of(seen))


# JSON

KINDS = ("integer", "fraction", "exponent", "large", "huge", "text", "digits", "time", "local", "day", "half")
KINDS += ("true", "false", "null", "precise")


def literal(kind: str, number: int) -> str:
    """JSON of a value that no other one of the body has, but true and false."""
    return {
        "integer": f"{1000 + number}",
        "fraction": f"{1000 + number}.50",
        "exponent": f"{1000 + number}.5E+3",
        "large": f"{10**19 + number}",
        "huge": f"{10**40 + number}",
        "precise": f"0.1234567890123456789{number}1",
        "text": f'"t{number}"',
        "digits": f'"{2000 + number}"',
        "time": f'"2024-01-01T{number % 24:02}:{number // 24 % 60:02}:07.25+01:00"',
        "local": f'"2025-01-01T{number % 24:02}:{number // 24 % 60:02}:07"',
        "day": f'"{2000 + number}-02-28"',
        "half": f'"h{number}\\ud800"',
    }.get(kind, kind)


NAMES = ["Id", "id", "ID", "Lines", "Name", "a.b", "", "_pos", "\ud800", "@x", "#text", 'q"', "x[0]", "\u0131"]
names = st.sampled_from(["Id", "Lines", "Name", *NAMES])
data_names = names | st.sampled_from(["$type", "$id", "$ref", "$values"])


def models(name: st.SearchStrategy[str], references: bool) -> st.SearchStrategy[Any]:
    """Objects as lists of members, arrays, the kinds of values, and, by a number, objects that came before."""
    leaves: st.SearchStrategy[Any] = st.sampled_from(KINDS)
    if references:
        leaves |= st.integers(0, 3)
    values = st.recursive(
        leaves,
        lambda inner: (
            st.lists(inner, max_size=3).map(lambda items: ("array", items))
            | st.lists(st.tuples(name, inner), max_size=3).map(lambda members: ("object", members))
        ),
        max_leaves=8,
    )
    return st.lists(st.tuples(name, values), max_size=5).map(lambda members: ("object", members))


class Json:
    """A body of JSON and the values that it has, made from a model.

    :param numbers: whether each object has an ``$id``, and what came before is a ``$ref``.
    :param types: whether objects and arrays have a ``$type``.
    """

    def __init__(self, model: Any, *, numbers: bool = False, types: bool = False) -> None:
        self._numbers, self._types = numbers, types
        self._values, self._ids = count(), count(1)
        self._written: list[tuple[str, list[Leaf]]] = []
        self.optional: set[str] = set()
        self.text, self.leaves = self._object(model[1], ())

    def _value(self, model: Any, path: tuple[Any, ...]) -> tuple[str, list[Leaf]]:
        if isinstance(model, int):
            if not self._written:
                return "null", []
            identity, leaves = self._written[model % len(self._written)]
            return f'{{"$ref":"{identity}"}}', [((*path, *rest), text) for rest, text in leaves]
        if isinstance(model, str):
            text = literal(model, next(self._values))
            value = walked(text)
            return text, [] if value is None else [(path, str(value) if isinstance(value, str) else text)]
        kind, inner = model
        if kind == "object":
            return self._object(inner, path)
        metadata = [f'"$id":"{next(self._ids)}"'] if self._numbers else []
        metadata += [f'"$type":"List {next(self._values)}"'] if self._types else []
        texts, leaves = [], []
        for number, each in enumerate(inner):
            text, found = self._value(each, (*path, number))
            texts.append(text)
            leaves += found
        array = f"[{','.join(texts)}]"
        return (f'{{{",".join(metadata)},"$values":{array}}}' if metadata else array), leaves

    def _object(self, members: list[tuple[str, Any]], path: tuple[Any, ...]) -> tuple[str, list[Leaf]]:
        pieces, leaves = [], []
        identity = str(next(self._ids))
        if self._numbers:
            pieces.append(f'"$id":"{identity}"')
        if self._types:
            kind = f"Type {next(self._values)}"
            pieces.append(f'"$type":"{kind}"')
            if path:
                leaves.append(((*path, "$type"), kind))
        if any(name == "$values" for name, _ in members):
            members = [*members, ("Count", "integer")]
        if self._numbers or self._types:
            members = list(dict(members).items())
        later = Counter(name for name, _ in members)
        for name, each in members:
            later[name] -= 1
            model = "text" if name in ("$id", "$ref") and isinstance(each, str) else each
            where = (*path, name, -1 - later[name]) if later[name] else (*path, name)
            text, found = self._value(model, where)
            pieces.append(f"{json.dumps(name)}:{text}")
            leaves += found
            if not path and name == "$type":
                self.optional |= {text for _, text in found}
        if self._numbers:
            self._written.append((identity, [(where[len(path) :], text) for where, text in leaves]))
        return f"{{{','.join(pieces)}}}", leaves


def check_sample(bodies: list[bytes], schema: Any) -> None:
    """The values of fields that a sample says do not fit are those that the rows have as rescued."""
    misfits, known, expected = Misfits(schema), KnownFields(schema), Counter[Path]()
    for body, row in zip(bodies, rows_of(bodies, schema), strict=True):
        if row["unparsed"] is None:
            misfits.add(parse(body, None))
            fields = (known.of(read_path(path)) for path in json.loads(row["rescued"] or "{}"))
            expected.update({field[0] for field in fields if field})
    counted = {path: found.messages for path, found in misfits.items()}
    # Whether the root has it as a field or as metadata, its schema says to the parser.
    assert without_type(counted) == without_type(expected)


def without_type(counts: Mapping[Path, int]) -> dict[Path, int]:
    return {path: count for path, count in counts.items() if "$type" not in path}


def check_json(bodies: list[Json], schema: Any) -> None:
    account_json(bodies, rows_of([each.text.encode() for each in bodies], schema), schema)


def account_json(bodies: list[Json], rows: list[Any], schema: Any) -> None:
    """Account for every value of bodies in their rows."""
    for body, row in zip(bodies, rows, strict=True):
        if row["unparsed"] is not None:
            assert (row["fields"], row["rescued"]) == (None, None)
            continue
        in_columns, rescued = found_in(row, schema)
        places = Counter((lowered(path), comparable(text)) for path, text in in_columns)
        exact = Counter(rescued)
        for path, text in body.leaves:
            place = (lowered(path), comparable(text))
            if exact[path, text]:
                exact[path, text] -= 1
            elif places[place]:
                places[place] -= 1
            else:
                assert text in body.optional, (path, text, row)
        assert not +places, "a value that no body has"
        assert not +exact, "a value that no body has"


styles = st.sampled_from(
    [{}, {}, {"numbers": True}, {"types": True}, {"numbers": True, "types": True}],
)


@given(st.data(), styles)
def test_every_value_of_json_is_accounted_for(data: st.DataObject, style: dict[str, bool]) -> None:
    some = models(names if style else data_names, bool(style.get("numbers")))
    samples = [Json(each, **style) for each in data.draw(st.lists(some, max_size=3))]
    schema = inferred([each.text.encode() for each in samples], None)
    check_json([Json(each, **style) for each in data.draw(st.lists(some, min_size=1, max_size=4))] + samples, schema)


LEAVES = ["string", "boolean", "byte", "long", "decimal(38,9)", "decimal(10,2)", "double", "float", "date", "timestamp"]
LEAVES += ["timestamp_ntz", "binary"]
FIELDS = ["Id", "Lines", "Name", "@x", "#text", "$type"]
kinds: st.SearchStrategy[Any] = st.recursive(
    st.sampled_from(LEAVES),
    lambda inner: (
        inner.map(lambda kind: {"type": "array", "elementType": kind, "containsNull": True})
        | inner.map(lambda kind: {"type": "map", "keyType": "string", "valueType": kind, "valueContainsNull": True})
        | st.dictionaries(st.sampled_from(FIELDS), inner, min_size=1, max_size=3).map(struct)
    ),
    max_leaves=4,
)
schemas = st.dictionaries(st.sampled_from(["Id", "Lines", "Name", "@x", "#text"]), kinds, max_size=4).map(struct)


def test_a_number_of_single_precision_is_accounted_for() -> None:
    check_json([Json(("object", [("Name", "large")]))], read_schema(struct({"Name": "float"})))


@given(st.data(), schemas, styles)
def test_every_value_of_json_is_accounted_for_by_any_schema(
    data: st.DataObject, schema: Any, style: dict[str, bool]
) -> None:
    some = models(names if style else data_names, bool(style.get("numbers")))
    bodies = data.draw(st.lists(some, min_size=1, max_size=4))
    check_json([Json(each, **style) for each in bodies], read_schema(schema))
    check_sample([Json(each, **style).text.encode() for each in bodies], read_schema(schema))


# XML


class Xml:
    """A body of XML, made from a model.

    :param blank: the text of an empty element, a line feed as NServiceBus writes it.
    :param indent: what is between elements.
    """

    def __init__(self, model: Any, *, blank: str = "", indent: str = "", wrapped: bool = False) -> None:
        self._values, self._blank, self._indent = count(), blank, indent
        declared = f'xmlns:i="{XSI}" xmlns:z="http://schemas.microsoft.com/2003/10/Serialization/" xmlns="urn:shop"'
        text = self._element(("Message", model[1], model[2]), declared)
        self.text = f"<?xml version='1.0'?>{indent}<Messages>{indent}{text}</Messages>" if wrapped else text

    def _element(self, model: Any, declared: str = "") -> str:
        name, attributes, content = model
        pieces = [f' {each}="{self._text(each, "attribute")}"' for each in attributes]
        inner = "".join(
            self._text(name, each) if isinstance(each, str) else self._indent + self._element(each) for each in content
        )
        return f"<{name} {declared}{''.join(pieces)}>{inner or self._blank}</{name}>"

    def _text(self, name: str, kind: str) -> str:
        number = next(self._values)
        if name == "i:nil":
            return "true"
        return {
            "attribute": f"a{number}",
            "integer": f"{1000 + number}",
            "padded": f" {1000 + number}\n",
            "fraction": f"{1000 + number}.50",
            "text": f"t{number} &amp;",
            "cdata": f"<![CDATA[<c{number}>]]>",
            "comment": "<!-- c --><?p i?>",
            "time": f"2024-01-01T{number % 24:02}:{number // 24 % 60:02}:07Z",
            "space": "\u00a0",
        }.get(kind, kind)


texts = st.sampled_from(
    [
        "integer",
        "integer",
        "fraction",
        "text",
        "text",
        "time",
        "padded",
        "cdata",
        "comment",
        "null",
        "true",
        "\n",
        "space",
    ]
)
tags = st.sampled_from(["Id", "Id", "Lines", "Line", "Name", "id", "Messages"])
marks = st.lists(st.sampled_from(["x", "Ccy", "i:type", "z:Id", "i:nil", "xml:lang"]), unique=True, max_size=2)
no_marks: st.SearchStrategy[list[str]] = st.just([])
elements: st.SearchStrategy[Any] = st.recursive(
    st.tuples(tags, no_marks | marks, st.lists(texts, max_size=1)),
    lambda inner: st.tuples(
        tags, no_marks | no_marks | marks, st.lists(inner, max_size=4) | st.lists(inner | texts, max_size=4)
    ),
    max_leaves=10,
)
messages = st.tuples(tags, no_marks | marks, st.lists(elements, max_size=4) | st.lists(elements | texts, max_size=3))
xml_styles = st.sampled_from(
    [{}, {"blank": "\n"}, {"indent": "\r\n  ", "blank": "\n"}, {"indent": "\n", "wrapped": True}],
)


def elements_of(element: ElementTree.Element, path: tuple[str, ...] = ()) -> Iterator[Leaf]:
    """The values of an element: attributes, and the texts that are in it by themselves."""
    own = {name: value for name, value in element.attrib.items() if (name, value) != (f"{{{XSI}}}nil", "true")}
    for name, value in own.items():
        yield (*path, f"@{name.rpartition('}')[2]}"), value
    texts = [element.text or "", *(each.tail or "" for each in element)]
    if "".join(texts).strip(BLANKS):
        yield (*path, "#text") if own or len(element) or not path else path, "".join(texts)
    for each in element:
        yield from elements_of(each, (*path, each.tag.rpartition("}")[2]))


def is_within(path: tuple[Any, ...], written: tuple[Any, ...]) -> bool:
    """Whether a path has the names of another one in their order; the items of a list need none."""
    steps = iter(lowered(written))
    return all(step in steps for step in lowered(path) if isinstance(step, str) and step != "#text")


def check_xml(bodies: list[Xml], schema: Any) -> None:
    account_xml(bodies, rows_of([each.text.encode() for each in bodies], schema, "text/xml"), schema)


def account_xml(bodies: list[Xml], rows: list[Any], schema: Any) -> None:
    """Account for every value of bodies in their rows."""
    for body, row in zip(bodies, rows, strict=True):
        if row["unparsed"] is not None:
            assert (row["fields"], row["rescued"]) == (None, None)
            continue
        root = ElementTree.fromstring(body.text)
        message = root[0] if root.tag == "Messages" else root
        in_columns, rescued = found_in(row, schema)
        places = [(path, comparable(text)) for path, text in in_columns] + [
            (path, text) for path, text in rescued if text.strip(BLANKS)
        ]
        for path, text in elements_of(message):
            texts = (text, comparable(text))
            found = [each for each in places if each[1] in texts and is_within(each[0], path)]
            if found:
                # Texts such as true are not those of one element alone: the nearest path is meant.
                places.remove(max(found, key=lambda each: sum(step in path for step in each[0])))
            else:
                assert text.strip(BLANKS) == "null", (path, text, row)
        assert not places, "a value that no body has"


@given(st.data(), xml_styles)
def test_every_value_of_xml_is_accounted_for(data: st.DataObject, style: dict[str, Any]) -> None:
    samples = [Xml(each, **style) for each in data.draw(st.lists(messages, max_size=3))]
    schema = inferred([each.text.encode() for each in samples], "text/xml")
    check_xml([Xml(each, **style) for each in data.draw(st.lists(messages, min_size=1, max_size=3))] + samples, schema)


xml_schemas = st.dictionaries(st.sampled_from(["Id", "Lines", "Line", "Name", "@x", "#text"]), kinds, max_size=4)


@given(st.data(), xml_schemas.map(struct), xml_styles)
def test_every_value_of_xml_is_accounted_for_by_any_schema(
    data: st.DataObject, schema: Any, style: dict[str, Any]
) -> None:
    bodies = [Xml(each, **style) for each in data.draw(st.lists(messages, min_size=1, max_size=3))]
    check_xml(bodies, read_schema(schema))
    check_sample([each.text.encode() for each in bodies], read_schema(schema))
