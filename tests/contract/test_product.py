"""Kinds of servers: the package refuses an old server and a warehouse with a sentence."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import pytest

from airflow_sqlqueue.errors import ConfigurationError, StatementError, UnsupportedServerError
from airflow_sqlqueue.server.session import Session
from airflow_sqlqueue.server.sql import Query
from fakemssql import FakeServer
from tests.conftest import Server
from tests.contract.conftest import Connect, run_sql

AZURE = "12.0.2000.8"


@pytest.fixture
def fake(server: Server) -> FakeServer:
    if not isinstance(server, FakeServer):
        pytest.skip("only fakemssql says of itself what a test wants")
    return server


def test_the_session_knows_the_edition(connect: Connect) -> None:
    with connect() as session:
        assert run_sql(session, "SELECT SERVERPROPERTY('EngineEdition')")[0][0] == session.engine_edition


@pytest.mark.parametrize(
    ("edition", "version"),
    [
        (2, "13.0.1601.5"),
        (3, "17.0.1000.7"),
        (4, "14.0.1000.169"),
        (5, AZURE),
        (8, AZURE),
        (9, "15.0.2000.1574"),
        (10, "16.0.42.1"),
        (12, AZURE),
    ],
)
def test_products_of_sql_server_and_azure(fake: FakeServer, connect: Connect, edition: int, version: str) -> None:
    with fake.switched(properties={"EngineEdition": edition, "ProductVersion": version}), connect() as session:
        assert session.engine_edition == edition


@pytest.mark.parametrize(
    ("edition", "version", "words"),
    [
        (3, "12.0.6024.0", "has version 12.0.6024.0, before SQL Server 2016"),
        (4, "11.0.2100.60", "before SQL Server 2016"),
        (6, "10.0.22567.0", "is a dedicated SQL pool of Azure Synapse Analytics, which has no queue tables"),
        (11, AZURE, "is a warehouse or SQL analytics endpoint of Microsoft Fabric"),
    ],
)
@pytest.mark.parametrize("knows_the_settings", [True, False])
def test_others_are_refused(
    fake: FakeServer, connect: Connect, edition: int, version: str, words: str, knows_the_settings: bool
) -> None:
    run = Session.run

    def run_other(session: Session, statement: Query, *values: Any, **options: Any) -> list[Any]:
        if statement.name == "session.settings" and not knows_the_settings:
            raise StatementError("Could not prepare the connection: SQL Server answered with error 104409.", 104409)
        return run(session, statement, *values, **options)

    with (
        fake.switched(properties={"EngineEdition": edition, "ProductVersion": version}),
        patch.object(Session, "run", run_other),
        pytest.raises(UnsupportedServerError, match=words) as refused,
    ):
        connect()
    assert isinstance(refused.value, ConfigurationError)
    assert f"The server at {fake.host}:{fake.port} " in str(refused.value)


def test_a_supported_server_that_refuses_the_settings_says_why(fake: FakeServer, connect: Connect) -> None:
    def refuse(session: Session, statement: Query, *values: Any, **options: Any) -> list[Any]:
        if statement.name == "session.settings":
            raise StatementError("the settings", 195)
        return [(3, "16.0.1000.6")]

    with patch.object(Session, "run", refuse), pytest.raises(StatementError, match="the settings"):
        connect()
