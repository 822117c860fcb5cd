"""Rows of a table by another schema: what the body said is in the new columns and ``_rescued`` as well."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator
from datetime import date, datetime, timezone
from decimal import Decimal, InvalidOperation
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_sqlqueue.bodies.arrow_parser import BodyParser
from airflow_sqlqueue.bodies.decoding import parse
from airflow_sqlqueue.bodies.inference import struct_of
from airflow_sqlqueue.bodies.names import read_path
from airflow_sqlqueue.bodies.schemas import array, fields_of, map_of, read_schema, struct
from airflow_sqlqueue.bodies.statistics import Statistics
from airflow_sqlqueue.bodies.stored_rows import StoredRows

JSON, XML = "application/json", "text/xml"


def parsed(schema: Any, *bodies: str, content_type: str = JSON) -> pa.StructArray:
    found = BodyParser(schema).parse(
        pa.array([body.encode() for body in bodies]), pa.array([content_type] * len(bodies))
    )
    assert found.field("unparsed").null_count == len(bodies)
    return found


def refitted(
    old: Any, new: Any, *bodies: str, content_type: str = JSON
) -> list[tuple[dict[str, Any], dict[str, Any] | None]]:
    """Rows of the bodies by one schema, made rows of another one."""
    rows = parsed(old, *bodies, content_type=content_type)
    columns = dict(zip(fields_of(old), rows.field("fields").flatten(), strict=True))
    found = StoredRows(new, old).rows(columns, rows.field("rescued"), [content_type == JSON] * len(bodies))
    return rows_of(found)


def rows_of(found: pa.StructArray) -> list[tuple[dict[str, Any], dict[str, Any] | None]]:
    texts = found.field("rescued").to_pylist()
    rescued = [None if each is None else json.loads(each, parse_float=Decimal) for each in texts]
    return list(zip(found.field("fields").to_pylist(), rescued, strict=True))


@pytest.mark.parametrize(
    ("old", "new", "bodies", "rows"),
    [
        pytest.param(
            {"Total": "long"},
            {"Total": "decimal(38,2)"},
            ('{"Total":100}', '{"Total":19.99}', "{}"),
            [({"Total": Decimal("100.00")}, None), ({"Total": Decimal("19.99")}, None), ({"Total": None}, None)],
            id="a type with room",
        ),
        pytest.param(
            {"Zip": "long"},
            {"Zip": "string"},
            ('{"Zip":53111}', '{"Zip":"01234"}', '{"Zip":{"a":1}}'),
            [({"Zip": "53111"}, None), ({"Zip": "01234"}, None), ({"Zip": '{"a":1}'}, None)],
            id="texts",
        ),
        pytest.param(
            {"Qty": "string", "At": "string", "Lines": "string"},
            {"Qty": "long", "At": "timestamp", "Lines": array(struct({"Sku": "string"}))},
            ('{"Qty":5,"At":"2030-01-31T09:00:00+01:00","Lines":[{"Sku":"pen"}]}', '{"Qty":"x","At":"","Lines":"[1"}'),
            [
                (
                    {
                        "Qty": 5,
                        "At": datetime(2030, 1, 31, 8, tzinfo=timezone.utc),
                        "Lines": [{"Sku": "pen"}],
                    },
                    None,
                ),
                ({"Qty": None, "At": None, "Lines": None}, {"Qty": "x", "At": "", "Lines": "[1"}),
            ],
            id="from texts",
        ),
        pytest.param(
            {"OrderId": "string", "Total": "long"},
            {"OrderId": "string", "Total": "long"},
            ('{"OrderId":"a","Total":1}', '{"orderId":"b","total":2}'),
            [({"OrderId": "a", "Total": 1}, None), ({"OrderId": "b", "Total": 2}, None)],
            id="another case",
        ),
        pytest.param(
            {"Ship-To": struct({"Street": "string"}), "1st": struct({"A": "long"})},
            {"Ship-To": struct({"Street": "string", "City": "string"}), "1st": struct({"A": "long", "B": "long"})},
            ('{"ship-to":{"street":"s","city":"c"},"1ST":{"a":1,"b":2}}',),
            [({"Ship-To": {"Street": "s", "City": "c"}, "1st": {"A": 1, "B": 2}}, None)],
            id="another case, of names that Iceberg writes in another way",
        ),
        pytest.param(
            {
                "Address": struct({"Street": "string"}),
                "Lines": array(struct({"Sku": "string"})),
                "Codes": array("long"),
            },
            {
                "Address": struct({"Street": "string", "City": "string"}),
                "Lines": array(struct({"Sku": "string", "Qty": "long"})),
                "Codes": array("string"),
            },
            (
                '{"address":{"street":"s","city":"c"},"lines":[{"sku":"a"},{"sku":"b","qty":2,"Sku":3}],"codes":[1,"x"]}',
            ),
            [
                (
                    {
                        "Address": {"Street": "s", "City": "c"},
                        "Lines": [{"Sku": "a", "Qty": None}, {"Sku": "3", "Qty": 2}],
                        "Codes": ["1", "x"],
                    },
                    {"Lines[1].sku": "b"},
                )
            ],
            id="another case, at depth",
        ),
        pytest.param(
            {"Total": "long", "Stock": map_of(struct({"Free": "long"}))},
            {"Total": "long", "Stock": map_of(struct({"Free": "long", "Held": "long"}))},
            ('{"total":1,"total":2,"stock":{"PEN":{"free":1,"held":2},"pen":{"Free":3,"Held":4}}}',),
            [
                (
                    {"Total": 2, "Stock": [("PEN", {"Free": 1, "Held": 2}), ("pen", {"Free": 3, "Held": 4})]},
                    {"total[-2]": 1},
                )
            ],
            id="another case, beside members that come twice and keys",
        ),
        pytest.param(
            {"Stock": struct({"k1": "long"})},
            {"Stock": map_of("long")},
            ('{"Stock":{"k1":1,"k2":2,"a.b":3}}', '{"Stock":{"k9":"x"}}'),
            [
                ({"Stock": [("k1", 1), ("k2", 2), ("a.b", 3)]}, None),
                ({"Stock": [("k9", None)]}, {"Stock.k9": "x"}),
            ],
            id="a dictionary",
        ),
        pytest.param(
            {"Lines": array(struct({"Sku": "string"}))},
            {"Lines": array(struct({"Sku": "string", "Quantity": "integer"}))},
            ('{"Lines":[{"Sku":"a","Quantity":1},null,{"Sku":"b","Quantity":2.5},"x"]}',),
            [
                (
                    {"Lines": [{"Sku": "a", "Quantity": 1}, None, {"Sku": "b", "Quantity": None}, None]},
                    {"Lines[2].Quantity": 2.5, "Lines[3]": "x"},
                )
            ],
            id="fields of items",
        ),
        pytest.param(
            {"Gone": "date", "Deep": struct({"Gone": "double", "Kept": "boolean"})},
            {"Deep": struct({"Kept": "boolean"})},
            ('{"Gone":"2030-01-31","Deep":{"Gone":0.5,"Kept":true}}',),
            [({"Deep": {"Kept": True}}, {"Gone": "2030-01-31", "Deep.Gone": 0.5})],
            id="columns that are dropped",
        ),
        pytest.param(
            {"A": "long"},
            {},
            ('{"A":1,"B":2}',),
            [({}, {"A": 1, "B": 2})],
            id="no columns",
        ),
    ],
)
def test_mistakes_are_mended(old: Any, new: Any, bodies: tuple[str, ...], rows: list[Any]) -> None:
    assert refitted(struct(old), struct(new), *bodies) == rows


@pytest.mark.parametrize(
    ("old", "new", "body", "row"),
    [
        pytest.param(
            {"Lines": struct({"Line": struct({"Sku": "string"})})},
            {"Lines": array(struct({"Sku": "string"}))},
            "<Lines><Line><Sku>a</Sku></Line><Line><Sku>b</Sku></Line></Lines>",
            ({"Lines": [{"Sku": "a"}, {"Sku": "b"}]}, None),
            id="a list of one item",
        ),
        pytest.param(
            {"Note": "string"},
            {"Note": array("string")},
            "<Note>a</Note><Note>b</Note><Note>c</Note>",
            ({"Note": ["a", "b", "c"]}, None),
            id="a repeated element",
        ),
        pytest.param(
            {"Note": "string"},
            {"Note": "string"},
            "<Note>a</Note><Note>b</Note>",
            ({"Note": "a"}, {"Note[1]": "b"}),
            id="a repeated element that is no list",
        ),
        pytest.param(
            {"A": "long"},
            {"A": array("boolean")},
            "<A><A>5</A><A>6</A></A><A>7</A>",
            ({"A": [None, None]}, {"A[0]": {"A": ["5", "6"]}, "A[1]": "7"}),
            id="elements that do not fit, before and after",
        ),
        pytest.param(
            {"A": struct({"B": "long"})},
            {"A": array(struct({"B": struct({"@x": "long", "#text": "long"})}))},
            '<A><B x="1">2</B></A><A><B>3</B></A>',
            ({"A": [{"B": {"@x": 1, "#text": 2}}, {"B": {"@x": None, "#text": 3}}]}, None),
            id="a repeated element, the first one with attributes",
        ),
        pytest.param(
            {"Amount": "decimal(38,2)"},
            {"Amount": struct({"@Ccy": "string", "#text": "decimal(38,2)"})},
            '<Amount Ccy="EUR">100.00</Amount>',
            ({"Amount": {"@Ccy": "EUR", "#text": Decimal("100.00")}}, None),
            id="an attribute",
        ),
        pytest.param(
            {"Amount": "long"},
            {"Amount": "decimal(38,2)"},
            '<Amount Ccy="EUR">7</Amount>',
            ({"Amount": Decimal("7.00")}, {"Amount.@Ccy": "EUR"}),
            id="an attribute without a column",
        ),
        pytest.param(
            {"Note": "string", "Mark": "string"},
            {"Note": "string", "Mark": "string"},
            '<Note x="1" xmlns:i="http://www.w3.org/2001/XMLSchema-instance" i:nil="true"/><Mark x="1"/>',
            ({"Note": None, "Mark": ""}, {"Note.@x": "1", "Mark.@x": "1"}),
            id="nil with an attribute",
        ),
        pytest.param(
            {"Amount": "long", "Note": "string"},
            {"Amount": struct({"@ccy": "string", "#text": "long"}), "Note": array("string")},
            '<amount ccy="EUR">5</amount><note>a</note><note>b</note>',
            ({"Amount": {"@ccy": "EUR", "#text": 5}, "Note": ["a", "b"]}, None),
            id="another case",
        ),
        pytest.param(
            {"Qty": "date", "Tags": "string"},
            {"Qty": "long", "Tags": array("long"), "Late": "boolean"},
            "<Qty>5</Qty><Tags><int>1</int><int>2</int></Tags><Late>true</Late>",
            ({"Qty": 5, "Tags": [1, 2], "Late": True}, None),
            id="texts that are numbers",
        ),
        pytest.param(
            {"Stock": map_of(struct({"Sku": "string", "#text": "string"}))},
            {"Stock": "string"},
            "<Stock>none</Stock>",
            ({"Stock": "none"}, None),
            id="a text that a dictionary of objects took",
        ),
    ],
)
def test_mistakes_with_xml_are_mended(old: Any, new: Any, body: str, row: Any) -> None:
    assert refitted(struct(old), struct(new), f"<M>{body}</M>", content_type=XML) == [row]


def test_rescued_xml_may_have_more_levels_than_a_body_of_json() -> None:
    """Each level of repeated elements is two levels of JSON."""
    deep = f"<M>{'<A>x' * 60}<B/><B/>{'</A><A/>' * 60}</M>"
    for old, new in (({}, {}), ({}, {"A": "string"}), ({"A": "string"}, {"A": "long"}), ({}, {"A": map_of("string")})):
        before = parsed(struct(old), deep, content_type=XML)
        assert values(refitted(struct(old), struct(new), deep, content_type=XML)) == values(rows_of(before))


def test_a_body_that_may_be_json_loses_nothing_that_xml_has_not() -> None:
    """Its content type says nothing, and what is rescued has texts alone."""
    new = read_schema(struct({"At": "timestamp", "N": "long", "Tags": array("string")}))
    texts = ['{"At":"","N":"null","Tags":{"a":"x","b":"y"}}', '{"N":"5","Tags":{"Tag":["x","y"]}}']
    (json_fields, rescued), xml = rows_of(StoredRows(new, struct({})).rows({}, pa.array(texts), [None, None]))
    assert set(json_fields.values()) == {None}
    assert rescued == json.loads(texts[0])
    assert xml == ({"At": None, "N": 5, "Tags": ["x", "y"]}, None)


def test_an_empty_name_in_a_body_that_was_decoded_stops_no_rewrite() -> None:
    rows = parsed(struct({"N": "long"}), '{"N":1,"a":{"":5}}')
    found = StoredRows(read_schema(struct({"N": "long", "a": array("string")})), struct({"N": "long"})).rows(
        {"N": rows.field("fields").field("N")}, rows.field("rescued"), [False]
    )
    assert rows_of(found) == [({"N": 1, "a": ["5"]}, None)]


def test_rows_of_each_kind_keep_their_order() -> None:
    bodies = [f'{{"A":{n}}}' if n % 3 else f'{{"A":"x{n}"}}' for n in range(20)]
    schema = struct({"A": "long"})
    assert refitted(schema, schema, *bodies) == rows_of(parsed(schema, *bodies))


def test_a_member_that_comes_twice_and_a_path_that_leads_nowhere_stay_rescued() -> None:
    old, new = struct({"A": "long"}), struct({"A": "string", "B": "string"})
    ((fields, rescued),) = refitted(old, new, '{"A":1,"A":2,"B":{"x":1,"x":2}}')
    assert (fields["A"], rescued) == ("2", {"A[-2]": 1})
    assert fields["B"] == '{"x":1,"x":2}'
    rows = StoredRows(new, struct({})).rows({}, pa.array(['{"no path]":1,"A[4]":2,"A":3}']), [True])
    assert rows_of(rows) == [({"A": "3", "B": None}, {'["no path]"]': 1, "A[4]": 2})]
    assert refitted(struct({"A": array("long")}), struct({"A": array("long")}), '{"A":[9],"A":[null,null,1]}') == [
        ({"A": [None, None, 1]}, {"A[-2]": [9]})
    ]


DEEP = "[" * 200_000


@pytest.fixture(params=[1_000, 5_000], ids=str)
def recursion_limit(request: pytest.FixtureRequest) -> Iterator[None]:
    """Python's limit, and the one that Airflow sets."""
    usual = sys.getrecursionlimit()
    sys.setrecursionlimit(request.param)
    yield
    sys.setrecursionlimit(usual)


