"""Bodies as Arrow columns: what serializers write is read back, and whatever else there is stays in sight."""

from __future__ import annotations

import base64
import json
import re
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.json as pa_json
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from airflow_sqlqueue.bodies import arrow_parser
from airflow_sqlqueue.bodies.arrow_parser import BodyParser
from airflow_sqlqueue.bodies.decoding import MAX_BYTES, parse
from airflow_sqlqueue.bodies.inference import struct_of
from airflow_sqlqueue.bodies.names import name_key, path_text
from airflow_sqlqueue.bodies.schemas import array, map_of, read_schema, struct
from airflow_sqlqueue.bodies.statistics import Statistics
from airflow_sqlqueue.bodies.tree import MAX_DEPTH

SHOP = read_schema(
    struct(
        {
            "OrderId": "string",
            "Number": "long",
            "Total": "decimal(38,4)",
            "Rate": "double",
            "Express": "boolean",
            "PlacedAt": "timestamp",
            "LocalTime": "timestamp_ntz",
            "Day": "date",
            "Picture": "binary",
            "Address": struct({"Street": "string", "Zip": "integer"}),
            "Lines": {
                "type": "array",
                "elementType": struct({"Sku": "string", "Quantity": "short", "Price": "decimal(10,2)"}),
                "containsNull": True,
            },
            "Tags": {"type": "array", "elementType": "string", "containsNull": True},
        }
    )
)
LEAVES = ("string", "boolean", "byte", "long", "decimal(10,2)", "decimal(38,6)", "double", "float", "date")
LEAVES += ("timestamp", "timestamp_ntz", "binary")


def parsed(bodies: list[bytes | None], schema: Any, content_type: str | None = None, **options: Any) -> list[Any]:
    rows = pa.array(bodies, pa.binary())
    result = BodyParser(schema, **options).parse(rows, pa.array([content_type] * len(bodies), pa.string()))
    result.validate(full=True)
    return list(result.to_pylist())


def one(body: bytes, schema: Any = SHOP, content_type: str | None = None) -> Any:
    return parsed([body], schema, content_type)[0]


texts = st.text(st.characters(blacklist_categories=["Cs"]), max_size=20)
decimals = st.integers(-(10**20), 10**20).map(lambda number: Decimal(number).scaleb(-4))
clocks = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30))  # noqa: DTZ001 - the zone is added
lines = st.fixed_dictionaries(
    {"Sku": texts, "Quantity": st.integers(-(2**15), 2**15 - 1), "Price": st.integers(-(10**9), 10**9)}
)
orders = st.fixed_dictionaries(
    {},
    optional={
        "OrderId": st.none() | texts,
        "Number": st.integers(-(2**63), 2**63 - 1),
        "Total": st.none() | decimals,
        "Rate": st.floats(allow_nan=False, allow_infinity=False),
        "Express": st.booleans(),
        "PlacedAt": st.tuples(clocks, st.sampled_from([0, 60, -330, 840])),
        "LocalTime": clocks,
        "Day": st.dates(date(1, 1, 1)),
        "Picture": st.binary(max_size=20),
        "Address": st.none() | st.fixed_dictionaries({"Street": texts, "Zip": st.integers(0, 99_999)}),
        "Lines": st.none() | st.lists(lines, max_size=4),
        "Tags": st.lists(st.none() | texts, max_size=4),
    },
)


def as_dotnet(order: dict[str, Any], *, preserve: bool) -> Any:
    """The tree that System.Text.Json writes; with ``preserve`` as ReferenceHandler.Preserve does."""
    ids = iter(range(1, 10_000))

    def number(value: Decimal) -> Any:
        return json.loads(f"{value:f}", parse_int=Raw, parse_float=Raw)

    def identified(value: dict[str, Any]) -> dict[str, Any]:
        return {"$id": str(next(ids)), **value} if preserve else value

    def listed(values: list[Any]) -> Any:
        return {"$id": str(next(ids)), "$values": values} if preserve else values

    found: dict[str, Any] = {}
    for name, value in order.items():
        if value is None:
            found[name] = None
        elif name == "Total":
            found[name] = number(value)
        elif name == "PlacedAt":
            clock, minutes = value
            sign, size = "-" if minutes < 0 else "+", abs(minutes)
            zone = f"{sign}{size // 60:02}:{size % 60:02}" if minutes else "Z"
            found[name] = f"{clock.isoformat(timespec='microseconds').zfill(26)}0{zone}"
        elif name == "LocalTime":
            found[name] = clock_text(value)
        elif name == "Day":
            found[name] = value.isoformat()
        elif name == "Picture":
            found[name] = base64.b64encode(value).decode()
        elif name == "Address":
            found[name] = identified(value)
        elif name == "Lines":
            found[name] = listed(
                [identified({**line, "Price": number(Decimal(line["Price"]).scaleb(-2))}) for line in value]
            )
        elif name == "Tags":
            found[name] = listed(value)
        else:
            found[name] = value
    return identified(found)


def clock_text(value: datetime) -> str:
    return value.isoformat(timespec="microseconds" if value.microsecond else "seconds").zfill(19)


class Raw(float):
    """A number that ``json`` writes as it was."""

    def __new__(cls, text: str) -> Raw:
        self = super().__new__(cls, text)
        self.text = text  # type: ignore[attr-defined]
        return self

    def __repr__(self) -> str:
        return str(self.text)  # type: ignore[attr-defined]


