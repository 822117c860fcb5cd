"""Rights on the page: every route with every role and without a login, checked before any other part of a request."""

from __future__ import annotations

import socket
import uuid
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from tests.airflow.plugin.conftest import ROLES

pytestmark = pytest.mark.airflow

CONNECTION = "api/connections/{conn_id}"
PAGE = {("GET", "page"), ("GET", "api/session"), ("GET", "api/connections")}
READ = {
    ("GET", f"{CONNECTION}/queues"),
    ("POST", f"{CONNECTION}/queues/{{address}}/messages"),
    ("GET", f"{CONNECTION}/queues/{{address}}/messages/{{row_version}}"),
    ("GET", f"{CONNECTION}/batches"),
    ("GET", f"{CONNECTION}/batches/{{batch_id}}"),
    ("POST", f"{CONNECTION}/failures"),
    ("POST", f"{CONNECTION}/conversation"),
    ("GET", f"{CONNECTION}/actions/{{run_id}}"),
}
RUN = {("POST", f"{CONNECTION}/actions/preview"), ("POST", f"{CONNECTION}/actions")}
ACT = {*RUN, ("POST", f"{CONNECTION}/queues/{{address}}/messages/{{row_version}}/edit")}
BODIES = {("GET", f"{CONNECTION}/queues/{{address}}/messages/{{row_version}}/body")}
BY_TOKEN = {("GET", "metrics")}

VALUES = {
    "conn_id": "sqlqueue_default",
    "address": "audit",
    "row_version": "1",
    "batch_id": str(uuid.uuid4()),
    "run_id": "some_run",
}
REFUSED = (401, 403)


def routes(app: Any) -> set[tuple[str, str]]:
    """Every route of the app, at any depth; static files are public."""
    found = set()
    for route in app.routes:
        if getattr(route, "name", None) == "static":
            continue
        found |= {(method, route.path.lstrip("/")) for method in route.methods - {"HEAD"}}
    return found


@pytest.fixture
def unasked(connection: Any) -> Iterator[Any]:
    """A connection to a server that no request may reach; it never answers."""
    with closing(socket.socket()) as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        listener.setblocking(False)
        connection(host="127.0.0.1", port=listener.getsockname()[1])
        yield listener
        with pytest.raises(BlockingIOError):
            listener.accept()


def refusals(page: Any, paths: set[tuple[str, str]], role: str | None) -> dict[str, Any]:
    """Responses to a role's requests that are invalid in every other way too."""
    found = {}
    for method, path in paths:
        options = {"content": b"{"} if method == "POST" else {}
        answer = page(method, path.format(**VALUES), role=role, **options)
        assert answer.status_code != 500, path
        found[f"{method} {path}"] = answer.status_code
    return found


def all_of(paths: set[tuple[str, str]], status: int) -> dict[str, int]:
    return {f"{method} {path}": status for method, path in paths}


def test_no_route_is_forgotten_here(page: Any) -> None:
    from airflow_sqlqueue.plugin.app import the_app

    assert routes(the_app()) == PAGE | READ | ACT | BODIES | BY_TOKEN


def test_a_request_without_a_login_gets_401(page: Any, unasked: Any, logged: Any) -> None:
    before = len(logged())
    paths = PAGE | READ | ACT | BODIES | BY_TOKEN
    assert refusals(page, paths, None) == all_of(paths, 401)
    assert len(logged()) == before


@pytest.mark.parametrize("role", ["USER", "VIEWER"])
def test_the_connections_routes_need_the_right_to_read_it(page: Any, unasked: Any, logged: Any, role: str) -> None:
    before = len(logged())
    paths = READ | ACT | BODIES
    assert refusals(page, paths, role) == all_of(paths, 403)
    assert page("GET", "api/connections", role=role).json() == {"connections": []}
    assert refusals(page, PAGE, role) == all_of(PAGE, 200)
    assert len(logged()) == before


@pytest.mark.parametrize("role", ["USER", "VIEWER"])
def test_an_open_connection_is_read_by_all_and_acted_on_by_few(
    page: Any, get: Any, live: str, monkeypatch: Any, logged: Any, role: str
) -> None:
    monkeypatch.setenv("AIRFLOW__SQLQUEUE__PAGE_OPEN_CONNECTIONS", f"other, {live}")
    monkeypatch.setenv("AIRFLOW__SQLQUEUE__PAGE_SHOW_BODIES", "True")
    before = len(logged())
    assert not {status for status in refusals(page, READ, role).values() if status in REFUSED}
    assert refusals(page, ACT | BODIES, role) == all_of(ACT | BODIES, 403)
    (shown,) = get("api/connections", role=role)["connections"]
    assert shown == {"id": live, "host": None, "may_act": False, "bodies_refused": shown["bodies_refused"]}
    assert "the right to read 'SQL Queue Bodies'" in shown["bodies_refused"]
    assert len(logged()) == before


