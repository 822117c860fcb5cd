"""Functions that tell of the catalog: "Metadata functions", and SERVERPROPERTY."""

from __future__ import annotations

import time
from typing import Any

import pytest


@pytest.fixture
def known(client: Any, table: str) -> str:
    client.ok(
        f"CREATE TABLE {table} (Id uniqueidentifier NOT NULL, n int CONSTRAINT df_{table} DEFAULT 7,"
        f" Body varbinary(max), r bigint IDENTITY(5, 2) CONSTRAINT pk_{table} PRIMARY KEY WITH (FILLFACTOR = 80),"
        " x AS (n * 2), m decimal(9, 2), INDEX ix (n DESC) WITH (ALLOW_PAGE_LOCKS = OFF))"
    )
    return table


@pytest.mark.parametrize(
    ("name", "kind", "found"),
    [
        ("{0}", None, True),
        ("{0}", "U", True),
        ("{0}", "u ", True),
        ("{0}", "V", False),
        ("dbo.{0}", "U", True),
        ("[shop].[dbo].[{0}]", "U", True),
        ('"dbo"."{0}"', None, True),
        ("shop..{0}", None, True),
        (" [dbo] . [{0}] ", None, True),
        ("[Other.Catalog].dbo.{0}", None, False),
        ("nope.dbo.{0}", None, False),
        ("df_{0}", "D", True),
        ("dbo.pk_{0}", "PK", True),
        ("a.b.c.d", None, False),
        ("[dbo].[{0}", None, False),
        ("sys.objects", None, True),
    ],
)
def test_object_id(client: Any, known: str, name: str, kind: str | None, found: bool) -> None:
    more = f", N'{kind}'" if kind else ""
    assert (client.value(f"SELECT OBJECT_ID(N'{name.format(known)}'{more})") is not None) is found


def test_names(client: Any, known: str) -> None:
    number = f"OBJECT_ID('{known}')"
    text = (
        f"SELECT OBJECT_NAME({number}), OBJECT_NAME({number}, DB_ID('shop')), OBJECT_SCHEMA_NAME({number}),"
        " OBJECT_NAME(1), OBJECT_NAME(OBJECT_ID('sys.tables')), OBJECT_SCHEMA_NAME(OBJECT_ID('sys.tables')),"
        " SCHEMA_NAME(1), SCHEMA_ID('DBO'), SCHEMA_ID('nope'), DB_ID('nope'), TYPE_NAME(56)"
    )
    assert client.rows(text) == [(known, known, "dbo", None, "tables", "sys", "dbo", 1, None, None, "int")]


def test_length_of_a_column(client: Any, known: str) -> None:
    lengths = f"SELECT COL_LENGTH('{known}', 'Body'), COL_LENGTH('dbo.{known}', 'm'), COL_LENGTH('{known}', 'nope')"
    assert client.rows(lengths) == [(-1, 5, None)]


def test_identity_functions(client: Any, known: str) -> None:
    text = f"SELECT IDENT_CURRENT('{known}'), IDENT_CURRENT('nope')"
    assert client.rows(text) == [(5, None)]
    client.ok(f"INSERT {known} (Id) VALUES (NEWID()), (NEWID())")
    assert client.rows(text) == [(7, None)]


def test_statistics_have_a_date(client: Any, known: str) -> None:
    date = f"SELECT last_updated FROM sys.dm_db_stats_properties(OBJECT_ID('{known}'), {{0}})"
    assert client.rows(date.format(1)) == [(None,)]
    client.ok(f"INSERT {known} (Id) VALUES (NEWID()); UPDATE STATISTICS {known}")
    assert client.value(f"SELECT DATEDIFF(hour, ({date.format(1)}), GETUTCDATE())") in (0, 1)
    assert client.rows(date.format(99)) == []
    changed = (
        "SELECT s.name, p.modification_counter FROM sys.stats s CROSS APPLY sys.dm_db_stats_properties(s.object_id,"
        f" s.stats_id) p WHERE s.object_id = OBJECT_ID('{known}') AND s.stats_id = 2"
    )
    assert client.rows(changed) == [("ix", 0)]
    client.ok("WAITFOR DELAY '00:00:01.1'")  # for as long changes may be kept to be reported with others
    assert client.rows(changed) == [("ix", 0)]


