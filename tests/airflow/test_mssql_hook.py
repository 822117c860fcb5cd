"""Connections of other types to the same server: Airflow's own hook over pymssql, and ours with what they hold."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from airflow.providers.microsoft.mssql.hooks.mssql import MsSqlHook
from airflow.sdk import BaseHook
from bench_setting import connection_fields

from airflow_sqlqueue.hooks.sqlqueue import SqlQueueHook
from airflow_sqlqueue.messages.message import Message
from airflow_sqlqueue.server.settings import ConnectionSettings


@pytest.fixture
def settings(server: Any) -> ConnectionSettings:
    return ConnectionSettings.from_url(server.url("sqlqueue"))


@pytest.fixture
def mssql(connection: Any, settings: ConnectionSettings) -> MsSqlHook:
    hook = BaseHook.get_hook(connection("mssql", conn_id="mssql_default", **connection_fields(settings)))
    assert isinstance(hook, MsSqlHook)
    return hook


@pytest.fixture
def table(mssql: MsSqlHook) -> Iterator[str]:
    name = f"test_{uuid.uuid4().hex[:12]}"
    mssql.run(f"CREATE TABLE {name} (a int NOT NULL PRIMARY KEY, b nvarchar(20), c datetime2(3))")
    yield name
    mssql.run(f"DROP TABLE {name}")


def test_airflows_hook_reads_and_writes(mssql: MsSqlHook, table: str) -> None:
    assert mssql.test_connection() == (True, "Connection successfully tested")
    mssql.insert_rows(table, [(1, "één", None), (2, None, "2026-01-31 08:05:09.123")], target_fields=["a", "b", "c"])
    assert mssql.get_records(f"SELECT a, b FROM {table} WHERE a < %s ORDER BY a", parameters=(3,)) == [
        (1, "één"),
        (2, None),
    ]
    assert mssql.get_first(f"SELECT COUNT(*) FROM {table} WHERE c IS NOT NULL") == (1,)
    mssql.run([f"UPDATE {table} SET b = 'x' WHERE a = 1", f"DELETE FROM {table} WHERE a = 2"])
    assert mssql.get_records(f"SELECT a, b FROM {table}") == [(1, "x")]


def test_airflows_hook_replaces_rows_by_its_dialect(mssql: MsSqlHook, table: str) -> None:
    mssql.run(f"INSERT {table} (a, b) VALUES (1, 'old')")
    mssql.insert_rows(table, [(1, "new"), (2, "two")], target_fields=["a", "b"], replace=True)
    assert mssql.get_records(f"SELECT a, b FROM {table} ORDER BY a") == [(1, "new"), (2, "two")]


@pytest.mark.parametrize(
    ("conn_type", "extra"),
    [
        ("mssql", {"tds_version": "7.4", "charset": "UTF-8"}),
        ("odbc", {"Encrypt": "yes", "TrustServerCertificate": "yes"}),
    ],
)
def test_our_hook_takes_their_connections(
    connection: Any, settings: ConnectionSettings, conn_type: str, extra: dict[str, str]
) -> None:
    trust = {"trust_server_certificate": True} if conn_type == "mssql" else {}
    hook = SqlQueueHook(connection(conn_type, extra | trust, conn_id="theirs", **connection_fields(settings)))
    name = f"test.{uuid.uuid4().hex[:12]}"
    assert hook.create_queue(name)
    hook.send(name, [Message(body=b"x")])
    assert [message.body for message in hook.receive(name)] == [b"x"]
    hook.run(f"DROP TABLE {hook.client.resolve(name).qualified_name}")