@pytest.mark.parametrize("role", ["ADMIN", "OP"])
def test_the_right_to_edit_the_connection_allows_all_but_bodies(page: Any, get: Any, live: str, role: str) -> None:
    assert not {status for status in refusals(page, PAGE | READ | ACT, role).values() if status in REFUSED}
    assert refusals(page, BODIES, role) == all_of(BODIES, 403)
    (shown,) = get("api/connections", role=role)["connections"]
    refusal = "The page shows no bodies: [sqlqueue] page_show_bodies in Airflow's configuration is off."
    assert shown == {"id": live, "host": "127.0.0.1", "may_act": True, "bodies_refused": refusal}


@pytest.mark.parametrize("role", ROLES)
def test_bodies_are_switched_on_for_those_who_may_edit(
    page: Any, get: Any, live: str, monkeypatch: Any, role: str
) -> None:
    monkeypatch.setenv("AIRFLOW__SQLQUEUE__PAGE_SHOW_BODIES", "True")
    for shown in get("api/connections", role=role)["connections"]:
        assert (shown["bodies_refused"] is None) is (role in ("ADMIN", "OP"))
    statuses = refusals(page, BODIES, role).values()
    assert set(statuses) == ({404} if role in ("ADMIN", "OP") else {403})


def test_rights_of_another_auth_manager_are_asked_one_by_one(page: Any, live: str, monkeypatch: Any) -> None:
    """FAB grants views by method and name, where SimpleAuthManager grants them all."""
    from airflow.api_fastapi.app import get_auth_manager

    granted: set[tuple[str, str]] = set()
    manager = get_auth_manager()
    monkeypatch.setattr(
        manager, "is_authorized_custom_view", lambda *, method, resource_name, user: (method, resource_name) in granted
    )
    monkeypatch.setenv("AIRFLOW__SQLQUEUE__PAGE_SHOW_BODIES", "True")
    everything = PAGE | READ | ACT | BODIES
    assert refusals(page, everything, "ADMIN") == all_of(everything, 403)
    granted.add(("GET", "SQL Queues"))
    assert refusals(page, ACT | BODIES, "ADMIN") == all_of(ACT | BODIES, 403)
    assert not set(refusals(page, PAGE | READ, "ADMIN").values()) & {401, 403}
    granted.add(("POST", "SQL Queues"))
    assert not set(refusals(page, ACT, "ADMIN").values()) & {401, 403}
    granted.add(("GET", "SQL Queue Bodies"))
    assert refusals(page, BODIES, "ADMIN") == all_of(BODIES, 404)


def test_acting_takes_the_right_to_run_the_dag_as_well(page: Any, live: str, monkeypatch: Any) -> None:
    from airflow.api_fastapi.app import get_auth_manager

    asked = []

    def is_authorized_dag(**question: Any) -> bool:
        asked.append((question["method"], question["details"].id, question["access_entity"].value))
        return False

    monkeypatch.setattr(get_auth_manager(), "is_authorized_dag", is_authorized_dag)
    assert refusals(page, RUN, "ADMIN") == all_of(RUN, 403)
    assert set(asked) == {("POST", "sqlqueue_actions", "RUN")}
    assert page("GET", "api/session").json()["actions"]["available"] is False


def test_a_request_that_another_site_could_send_is_refused(page: Any, live: str) -> None:
    path = f"api/connections/{live}/failures"
    assert page("POST", path, json={"queue": "error"}, headers={"X-SqlQueue": "no"}).status_code == 400
    plain = {"X-SqlQueue": "1", "Content-Type": "text/plain"}
    assert page("POST", path, content=b"{}", headers=plain).status_code == 400
    large = {"X-SqlQueue": "1", "Content-Type": "application/json"}
    assert page("POST", path, content=b" " * 1024 * 1024 + b"{}", headers=large).status_code == 400
    answer = page("POST", path, json={"queue": "error", "secret": "what it says"})
    assert answer.status_code == 400
    assert "what it says" not in answer.text


def test_every_response_has_security_headers(page: Any, live: str) -> None:
    for path, cache in (
        ("page", "no-store"),
        ("api/session", "no-store"),
        ("static/icon.svg", "no-cache"),
        ("x", "no-store"),
    ):
        headers = page("GET", path).headers
        assert headers["cache-control"] == cache
        assert headers["x-content-type-options"] == "nosniff"
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "frame-ancestors 'self'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
    for path in ("docs", "redoc", "openapi.json"):
        assert page("GET", path).status_code == 404
