"""Names: those that columns can have, their comparison, columns beside the envelope's, paths and folders."""

from __future__ import annotations

import hashlib
import re
import sys
import unicodedata
from collections.abc import Callable
from urllib.parse import unquote, unquote_plus

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from airflow_sqlqueue.bodies.coercion import Coercion
from airflow_sqlqueue.bodies.extension import KnownFields
from airflow_sqlqueue.bodies.inference import struct_of
from airflow_sqlqueue.bodies.names import (
    ENVELOPE,
    MAX_BYTES,
    MAX_CHARACTERS,
    PREFIX,
    Path,
    column_key,
    column_names,
    is_column_name,
    name_key,
    path_text,
    read_path,
)
from airflow_sqlqueue.bodies.schemas import fields_of, read_schema, struct
from airflow_sqlqueue.bodies.statistics import Statistics
from airflow_sqlqueue.bodies.tree import Number
from airflow_sqlqueue.client.schemas.files import file_stem
from airflow_sqlqueue.errors import ConfigurationError

anything = st.text(st.characters(exclude_categories=()), max_size=20)


GOOD = ("Id", "_pos", "@Ccy", "#text", "$type", "a-b", "100%", "a:b", "Größe", "\u540d\u524d", "\u0130", "e\u0301")
GOOD += ("\U0001f600", "a'b", "a/b", "a<b>", "don't?!", "\u2764\ufe0f", "\u0661")
GOOD += ("n" * MAX_CHARACTERS, "\u540d" * (MAX_BYTES // 3))
BAD = ("", " ", "a b", "a\u00a0b", "a.b", "a,b", "a;b", "{", "}", "(", ")", "a=b", "a`b", 'a"b', "a\\b", "[", "]", "*")
BAD += ("\0", "a\nb", "a\tb", "\x7f", "\x85", "\ud800", "a\udfff", "\u2028", "\u2029", "\u200b", "\u202e", "\ufeff")
BAD += ("\ufffe", "\U0010ffff", "\ue000")
BAD += ("n" * (MAX_CHARACTERS + 1), "\u540d" * (MAX_BYTES // 3 + 1), "\U0001f600" * 61)


@pytest.mark.parametrize("name", GOOD)
def test_names_of_columns(name: str) -> None:
    assert is_column_name(name)
    read_schema(struct({name: struct({name: "long"})}))


@pytest.mark.parametrize("name", BAD)
def test_names_of_no_column(name: str) -> None:
    assert not is_column_name(name)
    with pytest.raises(ConfigurationError, match="no column can have"):
        read_schema(struct({"a": struct({name: "long"})}))


@given(anything)
def test_a_column_is_called_by_visible_characters(name: str) -> None:
    if is_column_name(name):
        assert 0 < len(name.encode()) <= MAX_BYTES
        assert not set(name) & set(' ,;{}()\n\t=.`"\\[]*')
        assert {unicodedata.category(each)[0] for each in name} <= set("LMNPS")


@pytest.mark.parametrize("find", [is_column_name, name_key, column_key])
def test_a_long_name_is_not_kept_in_memory(find: Callable[[str], object]) -> None:
    name = "N" * (MAX_CHARACTERS + 1)
    before = sys.getrefcount(name)
    find(name)
    assert sys.getrefcount(name) == before


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ("OrderId", "orderid", True),
        ("\u00c4", "\u00e4", True),
        ("stra\u00dfe", "STRASSE", False),
        ("\u1e9e", "\u00df", True),
        # The Greek sigma at the end of a word has a form of its own, to Java's and to Python's lower case.
        ("\u03a3\u039f\u03a3", "\u03c3\u03bf\u03c2", True),
        ("\u03a3\u039f\u03a3", "\u03c3\u03bf\u03c3", True),
        # These are the same to String.equalsIgnoreCase, by which Spark finds the columns of a table.
        ("\u0131d", "ID", True),
        ("\u0130d", "id", True),
        ("\u017fum", "Sum", True),
        ("\u212aelvin", "kelvin", True),
        ("\u0130", "i\u0307", True),
        ("\ufb01", "fi", False),
        ("e\u0301", "\u00e9", False),
        ("I", "J", False),
    ],
)
def test_names_that_differ_in_case_alone(one: str, other: str, is_same: bool) -> None:
    assert (name_key(one) == name_key(other)) is is_same
    assert (name_key(one + "x") == name_key(other + "x")) is is_same
    assert not is_same or column_key(one) == column_key(other)


ICEBERG = {
    "a-b": "a_x2Db",
    "@Ccy": "_x40Ccy",
    "$type": "_x24TYPE",
    "1": "_1",
    "\u0661": "_\u0661",
    "\u20ac": "_x20AC",
    "e\u0301": "e_x301",
    "\U0001f600": "_xD83D_xDE00",
}
"""Names, and those under which Iceberg writes them in Parquet: ``AvroSchemaUtil.makeCompatibleName``."""


@pytest.mark.parametrize(("name", "written"), ICEBERG.items(), ids=ascii)
def test_names_that_iceberg_writes_alike_are_no_two_columns(name: str, written: str) -> None:
    assert column_key(name) == column_key(written)
    assert name_key(name) != name_key(written)
    with pytest.raises(ConfigurationError, match="as engines compare names"):
        read_schema(struct({"o": struct({name: "long", written: "long"})}))
    found = Statistics()
    found.add({"o": {name: Number("1"), written: Number("2"), "x": Number("3")}})
    (inner,) = fields_of(struct_of(found)).values()
    assert len({name, written} & fields_of(inner).keys()) == 1
    schema = struct({"o": struct({name: "long"})})
    assert not KnownFields(schema).would_extend(("o", written))
    fitting = Coercion()
    assert fitting.struct({"o": {written: Number("2")}}, schema) == {"o": {}}, "it is another field"
    assert fitting.rescued == {("o", written): Number("2")}


@pytest.mark.parametrize(("one", "other"), [("a1", "a_1"), ("a_b", "a-b"), ("Größe", "Gr_xf6ße"), ("1", "2")])
def test_names_that_iceberg_writes_apart_are_two_columns(one: str, other: str) -> None:
    assert column_key(one) != column_key(other)


def columns(*names: str) -> list[str]:
    return list(column_names(struct(dict.fromkeys(names, "long")), ENVELOPE).values())


@pytest.mark.parametrize(
    ("fields", "wanted"),
    [
        (["Id", "Time_Sent", "BATCH_ID"], ["Id", "body_Time_Sent", "body_BATCH_ID"]),
        (["_pos", "body__pos"], ["body__pos", "body_body__pos"]),
        (["body__pos", "_pos"], ["body__pos", "body_body__pos"]),
        (["_POS", "body__pos", "Body_body__pos"], ["body__POS", "body_body__pos", "body_Body_body__pos"]),
        (["_rescued", "_unparsed", "_"], ["body__rescued", "body__unparsed", "body__"]),
        (["__x", "x"], ["body___x", "x"]),
        (["enclosed_types", "parse_attempt"], ["body_enclosed_types", "body_parse_attempt"]),
        (["\u0130ntent"], ["body_\u0130ntent"]),
    ],
)
def test_columns_of_fields(fields: list[str], wanted: list[str]) -> None:
    assert columns(*fields) == wanted


words = st.sampled_from(["_pos", "body__pos", "body_body__pos", "Intent", "body_intent", "_metadata", "a", "body_a"])


@given(st.lists(words, unique_by=column_key))
def test_no_two_fields_share_a_column_and_new_ones_change_none(fields: list[str]) -> None:
    found = columns(*fields)
    keys = {column_key(name) for name in found}
    assert len(keys) == len(found)
    assert not keys & {column_key(name) for name in ENVELOPE}
    assert not any(name.startswith("_") for name in found)
    for name, column in zip(fields, found, strict=True):
        assert re.fullmatch(f"({PREFIX})*{name}", column)
    for number in range(len(fields)):
        assert columns(*fields[:number]) == found[:number]


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (("Lines", 0, "Quantity"), "Lines[0].Quantity"),
        (("Lines", None, "Quantity"), "Lines[].Quantity"),
        (("InstdAmt", "@Ccy"), "InstdAmt.@Ccy"),
        (("Lines", -2), "Lines[-2]"),
        (("a.b",), '["a.b"]'),
        (("a.b", "c"), '["a.b"].c'),
        (("a", "b.c", 1, 2), 'a["b.c"][1][2]'),
        (("a", ""), 'a[""]'),
        (("a[0]",), '["a[0]"]'),
        (("a", 'q"q'), r'a["q\"q"]'),
        (("a\nb",), r'["a\nb"]'),
        (("a", "\ud800"), "a.\ud800"),
        ((), ""),
    ],
)
def test_paths_as_texts(path: Path, text: str) -> None:
    assert path_text(path) == text
    assert read_path(text) == path


