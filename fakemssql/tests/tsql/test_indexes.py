"""Indexes: their options, disabling and rebuilding them, and what the catalog shows of them."""

from __future__ import annotations

import time
from typing import Any

import pytest

_SHOWN = (
    "SELECT name, index_id, type_desc, is_unique, has_filter, filter_definition, fill_factor, is_padded, is_disabled,"
    " allow_row_locks, allow_page_locks, optimize_for_sequential_key FROM sys.indexes"
    " WHERE object_id = OBJECT_ID('{0}') ORDER BY index_id"
)


def test_options_that_the_catalog_shows(client: Any, table: str) -> None:
    client.ok(
        f"CREATE TABLE {table} (a int, b datetime, INDEX i1 UNIQUE CLUSTERED (a DESC) WITH (FILLFACTOR = 70),"
        " INDEX i2 (b) INCLUDE (a) WHERE b IS NOT NULL AND a IN (1, 2) ON [PRIMARY])"
    )
    client.ok(
        f"CREATE NONCLUSTERED INDEX i3 ON {table} (b ASC, a DESC) WITH (PAD_INDEX = ON, STATISTICS_NORECOMPUTE = OFF,"
        " SORT_IN_TEMPDB = ON, IGNORE_DUP_KEY = OFF, DROP_EXISTING = OFF, ONLINE = ON, MAXDOP = 2,"
        " ALLOW_ROW_LOCKS = ON, ALLOW_PAGE_LOCKS = OFF, OPTIMIZE_FOR_SEQUENTIAL_KEY = ON, FILLFACTOR = 90,"
        " DATA_COMPRESSION = PAGE) ON [PRIMARY]"
    )
    assert client.rows(_SHOWN.format(table)) == [
        ("i1", 1, "CLUSTERED", True, False, None, 70, False, False, True, True, False),
        (
            "i2",
            2,
            "NONCLUSTERED",
            False,
            True,
            "([b] IS NOT NULL AND [a] IN ((1), (2)))",
            0,
            False,
            False,
            True,
            True,
            False,
        ),
        ("i3", 3, "NONCLUSTERED", False, False, None, 90, True, False, True, False, True),
    ]
    assert client.rows(
        "SELECT index_id, data_compression_desc FROM sys.partitions WHERE object_id ="
        f" OBJECT_ID('{table}') ORDER BY index_id"
    ) == [(1, "NONE"), (2, "NONE"), (3, "PAGE")]
    columns = (
        "SELECT k.index_id, c.name, k.key_ordinal, k.is_descending_key, k.is_included_column FROM sys.index_columns k"
        " JOIN sys.columns c ON c.object_id = k.object_id AND c.column_id = k.column_id"
        f" WHERE k.object_id = OBJECT_ID('{table}') ORDER BY k.index_id, k.index_column_id"
    )
    assert client.rows(columns) == [
        (1, "a", 1, True, False),
        (2, "b", 1, False, False),
        (2, "a", 0, False, True),
        (3, "b", 1, False, False),
        (3, "a", 2, True, False),
    ]
    client.ok(f"ALTER INDEX i3 ON {table} SET (ALLOW_PAGE_LOCKS = ON, STATISTICS_NORECOMPUTE = ON)")
    client.ok(f"ALTER INDEX i3 ON {table} REBUILD PARTITION = ALL WITH (FILLFACTOR = 50, ONLINE = ON, MAXDOP = 1)")
    assert client.error(f"ALTER INDEX ALL ON {table} REORGANIZE WITH (LOB_COMPACTION = ON)").number == 40517
    assert client.rows(_SHOWN.format(table))[2][6:] == (50, True, False, True, True, True)
    assert client.value(f"SELECT no_recompute FROM sys.stats WHERE object_id = OBJECT_ID('{table}') AND name = 'i3'")


def test_drop_existing_changes_the_definition_and_keeps_the_number(client: Any, table: str) -> None:
    client.ok(f"CREATE TABLE {table} (a int, b int); CREATE INDEX i ON {table} (a); CREATE INDEX j ON {table} (b)")
    client.ok(f"CREATE UNIQUE INDEX i ON {table} (b) INCLUDE (a) WHERE b > 3 WITH (DROP_EXISTING = ON, ONLINE = ON)")
    assert client.rows(_SHOWN.format(table))[1][:6] == ("i", 2, "NONCLUSTERED", True, True, "([b]>(3))")
    assert client.error(f"CREATE INDEX n ON {table} (a) WITH (DROP_EXISTING = ON)").number == 7999
    client.ok(f"CREATE CLUSTERED INDEX c ON {table} (a)")
    assert client.error(f"CREATE INDEX c ON {table} (a) WITH (DROP_EXISTING = ON)").number == 1925


