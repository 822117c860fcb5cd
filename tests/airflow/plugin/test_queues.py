"""The queues of a connection on the page: counts, rates, findings, a server that is down, and what it all costs."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from bench_page import database_with_queues
from bench_setting import connection_fields

from airflow_sqlqueue import QueueClient
from airflow_sqlqueue.errors import LockTimeoutError
from airflow_sqlqueue.hooks.sqlqueue import SqlQueueHook
from airflow_sqlqueue.messages.message import Message
from airflow_sqlqueue.queue.inspection.overview import DatabaseOverview
from airflow_sqlqueue.server.session import Session
from airflow_sqlqueue.server.sql import Query

pytestmark = pytest.mark.airflow

QUEUES = "api/connections/sqlqueue_default/queues"


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Statements of sessions, one entry for each round trip."""
    texts: list[str] = []
    results = Session.results

    def noted(self: Session, statement: Query, *values: Any, **options: Any) -> Any:
        texts.append(statement.name)
        return results(self, statement, *values, **options)

    monkeypatch.setattr(Session, "results", noted)
    return texts


def one(answer: Any, name: str) -> Any:
    (found,) = [each for each in answer["queues"] if each["name"] == name]
    return found


def test_a_queue_with_its_counts_and_rates(get: Any, hook: SqlQueueHook, queue_name: str) -> None:
    hook.send(queue_name, [Message({"NServiceBus.TimeSent": "2026-01-01 12:00:00:000000 Z"})] * 5)
    first = one(get(QUEUES), queue_name)
    assert first["address"] == hook.client.resolve(queue_name).canonical
    assert (first["messages"], first["kind"], first["is_estimate"]) == (5, "queue", True)
    assert (first["rate_in"], first["rate_out"]) == (None, None)
    hook.send(queue_name, [Message()] * 3)
    hook.receive(queue_name, 2)
    second = one(get(QUEUES), queue_name)
    assert second["messages"] == 6
    assert second["rate_in"] > second["rate_out"] > 0
    assert second["rate_out"] / second["rate_in"] == pytest.approx(2 / 3, abs=0.05)
    assert second["oldest_seconds"] > 0
    # A point a minute.
    assert [count for _, count in second["history"]] == [5]


def test_findings_come_with_the_statement_that_mends_them(get: Any, hook: SqlQueueHook, queue_name: str) -> None:
    table = hook.client.resolve(queue_name).qualified_name
    hook.client.run_sql(f"DROP INDEX [Index_RowVersion] ON {table}")
    (finding,) = one(get(QUEUES), queue_name)["findings"]
    assert finding["severity"] == "error"
    assert "every receive scans" in finding["sentence"]
    hook.client.run_sql(finding["statement"])
    get(QUEUES)
    assert SqlQueueHook("sqlqueue_default").client.tables.inspect(queue_name).findings == ()