odd = st.text(st.sampled_from([*"ab.[]\"\\0'\n ,", "\ud800", "\u2028"]), max_size=5)
paths = st.lists(odd | anything | st.integers(-9, 99) | st.none(), max_size=5).map(tuple)


@given(paths)
def test_a_path_is_read_as_it_was_printed(path: Path) -> None:
    assert read_path(path_text(path)) == path


@given(odd | anything)
@example("a..b")
@example(".a")
@example("a.")
@example("a[01]")
@example("a[-0]")
@example('a["b"]')
@example(r'["\u0061.b"]')
@example("[0]a")
def test_a_text_is_no_path_or_the_only_one_of_its_path(text: str) -> None:
    try:
        path = read_path(text)
    except ValueError:
        return
    assert path_text(path) == text


DEVICES = ["CON", "con.x", "Nul", "NUL.txt", "aux", "prn.Orders", "com1", "LPT9.a"]
ODD = [
    "a.",
    "a..",
    ".",
    "..",
    "_a",
    ".a",
    "-a",
    "a ",
    " a",
    "a%20b",
    "a+b",
    "a!60",
    "a`",
    "~unparsed",
    "A~unparsed",
    "a=1",
]


@pytest.mark.parametrize(
    "name", [*DEVICES, *ODD, "x" * 99 + ".", "x" * 200, "x" * 100 + "-" + "0" * 16, "Shop.A\u00e9"]
)
def test_folders_of_types(name: str) -> None:
    check_stem(file_stem(name))


