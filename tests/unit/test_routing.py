"""Resolution of addresses and endpoints: the rules of docs/transport/addresses.md, "Resolution"."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_sqlqueue.errors import AddressError
from airflow_sqlqueue.routing import AddressResolver


@pytest.mark.parametrize(
    ("settings", "text", "qualified"),
    [
        ({}, "T", "[nsb].[dbo].[T]"),
        ({"default_schema": "s0"}, "T", "[nsb].[s0].[T]"),
        ({"default_schema": "s0"}, "T@[s1]", "[nsb].[s1].[T]"),
        ({"queue_schemas": {"T": "sq"}}, "T@[s1]", "[nsb].[sq].[T]"),
        ({"queue_schemas": {"t": "sq"}}, "T", "[nsb].[dbo].[T]"),
        ({"queue_schemas": {"T": "sq"}, "default_schema": "s0"}, "U", "[nsb].[s0].[U]"),
        ({"queue_catalogs": {"T": "cq"}}, "T@[s1]@[c1]", "[cq].[s1].[T]"),
        ({"queue_schemas": {"T": "[my schema]"}, "verbatim_settings": True}, "T", "[nsb].[[my schema]]].[T]"),
        ({"queue_schemas": {"T": "[my schema]"}}, "T", "[nsb].[my schema].[T]"),
        ({"default_schema": "  "}, "T", "[nsb].[dbo].[T]"),
        ({"default_schema": "[s]", "verbatim_settings": True}, "T", "[nsb].[[s]]].[T]"),
        ({"endpoint_schemas": {"E": "se"}}, "E", "[nsb].[dbo].[E]"),
        ({"default_catalog": "dc"}, "T", "[dc].[dbo].[T]"),
        ({"queue_schemas": {"T@[s1]": "sq"}}, "T@[s1]", "[nsb].[s1].[T]"),
    ],
)
def test_physical_addresses(settings: dict[str, Any], text: str, qualified: str) -> None:
    assert AddressResolver(**{"default_catalog": "nsb", **settings}).resolve(text).qualified_name == qualified


@pytest.mark.parametrize(
    ("settings", "qualified"),
    [
        ({"endpoint_schemas": {"E": "[se]"}}, "[nsb].[se].[E]"),
        ({"endpoint_schemas": {"E": "[se]"}, "queue_schemas": {"E": "sq"}}, "[nsb].[sq].[E]"),
        ({"endpoint_catalogs": {"E": "ce"}}, "[ce].[dbo].[E]"),
    ],
)
def test_endpoints(settings: dict[str, Any], qualified: str) -> None:
    assert AddressResolver(default_catalog="nsb", **settings).resolve_endpoint("E").qualified_name == qualified


def test_qualifier_and_discriminator_follow_the_name() -> None:
    resolver = AddressResolver(default_catalog="nsb")
    assert resolver.resolve_endpoint("Sales", "Delayed", "i1").qualified_name == "[nsb].[dbo].[Sales.Delayed.i1]"
    assert resolver.resolve_endpoint("Sales", discriminator="i1").table == "Sales.i1"


def test_a_blank_queue_setting_is_an_error() -> None:
    with pytest.raises(AddressError, match="schema set for the queue 'T' is blank"):
        AddressResolver(default_catalog="nsb", queue_schemas={"T": ""}).resolve("T")


def test_no_catalog_is_an_error() -> None:
    with pytest.raises(AddressError, match="No database is known"):
        AddressResolver().resolve("T")
