"""Catalog procedures behind SQLForeignKeys, SQLProcedures and SQLSpecialColumns."""

from __future__ import annotations

from typing import Any


def test_foreign_keys(client: Any, table: str) -> None:
    client.ok(
        f"CREATE TABLE {table} (id int CONSTRAINT pk_{table} PRIMARY KEY);"
        f" CREATE TABLE c_{table} (id int, p int CONSTRAINT fk_{table} REFERENCES {table} (id))"
    )
    expected = ("shop", "dbo", table, "id", "shop", "dbo", f"c_{table}", "p", 1, 1, 1, f"fk_{table}", f"pk_{table}", 7)
    assert client.rows(f"EXEC sp_fkeys @pktable_name = N'{table}'") == [expected]
    assert client.rows(f"EXEC sp_fkeys @fktable_name = N'c_{table}', @fktable_owner = 'dbo'") == [expected]
    assert client.rows(f"EXEC sp_fkeys N'c_{table}'") == []


def test_what_foreign_keys_do(client: Any, table: str) -> None:
    client.ok(
        f"CREATE TABLE {table} (id int PRIMARY KEY);"
        f" CREATE TABLE c_{table} (a int CONSTRAINT fk_{table} REFERENCES {table} (id) ON DELETE CASCADE)"
    )
    text = "SELECT delete_referential_action_desc, update_referential_action FROM sys.foreign_keys WHERE name = '{0}'"
    assert client.rows(text.format(f"fk_{table}")) == [("CASCADE", 0)]
    client.ok(f"INSERT {table} VALUES (1); INSERT c_{table} VALUES (1); DELETE {table}")
    assert client.value(f"SELECT COUNT(*) FROM c_{table}") == 0


def test_special_columns(client: Any, table: str) -> None:
    client.ok(f"CREATE TABLE {table} (id bigint IDENTITY PRIMARY KEY, x varchar(5))")
    assert client.rows(f"EXEC sp_special_columns N'{table}', @col_type = 'R'") == [
        (0, "id", -5, "bigint identity", 19, 8, 0, 1)
    ]
    assert client.rows(f"EXEC sp_special_columns N'{table}', @col_type = 'V'") == []


def test_procedures(client: Any, table: str) -> None:
    client.ok(f"CREATE PROCEDURE p_{table} AS\nSELECT 1\nRETURN 2")
    rows = client.rows(f"EXEC sp_stored_procedures N'p[_]{table}'")
    assert rows == [("shop", "dbo", f"p_{table};1", -1, -1, -1, None, 2)]
