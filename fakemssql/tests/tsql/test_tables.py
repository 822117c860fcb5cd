"""CREATE TABLE and ALTER TABLE: columns, what depends on them, and what the catalog shows."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("CAST(Body AS nvarchar(max))", "(CONVERT([nvarchar](max),[Body]))"),
        ("CONVERT(varchar(10), d, 120)", "(CONVERT([varchar](10),[d],(120)))"),
        ("n + 1 * -2", "([n]+(1)*(-2))"),
        ("(n + 1) * 2 - (3 - n)", "(([n]+(1))*(2)-((3)-[n]))"),
        ("ISNULL(n, 0)", "(isnull([n],(0)))"),
        (
            "CASE WHEN n > 1 AND NOT (d IS NULL OR n = 3) THEN 'it''s' ELSE N'x' END",
            "(case when [n]>(1) AND NOT ([d] IS NULL OR [n]=(3)) then 'it''s' else N'x' end)",
        ),
        (
            "CASE n WHEN 1 THEN CAST(1.5 AS decimal(5, 2)) END",
            "(case [n] when (1) then CONVERT([decimal](5,2),(1.5)) end)",
        ),
        ("CASE WHEN n IN (1, 2) THEN 1 END", "(case when [n]=(2) OR [n]=(1) then (1) end)"),
        ("CASE WHEN n NOT BETWEEN 1 AND 2 THEN 1 END", "(case when [n]<(1) OR [n]>(2) then (1) end)"),
        ("CASE WHEN t LIKE 'a%' THEN 1 END", "(case when [t] like 'a%' then (1) end)"),
        ("0xFF", "(0xff)"),
    ],
)
def test_expressions_as_the_catalog_shows_them(client: Any, table: str, text: str, shown: str) -> None:
    # A computed column may stand before those it is computed from.
    client.ok(f"CREATE TABLE {table} (x AS {text}, Body varbinary(max), d datetime, n int, t varchar(9))")
    assert client.rows(
        f"SELECT definition, is_persisted, is_computed FROM sys.computed_columns WHERE object_id = OBJECT_ID('{table}')"
    ) == [(shown, False, True)]
    client.ok(f"INSERT {table} (n) VALUES (1); SELECT * FROM {table}")


def test_defaults_and_checks_as_the_catalog_shows_them(client: Any, table: str) -> None:
    client.ok(
        f"CREATE TABLE {table} (a int DEFAULT 5, b datetime CONSTRAINT df_{table} DEFAULT (GETUTCDATE()), c char(1)"
        f" DEFAULT 'x', d int CONSTRAINT ck_{table} CHECK (d > 0 OR d IS NULL))"
    )
    text = f"SELECT definition FROM sys.default_constraints WHERE parent_object_id = OBJECT_ID('{table}') ORDER BY 1"
    assert client.rows(text) == [("('x')",), ("((5))",), ("(getutcdate())",)]
    assert client.value(f"SELECT definition FROM sys.check_constraints WHERE name = 'ck_{table}'") == (
        "([d]>(0) OR [d] IS NULL)"
    )


def test_dependents_that_forbid_a_change(client: Any, table: str) -> None:
    client.ok(
        f"CREATE TABLE {table} (a int, b varchar(5), c AS (a + 1), d int CONSTRAINT df_{table} DEFAULT 1, e int)"
        f" CREATE INDEX i ON {table} (b) WHERE e IS NOT NULL"
    )
    for change, word in [
        ("ALTER COLUMN a bigint", "column 'c'"),
        ("DROP COLUMN a", "column 'c'"),
        ("ALTER COLUMN b nvarchar(5)", "index 'i'"),
        ("ALTER COLUMN b varchar(4)", "index 'i'"),
        ("ALTER COLUMN e bigint", "index 'i'"),
        ("DROP COLUMN b", "index 'i'"),
        ("DROP COLUMN d", f"object 'df_{table}'"),
        ("ALTER COLUMN d bigint", f"object 'df_{table}'"),
    ]:
        found = client.run(f"ALTER TABLE {table} {change}")
        assert found.errors == [5074, 4922], change
        assert word in found.messages[0].message
    client.ok(f"ALTER TABLE {table} ALTER COLUMN b varchar(50) NULL WITH (ONLINE = ON)")
    client.ok(f"ALTER TABLE {table} ALTER COLUMN d int NOT NULL")
    # A disabled index stands in the way as well.
    client.ok(f"ALTER INDEX i ON {table} DISABLE")
    assert client.run(f"ALTER TABLE {table} ALTER COLUMN b nvarchar(50)").errors == [5074, 4922]
    client.ok(f"DROP INDEX i ON {table}; ALTER TABLE {table} ALTER COLUMN b nvarchar(50) NOT NULL")
    assert client.rows(
        f"SELECT max_length, is_nullable, TYPE_NAME(user_type_id) FROM sys.columns WHERE object_id ="
        f" OBJECT_ID('{table}') AND name = 'b'"
    ) == [(100, False, "nvarchar")]
    assert client.error(f"ALTER TABLE {table} ALTER COLUMN c int").number == 4928
    assert client.error(f"ALTER TABLE {table} ALTER COLUMN n int").number == 4924
    client.ok(f"ALTER TABLE {table} DROP COLUMN c, e, COLUMN IF EXISTS n, CONSTRAINT df_{table}")


def test_adding_columns(client: Any, table: str) -> None:
    client.ok(f"CREATE TABLE {table} (a int); INSERT {table} VALUES (1)")
    client.ok(
        f"ALTER TABLE {table} ADD b int NOT NULL CONSTRAINT df_{table} DEFAULT (5) WITH VALUES, c AS (d * 2) PERSISTED,"
        " d int NULL"
    )
    assert client.rows(f"SELECT * FROM {table}") == [(1, 5, None, None)]
    assert client.error(f"ALTER TABLE {table} ADD e AS (c + 1)").number == 1759
    assert client.error(f"ALTER TABLE {table} ADD e int NOT NULL").number == 4901
    assert client.error(f"ALTER TABLE {table} ADD b int").number == 2705


def test_options_of_a_table(client: Any, table: str) -> None:
    shown = (
        "SELECT lock_escalation, lock_escalation_desc, is_memory_optimized, durability_desc, temporal_type_desc,"
        f" lob_data_space_id, has_replication_filter FROM sys.tables WHERE object_id = OBJECT_ID('{table}')"
    )
    client.ok(f"CREATE TABLE {table} (a varchar(max))")
    rest = (False, "SCHEMA_AND_DATA", "NON_TEMPORAL_TABLE", 1, False)
    for number, name in enumerate(("TABLE", "DISABLE", "AUTO")):
        client.ok(f"ALTER TABLE {table} SET (LOCK_ESCALATION = {name})")
        assert client.rows(shown) == [(number, name, *rest)]
    client.ok(f"ALTER TABLE {table} REBUILD PARTITION = ALL WITH (DATA_COMPRESSION = PAGE, ONLINE = ON)")
    compression = f"SELECT data_compression_desc FROM sys.partitions WHERE object_id = OBJECT_ID('{table}')"
    assert client.value(compression) == "PAGE"
    assert client.error(f"ALTER TABLE {table} SET (LOCK_ESCALATION = ROW)").number == 102
    assert client.error(f"ALTER TABLE {table} SWITCH TO x").number == 40517


def test_dropping_several_tables(client: Any, table: str) -> None:
    client.ok(f"CREATE TABLE {table} (a int); CREATE TABLE x_{table} (a int)")
    client.ok(f"DROP TABLE IF EXISTS {table}, dbo.x_{table}, y_{table}")
    assert client.value(f"SELECT COUNT(*) FROM sys.tables WHERE name IN ('{table}', 'x_{table}')") == 0


def test_columns(client: Any, table: str) -> None:
    client.ok(
        f"CREATE TABLE {table} (Id uniqueidentifier NOT NULL, c varchar(255) COLLATE Latin1_General_BIN2,"
        " h nvarchar(max) NOT NULL, b varbinary(max), e datetime2(3), m decimal(9, 2),"
        " RowVersion bigint IDENTITY(1, 1) NOT NULL)"
    )
    assert client.rows(
        "SELECT c.name, t.name, c.max_length, c.precision, c.scale, c.collation_name, c.is_nullable, c.is_identity,"
        " c.encryption_type_desc FROM shop.sys.columns c JOIN shop.sys.types t ON t.user_type_id = c.user_type_id"
        f" WHERE c.object_id = OBJECT_ID('{table}') ORDER BY c.column_id"
    ) == [
        ("Id", "uniqueidentifier", 16, 0, 0, None, False, False, None),
        ("c", "varchar", 255, 0, 0, "Latin1_General_BIN2", True, False, None),
        ("h", "nvarchar", -1, 0, 0, "SQL_Latin1_General_CP1_CI_AS", False, False, None),
        ("b", "varbinary", -1, 0, 0, None, True, False, None),
        ("e", "datetime2", 7, 23, 3, None, True, False, None),
        ("m", "decimal", 5, 9, 2, None, True, False, None),
        ("RowVersion", "bigint", 8, 19, 0, None, False, True, None),
    ]


@pytest.mark.parametrize("change", ["ADD b int", "DROP COLUMN a", "ALTER COLUMN a bigint", "DROP CONSTRAINT ck"])
def test_altering_a_temporary_table_is_refused(client: Any, change: str) -> None:
    client.ok("CREATE TABLE #a (a int NOT NULL); INSERT #a VALUES (1)")
    assert client.error(f"ALTER TABLE #a {change}").number == 40517
    assert client.rows("SELECT * FROM #a") == [(1,)]


@pytest.mark.parametrize("local", ["#p", "@p"])
def test_duplicate_keys_of_a_temporary_table(client: Any, local: str) -> None:
    columns = "(a int PRIMARY KEY, b int UNIQUE)"
    declare = f"DECLARE @p TABLE {columns}" if local == "@p" else f"CREATE TABLE #p {columns}"
    error = client.error(f"{declare}; INSERT {local} VALUES (1, 2), (1, 3)")
    assert error.number == 2627
    assert error.message.startswith(f"Violation of PRIMARY KEY constraint 'PK__{local}__")
    assert error.message.endswith(
        f"'. Cannot insert duplicate key in object 'dbo.{local}'. The duplicate key value is (1)."
    )
    client.ok("DROP TABLE IF EXISTS #p")
    error = client.error(f"{declare}; INSERT {local} VALUES (1, 2), (2, 2)")
    assert error.message.startswith(f"Violation of UNIQUE KEY constraint 'UQ__{local}__")
    client.ok("CREATE TABLE #q (a int CONSTRAINT PkQ PRIMARY KEY, b int); CREATE UNIQUE INDEX Iq ON #q (b)")
    error = client.error("INSERT #q VALUES (1, 2), (1, 3)")
    assert "'PkQ'" in error.message
    error = client.error("INSERT #q VALUES (1, 2), (3, 2)")
    assert (error.number, "'Iq'" in error.message) == (2601, True)
