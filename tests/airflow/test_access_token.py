"""Logins by access tokens that an Airflow connection gives."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import azure.identity
import pytest
from sqlalchemy import text

from airflow_sqlqueue.errors import ConfigurationError, LoginFailedError
from airflow_sqlqueue.hooks import access_token
from airflow_sqlqueue.hooks.sqlqueue import SqlQueueHook
from airflow_sqlqueue.server import entra
from fakemssql import FakeServer

MARKED = {"sqlqueue_access_token": True}
TOKEN = "wJalrXUtnFEMI-K7MDENG-bPxRfiCYEXAMPLEKEY"


@pytest.fixture
def hook(connection: Any, server: Any, monkeypatch: pytest.MonkeyPatch) -> SqlQueueHook:
    if not isinstance(server, FakeServer):
        pytest.skip("a real server takes tokens of a real tenant only")
    monkeypatch.setenv("AIRFLOW__SQLQUEUE__TOKEN_HOSTS", server.host)
    extra = {"trust_server_certificate": True, "access_token_conn_id": "entra"}
    return SqlQueueHook(connection(host=server.host, port=server.port, schema="sqlqueue", extra=extra))


def test_the_token_is_read_anew_for_every_connection(hook: SqlQueueHook, connection: Any, server: Any) -> None:
    connection("generic", MARKED, conn_id="entra", password=server.access_token())
    assert hook.get_first("SELECT SUSER_SNAME()") == (server.user,)
    connection("generic", MARKED, conn_id="entra", password=server.access_token(lifetime=-1))
    with pytest.raises(LoginFailedError, match="refused the access token"):
        hook.get_first("SELECT 1")
    connection("generic", MARKED, conn_id="entra", password=server.access_token())
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
    connection("azure", conn_id="entra", login="app", password="secret", extra={"tenantId": "tenant", **MARKED})
    assert hook.get_first("SELECT SUSER_SNAME()") == (server.user,)
    entra._client_credential.cache_clear()
    assert asked == [("tenant", "app", "secret", "https://database.windows.net/.default")]


@pytest.mark.parametrize("fields", [{"extra": MARKED}, {"password": "p", "extra": {"tenantId": "t", **MARKED}}, None])
def test_a_connection_that_gives_no_token_is_one_sentence(hook: SqlQueueHook, connection: Any, fields: Any) -> None:
    if fields is not None:
        connection("azure", conn_id="entra", **fields)
    ok, sentence = hook.test_connection()
    assert not ok
    assert "'entra' gives no access token" in sentence or "There is no connection 'entra'" in sentence


def test_a_login_beside_a_token_is_refused(connection: Any) -> None:
    with pytest.raises(ConfigurationError, match="An access token is enough for a login"):
        _ = SqlQueueHook(connection(login="sa", extra={"access_token_conn_id": "entra"})).client


def test_the_forms_choice_is_the_drivers_keyword(connection: Any) -> None:
    host = "shop.database.windows.net"
    hook = SqlQueueHook(connection(host=host, login="id", extra={"authentication": "ActiveDirectoryMsi"}))
    assert "Authentication={ActiveDirectoryMsi};UID={id};" in hook.client.settings.odbc_connection_string()
    assert "PWD" not in hook.client.settings.odbc_connection_string()


@pytest.mark.parametrize("extra", [{}, {"tenantId": "tenant"}, {"sqlqueue_access_token": "false"}])
def test_a_connection_of_another_kind_gives_no_token(
    hook: SqlQueueHook, connection: Any, extra: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its password would go to whatever server the first connection names."""
    monkeypatch.setattr(access_token, "client_token", lambda *_: TOKEN)
    connection("aws", extra, conn_id="entra", login="AKIA", password=TOKEN)
    token = hook.queue_connection.settings.access_token
    assert token is not None
    with pytest.raises(ConfigurationError, match="'entra' is not one that gives access tokens: set sqlqueue_access_t"):
        token()
    monkeypatch.setenv("AIRFLOW__SQLQUEUE__ACCESS_TOKEN_CONNECTIONS", "other, entra")
    assert token() == TOKEN


AUTHENTICATIONS: list[dict[str, Any]] = [
    {"extra": {"access_token_conn_id": "entra"}},
    {"extra": {"authentication": "ActiveDirectoryDefault"}},
    {"extra": {"keywords": {"AUTHENTICATION": "activedirectorymsi"}}},
    {"extra": {"authentication": "ActiveDirectoryIntegrated"}},
    {"extra": {"authentication": "ActiveDirectoryPassword"}, "login": "u", "password": "p"},
    {"extra": {"authentication": "ActiveDirectoryServicePrincipal"}, "login": "u", "password": "p"},
    {"extra": {"connection_string": "Server=h;Database=d;Authentication=Active Directory Managed Identity"}},
]


@pytest.mark.parametrize("fields", AUTHENTICATIONS)
def test_a_token_of_entra_goes_to_no_host_but_azures_and_those_that_are_allowed(
    connection: Any, fields: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for host in (
        "127.0.0.1",
        "sql.example.com",
        "database.windows.net",
        "database.windows.net.example.com",
        "xdatabase.windows.net",
        "example.com,1433/.database.windows.net",
        "tcp:example.com,1433 .database.windows.net",
        "example.com;x.database.windows.net",
        "example.com\n.database.windows.net",
    ):
        with pytest.raises(ConfigurationError, match=r"\[sqlqueue\] token_hosts|more than a server's name"):
            _ = SqlQueueHook(connection(host=host, **fields)).client
    for host in (
        "shop.database.windows.net",
        "SHOP.Database.Windows.Net",
        "mi.0123abcd.database.windows.net",
        "x-y.database.fabric.microsoft.com",
        "shop.database.chinacloudapi.cn",
        "shop.database.usgovcloudapi.net",
    ):
        assert SqlQueueHook(connection(host=host, **fields)).client.settings.host == host
    monkeypatch.setenv("AIRFLOW__SQLQUEUE__TOKEN_HOSTS", "127.0.0.1, .db.example.com")
    for host in ("127.0.0.1", "a.b.db.example.com"):
        assert SqlQueueHook(connection(host=host, **fields)).client.settings.host == host
    with pytest.raises(ConfigurationError, match=r"'db\.example\.com' is not one of Azure's"):
        _ = SqlQueueHook(connection(host="db.example.com", **fields)).client


def test_the_mirror_of_a_server_is_a_host_that_gets_tokens_too(connection: Any) -> None:
    extra = {"authentication": "ActiveDirectoryMsi", "keywords": {"failover_partner": "example.com"}}
    with pytest.raises(ConfigurationError, match=r"'example\.com' is not one of Azure's"):
        _ = SqlQueueHook(connection(host="shop.database.windows.net", extra=extra)).client


@pytest.mark.parametrize("authentication", [None, "SqlPassword"])
def test_a_login_with_a_password_of_its_own_goes_to_any_host(connection: Any, authentication: Any) -> None:
    extra = {} if authentication is None else {"authentication": authentication}
    assert SqlQueueHook(connection(host="sql.example.com", login="u", password="p", extra=extra)).client.settings
