"""Logins by access tokens that an Airflow connection gives."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import azure.identity
import pytest
from sqlalchemy import text

from airflow_sqlqueue.errors import ConfigurationError, LoginFailedError
from airflow_sqlqueue.hooks.sqlqueue import SqlQueueHook
from airflow_sqlqueue.server import entra
from fakemssql import FakeServer


@pytest.fixture
def hook(connection: Any, server: Any) -> SqlQueueHook:
    if not isinstance(server, FakeServer):
        pytest.skip("a real server takes tokens of a real tenant only")
    extra = {"trust_server_certificate": True, "access_token_conn_id": "entra"}
    return SqlQueueHook(connection(host=server.host, port=server.port, schema="sqlqueue", extra=extra))


def test_the_token_is_read_anew_for_every_connection(hook: SqlQueueHook, connection: Any, server: Any) -> None:
    connection("generic", conn_id="entra", password=server.access_token())
    assert hook.get_first("SELECT SUSER_SNAME()") == (server.user,)
    connection("generic", conn_id="entra", password=server.access_token(lifetime=-1))
    with pytest.raises(LoginFailedError, match="refused the access token"):
        hook.get_first("SELECT 1")
    connection("generic", conn_id="entra", password=server.access_token())
    with hook.get_sqlalchemy_engine().connect() as engine:
        assert engine.execute(text("SELECT SUSER_SNAME()")).scalar() == server.user
    assert hook.test_connection()[0]


def test_a_connection_to_azure_gives_the_token_of_its_application(
    hook: SqlQueueHook, connection: Any, server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def credential(*arguments: str) -> Any:
        def get_token(scope: str) -> Any:
            asked.append((*arguments, scope))
            return SimpleNamespace(token=server.access_token())

        return SimpleNamespace(get_token=get_token)

    monkeypatch.setattr(azure.identity, "ClientSecretCredential", credential)
    entra._client_credential.cache_clear()
    connection("azure", conn_id="entra", login="app", password="secret", extra={"tenantId": "tenant"})
    assert hook.get_first("SELECT SUSER_SNAME()") == (server.user,)
    entra._client_credential.cache_clear()
    assert asked == [("tenant", "app", "secret", "https://database.windows.net/.default")]


@pytest.mark.parametrize("fields", [{}, {"password": "p", "extra": {"tenantId": "t"}}, None])
def test_a_connection_that_gives_no_token_is_one_sentence(hook: SqlQueueHook, connection: Any, fields: Any) -> None:
    if fields is not None:
        connection("azure", conn_id="entra", **fields)
    ok, sentence = hook.test_connection()
    assert not ok
    assert "'entra' gives no access token" in sentence or "There is no connection 'entra'" in sentence


def test_a_login_beside_a_token_is_refused(connection: Any) -> None:
    with pytest.raises(ConfigurationError, match="An access token is all that a login takes"):
        _ = SqlQueueHook(connection(login="sa", extra={"access_token_conn_id": "entra"})).client


def test_the_forms_choice_is_the_drivers_keyword(connection: Any) -> None:
    hook = SqlQueueHook(connection(login="id", extra={"authentication": "ActiveDirectoryMsi"}))
    assert "Authentication={ActiveDirectoryMsi};UID={id};" in hook.client.settings.odbc_connection_string()
    assert "PWD" not in hook.client.settings.odbc_connection_string()