@pytest.mark.parametrize(
    "text",
    [
        *("nonsense", " ", '{"B":5', "[1]", "5", '"x"', "null", '{"B":NaN}', '{"B":5} {}'),
        pytest.param(DEEP, id="brackets"),
        pytest.param(f'{{"B":{DEEP}', id="brackets in a member"),
        pytest.param(f'{{"{"[0]" * 5_000}":1}}', id="a path of many steps"),
        pytest.param(f'{{"B":{"[" * 600}5{"]" * 600}}}', id="many levels"),
        pytest.param(f'{{"{"B." * 254}B":{"[" * 250}5{"]" * 250}}}', id="many levels below many steps"),
    ],
)
@pytest.mark.usefixtures("recursion_limit")
def test_a_broken_text_in_rescued_costs_itself(text: str) -> None:
    """Its row keeps its columns, and what these have no more place for is rescued beside the text."""
    columns = {"A": pa.array([1, 2, 3, 4]), "C": pa.array(["c", "5", None, "d"])}
    rescued = pa.array(['{"B":7}', text, text, None])
    found = StoredRows(struct({"A": "string", "B": "long", "C": "long"}), struct({"A": "long", "C": "string"})).rows(
        columns, rescued, [True] * 4
    )
    assert found.field("fields").to_pylist() == [
        {"A": "1", "B": 7, "C": None},
        {"A": "2", "B": None, "C": 5},
        {"A": "3", "B": None, "C": None},
        {"A": "4", "B": None, "C": None},
    ]
    assert found.field("rescued").to_pylist() == ['{"C":"c"}', text, text, '{"C":"d"}']
    narrow = StoredRows(struct({"A": "string"}), struct({"A": "long", "C": "string"})).rows(
        columns, rescued, [True] * 4
    )
    both = json.loads(narrow.field("rescued")[1].as_py())
    assert both == {"C": "5", "_rescued": text}
    again = StoredRows(struct({"C": "string"}), struct({})).rows({}, narrow.field("rescued")[1:2], [True])
    assert rows_of(again) == [({"C": "5"}, {"_rescued": text})]


