"""Leaf types: one that is added to the table works everywhere; each is read alike one by one and in arrow_parser."""

from __future__ import annotations

import json
import struct as binary_struct
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_sqlqueue.bodies import arrow_parser
from airflow_sqlqueue.bodies.arrow_parser import BodyParser
from airflow_sqlqueue.bodies.decoding import parse
from airflow_sqlqueue.bodies.extension import Change, differences, extended, takes
from airflow_sqlqueue.bodies.inference import struct_of
from airflow_sqlqueue.bodies.names import RESCUED, UNPARSED
from airflow_sqlqueue.bodies.schemas import all_fields, array, fields_of, map_of, read_schema, struct
from airflow_sqlqueue.bodies.statistics import Statistics
from airflow_sqlqueue.bodies.types import LEAVES, Leaf, number_type, read_leaf
from airflow_sqlqueue.bodies.values import CoercionError, number_text
from airflow_sqlqueue.client.schemas.files import SchemaFolder
from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.spark.bodies import result_schema


def duration(text: str) -> int:
    """Seconds of a TimeSpan of .NET."""
    hours, minutes, seconds = text.split(":")
    found = int(hours) * 3600 + int(minutes) * 60 + int(seconds)
    if len(text) != 8 or duration_text(found) != text:
        raise ValueError
    return found


def duration_text(value: int) -> str:
    return f"{value // 3600:02}:{value // 60 % 60:02}:{value % 60:02}"


def money(text: str) -> int:
    """Hundredths."""
    found = Decimal(text) * 100
    if found != found.to_integral_value() or abs(found) >= 1 << 63:
        raise ValueError
    return int(found)


def guid(text: str) -> bytes:
    if len(text) != 8:
        raise ValueError
    return bytes.fromhex(text)


MADE_UP = {
    "duration": Leaf(
        json=("text",),
        read=duration,
        write=duration_text,
        arrow=pa.int64,
        spark="long",
        json_schema=(("string", "duration"),),
        form=r"\d\d:[0-5]\d:[0-5]\d",
    ),
    "money": Leaf(
        json=("number",),
        read=money,
        write=lambda value: str(Decimal(value).scaleb(-2)),
        arrow=pa.int64,
        spark="long",
        json_schema=(("number", "money"),),
        takes=lambda own, name, parameters: name == "byte",
    ),
    "guid": Leaf(
        json=("text",),
        read=guid,
        write=bytes.hex,
        arrow=lambda: pa.binary(4),
        spark="binary",
        json_schema=(("string", "guid"),),
        form="[0-9a-f]{7}[a-f]",
    ),
}
GOOD = {
    "duration": {'"01:02:03"': 3723, '"00:00:00"': 0},
    "money": {"1.25": 125, "-3": -300},
    "guid": {'"0a0b0c0d"': b"\x0a\x0b\x0c\x0d", '"0000000a"': b"\0\0\0\x0a"},
}
BAD = ['"1:2:3"', '"soon"', "true", '{"a":1}', "[1]", "1e-9", '"5"', "123456789012345678901.5", '""', '"\\ud800"']


@pytest.fixture
def nothing() -> Any:
    """A schema of Spark without columns."""
    return pytest.importorskip("pyspark.sql.types", reason="pyspark is not installed").StructType([])