class Encoder(json.JSONEncoder):
    """Writes :class:`Raw` numbers: the pure Python encoder asks ``float.__repr__``, so they are replaced as texts."""

    def encode(self, o: Any) -> str:
        numbers: list[str] = []

        def marked(value: Any) -> Any:
            if isinstance(value, Raw):
                numbers.append(repr(value))
                return f"\ue000{len(numbers) - 1}\ue001"
            if isinstance(value, dict):
                return {name: marked(each) for name, each in value.items()}
            return [marked(each) for each in value] if isinstance(value, list) else value

        text = super().encode(marked(o))
        for index, each in enumerate(numbers):
            text = text.replace(f'"\\ue000{index}\\ue001"', each)
        return text


def expected(order: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = dict.fromkeys(each["name"] for each in SHOP["fields"])
    for name, value in order.items():
        if name == "PlacedAt":
            clock, minutes = value
            found[name] = clock.replace(tzinfo=timezone(timedelta(minutes=minutes))).astimezone(timezone.utc)
        elif name == "Lines" and value is not None:
            found[name] = [{**line, "Price": Decimal(line["Price"]).scaleb(-2)} for line in value]
        else:
            found[name] = value
    return found


@given(
    st.lists(orders, max_size=12),
    st.booleans(),
    st.sampled_from([None, 2]),
    st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]),
)
def test_bodies_of_system_text_json_are_read_back(
    given_orders: list[dict[str, Any]], preserve: bool, indent: int | None, encoding: str
) -> None:
    encoder = Encoder(indent=indent, separators=(",", ":") if indent is None else None)
    bodies = [encoder.encode(as_dotnet(order, preserve=preserve)).encode(encoding) for order in given_orders]
    found = parsed(list(bodies), SHOP, "application/json; charset=utf-8" if encoding == "utf-8" else None)
    assert [row["unparsed"] for row in found] == [None] * len(bodies)
    assert [row["rescued"] for row in found] == [None] * len(bodies)
    assert [row["fields"] for row in found] == [expected(order) for order in given_orders]


numbers = st.sampled_from(
    ["1e2", "1E+2", "5", "1.0", "-0", "0.10", "0.100", "0.1234567", "123456789.5", "1e-1", "1e36", "1e999", "16777217"]
    + ["9" * digits for digits in (18, 19, 20, 38, 39, 74, 77)]
    + ["1e-999999", "0e5", "3.4e39", "127", "128", "-129"]
)
days = st.sampled_from(["2024-02-29", "2023-02-29", "2024-13-01", "0001-01-01", "9999-12-31"])
clocks_of_day = st.sampled_from(
    ["", "T24:00:00", "T00:00:00", " 00:00:00", "T10:00", "T23:59:59.1234567", "T10:00:00.5"]
)
zones = st.sampled_from(["", "Z", "+18:00", "+18:01", "-03:30", "+0000"])
times = st.tuples(days, clocks_of_day, zones).map("".join)
values = st.recursive(
    numbers
    | (times | texts | st.sampled_from(["5", "+5", " 5", "5.", ".5", "NaN", "AAE="])).map(json.dumps)
    | st.sampled_from(["null", "true", "NaN", "Infinity", "'x'", '"\\ud800"', "[", "}"]),
    lambda inner: (
        st.lists(inner, max_size=2).map(lambda each: f"[{','.join(each)}]")
        | st.lists(st.tuples(st.sampled_from(["v", "w", "$id", "$type", "$values", "$ref"]), inner), max_size=3).map(
            lambda members: "{" + ",".join(f"{json.dumps(name)}:{value}" for name, value in members) + "}"
        )
    ),
    max_leaves=5,
)
kinds = st.recursive(
    st.sampled_from(LEAVES),
    lambda inner: (
        inner.map(lambda kind: {"type": "array", "elementType": kind, "containsNull": True})
        | inner.map(map_of)
        | inner.map(lambda kind: struct({"v": kind}))
    ),
    max_leaves=3,
)


@given(kinds, st.lists(values, min_size=1, max_size=40))
def test_a_body_is_read_alike_alone_and_among_others(kind: Any, found: list[str]) -> None:
    """Arrow's reader and the rule of one body agree, value by value."""
    schema = read_schema(struct({"v": kind}))
    bodies = [f'{{"v":{value}}}'.encode() for value in found]
    parser = BodyParser(schema)
    alone = [parser._one(body, None) for body in bodies]
    rows = pa.array(alone, parser.result_type).to_pylist()
    together = parsed(list(bodies), schema)
    assert repr(together) == repr(rows)


names_of_fields = st.sampled_from(
    ["a", "L", "S", "x", "A", "l", "v", "", "a.b", 'q"', "b\\", "\ue000", "$id", "$type", "$ref", "$values", "u0061"]
)
"""Names of the schema, of other fields, of both in another case, and some that need escapes."""

leaf_values = st.sampled_from(
    [
        *("1", "-0", "1.50", "1e2", "1E400", "9" * 20, "true", "null", "NaN", "[]", "{}", "[null]", "[{}]", '"x"'),
        *(
            '"\\":"',
            '"\\u0022:1"',
            '"\\":null"',
            '"null"',
            '":null"',
            '"2024-05-06"',
            '"2024-02-30"',
            '"\\ud83d\\ude00"',
            '"\\udc00"',
        ),
    ]
)


def written(name: str, value: str, blank: str, *, escaped: bool) -> str:
    text = (
        f"\\u{ord(name[0]):04x}{json.dumps(name)[2:-1]}" if escaped and name[:1].isalpha() else json.dumps(name)[1:-1]
    )
    return f'"{text}"{blank}:{value}'


