"""Logins by access tokens of Microsoft Entra ID: by Microsoft's driver on fakemssql, which has tokens of its own."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import azure.identity
import pytest

from airflow_sqlqueue import QueueClient
from airflow_sqlqueue.errors import ConfigurationError, LoginFailedError, TransactionError
from airflow_sqlqueue.messages.routing import AddressResolver
from airflow_sqlqueue.server import entra
from airflow_sqlqueue.server.session import Session
from airflow_sqlqueue.server.settings import ConnectionSettings
from airflow_sqlqueue.server.sql import Query
from airflow_sqlqueue.spark.secrets import broadcast
from fakemssql import FakeServer

WHO = Query("who", "ask who is logged in", "SELECT SUSER_SNAME();")


@pytest.fixture(scope="module")
def fake(server: Any) -> FakeServer:
    if not isinstance(server, FakeServer):
        pytest.skip("a real server takes tokens of a real tenant only")
    return server


@pytest.fixture
def settings(fake: FakeServer) -> ConnectionSettings:
    keywords = {"Encrypt": "yes", "TrustServerCertificate": "yes"}
    return ConnectionSettings(fake.host, "sqlqueue", fake.port, keywords=keywords, access_token=fake.access_token)


@pytest.fixture
def identities(monkeypatch: pytest.MonkeyPatch, fake: FakeServer) -> Iterator[list[Any]]:
    """Requests to azure-identity, which returns tokens of the server."""
    asked: list[Any] = []

    def credential(*arguments: Any, **named: Any) -> Any:
        def get_token(scope: str) -> Any:
            asked.append((*arguments, *named.values(), scope))
            return SimpleNamespace(token=fake.access_token())

        return SimpleNamespace(get_token=get_token)

    for name in ("DefaultAzureCredential", "ClientSecretCredential"):
        monkeypatch.setattr(azure.identity, name, credential)
    yield asked
    entra._default_credential.cache_clear()
    entra._client_credential.cache_clear()


def test_each_connection_is_opened_with_a_token_of_its_own(settings: ConnectionSettings, fake: FakeServer) -> None:
    lifetimes = iter([60.0, -1.0, 60.0])
    settings = replace(settings, access_token=lambda: fake.access_token(lifetime=next(lifetimes)))
    with Session(settings) as session:
        assert session.value(WHO) == fake.user
    with pytest.raises(LoginFailedError, match=r"refused the access token .* has not expired"):
        Session(settings).__enter__()
    with Session(settings) as session:
        assert session.value(WHO) == fake.user


def test_the_default_identity_is_asked_for_through_azure_identity(fake: FakeServer, identities: list[Any]) -> None:
    query = "Encrypt=yes&TrustServerCertificate=yes&Authentication=ActiveDirectoryDefault"
    for user in ("", "an-app@"):
        client = QueueClient.from_url(f"mssql://{user}{fake.host}:{fake.port}/sqlqueue?{query}")
        client.ping()
        client.ping()
    scope = "https://database.windows.net/.default"
    assert identities == [(None, scope)] * 2 + [("an-app", scope)] * 2
    assert pickle.loads(pickle.dumps(client.settings)) == client.settings


def test_an_identity_that_gets_no_token_is_one_sentence(settings: ConnectionSettings, monkeypatch: Any) -> None:
    def refuse(**_: Any) -> Any:
        raise RuntimeError("hush")

    entra._default_credential.cache_clear()
    credential = SimpleNamespace(get_token=lambda scope: refuse())
    monkeypatch.setattr(azure.identity, "DefaultAzureCredential", lambda **_: credential)
    settings = replace(settings, access_token=entra.DefaultToken(entra.scope_of(settings.host)))
    with pytest.raises(LoginFailedError, match="Entra ID gave no access token") as raised:
        Session(settings).__enter__()
    entra._default_credential.cache_clear()
    assert "hush" not in str(raised.value)


def test_two_tokens_are_two_logins_of_one_transaction(settings: ConnectionSettings, fake: FakeServer) -> None:
    resolver = AddressResolver(default_catalog="sqlqueue")
    other = QueueClient(replace(settings, access_token=lambda: fake.access_token()), resolver)
    client = QueueClient(settings, resolver)
    with client.transaction():
        assert [tuple(row) for row in client.run_sql("SELECT SUSER_SNAME();")] == [(fake.user,)]
        with pytest.raises(TransactionError, match="cannot commit together"):
            other.run_sql("SELECT 1;")


def test_settings_with_a_token_of_ones_own_are_in_no_pickle_and_no_text(settings: ConnectionSettings) -> None:
    token = settings.access_token() if settings.access_token else ""
    assert token not in repr(settings) + settings.odbc_connection_string()
    assert "UID" not in settings.odbc_connection_string()
    with pytest.raises(ConfigurationError, match="executors cannot ask for this login's access token"):
        pickle.dumps(settings)
    session: Any = SimpleNamespace(sparkContext=SimpleNamespace())
    with pytest.raises(ConfigurationError, match="executors cannot ask for this login's access token"):
        broadcast(session, settings)


def test_an_invalid_token_never_reaches_the_driver(settings: ConnectionSettings) -> None:
    for text in ("", "too short", "x" * 40 + "\n", "\N{SNOWMAN}" * 40):
        with pytest.raises(ConfigurationError, match="The text given as access token is not a token"):
            Session(replace(settings, access_token=lambda text=text: text)).__enter__()  # type: ignore[misc]