@pytest.fixture(params=MADE_UP)
def made_up(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a leaf type that stands in the table for a test."""
    name = str(request.param)
    monkeypatch.setitem(LEAVES, name, MADE_UP[name])
    return name


def parsed(bodies: list[bytes], schema: Any, content_type: str | None = None) -> list[Any]:
    result = BodyParser(schema).parse(
        pa.array(bodies, pa.binary()), pa.array([content_type] * len(bodies), pa.string())
    )
    result.validate(full=True)
    return list(result.to_pylist())


def check_alike(schema: Any, values: list[str]) -> list[Any]:
    """Check that bodies are read alike alone, among others and by the rule of one body; return the rows."""
    bodies = [f'{{"v":{value}}}'.encode() for value in values]
    parser = BodyParser(schema)
    rows = pa.array([parser._one(body, None) for body in bodies], parser.result_type).to_pylist()
    assert repr(parsed(bodies, schema)) == repr(rows)
    assert repr([parsed([body], schema)[0] for body in bodies]) == repr(rows)
    return rows


def test_a_type_of_the_table_is_read(made_up: str) -> None:
    good, kind = GOOD[made_up], read_schema(struct({"v": made_up}))
    rows = check_alike(kind, [*good, "null", *BAD])
    assert [row["fields"]["v"] for row in rows] == [*good.values(), *[None] * (len(BAD) + 1)]
    assert [row["rescued"] is not None for row in rows] == [*[False] * (len(good) + 1), *[True] * len(BAD)]
    nested = read_schema(struct({"v": array(struct({"w": made_up}))}))
    rows = check_alike(nested, ["[{}]".format(",".join(f'{{"w":{text}}}' for text in good))])
    assert [each["w"] for each in rows[0]["fields"]["v"]] == list(good.values())
    elements = [f"<M><v> {json.loads(text)} </v></M>".encode() for text in good]
    assert [row["fields"]["v"] for row in parsed(elements, kind, "text/xml")] == list(good.values())


@pytest.mark.parametrize("made_up", [name for name, leaf in MADE_UP.items() if "text" in leaf.json], indirect=True)
def test_bodies_of_a_type_of_the_table_are_read_at_once(made_up: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BodyParser, "_one", None)
    bodies = [f'{{"v":{text}}}'.encode() for text in (*GOOD[made_up], "null")] * 10
    assert {row["rescued"] for row in parsed(bodies, read_schema(struct({"v": made_up})))} == {None}


def test_a_type_of_the_table_is_in_schemas_and_inferred(made_up: str, tmp_path: Path) -> None:
    schema = read_schema(struct({"v": made_up, "l": array(made_up)}))
    folder = SchemaFolder(tmp_path)
    folder.put("Shop.A", schema)
    assert folder.get("Shop.A") == schema
    kind, form = MADE_UP[made_up].json_schema[0]
    assert fields_of(read_schema({"properties": {"v": {"type": kind, "format": form}}})) == {"v": made_up}
    if MADE_UP[made_up].form:
        seen = Statistics()
        for text in GOOD[made_up]:
            seen.add(parse(b'{"v":%s}' % text.encode()))
        assert fields_of(struct_of(seen)) == {"v": made_up}


def test_a_type_of_the_table_is_compared_and_written(made_up: str) -> None:
    own, text, narrow = (
        {"type": "struct", "fields": struct({"v": kind})["fields"]} for kind in (made_up, "string", "byte")
    )
    assert list(differences(own, own)) == []
    assert list(differences(own, text)) == [Change("v", made_up, "string")]
    assert list(differences(text, own)) == []
    assert bool(list(differences(own, narrow))) is (made_up != "money")
    for value in GOOD[made_up].values():
        assert read_leaf(made_up, MADE_UP[made_up].write(value), None) == value
    with pytest.raises(CoercionError):
        read_leaf(made_up, "soon", None)


def test_a_type_of_the_table_is_a_column_of_spark(made_up: str, nothing: Any) -> None:
    kind = MADE_UP[made_up].spark
    schema = read_schema(struct({"v": made_up, "l": array(struct({"w": made_up})), "m": map_of(made_up)}))
    found = result_schema(nothing, schema)
    assert found.names == ["v", "l", "m", RESCUED, UNPARSED]
    assert [found["v"].dataType.typeName(), found["l"].dataType.elementType["w"].dataType.typeName()] == [kind] * 2
    assert found["m"].dataType.valueType.typeName() == kind


def test_a_type_that_is_not_in_the_table_is_refused() -> None:
    for name in (*MADE_UP, "decimal", "decimal(39,1)", "decimal(5,6)", "long(3)", "decimal(0,0)", "Long", "long "):
        with pytest.raises(ConfigurationError, match="is not one of binary, boolean, byte"):
            read_schema(struct({"v": name}))
    assert fields_of(read_schema(struct({"v": "decimal(10, 2)"}))) == {"v": "decimal(10,2)"}


VALUES: dict[str, Any] = {
    "string": st.text(st.characters(exclude_categories=["Cs"])),
    "boolean": st.booleans(),
    "byte": st.integers(-128, 127),
    "short": st.integers(-(2**15), 2**15 - 1),
    "integer": st.integers(-(2**31), 2**31 - 1),
    "long": st.integers(-(2**63), 2**63 - 1),
    "float": st.floats(allow_nan=False, allow_infinity=False, width=32),
    "double": st.floats(allow_nan=False, allow_infinity=False),
    "decimal(38,9)": st.integers(-(10**38) + 1, 10**38 - 1).map(lambda number: Decimal(f"{number}e-9")),
    "date": st.integers(-719_162, 2_932_896),
    "timestamp": st.integers(-62_135_596_800_000_000, 253_402_300_799_999_999),
    "timestamp_ntz": st.integers(-62_135_596_800_000_000, 253_402_300_799_999_999),
    "binary": st.binary(),
}


def test_each_type_has_values_here() -> None:
    assert {name.partition("(")[0] for name in VALUES} == set(LEAVES)


@given(st.sampled_from(sorted(VALUES)).flatmap(lambda kind: st.tuples(st.just(kind), VALUES[kind])))
def test_a_value_is_read_from_its_text(case: tuple[str, Any]) -> None:
    kind, value = case
    leaf = LEAVES[kind.partition("(")[0]]
    assert read_leaf(kind, leaf.write(value), leaf.json[0]) == value
    assert read_leaf(kind, leaf.write(value), None) == value
    assert pa.array([value], arrow_parser.arrow_type(kind))[0].is_valid


def test_blanks_around_a_text_are_part_of_a_string_alone() -> None:
    assert [read_leaf(kind, "\n 1 ", None) for kind in ("string", "long", "byte")] == ["\n 1 ", 1, 1]
    assert read_leaf("boolean", "\ttrue\n", None) is True


digits = st.text("0123456789", min_size=1, max_size=20)
written = st.builds(
    lambda sign, whole, fraction, exponent: f"{sign}{int(whole)}{fraction}{exponent}",
    st.sampled_from(["", "-"]),
    digits,
    st.just("") | digits.map(".{}".format),
    st.just("")
    | st.builds("{}{}{}".format, st.sampled_from("eE"), st.sampled_from(["", "+", "-"]), st.integers(0, 400)),
)
shortest = st.floats(allow_nan=False, allow_infinity=False).map(repr)


@given(st.sampled_from(["double", "float"]), st.lists(written | shortest | shortest.map("{}0".format), max_size=20))
def test_a_double_takes_what_its_shortest_text_says(kind: str, values: list[str]) -> None:
    for text, row in zip(values, check_alike(read_schema(struct({"v": kind})), values), strict=True):
        found = row["fields"] and row["fields"]["v"]
        if found is None:
            assert row["rescued"] == f'{{"v":{text}}}' or row["unparsed"] == "json"
        else:
            assert Decimal(_shortest(found, kind)) == Decimal(text)


def _shortest(value: float, kind: str) -> str:
    if kind == "double":
        return repr(value)
    texts = (f"{value:.{number}e}" for number in range(9))
    return next(each for each in texts if binary_struct.unpack("f", binary_struct.pack("f", float(each)))[0] == value)


@pytest.mark.parametrize(
    ("text", "is_taken"),
    [
        ("0.1", True),
        ("0.10", True),
        ("0.30000000000000004", True),
        ("13.404953999999998", True),
        ("0.10000000000000001", False),
        ("9007199254740993", False),
        ("9007199254740992", True),
        ("12345678901234567890", False),
        ("1e16", True),
        ("1e-400", False),
        ("1e400", False),
        ("5e-324", True),
        ("4e-324", False),
        ("1.5000000000000000000000", True),
        ("0.000000000000000000000000000001", True),
    ],
)
@pytest.mark.parametrize("form", ["%s", " \t%s", "[%s]", "[1, %s]", '{"w":\n%s}', '[{"w" :%s}]'])
def test_digits_that_a_double_holds(text: str, is_taken: bool, form: str) -> None:
    kind: Any = "double" if form in ("%s", " \t%s") else array("double") if "w" not in form else struct({"w": "double"})
    kind = array(kind) if form.startswith("[{") else kind
    (row,) = check_alike(read_schema(struct({"v": kind})), [form % text])
    assert (row["rescued"] is None) is is_taken
    assert row["rescued"] is None or text in row["rescued"]


def test_long_numbers_of_other_fields_do_not_slow_a_double(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = read_schema(
        struct({"Id": "long", "Rate": "double", "More": "decimal(38,9)", "At": struct({"x": "double"})})
    )
    body = b'{"Id":1234567890123456789,"Rate":13.404953999999998,"More":12345678901234567.123456789,"At":{"x":0.1}}'
    expected = {"Id": 1234567890123456789, "Rate": 13.404953999999998}
    monkeypatch.setattr(BodyParser, "_one", None)
    for row in parsed([body] * 20, schema):
        assert {name: row["fields"][name] for name in expected} == expected


def test_a_name_that_is_written_with_an_escape_is_found() -> None:
    schema = read_schema(struct({"v": "double", "w": "long"}))
    (row,) = parsed([rb'{"\u0076":0.10000000000000001,"w":1}'], schema)
    assert (row["fields"]["v"], row["rescued"]) == (None, '{"v":0.10000000000000001}')


INSTANTS = {
    "0001-01-01T00:00:00Z": True,
    "0001-01-01T00:00:00+00:01": False,
    "0001-01-01T01:00:00+01:00": True,
    "0001-01-01T00:59:59.999999+01:00": False,
    "9999-12-31T23:59:59.999999Z": True,
    "9999-12-31T23:59:59.9999999Z": True,
    "9999-12-31T23:59:59-00:01": False,
    "9999-12-31T22:59:59-01:00": True,
    "0000-12-31T23:59:59Z": False,
    "0000-12-31T23:59:59-05:00": False,
    "0001-01-01T17:59:00+17:59": True,
    "9999-12-31T18:00:00-18:00": False,
    "2024-02-29T00:00:00Z": True,
    "2023-02-29T00:00:00Z": False,
}


@pytest.mark.parametrize(("text", "is_taken"), INSTANTS.items())
def test_instants_are_of_the_years_1_to_9999(text: str, is_taken: bool) -> None:
    (row,) = check_alike(read_schema(struct({"v": "timestamp"})), [json.dumps(text)])
    assert (row["rescued"] is None) is is_taken
    assert row["rescued"] is None or json.loads(row["rescued"]) == {"v": text}
    local = text[:19]
    (row,) = check_alike(read_schema(struct({"v": "timestamp_ntz"})), [json.dumps(local)])
    assert (row["rescued"] is None) is (not local.startswith(("0000", "2023-02-29")))
    (row,) = check_alike(read_schema(struct({"v": "date"})), [json.dumps(text[:10])])
    assert (row["rescued"] is None) is (not text.startswith(("0000", "2023-02-29")))


def test_instants_are_checked_by_the_reader_of_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is within the range is read at once; one instant beyond it sends its body alone to the rule of one body."""
    alone = BodyParser._one
    counted: list[bytes] = []
    monkeypatch.setattr(BodyParser, "_one", lambda self, body, kind: counted.append(body) or alone(self, body, kind))
    schema = read_schema(struct({"v": "timestamp"}))
    bodies = [b'{"v":"0001-01-01T00:00:00Z"}', b'{"v":"9999-12-31T23:59:59.999999Z"}'] * 50
    assert {row["rescued"] for row in parsed(bodies, schema)} == {None}
    assert counted == []


def test_half_a_surrogate_pair_is_rescued() -> None:
    (row,) = check_alike(read_schema(struct({"v": "string"})), [r'"a\ud800"'])
    assert (row["fields"]["v"], row["rescued"]) == (None, r'{"v":"a\ud800"}')


def test_base64_is_read_if_it_is_the_one_text_of_its_bytes() -> None:
    rows = check_alike(read_schema(struct({"v": "binary"})), ['"AAE="', '"AAF="', '"A"', '""', '"AAE=\\n"'])
    assert [row["fields"]["v"] for row in rows] == [b"\0\x01", None, None, b"", None]


@pytest.mark.parametrize(
    ("whole", "scale", "more", "kind"),
    [
        (1, 0, {}, "long"),
        (20, 0, {"is_beyond_long": True}, "decimal(38,0)"),
        (38, 0, {"is_beyond_long": True}, "decimal(38,0)"),
        (39, 0, {"is_beyond_long": True}, "string"),
        (2, 2, {}, "decimal(38,9)"),
        (29, 9, {}, "decimal(38,9)"),
        (30, 2, {}, "decimal(38,2)"),
        (2, 28, {}, "decimal(38,28)"),
        (11, 28, {}, "string"),
    ],
)
def test_types_of_numbers(whole: int, scale: int, more: dict[str, bool], kind: str) -> None:
    assert number_type(whole, scale, **more) == kind


def test_every_decimal_of_dotnet_with_nine_digits_behind_the_point_fits() -> None:
    kind = fields_of(read_schema({"properties": {"v": {"type": "number"}}}))["v"]
    assert kind == number_type(1, 1)
    rows = check_alike(read_schema(struct({"v": kind})), ["79228162514264337593543950335", "-0.000000001"])
    assert [row["fields"]["v"] for row in rows] == [Decimal("79228162514264337593543950335"), Decimal("-1e-9")]


MAP = read_schema(struct({"m": map_of("long"), "s": map_of(struct({"a": "string"}))}))


def test_maps_hold_their_names_as_keys() -> None:
    odd = ["", "a b", "a.b", "Id", "ID", "\u0130", "x" * 500, "_pos", "\u2028", "$x"]
    body = json.dumps(
        {"m": {name: number for number, name in enumerate(odd)} | {"n": None, "t": "x"}, "s": {"k": {"a": "b", "c": 1}}}
    )
    (row,) = parsed([body.encode()], MAP)
    assert row["fields"]["m"] == [*((name, number) for number, name in enumerate(odd)), ("n", None), ("t", None)]
    assert row["fields"]["s"] == [("k", {"a": "b"})]
    assert json.loads(row["rescued"]) == {"m.t": "x", "s.k.c": 1}


def test_maps_are_read_alike_in_blocks_and_one_by_one() -> None:
    values = ["{}", "null", '{"a":1}', '{"a":"x"}', "[]", "5", '{"a":{"b":1}}', '{"\\ud800":1}', '"x"', "[1]"]
    rows = check_alike(read_schema(struct({"v": map_of("long")})), values * 3)
    assert [row["fields"]["v"] for row in rows[:4]] == [[], None, [("a", 1)], [("a", None)]]
    assert [row["rescued"] for row in rows[2:5]] == [None, '{"v.a":"x"}', '{"v":[]}']
    check_alike(read_schema(struct({"v": array(map_of("long"))})), [f"[{value}]" for value in values])


def test_maps_of_xml() -> None:
    body = b"<M><m><a>1</a><b>2</b><a>3</a></m><s/></M>"
    (row,) = parsed([body], MAP, "text/xml")
    assert row["fields"] == {"m": [("a", 1), ("b", 2)], "s": []}
    assert json.loads(row["rescued"]) == {"m.a[1]": "3"}


def test_maps_in_schemas(tmp_path: Path) -> None:
    found = read_schema({"properties": {"m": {"type": "object", "additionalProperties": {"type": "integer"}}}})
    assert fields_of(found) == {"m": map_of("long")}
    SchemaFolder(tmp_path).put("Shop.A", MAP)
    assert SchemaFolder(tmp_path).get("Shop.A") == MAP
    assert list(all_fields(MAP)) == ["m", "s", "a"]
    wider = read_schema(struct({"m": map_of("string"), "s": map_of(struct({"a": "string", "b": "long"}))}))
    assert [(each.path, each.schema) for each in differences(MAP, wider)] == [("m[]", "long"), ("s[].b", None)]
    assert fields_of(extended(MAP, wider)) == {"m": map_of("long"), "s": map_of(struct({"a": "string", "b": "long"}))}
    assert not takes(map_of("long"), struct({"a": "long"}))
    assert takes("string", map_of("long"))
    assert [takes("float", each) for each in ("integer", "decimal(9,2)", "date")] == [True, True, False]


def test_maps_are_columns_of_spark(nothing: Any) -> None:
    spark = result_schema(nothing, MAP)["m"].dataType
    assert (spark.typeName(), spark.keyType.typeName(), spark.valueType.typeName()) == ("map", "string", "long")


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("9007199254740991.0", "9007199254740991"),
        ("-9007199254740991.0", "-9007199254740991"),
        ("9007199254740992.0", "9007199254740992.0"),
        ("1e3", "1000"),
        ("1e22", "1e22"),
        ("1.5", "1.5"),
    ],
)
def test_whole_numbers_that_a_double_has_exactly_are_written_without_a_point(text: str, whole: str) -> None:
    assert number_text(text) == whole
