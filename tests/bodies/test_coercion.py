"""Constructs of .NET and XML against columns: what is in the column, and what is rescued by which path."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest

from airflow_sqlqueue.bodies.coercion import Coercion, placed
from airflow_sqlqueue.bodies.decoding import parse
from airflow_sqlqueue.bodies.schemas import read_schema, struct


def array(kind: Any) -> Any:
    return {"type": "array", "elementType": kind, "containsNull": True}


def fitted(kind: Any, body: str) -> tuple[Any, Any]:
    """The value of the column ``A``, and the rescued values."""
    fitting = Coercion()
    found = fitting.struct(parse(body.encode()), read_schema(struct({"A": kind})))
    return found.get("A"), json.loads(fitting.rescued_text() or "{}")


NIL = 'xmlns:i="http://www.w3.org/2001/XMLSchema-instance" i:nil="true"'
LINES = array(struct({"Sku": "string", "Qty": "long"}))
MONEY = struct({"@Ccy": "string", "#text": "decimal(10,2)"})
MAP = {"type": "map", "keyType": "string", "valueType": "long", "valueContainsNull": True}


def line(sku: str | None = None, qty: int | None = None) -> dict[str, Any]:
    return {name: value for name, value in (("Sku", sku), ("Qty", qty)) if value is not None}


@pytest.mark.parametrize(
    ("kind", "inner", "value", "rescued"),
    [
        # Lists.
        (LINES, "<A><Line><Sku>a</Sku></Line><Line><Qty>2</Qty></Line></A>", [line("a"), line(None, 2)], {}),
        (LINES, "<A><Line><Sku>a</Sku></Line></A>", [line("a")], {}),
        (LINES, "<A><Sku>a</Sku><Qty>2</Qty></A>", [line("a", 2)], {}),
        (LINES, "<A><Sku>a</Sku></A><A><Sku>b</Sku></A>", [line("a"), line("b")], {}),
        (LINES, "<A><sku>a</sku><New>n</New></A>", [line("a")], {"A[0].New": "n"}),
        (LINES, "<A><Line><Sku>a</Sku></Line></A><A><Line><Sku>b</Sku></Line></A>", [line("a"), line("b")], {}),
        (LINES, '<A c="1"><Line><Sku>a</Sku></Line>t</A>', [line("a")], {"A.@c": "1", "A.#text": "t"}),
        (LINES, "<A>\n</A>", [], {}),
        (LINES, f"<A {NIL}/>", None, {}),
        (LINES, "<A>null</A>", None, {}),
        (LINES, "<A>text</A>", None, {"A": "text"}),
        (array("string"), "<A>x</A>", ["x"], {}),
        (array("string"), "<A>null</A>", ["null"], {}),
        (array("string"), "<A><s>x</s><s/></A>", ["x", ""], {}),
        (array("long"), f"<A><i>1</i><i {NIL}/><i>x</i></A>", [1, None, None], {"A[2]": "x"}),
        (array(array("long")), "<A><Row><i>1</i></Row><Row><i>2</i></Row></A>", [[1], [2]], {}),
        # Attributes and texts.
        ("decimal(10,2)", '<A Ccy="EUR">1.50</A>', Decimal("1.50"), {"A.@Ccy": "EUR"}),
        ("decimal(10,2)", '<A Ccy="EUR">?</A>', None, {"A": {"@Ccy": "EUR", "#text": "?"}}),
        ("string", '<A Ccy="EUR">t</A>', "t", {"A.@Ccy": "EUR"}),
        ("string", f'<A {NIL} Ccy="EUR"/>', None, {"A.@Ccy": "EUR"}),
        ("long", "<A>1<B>2</B></A>", None, {"A": {"B": "2", "#text": "1"}}),
        (MONEY, '<A Ccy="EUR">1.50</A>', {"@Ccy": "EUR", "#text": Decimal("1.50")}, {}),
        (MONEY, "<A>1.50</A>", {"#text": Decimal("1.50")}, {}),
        (MONEY, f'<A {NIL} Id="1"/>', None, {"A.@Id": "1"}),
        (struct({"x": "long"}), "<A>t</A>", None, {"A": "t"}),
        (struct({"x": "long"}), "<A>null</A>", None, {}),
        # Repeats.
        ("string", "<A>x</A><A>y</A><A/><A>z</A>", "x", {"A[1]": "y", "A[3]": "z"}),
        (struct({"x": "long"}), "<A><x>1</x></A><A><x>2</x></A>", {"x": 1}, {"A[1]": {"x": "2"}}),
        ("string", "<A>x</A><B>1</B><B>2</B>", "x", {"B": ["1", "2"]}),
        # Nothing.
        ("long", "<A/>", None, {}),
        ("long", "<A> \n</A>", None, {}),
        ("long", "<A>null</A>", None, {}),
        ("string", "<A>null</A>", "null", {}),
        ("string", "<A/>", "", {}),
        ("long", "<A>\u00a0</A>", None, {"A": "\u00a0"}),
        # Maps.
        (MAP, '<A d="3"><b>1</b><c>x</c><b>2</b></A>', [("@d", 3), ("b", 1), ("c", None)], {"A.b[1]": "2", "A.c": "x"}),
        # The message itself.
        ("string", "t<A>x</A>", "x", {"#text": "t"}),
    ],
)
def test_xml_in_columns(kind: Any, inner: str, value: Any, rescued: Any) -> None:
    assert fitted(kind, f"<Message>{inner}</Message>") == (value, rescued)


@pytest.mark.parametrize(
    ("kind", "body", "value", "rescued"),
    [
        ("long", '{"A":1,"A":2,"A":3}', 3, {"A[-2]": 2, "A[-3]": 1}),
        ("long", '{"A":1,"A":"x"}', None, {"A": "x", "A[-2]": 1}),
        (array("long"), '{"A":["x"],"A":["y"]}', [None], {"A[0]": "y", "A[-2]": ["x"]}),
        (struct({"x": "long"}), '{"A":{"x":1,"x":2}}', {"x": 2}, {"A.x[-2]": 1}),
        (MAP, '{"A":{"k":1,"k":2,"":3}}', [("k", 2), ("", 3)], {"A.k[-2]": 1}),
        ("long", '{"a":1}', 1, {}),
        ("long", '{"a":1,"A":null}', None, {"a": 1}),
        (struct({"Id": "long"}), '{"A":{"id":1,"ID":2}}', {}, {"A.id": 1, "A.ID": 2}),
        ("string", '{"A":"\\ud800","\\ud800":1}', None, {"A": "\ud800", "\ud800": 1}),
        ("long", '{"A":1,"A.b":2,"x":{"A":[]}}', 1, {'["A.b"]': 2, "x": {"A": []}}),
        ("string", '{"A":{"b":1.10,"b":2}}', '{"b":1.10,"b":2}', {}),
    ],
)
def test_json_in_columns(kind: Any, body: str, value: Any, rescued: Any) -> None:
    assert fitted(kind, body) == (value, rescued)


def test_many_repeats_are_rescued_in_linear_time() -> None:
    fitting = Coercion()
    fitting.struct(parse(b"<M>" + b"<A>1</A>" * 200_000 + b"</M>"), read_schema(struct({"A": "long"})))
    assert len(json.loads(fitting.rescued_text() or "")) == 199_999


@pytest.mark.parametrize(
    ("node", "path"), [(None, (0,)), ([], (None,)), ([1], (2,)), ([1], (-1,)), (1, ()), (1, ("a",))]
)
def test_a_value_has_no_place_where_something_else_is(node: Any, path: Any) -> None:
    with pytest.raises(LookupError):
        placed(node, path, 7)