def test_a_member_that_a_person_wrote_twice_is_kept_twice() -> None:
    found = StoredRows(struct({"B": "long"}), struct({})).rows({}, pa.array(['{"B":5,"B":6}']), [True])
    assert rows_of(found) == [({"B": 5}, {"B": 6})]


NAMES = st.sampled_from(["A", "a", "Bb", "c.d", "Items", "12", "_x", "É"])
NUMBERS = st.one_of(
    st.integers(-(2**70), 2**70).map(str),
    st.decimals(allow_nan=False, allow_infinity=False, places=4).map(lambda each: format(each, "f")),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
)
TEXTS = st.one_of(
    st.text(max_size=8),
    st.sampled_from(["", " ", "null", "true", "5", "[1]", '{"a":1}', "2030-01-31", "2030-01-31T08:00:00.5+01:00"]),
    st.datetimes().map(lambda each: each.isoformat()),
).map(json.dumps)


def bodies(leaves: Any, least: int) -> Any:
    """JSON objects; ``least`` is the least number of members and of items."""

    def objects(inner: Any) -> Any:
        members = st.dictionaries(NAMES, inner, min_size=least, max_size=4)
        return members.map(lambda each: "{" + ",".join(f"{json.dumps(name)}:{it}" for name, it in each.items()) + "}")

    def lists(inner: Any) -> Any:
        return st.lists(inner, min_size=least, max_size=3).map(lambda each: f"[{','.join(each)}]")

    return objects(st.recursive(leaves, lambda inner: st.one_of(objects(inner), lists(inner)), max_leaves=8))