members = st.recursive(
    leaf_values,
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda each: f"[{','.join(each)}]")
        | st.lists(
            st.builds(written, names_of_fields, inner, st.sampled_from(["", "", " ", "\n\t"]), escaped=st.booleans()),
            max_size=4,
        ).map(lambda each: "{" + ",".join(each) + "}")
    ),
    max_leaves=12,
)
NESTED = read_schema(
    struct(
        {
            "a": "long",
            "b": "string",
            "d": "date",
            "r": "double",
            "t": "decimal(10,2)",
            "S": struct({"x": "string", "y": struct({"a": "integer"})}),
            "L": {"type": "array", "elementType": struct({"x": "long", "v": "boolean"}), "containsNull": True},
            "W": {"type": "array", "elementType": "string", "containsNull": True},
        }
    )
)
GOOD = b'{"a":1,"b":"x","d":"2024-05-06","S":{"x":"y","y":{"a":1}},"L":[{"x":1,"v":true},{"x":null}],"W":["a",null]}'


@given(
    st.lists(
        st.lists(
            st.builds(
                written,
                st.sampled_from("abdrtSLW") | names_of_fields,
                members,
                st.sampled_from(["", " "]),
                escaped=st.booleans(),
            ),
            max_size=5,
        ).map(lambda each: ("{" + ",".join(each) + "}").encode()),
        min_size=1,
        max_size=8,
    ),
    st.sampled_from([0, 1, 20]),
    st.booleans(),
)
def test_misfits_are_read_alike_alone_and_among_others(odd: list[bytes], distance: int, rescues: bool) -> None:
    """Unknown fields anywhere, names that come twice, wrong kinds: with the same result at whatever place."""
    # Whoever skips fields does not look at what is in them.
    assume(rescues or b"NaN" not in b"".join(odd))
    parser = BodyParser(NESTED, rescues=rescues)
    alone = {body: parser._one(body, None) for body in (GOOD, *odd)}
    bodies = [GOOD] * 20
    for each in odd:
        bodies += [each, *[GOOD] * distance]
    rows = pa.array([alone[body] for body in bodies], parser.result_type).to_pylist()
    for _ in range(2):
        # Once the parser knows what does not fit, it takes another way.
        result = parser.parse(pa.array(bodies, pa.binary()), pa.nulls(len(bodies), pa.string()))
        result.validate(full=True)
        assert repr(result.to_pylist()) == repr(rows)


EXPONENTS = ("", "e0", "E+9", "e29", "e38", "e70", "e-1", "E-09", "e-10", "e-77", "E-000099999999", "e-2147483648")
DECIMALS = [f"{whole}{part}{e}" for whole in ("0", "-7", "9" * 28, "9" * 39) for part in ("", ".5") for e in EXPONENTS]
DECIMALS += [f"0.{'0' * zeros}1{e}" for zeros in (27, 28, 75, 76) for e in EXPONENTS]


@pytest.mark.parametrize("kind", ["decimal(38,0)", "decimal(38,2)", "decimal(29,9)", "decimal(10,2)", "decimal(38,38)"])
@pytest.mark.parametrize("form", ["%s", "[%s]", '"%s"'])
def test_no_exponent_leads_arrows_reader_beyond_its_tables(kind: str, form: str) -> None:
    schema = read_schema(struct({"v": kind}))
    bodies = [b'{"v":%s}' % (form % each).encode() for each in DECIMALS]
    parser = BodyParser(schema)
    alone = pa.array([parser._one(body, None) for body in bodies], parser.result_type).to_pylist()
    # Each is a block of its own, so that Arrow's reader takes all it can.
    assert repr([one(body, schema) for body in bodies]) == repr(alone)


@pytest.mark.parametrize(
    "text",
    [r"1\u0065-99999999", r"1e\u002D99999999", r"1E\u002d99999999", r"1e-9\u00399999999", r"+1.\u0030e-99999999"],
)
def test_escapes_do_not_hide_an_exponent(text: str) -> None:
    found = one(b'{"Total":"%s"}' % text.encode())
    assert json.loads(found["rescued"]) == {"Total": json.loads(f'"{text}"')}


@pytest.mark.parametrize(("name", "value"), [("$id", "1"), ("$type", "Shop.PlaceOrder, Shop"), (r"\u0024type", "Shop")])
def test_metadata_of_the_root_is_no_field_whichever_body_has_it_first(name: str, value: str) -> None:
    plain = [b'{"Number":%d,"Address":{"Zip":1}}' % number for number in range(50)]
    head = f'"{name}":"{value}"'.encode()
    marked = [b'{%s,"Number":%d,"Address":{"Zip":1}}' % (head, number) for number in range(50)]
    mixed = [body for pair in zip(plain, marked, strict=True) for body in pair]
    alone = {body: one(body)["fields"] for body in mixed}
    for bodies in (plain + marked, marked + plain, mixed):
        found = parsed(list(bodies), SHOP)
        assert {row["rescued"] for row in found} == {None}
        assert [row["fields"] for row in found] == [alone[body] for body in bodies]