def test_index_physical_stats(client: Any, known: str) -> None:
    client.ok(f"INSERT {known} (Id) VALUES (NEWID())")
    text = (
        "SELECT index_id, index_type_desc, alloc_unit_type_desc, record_count, CASE WHEN page_count > 0 THEN 1 END,"
        f" avg_fragmentation_in_percent FROM sys.dm_db_index_physical_stats(DB_ID(), OBJECT_ID(N'{known}'), {{0}}) AS s"
    )
    assert client.rows(text.format("NULL, NULL, 'DETAILED'") + " ORDER BY index_id") == [
        (1, "CLUSTERED INDEX", "IN_ROW_DATA", 1, 1, 0.0),
        (2, "NONCLUSTERED INDEX", "IN_ROW_DATA", 1, 1, 0.0),
    ]
    assert client.rows(text.format("2, DEFAULT, DEFAULT")) == [(2, "NONCLUSTERED INDEX", "IN_ROW_DATA", None, 1, 0.0)]
    assert client.error(text.format("2, DEFAULT, 'THOROUGH'")).number == 40517
    assert client.error("SELECT * FROM sys.dm_db_index_physical_stats(DB_ID())").number == 313
    assert client.error("SELECT * FROM sys.dm_nothing(1)").number == 208


@pytest.mark.parametrize(
    ("mode", "known"), [("LIMITED", (None, None, 0.0)), ("sampled", (1, 0, None)), ("DETAILED", (1, 0, 0.0))]
)
def test_physical_stats_of_a_heap(client: Any, table: str, mode: str, known: tuple[Any, ...]) -> None:
    """SAMPLED does not know the order of a heap's pages, LIMITED no records."""
    client.ok(f"CREATE TABLE {table} (a int); INSERT {table} VALUES (1)")
    assert client.rows(
        "SELECT s.record_count, s.forwarded_record_count, s.avg_fragmentation_in_percent FROM sys.tables t CROSS APPLY"
        f" sys.dm_db_index_physical_stats(DB_ID('shop'), t.object_id, 0, NULL, '{mode}') AS s"
        f" WHERE t.name = '{table}'"
    ) == [known]


def test_deleted_rows_are_ghosts(client: Any, table: str) -> None:
    client.ok(f"CREATE TABLE {table} (a int INDEX i); INSERT {table} VALUES (1), (2), (3)")
    stored = client.session.catalog.find((table,), "shop").pg
    # PostgreSQL would clean up by itself before long.
    client.session.pg.execute(f"ALTER TABLE {stored} SET (autovacuum_enabled = off)")
    text = (
        "SELECT record_count, ghost_record_count, version_ghost_record_count FROM sys.dm_db_index_physical_stats("
        f"DB_ID(), OBJECT_ID('{table}'), 2, NULL, 'SAMPLED')"
    )
    client.ok(f"DELETE {table} WHERE a < 3")
    until = time.monotonic() + 30
    while client.rows(text) != [(1, 2, 0)]:  # Changes may be kept to be reported with others.
        assert time.monotonic() < until, client.rows(text)
        client.ok("WAITFOR DELAY '00:00:00.1'")


def test_parts_and_quotes(client: Any) -> None:
    names = {
        "PARSENAME('[a.b].[c]]d]', 1)": "c]d",
        "PARSENAME('[a.b].[c]]d]', 2)": "a.b",
        "PARSENAME('\"a.b\".c', 2)": "a.b",
        "PARSENAME('a.b.c.d', 4)": "a",
        "PARSENAME('a.b.c.d.e', 1)": None,
        "PARSENAME('db..t', 2)": None,
        "PARSENAME('t', 2)": None,
        "QUOTENAME('a]b')": "[a]]b]",
        "QUOTENAME('a''b', '''')": "'a''b'",
        "QUOTENAME('x', 'z')": None,
        "QUOTENAME(REPLICATE('x', 129))": None,
    }
    assert client.rows("SELECT " + ", ".join(names)) == [tuple(names.values())]


def test_properties_of_the_server(client: Any) -> None:
    server = {"EngineEdition": 3, "IsXTPSupported": 0, "ProductMajorVersion": "16", "nonsense": None}
    row = client.rows("SELECT " + ", ".join(f"SERVERPROPERTY('{name}')" for name in server))[0]
    assert dict(zip(server, row, strict=True)) == server


def test_old_system_views(client: Any, known: str) -> None:
    text = f"SELECT i.indid FROM {{0}}sysobjects o JOIN {{0}}sysindexes i ON i.id = o.id WHERE o.name = '{known}'"
    for schema in ("", "dbo.", "sys.", "shop..", "shop.sys."):
        assert client.rows(text.format(schema) + " ORDER BY 1") == [(1,), (2,)]
