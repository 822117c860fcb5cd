"""Addresses: every vector of the transport, and properties of the parser."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_sqlqueue.errors import AddressError
from airflow_sqlqueue.messages.address import QueueAddress, as_sql_name, quote, unquote, without_machine
from airflow_sqlqueue.messages.routing import AddressResolver

VECTORS = json.loads((Path(__file__).parent / "address_vectors.json").read_text("utf-8"))
RESOLVER = AddressResolver(default_schema="dbo", default_catalog="nsb")

address_text = st.text(st.sampled_from("ab[]@. '\";-é😀"), max_size=30)


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: f"{vector['id']}:{vector['input']}")
def test_vector(vector: dict[str, str | None]) -> None:
    text = vector["input"] or ""
    if vector.get("table") is None:
        with pytest.raises(AddressError):
            QueueAddress.parse(text)
        return
    address = QueueAddress.parse(text)
    assert (address.table, address.schema, address.catalog) == (vector["table"], vector["schema"], vector["catalog"])
    assert str(address) == vector["value"]
    resolved = RESOLVER.resolve(text)
    assert resolved.canonical == vector["canonical"]
    assert resolved.qualified_name == vector["qualified"]


@pytest.mark.parametrize(
    "vector", [vector for vector in VECTORS if vector.get("table")], ids=lambda vector: f"{vector['id']}"
)
def test_vector_as_older_versions_read_it(vector: dict[str, str]) -> None:
    old = QueueAddress.parse_as(vector["input"], "3.0")
    assert old.table + (f"@[{old.schema}]" if old.schema else "") == vector["v30"]
    for version in ("1", "2"):
        assert str(QueueAddress.parse_as(vector["input"], version)) == vector["v12"]


@given(address_text)
def test_older_peers_read_back_their_values(text: str) -> None:
    try:
        address = QueueAddress.parse(text)
        for_3_0 = address.text_for("3.0")
    except AddressError:
        return
    assert QueueAddress.parse_as(for_3_0, "3.0") == QueueAddress(address.table, address.schema)
    assert QueueAddress.parse_as(address.text_for("2"), "2") == QueueAddress(address.table)


def test_long_names_became_guids() -> None:
    assert str(QueueAddress.parse_as("x" * 129 + "@MACHINE", "2")) == "1d842639-3c39-c300-f362-60e5ace10dc1"
    assert str(QueueAddress.parse_as("A" * 129, "1")) == "ed04c873-621d-da16-1c49-ea4cded846cc"
    assert str(QueueAddress.parse_as("A" * 128, "1")) == "A" * 128


def test_a_version_without_a_form_of_its_own() -> None:
    with pytest.raises(AddressError, match="'5'"):
        QueueAddress("T").text_for("5")


@given(address_text)
def test_format_of_parse_is_a_fixed_point(text: str) -> None:
    try:
        address = QueueAddress.parse(text)
    except AddressError:
        assert not text.partition("@")[0].strip()
        return
    assert QueueAddress.parse(str(address)) == address
    assert QueueAddress.parse(str(address), strict=True) == address
    canonical = RESOLVER.resolve(address).canonical
    assert RESOLVER.resolve(canonical).canonical == canonical


@given(st.text(max_size=40).filter(str.strip))
def test_unquote_undoes_quote(name: str) -> None:
    try:
        quoted = quote(name)
    except AddressError:
        return
    assert unquote(quoted) == name


@pytest.mark.parametrize(
    ("text", "position"), [("T@[abc", 2), ("T@[a]b]", 2), ("T@@cat", 2), ("T@[s]@c]", 6), ("T@s@c@x", 5)]
)
def test_strict_names_the_position(text: str, position: int) -> None:
    with pytest.raises(AddressError, match=f"position {position}"):
        QueueAddress.parse(text, strict=True)


def test_strict_takes_an_empty_part_as_not_given() -> None:
    assert QueueAddress.parse("orders@[]@[shop]", strict=True) == QueueAddress("orders", None, "shop")


@pytest.mark.parametrize("name", ["", "  ", "x" * 129, "😀" * 65, "a\0b", "\ud800"])
def test_names_the_server_would_refuse(name: str) -> None:
    with pytest.raises(AddressError):
        quote(name)


@pytest.mark.parametrize("name", ["x", "x" * 128, "😀" * 64])
def test_names_of_up_to_128_characters_are_taken(name: str) -> None:
    assert quote(name) == f"[{name}]"


@pytest.mark.parametrize(
    ("text", "bare"),
    [
        ("Sales@WEB01", "Sales"),
        ("Sales@dbo", "Sales"),
        ("Sales@[dbo]", None),
        ("Sales", None),
        ("Sales@", None),
        ("Sales@a@b", None),
        ("Sales@[a]@[b]", None),
    ],
)
def test_an_address_that_may_name_a_machine(text: str, bare: str | None) -> None:
    assert without_machine(text) == (QueueAddress(bare) if bare else None)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("dbo.MyTable", QueueAddress("MyTable", "dbo")),
        ("[dbo].[My.Table]", QueueAddress("My.Table", "dbo")),
        ("[nsb].[dbo].[a]]b]", QueueAddress("a]b", "dbo", "nsb")),
        ("nsb.dbo.T", QueueAddress("T", "dbo", "nsb")),
        ("Sales", None),
        ("[Sales]", None),
        ("a.b.c.d", None),
        ("a..b", None),
        (".a", None),
        ("[a].", None),
        ("[a]b.c", None),
        ("[].[]", None),
    ],
)
def test_an_address_read_as_a_sql_name(text: str, address: QueueAddress | None) -> None:
    assert as_sql_name(text) == address


@given(st.text(max_size=12), st.text(max_size=12))
def test_quoted_names_are_read_as_sql_reads_them(schema: str, table: str) -> None:
    try:
        text = f"{quote(schema)}.{quote(table)}"
    except AddressError:
        return
    assert as_sql_name(text) == (None if "@" in table else QueueAddress(table, schema))