@pytest.mark.parametrize("others", [b"", b'{"$id":"1"}', b'{"$type":"t"}'])
def test_a_type_below_the_root_and_an_id_that_is_no_number_are_data(others: bytes) -> None:
    body = b'{"$id":"https://x/y","Number":1,"Address":{"$type":"home","$id":"7","Zip":1}}'
    found = parsed([others, *[body] * 40], SHOP)[1:]
    assert {row["rescued"] for row in found} == {'{"$id":"https://x/y","Address.$type":"home","Address.$id":"7"}'}
    kinds = read_schema(struct({"$id": "string", "Address": struct({"$type": "string"})}))
    found = parsed([others, *[body] * 40], kinds)[1:]
    assert {str(row["fields"]) for row in found} == {"{'$id': 'https://x/y', 'Address': {'$type': 'home'}}"}


@given(st.lists(st.binary(max_size=60) | values.map(str.encode), max_size=30), st.sampled_from([None, "text/xml", "x"]))
def test_every_body_is_parsed_or_has_a_reason(bodies: list[bytes], content_type: str | None) -> None:
    found = parsed(list(bodies), SHOP, content_type)
    assert len(found) == len(bodies)
    for row in found:
        assert (row["fields"] is None) == (row["unparsed"] is not None)


@given(
    st.lists(st.dictionaries(texts, st.none() | texts | st.booleans() | st.integers() | st.lists(texts, max_size=3)))
)
def test_an_inferred_schema_takes_its_whole_sample(sample: list[dict[str, Any]]) -> None:
    """What has no column, by its name, is rescued; nothing else is, but values of another kind than most have."""
    types: dict[str, set[type]] = {}
    for name, value in (member for each in sample for member in each.items() if member[1] is not None):
        types.setdefault(name_key(name), set()).add(type(value))
    mixed = {path_text((name,)) for each in sample for name in each if len(types.get(name_key(name), ())) > 1}
    seen = Statistics()
    bodies = [json.dumps(each).encode() for each in sample]
    for body in bodies:
        seen.add(parse(body))
    schema = read_schema(struct_of(seen))
    columns = {each["name"] for each in schema["fields"]}
    keys = set(map(name_key, columns))
    for each, row in zip(sample, parsed(list(bodies), schema), strict=True):
        unnamed = {name for name, value in each.items() if name not in columns and value not in (None, [])}
        rescued = set(json.loads(row["rescued"] or "{}"))
        assert rescued - mixed <= {path_text((name,)) for name in unnamed}
        # A name in other case may be in the column.
        assert rescued >= {path_text((name,)) for name in unnamed if name_key(name) not in keys}


REASONS = {
    b"": "empty",
    b"hello": "format",
    b"\xff\xfe\x00": "encoding",
    b'{"OrderId":"\xff"}': "encoding",
    b"{": "json",
    b'{"OrderId":1} x': "json",
    b'{"OrderId":NaN}': "json",
    b'{"OrderId":"a\x00"}': "json",
    b"[1]": "object",
    b"[]": "object",
    b'{"a":' * (MAX_DEPTH + 1) + b"1" + b"}" * (MAX_DEPTH + 1): "depth",
    b'{"a":' * 200_000: "depth",
    b'{"OrderId":"' + b"x" * MAX_BYTES + b'"}': "size",
    b'{"$id":"1","Address":{"$ref":"1"}}': "depth",
    b'{"$id":"1","Lines":{"$values":[{"$ref":"1"}]}}': "depth",
    b"<!DOCTYPE a><a/>": "xml",
    b"<a>": "xml",
}


@pytest.mark.parametrize(("body", "reason"), REASONS.items(), ids=lambda value: str(value)[:20])
def test_reasons(body: bytes, reason: str) -> None:
    assert one(body) == {"fields": None, "rescued": None, "unparsed": reason}


def test_another_format_is_not_guessed_at() -> None:
    assert one(b'{"OrderId":"x"}', content_type="application/x-protobuf")["unparsed"] == "content type"


def test_references_that_would_grow_without_end_are_refused() -> None:
    levels = [
        b'"l%d":{"$id":"%d","x":[%s]}' % (i, i, b",".join([b'{"$ref":"%d"}' % (i - 1)] * 50)) for i in range(1, 30)
    ]
    assert one(b'{"l":{"$id":"0","x":[1,2]},' + b",".join(levels) + b"}")["unparsed"] == "size"


def listed(kind: Any) -> Any:
    return {"type": "array", "elementType": kind, "containsNull": True}


def nested(kind: Any, levels: int) -> Any:
    """A type within structs whose field has the longest name that a column can have."""
    return struct({"n" * 128: nested(kind, levels - 1)}) if levels else kind


def within(text: bytes, levels: int) -> bytes:
    return b'{"%s":' % (b"n" * 128) * levels + text + b"}" * levels


REFERENCES = b",".join([b'{"$ref":"1"}'] * 1_000)
GROWING = {
    "a text": (struct({"L": listed(struct({"t": "string"}))}), b'"t":"%s"' % (b"x" * 9_000)),
    "a text without a column": (struct({"A": struct({})}), b'"t":"%s"' % (b"x" * 9_000)),
    "a name": (struct({}), b'"%s":1' % (b"x" * 9_000)),
    "a number": (struct({}), b'"t":%s' % (b"9" * 9_000)),
    "many values": (struct({}), b'"t":[%s]' % b",".join([b"1"] * 4_000)),
}


