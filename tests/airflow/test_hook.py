"""The hook without a server: its registration with Airflow."""

from __future__ import annotations

import sys
import uuid
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import BaseHook
from airflow.sdk._shared.secrets_masker import _secrets_masker
from airflow.sdk.log import redact
from sqlalchemy.engine import make_url

from airflow_sqlqueue.errors import ServerUnreachableError
from airflow_sqlqueue.hooks.sqlqueue import SqlQueueHook

PASSWORD = "correct}horse;battery"


@pytest.fixture
def hook(connection: Any) -> SqlQueueHook:
    return SqlQueueHook(
        connection(
            host="127.0.0.1",
            port=1,
            login="sa",
            password=PASSWORD,
            extra={"login_timeout": 1, "keywords": '{"KeystoreSecret": "hush-hush"}'},
        )
    )


def test_airflow_finds_the_hook_by_the_connections_type(connection: Any) -> None:
    hook = BaseHook.get_hook(connection(), hook_params={"default_schema": "nsb"})
    assert isinstance(hook, SqlQueueHook)
    assert hook.client.resolve("audit").schema == "nsb"


def test_secrets_are_masked_in_every_form_they_are_written_in(hook: SqlQueueHook, monkeypatch: Any) -> None:
    monkeypatch.setattr(_secrets_masker(), "min_length_to_mask", 5)
    text = hook.queue_connection.settings.odbc_connection_string()
    for found in (PASSWORD, text, hook.get_uri()):
        masked = str(redact(found))
        assert "horse" not in masked
        assert "hush" not in masked


def test_passwords_of_a_connection_string_are_masked_the_one_not_used_too(connection: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(_secrets_masker(), "min_length_to_mask", 5)
    text = 'Server=h;Database=d;User ID=u;Password="hush;""horse"'
    hook = SqlQueueHook(connection(extra={"connection_string": text}, password="battery"))
    assert hook.queue_connection.settings.password == "battery"
    assert "hush" not in repr(hook.queue_connection)
    for found in ("battery", 'hush;"horse', text, f"Error in {text}", text.partition("Password=")[2]):
        masked = str(redact(found))
        assert "horse" not in masked
        assert "battery" not in masked


def test_lineage_names_the_server_of_a_connection_string(connection: Any, monkeypatch: Any) -> None:
    sqlparser = SimpleNamespace(DatabaseInfo=SimpleNamespace)
    monkeypatch.setitem(sys.modules, "airflow.providers.openlineage.sqlparser", sqlparser)
    extra = {"connection_string": "Server=h,1500;Database=d"}
    hook = SqlQueueHook(connection(extra=extra, host=None, schema=None))
    info: Any = hook.get_openlineage_database_info(hook.connection)
    assert (info.scheme, info.authority, info.database) == ("mssql", "h:1500", "d")


def test_an_unreachable_server_is_one_sentence(hook: SqlQueueHook) -> None:
    sentence = "No SQL Server answers at 127.0.0.1:1: check the host, the port and that the server runs."
    assert hook.test_connection() == (False, sentence)
    with pytest.raises(ServerUnreachableError) as raised:
        hook.get_conn()
    assert str(raised.value) == sentence


def test_a_broken_connection_fails_the_test_with_its_reason(connection: Any) -> None:
    ok, sentence = SqlQueueHook(connection(schema="")).test_connection()
    assert not ok
    assert "names no database" in sentence


def test_the_sqlalchemy_url_carries_the_connection_string(hook: SqlQueueHook) -> None:
    url = make_url(hook.get_uri())
    assert url.drivername == "mssql+pyodbc"
    assert url.query["odbc_connect"] == hook.queue_connection.settings.odbc_connection_string()
    assert hook.dialect_name == "mssql"
    assert type(hook.dialect).__name__ == "MsSqlDialect"


def test_cells_are_bound_as_they_are(hook: SqlQueueHook) -> None:
    row = (b"\x00\xff", uuid.uuid4(), None)
    assert hook._serialize_cells(row) == row
    assert hook.placeholder == "?"
    assert not hook.log_sql
