"""Connections that the page shows: the API server logs in with no other."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest
from bench_setting import connection_fields

from airflow_sqlqueue.hooks.sqlqueue import SqlQueueHook
from airflow_sqlqueue.messages.message import Message
from airflow_sqlqueue.server.settings import ConnectionSettings

pytestmark = pytest.mark.airflow

NAMED = "AIRFLOW__SQLQUEUE__PAGE_CONNECTIONS"
EXTRA = {"encrypt": "yes", "trust_server_certificate": True}


@pytest.fixture
def save(metadata_db: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., str]]:
    """Saves a connection in Airflow's database, as those do who edit connections; it is deleted afterwards."""
    from airflow.models.connection import Connection
    from airflow.utils.session import create_session
    from sqlalchemy import delete

    # As an API server has it: by this it reads its own database.
    monkeypatch.setenv("_AIRFLOW_PROCESS_CONTEXT", "server")
    made = []

    def make(conn_id: str, conn_type: str = "sqlqueue", **fields: Any) -> str:
        values = {"host": "127.0.0.1", "schema": "shop", "extra": EXTRA, **fields}
        with create_session() as session:
            session.add(Connection(conn_id, conn_type, **{**values, "extra": json.dumps(values["extra"])}))
        made.append(conn_id)
        return conn_id

    yield make
    with create_session() as session:
        session.execute(delete(Connection).where(Connection.conn_id.in_(made)))


@pytest.fixture
def saved(save: Any, server: Any) -> str:
    """A saved connection to the test server."""
    return str(save("saved", **connection_fields(ConnectionSettings.from_url(server.url("sqlqueue")))))


def shown(get: Any) -> set[str]:
    return {each["id"] for each in get("api/connections")["connections"]}


def test_no_saved_connection_has_the_api_server_log_in_by_itself(page: Any, get: Any, save: Any) -> None:
    with closing(socket.socket()) as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        listener.setblocking(False)
        save("saved", port=listener.getsockname()[1])
        assert "saved" not in shown(get)
        for path in ("queues", "batches", "queues/error/messages/1"):
            answer = page("GET", f"api/connections/saved/{path}")
            assert (answer.status_code, "[sqlqueue] page_connections" in answer.json()["detail"]) == (404, True)
        with pytest.raises(BlockingIOError):
            listener.accept()


def test_the_administrator_names_the_saved_connections_that_are_shown(
    get: Any, page: Any, saved: str, save: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    save("other")
    save("another", "mssql")
    monkeypatch.setenv(NAMED, saved)
    assert shown(get) == {saved}
    assert get(f"api/connections/{saved}/queues")["problem"] is None
    assert page("GET", "api/connections/other/queues").status_code == 404
    monkeypatch.setenv(NAMED, "*")
    assert shown(get) == {saved, "other"}
    assert get(f"api/connections/{saved}/queues")["problem"] is None
    assert page("GET", "api/connections/another/queues").status_code == 404
    monkeypatch.setenv(NAMED, "*, another")
    assert shown(get) == {saved, "other", "another"}


def test_connections_of_the_environment_are_the_administrators_own_and_shown(get: Any, live: str, saved: str) -> None:
    assert shown(get) == {live}


def test_the_page_says_how_a_connection_is_shown(page: Any) -> None:
    assert "[sqlqueue] page_connections" in page("GET", "static/connections.js", role=None).text


def test_synonyms_for_another_database_are_not_followed(
    page: Any, hook: SqlQueueHook, queue_name: str, other_database: str
) -> None:
    run = hook.client.run_sql
    hook.send(queue_name, [Message({"secret": "of payments"})])
    hook.client.tables.create(f"payments@[dbo]@[{other_database}]")
    hook.send(f"payments@[dbo]@[{other_database}]", [Message({"secret": "of payments"})])
    run(f"CREATE SYNONYM [dbo].[innocent] FOR [{other_database}].[dbo].[payments]")
    run(f"CREATE SYNONYM [dbo].[near] FOR [dbo].[{queue_name}]")
    queues = "api/connections/sqlqueue_default/queues"
    try:
        for ask in (
            lambda name: page("POST", f"{queues}/{name}/messages", json={}),
            lambda name: page("GET", f"{queues}/{name}/messages/1"),
            lambda name: page("POST", "api/connections/sqlqueue_default/failures", json={"queue": name}),
        ):
            answer = ask("innocent")
            assert answer.status_code == 403
            assert "does not name the database" in answer.json()["detail"]
            assert ask("near").status_code in (200, 404)
    finally:
        run("DROP SYNONYM [dbo].[innocent]")
        run("DROP SYNONYM [dbo].[near]")


@pytest.fixture
def other_database(hook: SqlQueueHook) -> Iterator[str]:
    """A database that the login reaches and the connection does not name."""
    hook.client.run_sql("CREATE DATABASE [test_behind]")
    yield "test_behind"
    hook.client.run_sql("DROP DATABASE [test_behind]")