@pytest.mark.parametrize(("schema", "member"), GROWING.values(), ids=GROWING)
@pytest.mark.parametrize("times", [1, 2])
def test_references_do_not_make_much_of_little(schema: Any, member: bytes, times: int) -> None:
    """A body of 20 KB, whose values would take 9 MB."""
    body = b'{"A":{"$id":"1",%s},"L":[%s]}' % (member, REFERENCES)
    assert {row["unparsed"] for row in parsed([body] * times, schema)} == {"size"}
    few = b'{"A":{"$id":"1",%s},"L":[{"$ref":"1"},{"$ref":"1"}]}' % member
    assert one(few, schema)["unparsed"] is None


@pytest.mark.parametrize(
    ("kind", "item"),
    [
        (listed("long"), b'"x"'),
        (listed(struct({"a": "long"})), b'{"u":5}'),
        (listed(struct({"a": "long"})), b'{"A":""}'),
    ],
    ids=["misfits", "unknown fields", "another case"],
)
@pytest.mark.parametrize("times", [1, 4])
def test_paths_do_not_make_much_of_little(kind: Any, item: bytes, times: int) -> None:
    """A body of 10 KB, whose values would have 2 MB of paths."""
    schema, good = read_schema(nested(kind, 10)), within(b"[]", 10)
    body, few = (within(b"[%s]" % b",".join([item] * count), 10) for count in (1_500, 10))
    found = parsed([good, *[body] * times, few, *[good] * 20], schema)
    assert {row["unparsed"] for row in found[1 : times + 1]} == {"size"}
    assert len(json.loads(found[times + 1]["rescued"])) == 10
    assert {row["rescued"] for row in found[times + 2 :]} == {None}