def test_queues_stay_as_they_were_while_the_catalog_is_locked(
    get: Any, hook: SqlQueueHook, queue_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by a CREATE or ALTER that is not committed, for which the catalog views of SQL Server wait."""
    hook.send(queue_name, [Message()] * 5)
    assert one(get(QUEUES), queue_name)["messages"] == 5

    def wait(overview: DatabaseOverview, session: Session) -> None:
        raise LockTimeoutError("Could not look at the queues of the database: others hold the locks for too long.")

    with monkeypatch.context() as locked:
        locked.setattr(DatabaseOverview, "read", wait)
        for _ in range(2):
            answer = get(QUEUES)
            assert one(answer, queue_name)["messages"] == 5
            assert "others hold the locks" in answer["problem"]
            assert "from the last snapshot" in answer["problem"]
    hook.send(queue_name, [Message()])
    answer = get(QUEUES)
    assert (one(answer, queue_name)["messages"], answer["problem"]) == (6, None)


def test_a_server_that_is_down_is_a_sentence(get: Any, page: Any, connection: Any) -> None:
    connection(host="127.0.0.1", port=1)
    answer = get(QUEUES)
    assert answer["queues"] == []
    assert "No SQL Server answers at 127.0.0.1:1" in answer["problem"]
    assert get("api/connections/sqlqueue_default/batches")["batches"] == []
    refused = page("GET", f"{QUEUES}/audit/messages/1")
    assert refused.status_code == 503
    assert "No SQL Server answers" in refused.json()["detail"]


def test_a_connection_that_cannot_be_used_is_a_sentence(page: Any, connection: Any) -> None:
    connection(schema="", password="p4ssword")
    answer = page("GET", QUEUES)
    assert answer.status_code == 400
    assert "names no database" in answer.json()["detail"]
    assert "p4ssword" not in answer.text


def test_a_database_that_is_missing_leaves_the_others(get: Any, live: str, monkeypatch: Any, queue_name: str) -> None:
    import json
    import os

    values = json.loads(os.environ["AIRFLOW_CONN_SQLQUEUE_DEFAULT"])
    values["extra"]["allowed_catalogs"] = f"{values['schema']}, nowhere"
    monkeypatch.setenv("AIRFLOW_CONN_SQLQUEUE_DEFAULT", json.dumps(values))
    answer = get(QUEUES)
    assert "nowhere" in answer["problem"] or "does not exist" in answer["problem"]
    assert one(answer, queue_name)["messages"] == 0


def test_requests_during_a_snapshot_get_the_previous_one(
    get: Any, page: Any, hook: SqlQueueHook, queue_name: str, statements: list[str], monkeypatch: Any
) -> None:
    from airflow_sqlqueue.plugin import snapshots

    get(QUEUES)
    (watched,) = snapshots.SNAPSHOTS._watched.values()
    looks_before = statements.count("overview")
    with watched.mutex:
        assert one(get(QUEUES), queue_name)["messages"] == 0
    assert statements.count("overview") == looks_before
    monkeypatch.setattr(snapshots, "FRESH_SECONDS", 60.0)
    assert one(get(QUEUES, user="ulf"), queue_name)["messages"] == 0
    assert statements.count("overview") == looks_before


def test_too_many_requests_at_once_get_503(page: Any, live: str, queue_name: str, monkeypatch: Any) -> None:
    from airflow_sqlqueue.plugin import servers

    monkeypatch.setattr(servers, "WAIT_SECONDS", 0.05)
    client = servers.client_of(live)
    with servers.SESSIONS.session(live, client), servers.SESSIONS.session(live, client):
        answer = page("GET", f"{QUEUES}/{queue_name}/messages/1")
        assert answer.status_code == 503
        assert "is busy with other requests" in answer.json()["detail"]
    monkeypatch.setattr(servers, "MAX_SESSIONS", 1)
    with servers.SESSIONS.session("another", client):
        answer = page("GET", f"{QUEUES}/{queue_name}/messages/1")
        assert (answer.status_code, "Too many" in answer.json()["detail"]) == (503, True)
    assert page("GET", f"{QUEUES}/{queue_name}/messages/1").status_code == 404


def test_waiting_for_the_first_snapshot_does_not_hold_all_threads(page: Any, live: str) -> None:
    from airflow_sqlqueue.plugin import servers, snapshots

    watched = snapshots.SNAPSHOTS._watch(live, servers.client_of(live))
    while watched.waiting.acquire(blocking=False):
        pass
    answer = page("GET", QUEUES)
    assert (answer.status_code, "Too many" in answer.json()["detail"]) == (503, True)


def test_a_connection_is_found_by_its_own_name_alone(page: Any, live: str) -> None:
    """Airflow finds one of the environment by any case of its letters."""
    answer = page("GET", "api/connections/SqlQueue_Default/queues")
    assert (answer.status_code, "no connection" in answer.json()["detail"]) == (404, True)


def test_a_database_that_the_connection_does_not_name_is_not_shown(page: Any, live: str) -> None:
    """Not even where the login reaches it."""
    told = [
        page("POST", f"{QUEUES}/error@[dbo]@[master]/messages", json={}),
        page("GET", f"{QUEUES}/error@[dbo]@[master]/messages/1"),
    ]
    assert [(each.status_code, "does not name the database 'master'" in each.json()["detail"]) for each in told] == [
        (403, True),
        (403, True),
    ]


def test_a_connection_that_names_another_database_is_watched_anew(live: str) -> None:
    """Also where its routing settings name the default database, as they did before."""
    from airflow_sqlqueue.plugin import servers, snapshots

    client, taken = servers.client_of(live), snapshots.Snapshots()
    moved = QueueClient(replace(client.settings, database="moved"), client.resolver)
    names = [[each.catalog for each in taken._watch(live, one).databases] for one in (client, moved)]
    assert ["moved" in each for each in names] == [False, True]


def test_a_statement_that_takes_too_long_is_given_up(page: Any, hook: SqlQueueHook, queue_name: str) -> None:
    """A lock on the whole table, which a look at a message waits for, is one of those."""
    from airflow_sqlqueue.plugin import servers

    client = servers.client_of("sqlqueue_default")
    with servers.SESSIONS.session("sqlqueue_default", client) as session:
        assert session._connection.timeout == servers.STATEMENT_SECONDS
        assert session.settings.login_timeout <= servers.LOGIN_SECONDS
    locked, done = threading.Event(), threading.Event()

    def hold() -> None:
        with hook.client.session() as holder, holder.transaction():
            table = hook.client.resolve(queue_name).qualified_name
            holder.run(Query("hold", "hold the table", f"SELECT COUNT(*) FROM {table} WITH (TABLOCKX, HOLDLOCK)"))
            locked.set()
            done.wait(60)

    holder = threading.Thread(target=hold)
    holder.start()
    try:
        assert locked.wait(60)
        started = time.monotonic()
        answer = page("GET", f"{QUEUES}/{queue_name}/messages/1")
        assert answer.status_code == 503
        assert time.monotonic() - started < 60
    finally:
        done.set()
        holder.join(60)


@pytest.fixture
def crowd(connection: Any, hook: SqlQueueHook) -> Iterator[int]:
    """The connection leads to a database of its own with 200 queues, with counts by the catalog."""
    with database_with_queues(hook.client) as client:
        extra = {"encrypt": "yes", "trust_server_certificate": True}
        connection(**connection_fields(client.settings), extra=extra)
        yield 10_000_000


def test_200_queues_cost_one_round_trip(get: Any, crowd: int, statements: list[str]) -> None:
    """Whichever look it is: besides, there are the login and its two settings."""
    for _ in range(3):
        statements.clear()
        answer = get(QUEUES)
        assert sum(each["messages"] for each in answer["queues"]) == crowd
        assert len(answer["queues"]) == 200
        assert [name for name in statements if not name.startswith("session.")] == ["overview"]
        assert len(statements) <= 3
