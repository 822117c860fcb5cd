"""Hints of types: patterns of message types and of paths, for new fields alone."""

from __future__ import annotations

import json
from typing import Any

import pytest

from airflow_sqlqueue.bodies.decoding import parse
from airflow_sqlqueue.bodies.inference import infer, struct_of
from airflow_sqlqueue.bodies.patterns import Hints
from airflow_sqlqueue.bodies.schemas import array, fields_of, map_of, struct
from airflow_sqlqueue.bodies.statistics import Statistics
from airflow_sqlqueue.client.schemas.files import SchemaFolder
from airflow_sqlqueue.errors import ConfigurationError

BODY = {
    "Zip": 1234,
    "Address": {"Zip": 1234, "ZipCode": 7},
    "Lines": [{"Price": 1, "Zip": 1234, "Sub": [{"Price": 2}]}],
    "Stock": {"a": 1, "b": 2},
    "Days": {"2026-01-31": {"Price": 1}},
    "a.b": 1,
    "Tags": [1],
}


def inferred(hints: dict[str, Any], name: str = "Shop.Order", body: Any = BODY) -> dict[str, Any]:
    found = Statistics()
    found.add(parse(json.dumps(body).encode()))
    return fields_of(struct_of(found, name, Hints(hints)))


def at(fields: dict[str, Any], path: str) -> Any:
    kind: Any = struct(fields)
    for name in path.split("."):
        if name == "[]":
            kind = kind["elementType" if kind["type"] == "array" else "valueType"]
        else:
            kind = fields_of(kind)[name]
    return kind


@pytest.mark.parametrize(
    ("hint", "changed"),
    [
        ("Zip", {"Zip"}),
        ("zip", {"Zip"}),
        ("*.Zip", {"Address.Zip", "Lines.[].Zip"}),
        ("**.Zip", {"Zip", "Address.Zip", "Lines.[].Zip"}),
        ("**.Zip*", {"Zip", "Address.Zip", "Address.ZipCode", "Lines.[].Zip"}),
        ("Address.*", {"Address.Zip", "Address.ZipCode"}),
        ("Lines[].Price", {"Lines.[].Price"}),
        ("Lines.Price", {"Lines.[].Price"}),
        ("Lines[].Sub[].Price", {"Lines.[].Sub.[].Price"}),
        ("Lines.**.Price", {"Lines.[].Price", "Lines.[].Sub.[].Price"}),
        ("**.Price", {"Lines.[].Price", "Lines.[].Sub.[].Price", "Days.[].Price"}),
        ("Days[].Price", {"Days.[].Price"}),
        ("Tags[]", {"Tags.[]"}),
        ('["a.b"]', set()),
        ("Price", set()),
        ("Z", set()),
        ("Address.Zi", set()),
    ],
)
def test_patterns_of_paths(hint: str, changed: set[str]) -> None:
    before, after = inferred({}), inferred({"Shop.*": {hint: "decimal(20,4)"}})
    paths = ["Zip", "Address.Zip", "Address.ZipCode", "Lines.[].Price", "Lines.[].Zip", "Lines.[].Sub.[].Price"]
    for path in [*paths, "Days.[].Price", "Tags.[]"]:
        assert at(before, path) == "long"
        assert at(after, path) == ("decimal(20,4)" if path in changed else "long"), path


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("string", "string"),
        ("decimal(28, 6)", "decimal(28,6)"),
        (map_of(array("decimal(10, 2)")), map_of(array("decimal(10,2)"))),
        ("map", map_of("long")),
        ("struct", struct({"a": "long", "b": "long"})),
        (struct({"a": "double"}), struct({"a": "double"})),
        ({"type": "map", "keyType": "string", "valueType": "date"}, map_of("date")),
    ],
)
def test_types_of_hints(text: Any, kind: Any) -> None:
    assert inferred({"*": {"Stock": text}})["Stock"] == kind


def test_a_dictionary_can_be_hinted_to_be_a_struct() -> None:
    assert inferred({"*": {"Days": "struct"}}, body={"Days": {"2026": 1}})["Days"] == struct({"2026": "long"})


