"""No address, schema or catalog lets SQL out of its identifier: every name is executed, on any server."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import suppress

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from airflow_sqlqueue.errors import AddressError, QueueNotFoundError
from airflow_sqlqueue.messages.routing import AddressResolver, ResolvedAddress
from airflow_sqlqueue.queue.tables.create import create_lock, queue_definition
from airflow_sqlqueue.queue.tables.reading import exists, read_layout
from airflow_sqlqueue.server.session import Session
from airflow_sqlqueue.server.settings import ConnectionSettings
from tests.contract.conftest import run_sql

PIECES = [
    *(
        "]",
        "]]",
        "[",
        "'",
        "''",
        '"',
        ";",
        "--",
        "/*",
        "*/",
        "\\",
        "@",
        "@p1",
        "?",
        "{}",
        "{queue}",
        "%s",
        "%",
        "_",
        ".",
    ),
    *("GO", "\n", "\r\nGO\r\n", "\t", " ", "\u00a0", "\u2019", "\uff07", "\u02bc", "é", "ß", "😀", "中", "\u0301"),
    *("DROP TABLE [canary]", "]; DROP TABLE [canary]; --", "' ; DROP TABLE [canary] --", "sys", "dbo", "tempdb", "x"),
]

FEW = settings(max_examples=settings().max_examples // 3)
"""For places whose names are quoted as those of tables are."""

nasty = st.lists(st.sampled_from(PIECES), min_size=1, max_size=8).map(lambda pieces: "".join(pieces)[:100])


@pytest.fixture(scope="module")
def session(settings: ConnectionSettings) -> Iterator[Session]:
    with Session(settings, lock_timeout=10) as session:
        run_sql(session, "DROP TABLE IF EXISTS [canary]; CREATE TABLE [canary] ([Id] int NOT NULL)")
        yield session
        run_sql(session, "DROP TABLE [canary]")


class Undo(Exception):
    """Raised to roll back what a test has made."""


def names_on_the_server(session: Session) -> set[tuple[str, str]]:
    """Schema and table of every table; trailing blanks mean nothing to SQL Server."""
    return {
        (schema.rstrip(), table.rstrip())
        for schema, table in run_sql(session, "SELECT SCHEMA_NAME(schema_id), name FROM sys.tables")
    }


def make_and_undo(session: Session, table: ResolvedAddress, *, create_schema: bool) -> None:
    """Create the table and see that it, and nothing else, has come about; then roll back."""
    before = names_on_the_server(session)
    with suppress(Undo), create_lock(session, table, create_schema=create_schema):
        for statement in queue_definition(table).statements:
            session.run(statement)
        assert names_on_the_server(session) - before == {(table.schema.rstrip(), table.table.rstrip())}
        assert exists(session, table)
        assert read_layout(session, table).kind == "queue"
        raise Undo
    assert names_on_the_server(session) == before


@given(nasty)
@example("a]; DROP TABLE [canary]; --")
@example("#temporary")
def test_any_table_name_serves(session: Session, address_of: AddressResolver, name: str) -> None:
    try:
        table = ResolvedAddress(name, "dbo", address_of.default_catalog or "")
    except AddressError:
        return
    make_and_undo(session, table, create_schema=False)


@given(nasty)
@example("s]; DROP TABLE [canary]; --")
@FEW
def test_any_schema_name_serves(session: Session, address_of: AddressResolver, name: str) -> None:
    schema = f"{uuid.uuid4().hex[:6]}{name}"
    table = ResolvedAddress("T", schema, address_of.default_catalog or "")
    make_and_undo(session, table, create_schema=True)


@given(nasty)
@example("x]; DROP TABLE [canary]; --")
@FEW
def test_catalog_names(session: Session, name: str) -> None:
    catalog = f"{name}{uuid.uuid4().hex[:6]}"
    table = ResolvedAddress("T", "dbo", catalog)
    before = names_on_the_server(session)
    for attempt in (read_layout, lambda s, t: create_lock(s, t).__enter__()):
        with pytest.raises(QueueNotFoundError, match="does not exist"):
            attempt(session, table)
    assert names_on_the_server(session) == before


@given(nasty)
def test_addresses_with_every_part(session: Session, address_of: AddressResolver, text: str) -> None:
    """A whole address, parsed leniently: the result names one table, or a missing one."""
    before = names_on_the_server(session)
    try:
        table = address_of.resolve(text)
        read_layout(session, table)
    except (AddressError, QueueNotFoundError):
        assert names_on_the_server(session) == before
    else:
        pytest.fail(f"A table stands at {table}")