def check_stem(stem: str) -> None:
    assert re.fullmatch(r"(?![._-])[A-Za-z0-9._!-]{1,130}(?<!\.)", stem)
    assert stem.split(".")[0].upper() not in {
        "CON",
        "PRN",
        "AUX",
        "NUL",
        *(f"{each}{n}" for each in ("COM", "LPT") for n in range(10)),
    }
    assert unquote(stem) == unquote_plus(stem) == stem


def test_a_usual_type_is_its_folder() -> None:
    for name in (
        "Shop.PlaceOrder",
        "Shop.Place_Order",
        "urn-shop-order",
        "A1",
        "Console.Started",
        "Common.Event",
        "Null",
    ):
        assert file_stem(name) == name
    assert file_stem("Shop.Outer+Wrapped`1") == "Shop.Outer!2BWrapped!601"
    longest = "Shop." + "a" * 95
    assert file_stem(longest) == longest
    assert file_stem(f"{longest}b") == f"{longest}-{hashlib.sha256(f'{longest}b'.encode()).hexdigest()[:16]}"


names = st.lists(st.sampled_from([*"aA.bB_-+!%~ `0é", "con", "NUL", "x" * 60]), min_size=1, max_size=12).map("".join)


@given(st.lists(names | anything.filter(bool), unique=True, max_size=6))
def test_each_type_has_a_folder_of_its_own_where_case_counts_or_not(types: list[str]) -> None:
    encodable = [name for name in types if not re.search("[\ud800-\udfff]", name)]
    stems = [file_stem(name) for name in encodable]
    assert len(set(stems)) == len(stems)
    for stem in stems:
        check_stem(stem)
    # Types that differ in more than case, as the tables of message types compare them, do not meet on a Windows share.
    keys = {column_key(name): file_stem(name).lower() for name in encodable}
    assert len(set(keys.values())) == len(keys)