BODIES = bodies(st.one_of(NUMBERS, TEXTS, st.sampled_from(["true", "false", "null"])), 0)
WITHOUT_NOTHING = bodies(st.one_of(NUMBERS, TEXTS, st.sampled_from(["true", "false"])), 1)
"""Bodies without null, empty objects and empty lists, which are rescued nowhere."""


def schema_of(*bodies: str, content_type: str = JSON) -> Any:
    seen = Statistics()
    for body in bodies:
        seen.add(parse(body.encode(), content_type))
    return read_schema(struct_of(seen))


def leaves(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[tuple[Any, ...], str]]:
    """The leaves of a row, whatever column or text they are in, each as the text of its value."""
    if isinstance(value, str):
        try:
            inside = json.loads(value, parse_float=Decimal, parse_int=Decimal)
        except ValueError:
            inside = value
        if isinstance(inside, (dict, list)):
            return leaves(inside, path)
    if isinstance(value, dict):
        return [found for name, each in value.items() for found in leaves(each, (*path, str(name).lower()))]
    if isinstance(value, list) and value and all(isinstance(each, tuple) for each in value):
        return leaves(dict(value), path)
    if isinstance(value, list):
        return [found for number, each in enumerate(value) for found in leaves(each, (*path, number))]
    return [] if value is None else [(path, canonical(value))]


