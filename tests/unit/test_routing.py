"""Resolution of addresses and endpoints: the rules of docs/transport/addresses.md, "Resolution"."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_sqlqueue.errors import AddressError
from airflow_sqlqueue.messages.address import QueueAddress
from airflow_sqlqueue.messages.routing import AddressResolver


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


@pytest.mark.parametrize(
    ("settings", "address"),
    [
        ({}, "Sales@[dbo]@[nsb]"),
        ({"endpoint_schemas": {"Sales": "se"}, "endpoint_catalogs": {"Sales": "ce"}}, "Sales@[se]@[ce]"),
        ({"endpoint_schemas": {"Sales": "se"}, "queue_schemas": {"Sales": "sq"}}, "Sales@[sq]@[nsb]"),
        ({"endpoint_schemas": {"Sales": "se"}, "transport_version": "3.0"}, "Sales@[se]"),
        ({"endpoint_schemas": {"Sales": "se"}, "transport_version": "2"}, "Sales"),
        ({"endpoint_catalogs": {"Sales": "ce"}, "transport_version": "3.0"}, "Sales@[dbo]"),
        ({"endpoint_catalogs": {"Sales": "ce"}, "transport_version": "2"}, "Sales"),
    ],
)
def test_the_address_of_an_endpoint_means_its_queue(settings: dict[str, Any], address: str) -> None:
    resolver = AddressResolver(default_catalog="nsb", **settings)
    assert resolver.address_of(None, "Sales") == address
    assert resolver.resolve(address) == resolver.resolve_endpoint("Sales")
    assert resolver.address_of("Sales@[x]", None) == "Sales@[x]"


@pytest.mark.parametrize("named", [(None, None), ("audit", "Sales")])
def test_a_queue_is_named_in_one_way(named: tuple[str | None, str | None]) -> None:
    with pytest.raises(AddressError, match="give queue_name or endpoint"):
        AddressResolver(default_catalog="nsb").address_of(*named)


@pytest.mark.parametrize(
    ("version", "text", "qualified"),
    [
        ("1", "T@[x]@[y]", "[nsb].[s].[T]"),
        ("2", "T@MACHINE", "[nsb].[s].[T]"),
        ("2", "U@MACHINE", "[nsb].[dbo].[U]"),
        ("2", "T.Delayed", "[nsb].[s].[T.Delayed]"),
        ("2", "C.Delayed@MACHINE", "[c].[dbo].[C.Delayed]"),
        ("3.0", "T@[x]@[y]", "[nsb].[x].[T]"),
        ("3.0", "T", "[nsb].[dbo].[T]"),
        ("3.0", "C.Delayed@[x]", "[c].[x].[C.Delayed]"),
    ],
)
def test_addresses_of_old_versions(version: str, text: str, qualified: str) -> None:
    """Versions 1 and 2 read a schema from the endpoint's setting alone, and no other part of an address."""
    resolver = AddressResolver(
        None, "nsb", endpoint_schemas={"T": "[s]"}, endpoint_catalogs={"C": "[c]"}, transport_version=version
    )
    assert resolver.resolve(text).qualified_name == qualified


@pytest.mark.parametrize("suffix", ["", " ", "Delayed@dbo"])
def test_a_suffix_that_no_delayed_table_has_is_refused(suffix: str) -> None:
    with pytest.raises(AddressError, match="is blank or has an '@'"):
        AddressResolver(delayed_suffix=suffix)


@pytest.mark.parametrize("setting", ["allowed_catalogs", "allowed_schemas"])
def test_allowed_names_are_a_list(setting: str) -> None:
    with pytest.raises(AddressError, match=f"{setting} is a list of names, not one text"):
        AddressResolver(**{setting: "dbo"})
    resolver = AddressResolver(default_catalog="dbo", **{setting: iter(["dbo"])})
    table = resolver.resolve("T")
    assert [resolver.allows(table) for _ in range(2)] == [True, True], "a generator serves more than once"


def test_a_version_without_addresses_of_its_own_is_refused() -> None:
    with pytest.raises(AddressError, match="There is no transport_version '4'"):
        AddressResolver(transport_version="4")


def test_no_table_has_an_at_sign() -> None:
    """In an address it would be read back as another queue."""
    with pytest.raises(AddressError, match="holds an '@'"):
        QueueAddress("a@b")
    with pytest.raises(AddressError, match="has an '@' in its name"):
        AddressResolver(default_catalog="nsb").resolve_endpoint("a@b")


def test_a_queue_of_one_instance_has_the_settings_of_its_endpoint() -> None:
    routed = AddressResolver(default_catalog="nsb", endpoint_schemas={"Sales": "shop"})
    assert routed.address_of(None, "Sales", "WEB01") == "Sales.WEB01@[shop]@[nsb]"
    assert routed.address_of(None, "Sales") == "Sales@[shop]@[nsb]"


@pytest.mark.parametrize(
    ("version", "settings"),
    [("2", {"endpoint_schemas": {"Sales": "se"}}), ("3.0", {"endpoint_catalogs": {"Sales": "ce"}})],
)
def test_an_instance_that_an_old_address_would_place_elsewhere_is_refused(version: str, settings: Any) -> None:
    """Or its messages would go to a queue of the default schema and database."""
    resolver = AddressResolver(default_catalog="nsb", transport_version=version, **settings)
    with pytest.raises(AddressError, match=r"cannot say that 'Sales\.WEB01' is an instance of 'Sales'"):
        resolver.address_of(None, "Sales", "WEB01")
    own = {name: {**values, "Sales.WEB01": values["Sales"]} for name, values in settings.items()}
    assert resolver.resolve(replace(resolver, **own).address_of(None, "Sales", "WEB01")).table == "Sales.WEB01"


@pytest.mark.parametrize(
    ("queue", "endpoint", "instance"), [("Sales", None, "WEB01"), (None, "Sales", " "), (None, "Sales", "WEB01@x")]
)
def test_an_instance_is_one_of_an_endpoint(queue: str | None, endpoint: str | None, instance: str) -> None:
    with pytest.raises(AddressError, match="An instance is the last part"):
        AddressResolver(default_catalog="nsb").address_of(queue, endpoint, instance)


@pytest.mark.parametrize("value", [5, 1.5, True, ["Sales"], {}, b"Sales"])
def test_names_are_texts(value: Any) -> None:
    """A template may render to any value, and its form in Python is the name of no queue."""
    resolver = AddressResolver(default_catalog="nsb")
    for given in ((value, None), (None, value), (None, "Sales", value)):
        with pytest.raises(AddressError, match=f"is a value of the type {type(value).__name__}: give a text"):
            resolver.address_of(*given)
    assert resolver.address_of(resolver.resolve("Sales"), None) == "Sales@[dbo]@[nsb]"
    for version in (None, "1", "3.0"):
        with pytest.raises(AddressError, match="The queue address is a value of the type"):
            AddressResolver(default_catalog="nsb", transport_version=version).resolve(value)