def test_a_disabled_index_stays_in_the_catalog(client: Any, table: str) -> None:
    client.ok(f"CREATE TABLE {table} (a int, b int); CREATE UNIQUE INDEX i ON {table} (a) WHERE b IS NULL")
    client.ok(f"INSERT {table} VALUES (1, NULL); ALTER INDEX i ON {table} DISABLE; INSERT {table} VALUES (1, NULL)")
    assert client.rows(_SHOWN.format(table))[1][:9] == (
        "i",
        2,
        "NONCLUSTERED",
        True,
        True,
        "([b] IS NULL)",
        0,
        False,
        True,
    )
    assert client.value(f"SELECT COUNT(*) FROM sys.partitions WHERE object_id = OBJECT_ID('{table}')") == 1
    assert client.error(f"SELECT * FROM {table} WITH (INDEX(i))").number == 315
    assert client.error(f"ALTER INDEX i ON {table} SET (ALLOW_PAGE_LOCKS = ON)").number == 1973
    # A rebuild uses the definition in the catalog.
    assert client.error(f"ALTER INDEX i ON {table} REBUILD").number == 1505
    client.ok(f"DELETE TOP (1) FROM {table}; ALTER INDEX i ON {table} REBUILD WITH (ONLINE = ON)")
    assert client.error(f"INSERT {table} VALUES (1, NULL)").number == 2601
    assert client.rows(_SHOWN.format(table))[1][8] is False


def test_an_index_is_renamed(client: Any, table: str) -> None:
    client.ok(f"CREATE TABLE {table} (a int INDEX i); EXEC sp_rename '{table}.i', 'new name', 'INDEX'")
    assert [row[0] for row in client.rows(_SHOWN.format(table))] == [None, "new name"]
    assert client.error(f"EXEC sp_rename '{table}.i', 'j', 'INDEX'").number == 15248
    for call in (f"'{table}', 'other'", f"'{table}.a', 'b', 'COLUMN'"):
        assert client.error(f"EXEC sp_rename {call}").number == 40517


def test_without_its_clustered_index_a_table_cannot_be_read(client: Any, table: str) -> None:
    client.ok(
        f"CREATE TABLE {table} (a int CONSTRAINT pk_{table} PRIMARY KEY, b int INDEX i); INSERT {table} VALUES (1, 2)"
    )
    client.ok(f"ALTER INDEX pk_{table} ON {table} DISABLE")
    for text in ("SELECT * FROM {0}", "DELETE {0}", "UPDATE {0} SET b = 1", "INSERT {0} VALUES (2, 2)"):
        assert client.error(text.format(table)).number == 8655
    assert [row[8] for row in client.rows(_SHOWN.format(table))] == [True, True]
    assert client.error(f"ALTER INDEX i ON {table} REBUILD").number == 1973
    client.ok(f"ALTER INDEX pk_{table} ON {table} REBUILD")
    assert client.rows(f"SELECT * FROM {table}") == [(1, 2)]
    assert [row[8] for row in client.rows(_SHOWN.format(table))] == [False, True]
    client.ok(f"ALTER INDEX ALL ON {table} DISABLE; ALTER INDEX ALL ON {table} REBUILD")
    assert [row[8] for row in client.rows(_SHOWN.format(table))] == [False, False]


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("ALTER INDEX n ON {0} DISABLE", 2727),
        ("ALTER INDEX i ON {0} REBUILD PARTITION = 1", 7729),
        ("ALTER INDEX i ON {0} RESUME", 40517),
        ("CREATE INDEX i ON {0} (a)", 1913),
        ("CREATE INDEX j ON {0} (nope)", 1911),
        ("CREATE INDEX j ON nope (a)", 1088),
        ("CREATE INDEX j ON s_{0} (a)", 1914),
        ("DROP INDEX j ON {0}", 3701),
        ("DROP INDEX pk_{0} ON {0}", 3723),
        ("UPDATE STATISTICS nope", 2706),
        ("UPDATE STATISTICS {0} nope", 2767),
    ],
)
def test_errors(client: Any, table: str, text: str, number: int) -> None:
    client.ok(f"CREATE TABLE {table} (a int CONSTRAINT pk_{table} PRIMARY KEY, b int INDEX i)")
    client.ok(f"CREATE SYNONYM s_{table} FOR {table}")
    assert client.error(text.format(table)).number == number


def test_drop_index_in_both_spellings(client: Any, table: str) -> None:
    client.ok(f"CREATE TABLE {table} (a int, b int INDEX i, c int INDEX j, INDEX k CLUSTERED (a))")
    client.ok(f"DROP INDEX {table}.i; DROP INDEX IF EXISTS n ON {table}, j ON dbo.{table}")
    client.ok(f"DROP INDEX k ON {table} WITH (ONLINE = ON, MAXDOP = 1, MOVE TO [PRIMARY])")
    assert client.rows(_SHOWN.format(table))[0][:3] == (None, 0, "HEAP")


