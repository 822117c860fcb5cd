"""Airflow's own app with the page in it, as an API server has it, and requests by users of each role."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any

import pytest

ROLES = ("ADMIN", "OP", "USER", "VIEWER")


@pytest.fixture(scope="session")
def airflow_app(metadata_db: None) -> Iterator[Any]:
    """The API server's app, made once; the plugin comes by its entry point."""
    from airflow.api_fastapi.app import create_app

    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("AIRFLOW__API_AUTH__JWT_SECRET", "j" * 64)
        environment.setenv("AIRFLOW__API__SECRET_KEY", "k" * 64)
        yield create_app(apps="core")


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """No look is kept from one request to the next, nor from other tests."""
    from airflow_sqlqueue.plugin import snapshots

    monkeypatch.setattr(snapshots, "FRESH_SECONDS", 0.0)
    monkeypatch.setattr(snapshots.SNAPSHOTS, "_watched", OrderedDict())


@pytest.fixture
def page(airflow_app: Any, fresh: None) -> Iterator[Callable[..., Any]]:
    """Send a request to the page, as a user of a role or without a login, and return the response."""
    from airflow.api_fastapi.app import get_auth_manager
    from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
    from starlette.testclient import TestClient

    client = TestClient(airflow_app, raise_server_exceptions=False)

    def request(method: str, path: str, *, role: str | None = "ADMIN", user: str = "vera", **options: Any) -> Any:
        headers = {"X-SqlQueue": "1"} if method == "POST" and "content" not in options else {}
        if role is not None:
            token = get_auth_manager().generate_jwt(SimpleAuthManagerUser(username=user, role=role))
            headers["Authorization"] = f"Bearer {token}"
        return client.request(method, f"/sqlqueue/{path}", headers={**headers, **options.pop("headers", {})}, **options)

    return request


@pytest.fixture
def get(page: Any) -> Callable[..., Any]:
    """The JSON of an answer that has to be well."""

    def ask(path: str, **options: Any) -> Any:
        answer = page("GET", path, **options)
        assert answer.status_code == 200, answer.text
        return answer.json()

    return ask


@pytest.fixture
def post(page: Any) -> Callable[..., Any]:
    """The JSON of the answer to a JSON body, which has to be well."""

    def ask(path: str, body: dict[str, Any], **options: Any) -> Any:
        answer = page("POST", path, json=body, **options)
        assert answer.status_code == 200, answer.text
        return answer.json()

    return ask


@pytest.fixture
def logged() -> Callable[[], list[Any]]:
    """The rows of the audit log that the page wrote, the newest first."""

    def rows() -> list[Any]:
        from airflow.models.log import Log
        from airflow.utils.session import create_session
        from sqlalchemy import select

        with create_session() as session:
            found = session.scalars(select(Log).where(Log.event.like("sqlqueue_%")).order_by(Log.id.desc())).all()
            session.expunge_all()
        return list(found)

    return rows


@pytest.fixture
def dag(airflow_app: Any) -> Any:
    """The DAG that the page's actions run in, as Airflow knows it."""
    from tests.airflow.plugin.actions import known_dag

    return known_dag()