def canonical(value: Any) -> str:
    if isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, datetime):
        return canonical(value.isoformat())
    if isinstance(value, date):
        return value.isoformat()
    text = repr(value) if isinstance(value, float) else str(value)
    try:
        number = Decimal(text)
        return str(number.normalize()) if number.is_finite() and number else "0" if number == 0 else text
    except InvalidOperation:
        pass
    try:
        when = datetime.fromisoformat(text[:19] if "T" in text else "none")
    except ValueError:
        return text
    # Finer digits than microseconds are cut, and a column of instants keeps no offset.
    zone = text[-6:] if text[-6:-5] in "+-" and len(text) > 19 else "+00:00" if text[-1:] == "Z" else ""
    fraction = (text[20:26] if text[19:20] == "." else "").split("+")[0].split("-")[0].rstrip("Z").rstrip("0")
    if not zone:
        return f"{when.isoformat()}.{fraction}"
    offset = datetime.fromisoformat(f"2000-01-01T00:00:00{zone}").utcoffset()
    assert offset is not None
    return f"{(when - offset).isoformat()}.{fraction}Z"


def account(rows: list[tuple[dict[str, Any], dict[str, Any] | None]]) -> Counter[tuple[tuple[Any, ...], str]]:
    found: Counter[tuple[tuple[Any, ...], str]] = Counter()
    for fields, rescued in rows:
        found.update(leaves(fields))
        for text, value in (rescued or {}).items():
            found.update(
                leaves(value, tuple(str(step).lower() if isinstance(step, str) else step for step in read_path(text)))
            )
    return found


