"""Schemas: their forms, their inference from messages, their changes, and their files."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_sqlqueue.bodies.decoding import parse
from airflow_sqlqueue.bodies.extension import differences, extended, extended_by, takes
from airflow_sqlqueue.bodies.inference import struct_of
from airflow_sqlqueue.bodies.schemas import (
    MAX_FIELDS,
    fields_of,
    map_of,
    read_schema,
    spark_schema,
    struct,
    write_schema,
)
from airflow_sqlqueue.bodies.statistics import Statistics
from airflow_sqlqueue.client.schemas.files import SchemaFolder, file_stem
from airflow_sqlqueue.client.schemas.sampling import Sample
from airflow_sqlqueue.errors import ConfigurationError, StagingError
from airflow_sqlqueue.messages.message import ReceivedMessage, encode_headers

EMPTY: Any = {"type": "struct", "fields": []}


def array(kind: Any) -> Any:
    return {"type": "array", "elementType": kind, "containsNull": True}


def inferred(*bodies: str, content_type: str | None = None) -> dict[str, Any]:
    seen = Statistics()
    for body in bodies:
        seen.add(parse(body.encode(), content_type))
    return fields_of(read_schema(struct_of(seen)))


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["1", "2"], "long"),
        (["1", "9223372036854775808"], "decimal(38,0)"),
        (["1", "1.50"], "decimal(38,9)"),
        (["1", "1.50", "0.1234567891"], "decimal(38,10)"),
        (["1234567890123456789012345678901", "1.50"], "decimal(38,2)"),
        (["123456789012345678901234567890", "0.123456789"], "string"),
        (["1", "1E+16"], "double"),
        (["1.5", '"x"'], "string"),
        (["true", "null"], "boolean"),
        (["null"], None),
        (["[]"], None),
        (["{}"], None),
        (["[1]", "[2.5]"], array("decimal(38,9)")),
        (['[{"a":1}]', "[null]"], array(struct({"a": "long"}))),
        (['{"a":1}', '{"b":"x"}'], struct({"a": "long", "b": "string"})),
        (['{"a":1}', "5"], "string"),
        (['"2024-01-01"'], "date"),
        (['"2024-01-01T10:00:00Z"', '"2024-01-01T10:00:00.1234567+02:00"'], "timestamp"),
        (['"2024-01-01T10:00:00"'], "timestamp_ntz"),
        (['"2024-01-01T10:00:00Z"', '"2024-01-01T10:00:00"'], "string"),
        (['"2024-01-01"', '"soon"'], "string"),
        (['"0f8fad5b-d9cb-469f-a165-70867728950e"'], "string"),
    ],
)
def test_inferred_types(values: list[str], kind: Any) -> None:
    assert inferred(*(f'{{"v":{value}}}' for value in values)).get("v") == kind
    if "{" not in values[0]:
        assert inferred(*(f'{{"v":{value}}}' for value in reversed(values))).get("v") == kind


def test_names_that_no_column_can_have_get_none() -> None:
    names = ("", "a b", "a,b", "a;b", "a{b", "a(b", "a\nb", "a\tb", "a=b", "a.b", "a`b", "x" * 129)
    assert inferred(json.dumps(dict.fromkeys(names, 1))) == {}
    assert inferred('{"Id":1,"ID":2}', '{"ID":3}') == {"ID": "long"}, "the one that more messages have"


def test_xml() -> None:
    one = "<A><N>5</N><P>1.5</P><B>true</B><T>x</T><E/><S><C>1</C></S><L><I><K>1</K></I><I><K>2</K></I></L></A>"
    assert inferred(one, content_type="text/xml") == {
        "N": "long",
        "P": "decimal(38,9)",
        "B": "boolean",
        "T": "string",
        "S": struct({"C": "long"}),
        "L": array(struct({"K": "long"})),
    }


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abcd"), inner, max_size=3),
    max_leaves=6,
)
bodies = st.dictionaries(st.sampled_from("abcd"), values, max_size=4).map(json.dumps)


@given(st.lists(bodies, min_size=1, max_size=6), st.randoms(use_true_random=False))
def test_the_order_of_messages_changes_no_type(sample: list[str], random: Any) -> None:
    shuffled = list(sample)
    random.shuffle(shuffled)
    assert sorted(map(repr, _plain(inferred(*sample)))) == sorted(map(repr, _plain(inferred(*shuffled))))


def _plain(fields: dict[str, Any]) -> Any:
    """Fields without their order."""
    return [
        (name, _plain(fields_of(kind)) if isinstance(kind, dict) and kind["type"] == "struct" else str(kind).count("{"))
        for name, kind in sorted(fields.items())
    ]


@pytest.mark.parametrize(
    ("known", "found", "taken"),
    [
        ("string", "long", True),
        ("string", struct({"a": "long"}), True),
        ("decimal(38,4)", "decimal(38,2)", True),
        ("decimal(38,2)", "decimal(38,4)", False),
        ("decimal(10,2)", "decimal(38,2)", False),
        ("decimal(38,2)", "long", True),
        ("decimal(10,0)", "long", False),
        ("double", "decimal(38,2)", True),
        ("long", "decimal(38,2)", False),
        ("timestamp", "string", False),
        (array("long"), "long", False),
    ],
)
def test_types_that_take_others(known: Any, found: Any, taken: bool) -> None:
    assert takes(known, found) is taken


def test_differences_and_extensions() -> None:
    known = read_schema(struct({"a": "long", "s": struct({"x": "long"}), "l": array(struct({"p": "date"}))}))
    found = read_schema(
        struct({"a": "string", "s": struct({"y": "long"}), "l": array(struct({"p": "date", "q": "long"})), "n": "long"})
    )
    changed = {(each.path, each.schema is None) for each in differences(known, found)}
    assert changed == {("a", False), ("s.y", True), ("l[].q", True), ("n", True)}
    assert fields_of(extended(known, found)) == {
        "a": "long",
        "s": struct({"x": "long", "y": "long"}),
        "l": array(struct({"p": "date", "q": "long"})),
        "n": "long",
    }
    assert not list(differences(extended(known, found), read_schema(struct({"n": "long"}))))


def test_new_fields_of_values_are_added_to_a_dictionary_that_looks_like_a_struct() -> None:
    known = read_schema(struct({"Stock": map_of(struct({"n": "long"})), "Names": map_of("string")}))
    value = struct({"n": "string", "at": "date"})
    found = read_schema(struct({"Stock": struct({"pen": value, "ink": struct({"by": "long"})}), "Names": value}))
    assert [each.path for each in differences(known, found) if each.schema is None] == ["Stock[].at", "Stock[].by"]
    wider, new, _ = extended_by(known, found)
    assert fields_of(wider) == {
        "Stock": map_of(struct({"n": "long", "at": "date", "by": "long"})),
        "Names": map_of("string"),
    }
    assert sorted(new) == ["Stock[].at", "Stock[].by"]
    assert [each.path for each in differences(wider, found)] == ["Stock[].n"]


def test_a_json_schema_is_accepted() -> None:
    document = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {
            "Id": {"type": "string", "format": "uuid"},
            "Total": {"type": "number"},
            "Count": {"type": ["integer", "null"]},
            "At": {"type": "string", "format": "date-time"},
            "Any": {"type": ["string", "integer"]},
            "Lines": {"type": "array", "items": {"$ref": "#/$defs/line"}},
        },
        "$defs": {"line": {"type": "object", "properties": {"Sku": {"type": "string"}}}},
    }
    assert fields_of(read_schema(document)) == {
        "Id": "string",
        "Total": "decimal(38,9)",
        "Count": "long",
        "At": "timestamp",
        "Any": "string",
        "Lines": array(struct({"Sku": "string"})),
    }


ADDRESS = {"type": "object", "properties": {"Zip": {"type": "string"}}}
JSON_SCHEMAS: dict[str, tuple[dict[str, Any], Any]] = {
    "or null": ({"oneOf": [{"type": "null"}, {"$ref": "#/definitions/Address"}]}, struct({"Zip": "string"})),
    "any or null": ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "long"),
    "all of one": ({"allOf": [{"$ref": "#/definitions/Address"}], "description": "x"}, struct({"Zip": "string"})),
    "one of two": ({"oneOf": [{"type": "integer"}, {"type": "boolean"}]}, "string"),
    "all of two": ({"allOf": [ADDRESS, ADDRESS]}, "string"),
    "odd choices": ({"oneOf": 7, "anyOf": [7]}, "string"),
    "constant": ({"const": 5}, "string"),
    "values": ({"enum": ["a", 1, None]}, "string"),
    "no types": ({"type": []}, "string"),
    "null": ({"type": "null"}, "string"),
    "odd type": ({"type": {"a": 1}, "format": ["x"]}, "string"),
    "true": (True, "string"),  # type: ignore[dict-item]
    "items of several": ({"type": "array", "items": [{"type": "integer"}]}, array("string")),
    "a generic type": ({"$ref": "#/definitions/Of%601%5BA~1B%5D"}, struct({"Zip": "string"})),
    "a name as it is": ({"$ref": "#/definitions/%41%"}, struct({"Zip": "string"})),
    "its parent": ({"$ref": "#"}, struct({"a": "string"})),
    "no properties": ({"type": "object", "properties": {}}, "string"),
    "items without properties": ({"type": "array", "items": {"properties": {}}}, array("string")),
    "values without properties": ({"type": "object", "additionalProperties": {"properties": {}}}, map_of("string")),
}


@pytest.mark.parametrize(("node", "kind"), JSON_SCHEMAS.values(), ids=JSON_SCHEMAS)
def test_nodes_of_json_schemas(node: Any, kind: Any) -> None:
    definitions = dict.fromkeys(("Address", "Of`1[A/B]", "%41%"), ADDRESS)
    assert fields_of(read_schema({"properties": {"a": node}, "definitions": definitions})) == {"a": kind}


def test_a_json_schema_whose_root_is_a_reference() -> None:
    schema = {"$ref": "#/definitions/Address", "definitions": {"Address": ADDRESS}}
    assert read_schema(schema) == struct({"Zip": "string"})
    with pytest.raises(ConfigurationError, match="The root of a schema"):
        read_schema({"$ref": "#"})


def test_references_that_lead_to_many_fields_are_refused_at_once() -> None:
    levels = {f"L{n}": {"properties": {f"p{i}": {"$ref": f"#/$defs/L{n + 1}"} for i in range(9)}} for n in range(14)}
    levels["L14"] = {"type": "string"}
    with pytest.raises(ConfigurationError, match="at most 2000 fields"):
        read_schema({"$ref": "#/$defs/L0", "$defs": levels})


def test_metadata_of_a_person_are_kept_and_spark_gets_the_comment() -> None:
    mine = {"comment": "Id", "__CHAR_VARCHAR_TYPE_STRING": "varchar(3)", "half": "\ud800", "owner": ["me", None]}
    inner = {"type": "struct", "fields": [{"name": "b", "type": "long", "metadata": {"comment": 7}}]}
    given = {"type": "struct", "fields": [{"name": "a", "type": inner, "metadata": mine}]}
    schema = read_schema(given)
    assert read_schema(json.loads(write_schema(schema).encode())) == schema
    assert schema["fields"][0]["metadata"] == mine
    (field,) = spark_schema(schema)["fields"]
    assert field["metadata"] == {"comment": "Id"}
    assert field["type"]["fields"][0]["metadata"] == {}


def test_the_description_of_a_field_is_the_comment_of_its_column() -> None:
    described = {"type": "object", "properties": {"Sku": {"type": "string", "description": "Number of the article."}}}
    properties = {
        "Id": {"type": "string", "format": "uuid", "description": "Id of the “order”."},
        "Lines": {"type": "array", "items": described},
        "Odd": {"type": "string", "description": 7},
        "Half": {"type": "string", "description": "\ud800"},
    }
    schema = read_schema({"properties": properties})
    metadata = {each["name"]: each["metadata"] for each in schema["fields"]}
    assert metadata == {
        "Id": {"comment": "Id of the “order”."}, "Lines": {}, "Odd": {}, "Half": {},
    }  # fmt: skip
    (sku,) = fields_of(schema)["Lines"]["elementType"]["fields"]  # type: ignore[index]
    assert sku["metadata"] == {"comment": "Number of the article."}
    assert read_schema(json.loads(write_schema(schema))) == schema


def test_a_file_has_a_line_for_each_field() -> None:
    inner = array(struct({"Sku": "string", "Tags": array("string")}))
    schema = {"message_type": "Shop.Ä", **struct({"Id": "string", "Lines": inner}, {"Id": {"comment": "A\nB"}})}
    text = write_schema(schema)
    assert json.loads(text) == schema
    assert text == write_schema(json.loads(text))
    assert "Shop.Ä" in text
    assert [line.strip()[:15] for line in text.splitlines()] == [
        '{"message_type"', '{"name": "Id", ', '{"name": "Lines', '{"name": "Sku",', '{"name": "Tags"',
        ']}, "containsNu', ']}',
    ]  # fmt: skip
    wider = {**schema, "fields": [*schema["fields"], struct({"Coupon": "string"})["fields"][0]]}
    before, after = text.splitlines(), write_schema(wider).splitlines()
    assert len(set(after) - set(before)) == 2  # the new line, and the comma of the one before it


@pytest.mark.parametrize(
    ("schema", "says"),
    [
        ([], "JSON object"),
        ({"type": "array"}, "root of a schema"),
        (struct({"a": "text"}), "'text' of the field a"),
        (struct({"a": "decimal(39,2)"}), "decimal"),
        (struct({"a b": "long"}), "'a b'"),
        (struct({"Id": "long", "ID": "long"}), "as engines compare names"),
        (struct({"a": {"type": "map", "keyType": "long"}}), "keyType is string"),
        (struct({"a": {"type": "set"}}), "an array or a map"),
        (struct({"a": struct({"b": array(EMPTY)})}), r"a\.b\[\] has none: make it a string"),
        (struct({f"f{number}": "long" for number in range(MAX_FIELDS + 1)}), "at most 2000 fields"),
        ({"properties": {"a": {"$ref": "#/$defs/none"}}}, "does not have"),
        ({"properties": {"a": {"$ref": "#anchor"}}}, "does not have"),
        ({"properties": {"a": {"$ref": "https://example.com/x"}}}, "only references within it"),
    ],
)
def test_unusable_schemas_are_refused(schema: Any, says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        read_schema(schema)


def test_a_schema_that_refers_to_itself_ends() -> None:
    assert fields_of(read_schema({"properties": {"a": {"$ref": "#/properties/a"}}})) == {"a": "string"}
    node = {
        "type": "object",
        "properties": {name: {"$ref": "#/$defs/n"} for name in "abc"} | {"x": {"type": "integer"}},
    }
    found = fields_of(read_schema({"properties": {"tree": {"$ref": "#/$defs/n"}}, "$defs": {"n": node}}))
    assert found == {"tree": struct({"a": "string", "b": "string", "c": "string", "x": "long"})}


names = st.text(min_size=1, max_size=300).filter(lambda name: name.isprintable())


@given(st.lists(names, min_size=2, max_size=5, unique=True))
def test_each_type_has_a_file_of_its_own(types: list[str]) -> None:
    stems = {file_stem(name) for name in types}
    assert len(stems) == len(types)
    assert all(len(stem) <= 130 and stem.isascii() and "/" not in stem and stem[0] not in "._" for stem in stems)


def test_a_folder_of_schemas(tmp_path: Path) -> None:
    folder = SchemaFolder(tmp_path / "schemas")
    assert (folder.all(), folder.get("Shop.PlaceOrder")) == ({}, None)
    generic = "Shop.Wrapped`1[[Shop.PlaceOrder, Shop]]"
    folder.put("Shop.PlaceOrder", struct({"a": "long"}))
    folder.put(generic, struct({"b": "string"}))
    assert folder.all() == {"Shop.PlaceOrder": struct({"a": "long"}), generic: struct({"b": "string"})}
    by_hand = tmp_path / "schemas" / "Shop.CancelOrder.json"
    by_hand.write_text(json.dumps({"properties": {"c": {"type": "integer"}}}))
    assert fields_of(folder.all()["Shop.CancelOrder"]) == {"c": "long"}
    by_hand.write_text("{")
    with pytest.raises(ConfigurationError, match=r"Shop\.CancelOrder\.json is not JSON"):
        folder.get("Shop.CancelOrder")


@pytest.mark.parametrize("named", ["Shop.Cancel", "shop.order", "", "\ud800", 7, None])
def test_a_schema_that_names_the_type_of_another_file_is_refused(named: Any, tmp_path: Path) -> None:
    folder = SchemaFolder(tmp_path)
    folder.put("Shop.Cancel", struct({"a": "long"}))
    (tmp_path / "Shop.Order.json").write_text(json.dumps({"message_type": named, **struct({"b": "string"})}))
    with pytest.raises(ConfigurationError, match=r"Shop\.Order\.json cannot be used: .*\."):
        folder.get("Shop.Order")
    unusable: dict[str, str] = {}
    assert folder.all(unusable) == {"Shop.Cancel": struct({"a": "long"})}
    assert unusable.keys() == {"Shop.Order"}


def test_a_file_whose_name_is_not_that_of_its_type_is_refused(tmp_path: Path) -> None:
    (tmp_path / "Shop.Wrapped`1.json").write_text(json.dumps(struct({"b": "string"})))
    says = r"its type is 'Shop\.Wrapped`1', whose file has another name, Shop\.Wrapped!601\.json: rename one"
    with pytest.raises(ConfigurationError, match=says):
        SchemaFolder(tmp_path).all()
    unusable: dict[str, str] = {}
    assert SchemaFolder(tmp_path).all(unusable) == {}
    assert unusable.keys() == {file_stem("Shop.Wrapped`1")}, "its messages wait for the file"


def message(number: int, name: str | None, body: bytes) -> ReceivedMessage:
    headers = {} if name is None else {"NServiceBus.EnclosedMessageTypes": f"{name}, Shop; Shop.IEvent, Shop"}
    return ReceivedMessage(UUID(int=number), number, encode_headers(headers), body, datetime.now(timezone.utc), False)


def test_a_sample_has_the_first_messages_of_each_type() -> None:
    sent = [message(n, "A" if n % 2 else "B", b'{"n":%d}' % n) for n in range(1, 11)]
    sent += [message(11, None, b"{}"), message(12, "A", b"nonsense")]
    sample = Sample.of(sent, per_type=3)
    assert {name: (each.messages, each.first, each.last) for name, each in sample.types.items()} == {
        "A": (3, 1, 5),
        "B": (3, 2, 6),
    }
    assert sample.others == 1
    assert Sample.of(sent[-1:]).types["A"].unparsed == 1
    assert [fields_of(struct_of(sample.types[name].statistics)) for name in "AB"] == [{"n": "long"}] * 2


def test_a_folder_of_schemas_that_cannot_be_used_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(StagingError, match=r"The schemas in .* cannot be listed"):
        SchemaFolder(tmp_path / ("x" * 300)).all()
    (tmp_path / "a file").write_text("")
    with pytest.raises(StagingError, match=r"The schema of Shop\.PlaceOrder cannot be written"):
        SchemaFolder(tmp_path / "a file").put("Shop.PlaceOrder", struct({"a": "long"}))
    folder = SchemaFolder(tmp_path)
    (tmp_path / "Shop.PlaceOrder.json").symlink_to("Shop.PlaceOrder.json")
    with pytest.raises(StagingError, match=r"The schema Shop\.PlaceOrder\.json cannot be read"):
        folder.get("Shop.PlaceOrder")
    (tmp_path / "Shop.CancelOrder.json").write_text('{"type": "struct", "fields": 7}')
    with pytest.raises(ConfigurationError, match=r"The schema Shop\.CancelOrder\.json cannot be used"):
        folder.get("Shop.CancelOrder")


def test_a_folder_that_is_called_as_a_file_costs_its_own_type(tmp_path: Path) -> None:
    folder, kept = SchemaFolder(tmp_path), struct({"a": "long"})
    folder.put("Shop.PlaceOrder", kept)
    (tmp_path / "Shop.Folder.json" / "more").mkdir(parents=True)
    (tmp_path / "Shop.Link.json").symlink_to(tmp_path / "Shop.Folder.json")
    (tmp_path / "Shop.LinkedFile.json").symlink_to(tmp_path / "Shop.Real.json")
    (tmp_path / "Shop.Real.json").write_text(json.dumps(kept))
    unusable: dict[str, str] = {}
    assert folder.all(unusable) == dict.fromkeys(("Shop.LinkedFile", "Shop.PlaceOrder", "Shop.Real"), kept)
    assert unusable == {
        stem: f"The schema {stem}.json is a folder: rename or remove it." for stem in ("Shop.Folder", "Shop.Link")
    }
    for call in (folder.all, partial(folder.get, "Shop.Folder"), partial(folder.extend, "Shop.Link", kept)):
        with pytest.raises(ConfigurationError, match="is a folder: rename or remove it"):
            call()
    (tmp_path / "_hints.json").mkdir()
    with pytest.raises(ConfigurationError, match=r"The file _hints\.json is a folder"):
        folder.hints()


@pytest.mark.parametrize("name", ["", "half \ud800"])
def test_a_name_that_no_type_has_makes_no_file(name: str) -> None:
    with pytest.raises(ConfigurationError, match="is no name of a message type"):
        file_stem(name)


def test_types_that_a_person_chose_are_no_difference_while_all_values_fit_them() -> None:
    chosen = {"Total": "decimal(10,2)", "Quantity": "integer", "Data": "binary", "Price": "decimal(10,2)"}
    schema = read_schema(struct({**chosen, "Stock": map_of("byte"), "Lines": array(struct({"Sku": "binary"}))}))
    fits = {"Total": 9.5, "Quantity": 7, "Data": "AQID", "Price": "1.5", "Stock": {"pen": 1, "ink": 2}, "Lines": []}
    fits["Lines"] = [{"Sku": "AQ=="}]
    odd = {"Total": 9.555, "Stock": {"pen": 1_000, "ink": 2_000}, "Lines": [{"Sku": "a"}, {"Sku": "b"}]}
    found = []
    for bodies in ([fits], [fits, odd]):
        sent = [message(number, "A", json.dumps(body).encode()) for number, body in enumerate(bodies, 1)]
        sample = Sample.of(sent, schemas={"A": schema}).types["A"]
        found.append([(each.path, each.misfits) for each in sample.changes(struct_of(sample.statistics))])
    assert found == [[], [("Total", 1), ("Stock[]", 1), ("Lines[].Sku", 1)]]
