"""Catalog procedures that are refused, and the foreign keys of the catalog views."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.mark.parametrize(
    "name",
    [
        *("sp_databases", "sp_fkeys", "sp_special_columns", "sp_special_columns_100", "sp_statistics"),
        *("sp_stored_procedures", "sp_refreshview", "sp_recompile", "sp_updatestats", "sp_who"),
    ],
)
def test_procedures_without_a_user_are_refused(client: Any, table: str, name: str) -> None:
    assert client.error(f"EXEC {name} N'{table}'").number == 40517


def test_foreign_key_actions(client: Any, table: str) -> None:
    client.ok(
        f"CREATE TABLE {table} (id int PRIMARY KEY);"
        f" CREATE TABLE c_{table} (a int CONSTRAINT fk_{table} REFERENCES {table} (id) ON DELETE CASCADE)"
    )
    text = "SELECT delete_referential_action_desc, update_referential_action FROM sys.foreign_keys WHERE name = '{0}'"
    assert client.rows(text.format(f"fk_{table}")) == [("CASCADE", 0)]
    client.ok(f"INSERT {table} VALUES (1); INSERT c_{table} VALUES (1); DELETE {table}")
    assert client.value(f"SELECT COUNT(*) FROM c_{table}") == 0