@given(BODIES, st.lists(BODIES, min_size=1, max_size=3), st.lists(BODIES, min_size=1, max_size=3))
def test_no_value_is_lost(body: str, sample: list[str], other: list[str]) -> None:
    old, new = schema_of(*sample, body), schema_of(*other)
    for one, two in ((old, new), (new, old), (new, schema_of(*sample)), (old, struct({}))):
        assert account(refitted(one, two, body)) == account(rows_of(parsed(one, body)))


@given(WITHOUT_NOTHING, st.lists(BODIES, min_size=1, max_size=3))
def test_rescued_values_become_the_row_that_their_body_becomes(body: str, sample: list[str]) -> None:
    new = schema_of(*sample)
    assert refitted(struct({}), new, body) == rows_of(parsed(new, body))


WORDS = st.sampled_from(["5", "7.25", "true", "x", "a b", "2030-01-31", "2030-01-31T08:00:00Z", ""])


def _element(name: str, attributes: dict[str, str], content: str) -> str:
    return f"<{name}{''.join(f' {key}={json.dumps(value)}' for key, value in attributes.items())}>{content}</{name}>"


def elements(content: Any) -> Any:
    attributes = st.dictionaries(st.sampled_from(["Ccy", "id"]), st.sampled_from(["EUR", "9"]), max_size=2)
    return st.builds(_element, st.sampled_from(["A", "B", "Item"]), attributes, content)


MARKUP = st.recursive(elements(WORDS), lambda inner: elements(st.lists(inner, max_size=3).map("".join)), max_leaves=6)
DOCUMENTS = st.lists(MARKUP, min_size=1, max_size=3).map(lambda each: f"<M>{''.join(each)}</M>")


@given(DOCUMENTS, st.lists(DOCUMENTS, min_size=1, max_size=3), st.lists(DOCUMENTS, min_size=1, max_size=3))
def test_no_value_of_xml_is_lost(body: str, sample: list[str], other: list[str]) -> None:
    """The values alone are compared: a list has its items as children, or is repeated."""
    old, new = schema_of(*sample, content_type=XML), schema_of(*other, content_type=XML)
    for one, two in ((old, new), (new, old), (old, struct({})), (struct({}), new)):
        before, after = rows_of(parsed(one, body, content_type=XML)), refitted(one, two, body, content_type=XML)
        assert values(after) == values(before)


def values(rows: list[Any]) -> Counter[str]:
    return Counter(value for _, value in account(rows).elements() if value.strip())
