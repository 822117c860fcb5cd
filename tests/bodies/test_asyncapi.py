"""Schemas of message types from AsyncAPI documents."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_sqlqueue.bodies.asyncapi import MAX_MESSAGES, message_schemas
from airflow_sqlqueue.bodies.schemas import MAX_FIELDS, fields_of, struct
from airflow_sqlqueue.errors import ConfigurationError

ORDER = {
    "type": "object",
    "properties": {"Number": {"type": "integer"}, "Lines": {"$ref": "#/components/schemas/Lines"}},
}
LINES = {"type": "array", "items": {"type": "object", "properties": {"Article": {"type": "string"}}}}


def schemas(**document: Any) -> tuple[dict[str, Any], dict[str, str]]:
    unusable: dict[str, str] = {}
    found = message_schemas({"asyncapi": "3.0.0", **document}, unusable)
    return {name: fields_of(schema) for name, schema in found.items()}, unusable


def test_messages_of_components_and_their_references() -> None:
    messages = {
        "placed": {"name": "Shop.OrderPlaced", "payload": {"$ref": "#/components/schemas/Order"}},
        "Shop.Alias": {"$ref": "#/components/messages/placed"},
        "Shop.OrderBilled": {"payload": {"schemaFormat": "application/schema+json;version=draft-07", "schema": ORDER}},
    }
    found, unusable = schemas(components={"messages": messages, "schemas": {"Order": ORDER, "Lines": LINES}})
    assert unusable == {}
    assert found.keys() == {"Shop.OrderPlaced", "Shop.OrderBilled"}
    assert found["Shop.OrderPlaced"].keys() == {"Number", "Lines"}
    assert found["Shop.OrderPlaced"]["Number"] == "long"
    assert found["Shop.OrderBilled"]["Lines"]["type"] == "array"


@pytest.mark.parametrize(
    "channel",
    [
        {"messages": {"Shop.Sent": {"payload": ORDER}}},
        {"publish": {"message": {"name": "Shop.Sent", "payload": ORDER}}},
        {"subscribe": {"message": {"oneOf": [{"messageId": "Shop.Sent", "payload": ORDER}]}}},
        {"subscribe": {"message": {"$ref": "#/components/messages/Shop.Sent"}}},
    ],
)
def test_messages_of_channels(channel: dict[str, Any]) -> None:
    messages = {"Shop.Sent": {"payload": ORDER}} if "$ref" in str(channel.get("subscribe")) else {}
    found, unusable = schemas(channels={"c": channel}, components={"schemas": {"Lines": LINES}, "messages": messages})
    assert (found.keys(), unusable) == ({"Shop.Sent"}, {})


@pytest.mark.parametrize(
    ("message", "says"),
    [
        ("text", "no JSON object"),
        ({}, "no payload"),
        ({"payload": "text"}, "no payload"),
        ({"payload": {"type": "string"}}, "The root of a schema"),
        ({"payload": {"schemaFormat": "application/vnd.apache.avro", "schema": {}}}, "'application/vnd.apache.avro'"),
        ({"schemaFormat": 5, "payload": {"type": "object"}}, "in the format '5'"),
        ({"$ref": "#/components/messages/M"}, "refers to itself"),
        ({"$ref": "https://elsewhere/x.json"}, "only references within it"),
        ({"payload": {"$ref": "#/components/schemas/none"}}, "which it does not have"),
        ({"payload": {"$ref": "#/components/schemas/Wide"}}, f"at most {MAX_FIELDS} fields"),
    ],
)
def test_a_message_without_a_schema_leaves_the_others(message: Any, says: str) -> None:
    good = {"payload": {"type": "object", "properties": {"A": {"type": "boolean"}}}}
    wide = {"type": "object", "properties": {f"f{n}": {"type": "string"} for n in range(MAX_FIELDS + 1)}}
    found, unusable = schemas(components={"messages": {"M": message, "Good": good}, "schemas": {"Wide": wide}})
    assert found == {"Good": {"A": "boolean"}}
    assert unusable.keys() == {"M"}
    assert says in unusable["M"]


def test_a_payload_that_refers_to_itself_ends() -> None:
    node = {"type": "object", "properties": {"Next": {"$ref": "#/components/schemas/Node"}}}
    found, _ = schemas(components={"messages": {"M": {"payload": node}}, "schemas": {"Node": node}})
    assert found == {"M": {"Next": {"type": "struct", "fields": [struct({"Next": "string"})["fields"][0]]}}}


@pytest.mark.parametrize("document", [None, [], {}, {"asyncapi": 3}, {"openapi": "3.0"}])
def test_other_texts_are_refused(document: Any) -> None:
    with pytest.raises(ConfigurationError, match="no AsyncAPI document"):
        message_schemas(document, {})


@pytest.mark.parametrize("document", [{"components": 5, "channels": []}, {"components": {"messages": []}}])
def test_parts_of_another_kind_are_no_messages(document: dict[str, Any]) -> None:
    assert schemas(**document) == ({}, {})


def test_the_messages_of_a_document_are_bounded() -> None:
    many = {str(n): {} for n in range(MAX_MESSAGES + 1)}
    with pytest.raises(ConfigurationError, match=r"at most 2,000 messages"):
        schemas(components={"messages": many})