def test_the_first_hint_counts_and_others_are_for_other_types() -> None:
    hints = {"Billing.*": {"Zip": "double"}, "!Shop.Cart": {"Zip": "string", "**": "binary"}}
    assert inferred(hints)["Zip"] == "string"
    assert inferred(hints, "Shop.Cart")["Zip"] == "long"
    assert inferred(hints, "Billing.Invoice")["Zip"] == "double"


def test_hints_leave_known_columns_as_they_are() -> None:
    found = Statistics()
    found.add(parse(b'{"Zip":1,"Other":{"Zip":1}}'))
    hints = Hints({"*": {"**.Zip": "string"}})
    assert fields_of(infer(found, "A", struct({"Zip": "long"}), hints)[0]) == {
        "Zip": "long",
        "Other": struct({"Zip": "string"}),
    }


def test_hints_without_a_field_are_named() -> None:
    hints = Hints({"Shop.*": {"**.Zip": "string", "**.Zap": "string"}, "Billing.*": {"**.Zip": "string"}})
    found = Statistics()
    found.add(parse(b'{"a":[{"Zip":1}]}'))
    assert fields_of(struct_of(found, "Shop.Order", hints)) == {"a": array(struct({"Zip": "string"}))}
    assert hints.unmatched() == ["**.Zap", "**.Zip"]


def test_the_values_of_a_dictionary_have_hints() -> None:
    assert inferred({"*": {"Stock": "map", "Stock[]": "decimal(10,2)"}})["Stock"] == map_of("decimal(10,2)")


@pytest.mark.parametrize(
    ("hints", "says"),
    [
        ([], "Hints are a JSON object"),
        ({None: {"a": "string"}}, "Patterns of message types"),
        ({"Shop.*": "string"}, r"'Shop\.\*' are a JSON object"),
        ({"": {"a": "string"}}, "Patterns of message types"),
        ({"*": {"a": "text"}}, "The hint for 'a' .*'text'"),
        ({"*": {"a": "decimal(40,2)"}}, "The hint for 'a'"),
        ({"*": {"a": "map<long,string>"}}, "The hint for 'a'"),
        ({"*": {"a": None}}, "The hint for 'a'"),
        ({"*": {"a": 7}}, "The hint for 'a'"),
        ({"*": {"a..b": "string"}}, r"The path 'a\.\.b' of a hint"),
        ({"*": {"": "string"}}, "The path '' of a hint"),
        ({"*": {"a[0]": "string"}}, "The path"),
    ],
)
def test_hints_that_cannot_be_used_are_refused(hints: Any, says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        Hints(hints)


@pytest.mark.parametrize("hint", ["map", "struct"])
def test_a_list_is_neither_a_dictionary_nor_a_struct(hint: str) -> None:
    found = Statistics()
    found.add(parse(b'{"L": [{"a": 1}], "o": {"a": 1}}'))
    fields = fields_of(struct_of(found, "A", Hints({"*": {"L": hint, "o": hint}})))
    assert fields == {
        "L": array(struct({"a": "long"})),
        "o": map_of("long") if hint == "map" else struct({"a": "long"}),
    }


def test_many_stars_take_no_time() -> None:
    hints = Hints({"*": {f"{'**.a.' * 40}b": "string"}})
    assert hints.type_at("A", ("a",) * 60) is None
    assert hints.type_at("A", (*("a", None) * 50, "b")) == "string"


def test_a_file_of_hints_is_no_schema(tmp_path: Any) -> None:
    folder = SchemaFolder(tmp_path)
    assert not folder.hints().hints
    (tmp_path / "_hints.json").write_text('{"Shop.*": {"**.Zip": "string"}}')
    assert [each.text for each in folder.hints().hints] == ["**.Zip"]
    assert folder.all() == {}
    (tmp_path / "_hints.json").write_text("{")
    with pytest.raises(ConfigurationError, match=r"The file _hints\.json is not JSON"):
        folder.hints()