@pytest.mark.parametrize("name", ["a", "unknown"])
@pytest.mark.parametrize(("kind", "value"), [("long", "1"), (struct({}), "{}")], ids=["numbers", "objects"])
def test_a_body_of_too_many_values_is_refused_among_others_too(name: str, kind: Any, value: str) -> None:
    values = f"{value}," * (1_000_000 // len(value)) + value
    body = f'{{"{name}":[{values}]}}'.encode()
    found = parsed([b'{"a":[]}', body, b'{"a":[]}'], struct({"a": listed(kind)}))
    assert [row["unparsed"] for row in found] == [None, "size", None]


def test_a_long_body_of_few_values_is_read() -> None:
    body = b'{"a":["%s"]}' % (b",[{" * 400_000)
    (found,) = parsed([body], struct({"a": listed("string")}))
    assert found["fields"] == {"a": [",[{" * 400_000]}


def test_a_struct_without_fields_is_null_where_a_body_has_none() -> None:
    found = parsed([b'{"a":{}}', b"{}", b'{"a":null}'] * 20, struct({"a": struct({})}))
    assert [row["fields"]["a"] for row in found] == [{}, None, None] * 20


def test_values_that_do_not_fit_are_rescued_by_their_paths() -> None:
    found = one(
        b'{"OrderId":5,"Number":"7","Total":1.23456,"Extra":{"a":1.10},"Nothing":null,"PlacedAt":"2024-01-01T00:00:00",'
        b'"Address":{"Street":"s","City":"c","Zip":1.5},"Lines":[{"Sku":"a","Quantity":40000},5,{"More":true}]}'
    )
    assert json.loads(found["rescued"], parse_float=Decimal) == {
        "Number": "7",
        "Total": Decimal("1.23456"),
        "Extra": {"a": Decimal("1.10")},
        "PlacedAt": "2024-01-01T00:00:00",
        "Address.City": "c",
        "Address.Zip": Decimal("1.5"),
        "Lines[0].Quantity": 40000,
        "Lines[1]": 5,
        "Lines[2].More": True,
    }
    fields = {name: value for name, value in found["fields"].items() if value is not None}
    assert fields == {
        "OrderId": "5",
        "Address": {"Street": "s", "Zip": None},
        "Lines": [
            {"Sku": "a", "Quantity": None, "Price": None},
            None,
            {"Sku": None, "Quantity": None, "Price": None},
        ],
    }


XML = """<?xml version="1.0" encoding="utf-16"?>
<PlaceOrder xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xmlns="http://tempuri.net/Shop">
  <OrderId>a &amp; b</OrderId><Number>-7</Number><Total>9.5</Total><Express>true</Express><Rate>1E-05</Rate>
  <PlacedAt>2024-05-06T07:08:09.1234567Z</PlacedAt><Day xsi:nil="true"/>
  <Address><Street/><Zip>10115</Zip><City>Berlin</City></Address>
  <Lines><OrderLine><Sku>x</Sku><Quantity>2</Quantity></OrderLine><OrderLine><Sku>y</Sku></OrderLine></Lines>
  <Tags><string>t</string></Tags>
</PlaceOrder>"""


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("wrapped", [False, True])
def test_xml(encoding: str, wrapped: bool) -> None:
    text = XML
    if wrapped:
        head, _, rest = XML.partition("\n")
        text = f"{head}\n<Messages>{rest}</Messages>"
    found = one(text.encode(encoding), content_type="text/xml")
    fields = {name: value for name, value in found["fields"].items() if value is not None}
    assert fields == {
        "OrderId": "a & b",
        "Number": -7,
        "Total": Decimal("9.5000"),
        "Express": True,
        "Rate": 1e-05,
        "PlacedAt": datetime(2024, 5, 6, 7, 8, 9, 123456, tzinfo=timezone.utc),
        "Address": {"Street": "", "Zip": 10115},
        "Lines": [{"Sku": "x", "Quantity": 2, "Price": None}, {"Sku": "y", "Quantity": None, "Price": None}],
        "Tags": ["t"],
    }
    assert (found["rescued"], found["unparsed"]) == ('{"Address.City":"Berlin"}', None)


@pytest.mark.parametrize(
    ("elements", "tags"),
    [
        ("<Tags/>", []),
        ("<Tags/><Tags/>", ["", ""]),
        ("<Tags>a</Tags><Tags/>", ["a", ""]),
        ("<Tags><string>a</string></Tags><Tags/>", ["a"]),
        ("<Tags><string>a</string></Tags><Tags><string>b</string></Tags>", ["a", "b"]),
    ],
)
def test_elements_of_one_name_are_items_or_have_them(elements: str, tags: list[str]) -> None:
    found = one(f"<Order>{elements}</Order>".encode(), content_type="text/xml")
    assert (found["fields"]["Tags"], found["rescued"], found["unparsed"]) == (tags, None, None)


@pytest.mark.parametrize(
    ("elements", "lines", "grid", "rescued"),
    [
        ("<L><A><Z>1</Z></A><X><Y>2</Y></X></L>", [{"A": {"Z": 1}, "B": None}], None, '{"L[0].X":{"Y":"2"}}'),
        ("<L><U>x</U><V><Y>2</Y></V></L>", [{"A": None, "B": None}], None, '{"L[0].U":"x","L[0].V":{"Y":"2"}}'),
        ("<G><string>a</string><string/></G>", None, [["a", ""]], None),
    ],
)
def test_a_single_element_with_an_items_fields_counts_as_one(
    elements: str, lines: Any, grid: Any, rescued: str | None
) -> None:
    schema = struct({"L": array(struct({"A": struct({"Z": "long"}), "B": "long"})), "G": array(array("string"))})
    found = one(f"<Order>{elements}</Order>".encode(), schema, "text/xml")
    assert (found["fields"], found["rescued"], found["unparsed"]) == ({"L": lines, "G": grid}, rescued, None)


@pytest.mark.parametrize("empty", [b"[]", b"{}", b"[null]", b"[{}]", b"null"])
def test_empty_values_without_a_column_are_not_rescued(empty: bytes) -> None:
    schema = struct({"a": "long"})
    # Of many bodies Arrow's reader takes most, once the first ones are parsed.
    bodies: list[bytes | None] = [b'{"a":%d,"new":%s}' % (number, empty) for number in range(40)]
    last = [b'{"a":1,"new":[1]}', b'{"a":1,"new":{"x":1}}', b'{"a":1,"new":[[]]}', b'{"a":1,"new":"x"}']
    found = [row["rescued"] for row in parsed([*bodies, *last, *bodies], schema)]
    wanted = ['{"new":[1]}', '{"new":{"x":1}}', '{"new":[[]]}', '{"new":"x"}']
    assert found == [None] * 40 + wanted + [None] * 40


def plain_body(number: int) -> str:
    lines = f'[{{"Sku":"a","Quantity":{number % 7}}},{{"Sku":null,"Quantity":1}}]'
    head = f'"OrderId":"{number}","Number":{number},"Total":{number}.25,"Day":"2024-05-06","Rate":0.5'
    return f'{{{head},"PlacedAt":"2024-05-06T07:08:09Z","Express":true,"Tags":["t"],"Lines":{lines}}}'


def added(member: str) -> Any:
    return lambda body: f"{body[:-1]},{member}}}"


def changed(old: str, new: str) -> Any:
    return lambda body: re.sub(old, new, body)


MISFITS = {
    "unknown": added('"Extra":1.50'),
    "unknown object": added('"Extra":{"a":[1.50,"x"]}'),
    "unknown in a list": changed('"Sku":"a"', '"Sku":"a","Extra":true'),
    "unknown, with an escape": added(r'"\u0045xtra":1'),
    "unknown, after a blank": added('"Extra" : null, "Extra2" : 7'),
    "empty": added('"l":[],"o":{},"n":null'),
    "text for a number": changed('"Number":', '"Number":"x","":'),
    "fraction for a whole number": changed('"Number":\\d+', '"Number":1.5'),
    "too large": changed('"Quantity":1', '"Quantity":40000'),
    "number for a text": changed('"OrderId":"\\d+"', '"OrderId":5'),
    "number for true": changed("true", "1"),
    "digits": changed("[.]25,", ".253333,"),
    "no decimal": changed('"Total":[\\d.]+', '"Total":"much"'),
    "a decimal with its currency": changed('"Total":([\\d.]+)', r'"Total":"\1 EUR"'),
    "an empty text for a decimal": changed('"Total":[\\d.]+', '"Total":""'),
    "a decimal with two points": changed('"Total":[\\d.]+', '"Total":"1.2.3"'),
    "no day": changed('05-06"', '02-30"'),
    "no time": changed("T07", " 07"),
    "text for an object": added('"Address":"Berlin"'),
    "object for a list": changed('\\["t"\\]', '{"t":1}'),
    "number in a list of texts": changed('\\["t"\\]', '["t",5]'),
    "text in a list of objects": changed('"Lines":\\[', '"Lines":["x",'),
    "number behind an object": changed("},{", "},5,{"),
    "a name twice": added('"Number":7'),
    "half a surrogate pair": added(r'"Extra":"\\ud83d"'),
}
BROKEN = {
    "cut off in a name": changed('"Rate.*', '"Ra'),
    "cut off in a number": changed("[.]25,.*", ".2"),
    "cut off in a list": changed("},{.*", "},"),
    "no UTF-8": added('"Extra":"\udce4"'),
}
ONE_BY_ONE = {"a name twice", "half a surrogate pair", *BROKEN} - {"no UTF-8"}
"""What is wrong with these does not show before they are read: Arrow's reader begins again behind each of them."""


@pytest.mark.parametrize("name", [*MISFITS, *BROKEN])
def test_a_misfit_costs_itself(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 10,000 bodies each hundredth does not fit: few others are parsed by themselves, and Arrow reads few times."""
    parser, one_body, read_json = BodyParser(SHOP), BodyParser._one, pa_json.read_json
    slow: list[bytes] = []
    sizes: list[int] = []

    def counted(self: BodyParser, body: bytes, content_type: str | None) -> Any:
        slow.append(body)
        return one_body(self, body, content_type)

    def sized(file: Any, **options: Any) -> Any:
        sizes.append(file.size())
        return read_json(file, **options)

    monkeypatch.setattr(BodyParser, "_one", counted)
    monkeypatch.setattr(pa_json, "read_json", sized)
    misfit = (MISFITS | BROKEN)[name]
    texts = [misfit(plain_body(each)) if each % 100 == 50 else plain_body(each) for each in range(10_000)]
    bodies = pa.array([each.encode(errors="surrogateescape") for each in texts], pa.binary())
    result = parser.parse(bodies, pa.nulls(len(bodies), pa.string()))
    assert result.field("unparsed").null_count == len(bodies) - (100 if name in BROKEN else 0)
    assert len(slow) <= 150
    again = 100 if name in ONE_BY_ONE else 0
    assert len(sizes) <= 20 + again
    assert again or sum(sizes) < 1.5 * bodies.nbytes


@pytest.mark.parametrize("levels", [62, 63, 64, 200])
@pytest.mark.parametrize("others", [[], [b'{"a":1,"a":2}'] * 3])
def test_a_field_that_is_left_out_has_not_too_many_levels(levels: int, others: list[bytes]) -> None:
    bodies = [*others, *[b'{"a":1,"x":%s%s,"y":"]]"}' % (b"[" * levels, b"]" * levels)] * 5]
    parser = BodyParser(struct({"a": "long"}), rescues=False)
    found = parser.parse(pa.array(bodies), pa.nulls(len(bodies), pa.string())).to_pylist()
    reason = "depth" if levels > 63 else None
    assert [each["unparsed"] for each in found[len(others) :]] == [reason] * 5


@pytest.mark.parametrize("kind", [array(map_of("long")), array(array(map_of("long"))), map_of("long")])
@pytest.mark.parametrize("value", ["[null,null]", "[[null,null],null]", '["x",null]', '["x","y"]', '"x"', "[]", "null"])
def test_a_dictionary_may_be_null_in_a_list(kind: Any, value: str) -> None:
    schema, body = struct({"v": kind, "w": "long"}), f'{{"v":{value},"w":1}}'.encode()
    alone = BodyParser(schema)._one(body, None)
    bodies = [body, b'{"w":1}', body, b'{"v":"x"}', body]
    found = BodyParser(schema).parse(pa.array(bodies), pa.nulls(5, pa.string())).to_pylist()
    assert found[0] == found[2] == found[4] == alone


def test_an_empty_element_without_a_column_is_not_rescued() -> None:
    schema = struct({"a": "long"})
    assert one(b"<m><a>1</a><Lines/></m>", schema)["rescued"] is None
    assert one(b"<m><a>1</a><Lines><b/></Lines></m>", schema)["rescued"] == '{"Lines":{"b":""}}'


@pytest.mark.parametrize("name", ["TOTAL", "total", "T\\u006ftal", "T\\u006Ftal", "\u0130", "i", "\u0131"])
@pytest.mark.parametrize("column", ["Total", "\u0131"])
def test_a_field_that_is_read_alone_may_have_another_case(name: str, column: str) -> None:
    body = f'{{"other":"x","{name}":5}}'.encode()
    parser = BodyParser(read_schema(struct({column: "long"})), rescues=False)
    alone = pa.array([parser._one(body, None)], parser.result_type).to_pylist()
    assert parsed([body] * 20, read_schema(struct({column: "long"})), rescues=False) == alone * 20


def test_fields_that_are_left_out_are_not_rescued() -> None:
    body = b'{"OrderId":"x","Number":5,"Extra":{"a":[1,{"b":2}]},"Lines":{"$values":[]}}'
    (found,) = parsed([body], struct({"Number": "long"}), rescues=False)
    assert found == {"fields": {"Number": 5}, "rescued": None, "unparsed": None}
    (found,) = parsed([b'{"Number":5} x'], struct({"Number": "long"}), rescues=False)
    assert found["unparsed"] == "json"


def test_a_text_of_escapes_beside_a_doubtful_number_is_read_in_linear_time() -> None:
    body = b'{"d":1.2345678901234567890,"t":"%s"}' % (b"\\\\" * 1_000_000)
    (found,) = parsed([body], struct({"d": "double"}))
    assert (found["fields"], found["unparsed"]) == ({"d": None}, None)


@pytest.mark.parametrize("name", [r"\u0064\/x", r"d\/x", r"d\u002fx", r"d/\u0078"])
def test_escapes_do_not_hide_a_doubtful_number(name: str) -> None:
    body = f'{{"{name}":1.2345678901234567890}}'.encode()
    found = parsed([body] * 20, struct({"d/x": "double"}))
    assert {row["rescued"] for row in found} == {'{"d/x":1.2345678901234567890}'}


@pytest.mark.parametrize("rescues", [True, False])
@pytest.mark.parametrize("first", [[], [b'{"a":1,"new":2}']], ids=["first", "after an unknown field"])
@pytest.mark.parametrize("more", [b',"c":null', b',"c" : null\n', b',"c":[]', b',"c":5', b',"b":null'])
def test_a_body_adds_no_member_to_its_line(more: bytes, first: list[bytes | None], rescues: bool) -> None:
    found = parsed([*first, *[b'{"a":1}' + more] * 20], read_schema(struct({"a": "long"})), rescues=rescues)
    assert [row["unparsed"] for row in found] == [None] * len(first) + ["json"] * 20


@pytest.mark.parametrize("blank", ["", " ", "\r\n\t"])
def test_blanks_around_the_end_of_a_body_cost_nothing(blank: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(BodyParser, "_one")
    found = parsed([f'{{"a":1{blank}}}{blank}'.encode()] * 20, read_schema(struct({"a": "long"})))
    assert [row["fields"] for row in found] == [{"a": 1}] * 20


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity", "Inf", "[1, Infinity ]", '{"x":[-Infinity]}'])
def test_a_field_that_is_left_out_has_to_be_json(value: str) -> None:
    bodies: list[bytes | None] = [f'{{"a":1,"new":{value}}}'.encode()] * 20
    found = parsed(bodies, read_schema(struct({"a": "long"})), rescues=False)
    assert {row["unparsed"] for row in found} == {"json"}


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (struct({"$values": {"type": "array", "elementType": "long"}, "Count": "long"}), '{"A":{"$values":[1,2]}}'),
        (struct({"$ref": "string"}), '{"$id":"1","A":{"$ref":"1"}}'),
    ],
    ids=["array", "reference"],
)
def test_metadata_that_is_called_as_a_column_is_read_alike_alone_and_among_others(kind: Any, body: str) -> None:
    schema = read_schema(struct({"A": kind}))
    parser = BodyParser(schema)
    alone = pa.array([parser._one(body.encode(), None)], parser.result_type).to_pylist()
    assert parsed([body.encode()] * 20, schema) == alone * 20


WIDE = struct({f"f{number}": "long" for number in range(500)})
ITEMS = {"empty": b"{}", "null": b"null", "of another case": b'{"F1":1}', "with blanks": b" null"}


@pytest.mark.parametrize("item", ITEMS.values(), ids=ITEMS)
@pytest.mark.parametrize("beside", [0, 3])
def test_items_do_not_take_much_room_of_little(item: bytes, beside: int) -> None:
    """A list of 40,000 items of 500 columns is 20 million values, of a body of some 100 KB."""
    schema = struct({"a": listed(WIDE), "b": "long"})
    wide, good = b'{"a":[%s],"b":7}', b'{"b":7,"a":[{"f1":1},null,{}]}'
    few = wide % b",".join([item] * 130)
    found = parsed([good, wide % b",".join([item] * 40_000), *[good] * beside, few], schema)
    assert [row["unparsed"] for row in found] == [None, "size", *[None] * beside, None]
    assert [row["fields"]["b"] for row in found if row["fields"]] == [7] * (beside + 2)


@pytest.mark.parametrize(
    ("pattern", "item"),
    [*((b'{"a":[%s]}', each) for each in ITEMS.values()), (b"<M>%s</M>", b"<a/>")],
    ids=[*ITEMS, "XML"],
)
def test_many_bodies_do_not_take_much_room_of_little(
    monkeypatch: pytest.MonkeyPatch, pattern: bytes, item: bytes
) -> None:
    monkeypatch.setattr(arrow_parser, "_MOST_VALUES", 200_000)
    wide = pattern % (b"" if b"<" in pattern else b",").join([item] * 130)
    bodies = pa.array([*[wide] * 9, None, b"", *[b"{}"] * 100])
    found = list(BodyParser(struct({"a": listed(WIDE), "b": "long"})).portions(bodies))
    assert [start for start, _ in found] == [sum(count for _, count in found[:number]) for number in range(len(found))]
    assert sum(count for _, count in found) == len(bodies)
    assert max(count for start, count in found if start < 6) <= 4
    assert [count for _, count in BodyParser(WIDE).portions(bodies)] == [len(bodies)]
    # A body in a file of its own takes no items here.
    in_files = pa.nulls(1_000, pa.binary())
    assert list(BodyParser(struct({"a": listed(WIDE)})).portions(in_files)) == [(0, 1_000)]


def test_items_may_have_as_many_values_as_their_body() -> None:
    full = b"{%s}" % b",".join(b'"f%d":1' % number for number in range(500))
    (row,) = parsed([b'{"a":[%s],"b":7}' % b",".join([full] * 1_500)], struct({"a": listed(WIDE), "b": "long"}))
    assert len(row["fields"]["a"]) == 1_500


@pytest.mark.parametrize("text", [b"<M><m>%s</m></M>", b'{"m":{%s}}'], ids=["XML", "JSON"])
def test_values_of_a_map_do_not_take_much_room_of_little(text: bytes) -> None:
    schema = struct({"m": {"type": "map", "keyType": "string", "valueType": WIDE, "valueContainsNull": True}})
    pattern, between = (b"<k%d/>", b"") if b"<" in text else (b'"k%d":{}', b",")
    bodies = [text % between.join(pattern % number for number in range(count)) for count in (4_000, 100)]
    assert [one(body, schema)["unparsed"] for body in bodies] == ["size", None]