def test_row_count_of_update_statistics_in_the_catalog(client: Any, table: str) -> None:
    """``UPDATE STATISTICS ... WITH ROWCOUNT`` fakes a large table; rows that come later are counted on from there."""
    client.ok(f"CREATE TABLE {table} (a int INDEX i); INSERT {table} VALUES (1), (2)")
    client.ok(f"UPDATE STATISTICS {table} WITH ROWCOUNT = 1000000, PAGECOUNT = 5000; INSERT {table} VALUES (3)")
    found = f"FROM sys.partitions WHERE object_id = OBJECT_ID('{table}') AND index_id IN (0, 1)"
    assert client.rows(f"SELECT rows {found}") == [(1_000_001,)]
    assert client.rows(f"SELECT COUNT(*) FROM {table}") == [(3,)]


def test_statistics(client: Any, table: str) -> None:
    client.ok(f"CREATE TABLE {table} (a int INDEX i); INSERT {table} VALUES (1)")
    for options in ("", " i", " (i)", " WITH FULLSCAN", " i WITH FULLSCAN"):
        client.ok(f"UPDATE STATISTICS {table}{options}")


@pytest.mark.parametrize(
    ("index", "text"),
    [
        ("", "ALTER TABLE {0} REBUILD WITH (ONLINE = ON)"),
        ("INDEX i", "ALTER TABLE {0} REBUILD"),
        ("INDEX i", "ALTER INDEX ALL ON {0} REBUILD"),
        ("INDEX i CLUSTERED", "ALTER INDEX i ON {0} REBUILD"),
    ],
)
def test_a_rebuilt_table_has_no_room_left_by_deleted_rows(client: Any, table: str, index: str, text: str) -> None:
    pages = f"SELECT SUM(used_page_count) FROM sys.dm_db_partition_stats WHERE object_id = OBJECT_ID('{table}')"
    client.ok(f"CREATE TABLE {table} (a int {index}, b char(900))")
    # PostgreSQL would clean up by itself before long.
    stored = client.session.catalog.find((table,), "shop").pg
    client.session.pg.execute(f"ALTER TABLE {stored} SET (autovacuum_enabled = off)")
    numbers = "WITH r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 500)"
    client.ok(f"{numbers} INSERT {table} SELECT n, 'x' FROM r; DELETE {table} WHERE a < 490")
    assert client.value(pages) > 60
    # PostgreSQL keeps what a snapshot of another session, or of its own housekeeping, could see; those go soon.
    until = time.monotonic() + 30
    while client.ok(text.format(table)) and client.value(pages) >= 10:
        assert time.monotonic() < until, "deleted rows keep their room"
    assert client.rows(f"SELECT COUNT(*), MIN(a) FROM {table}") == [(11, 490)]


def test_filegroup_of_a_table(client: Any, table: str) -> None:
    client.ok(
        f"CREATE TABLE {table} (a int, b varchar(max), INDEX i (a) WHERE a > 1) ON [PRIMARY] TEXTIMAGE_ON [PRIMARY]"
        f" WITH (DATA_COMPRESSION = ROW); INSERT {table} VALUES (1, 'x'), (2, 'y')"
    )
    assert client.rows(
        "SELECT p.index_id, p.rows, p.data_compression_desc, a.type_desc, f.name, CASE WHEN a.total_pages >="
        " a.used_pages AND a.used_pages >= a.data_pages THEN 1 END FROM sys.partitions p JOIN sys.allocation_units a"
        " ON a.container_id = p.hobt_id JOIN sys.filegroups f ON f.data_space_id = a.data_space_id"
        f" WHERE p.object_id = OBJECT_ID('{table}') ORDER BY p.index_id, a.type"
    ) == [
        (0, 2, "ROW", "IN_ROW_DATA", "PRIMARY", 1),
        (0, 2, "ROW", "LOB_DATA", "PRIMARY", 1),
        (2, 1, "NONE", "IN_ROW_DATA", "PRIMARY", 1),
    ]
    assert client.rows(
        "SELECT index_id, row_count, in_row_data_page_count, used_page_count, reserved_page_count"
        f" FROM shop.sys.dm_db_partition_stats WHERE object_id = OBJECT_ID('shop.dbo.{table}') ORDER BY index_id"
    ) == [(0, 2, 1, 1, 8), (2, 1, 2, 2, 8)]


def test_counting_does_not_wait_for_a_locked_table(client: Any, connect: Any, table: str) -> None:
    client.ok(f"CREATE TABLE {table} (a int); INSERT {table} VALUES (1); UPDATE STATISTICS {table}")
    client.ok(f"BEGIN TRAN; SELECT * FROM {table} WITH (TABLOCKX)")
    other = connect()
    text = f"SET LOCK_TIMEOUT 0; SELECT rows FROM sys.partitions WHERE object_id = OBJECT_ID('{table}')"
    assert other.value(text) == 1
