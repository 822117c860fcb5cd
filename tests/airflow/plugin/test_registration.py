"""The plugin as Airflow takes it: registered, light, and mounted in the API server's app."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.airflow


def test_the_package_registers_it() -> None:
    (entry,) = [e for e in entry_points(group="airflow.plugins") if e.value.startswith("airflow_sqlqueue")]
    assert entry.load().name == entry.name == "sqlqueue"


def test_airflow_takes_its_description(airflow_app: Any) -> None:
    """A bad entry would hide all of the plugin's pages in Airflow."""
    from airflow import plugins_manager
    from airflow.api_fastapi.core_api.datamodels.plugins import PluginResponse

    (plugin,) = [info for info in plugins_manager.get_plugin_info() if info["name"] == "sqlqueue"]
    shown = PluginResponse.model_validate(plugin)
    (view,) = shown.external_views
    assert (view.destination, view.category, view.url_route, view.href) == (
        "nav",
        "browse",
        "sqlqueue",
        "sqlqueue/page",
    )
    assert plugins_manager.get_import_errors() == {} if hasattr(plugins_manager, "get_import_errors") else True


def test_airflow_lists_it(airflow_app: Any, airflow: Any) -> None:
    listed = {row["name"]: row for row in json.loads(airflow("plugins", "-o", "json"))}
    assert "airflow-sqlqueue" in listed["sqlqueue"]["source"]


def test_every_process_imports_it_and_pays_nothing(tmp_path: Path) -> None:
    """Scheduler, triggerer, workers and the command line import the module as the API server does."""
    heavy = {"fastapi", "pyodbc", "pyarrow", "airflow_sqlqueue.client", "airflow_sqlqueue.plugin.app"}
    program = (
        "import sys; from airflow.providers.common.compat.sdk import AirflowPlugin; before = set(sys.modules);"
        "from airflow_sqlqueue.plugin import SqlQueuePlugin; SqlQueuePlugin().external_views;"
        f"print(sorted(name for name in sys.modules.keys() - before if not name.startswith('airflow_sqlqueue')),"
        f"sorted({heavy!r} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[] []"


def test_the_page_and_its_files_are_served(page: Any) -> None:
    shown = page("GET", "page", role="VIEWER")
    assert shown.status_code == 200
    assert shown.headers["content-type"] == "text/html; charset=utf-8"
    assert "<script" in shown.text
    for name in ("app.js", "app.css", "icon.svg", "icon_dark.svg"):
        file = page("GET", f"static/{name}", role=None)
        assert file.status_code == 200
        assert "html" not in file.headers["content-type"]
        assert page("GET", f"static/{name}", headers={"If-None-Match": file.headers["etag"]}).status_code == 304


def test_the_page_works_under_a_path_of_airflow(metadata_db: None, airflow_app: Any, monkeypatch: Any) -> None:
    from airflow.api_fastapi import app
    from starlette.testclient import TestClient

    monkeypatch.setattr(app, "API_ROOT_PATH", "/team/af/")
    client = TestClient(app.create_app(apps="core"))
    answer = client.get("/team/af/sqlqueue/api/session")
    assert (answer.status_code, answer.json()) == (401, {"detail": "Not authenticated"})


def test_the_session_names_the_user(get: Any) -> None:
    shown = get("api/session", user="vera", role="VIEWER")
    assert shown["user"] == "vera"
    assert shown["actions"]["dag_id"] == "sqlqueue_actions"


def test_other_connections_are_shown_where_the_configuration_names_them(
    get: Any, page: Any, connection: Any, monkeypatch: Any
) -> None:
    connection(conn_id="sqlqueue_default")
    connection("mssql", conn_id="legacy", extra={})
    connection("http", conn_id="web")
    monkeypatch.setenv("AIRFLOW_CONN_BROKEN", "{ no connection")
    assert [each["id"] for each in get("api/connections")["connections"]] == ["sqlqueue_default"]
    assert page("GET", "api/connections/legacy/queues").status_code == 404
    monkeypatch.setenv("AIRFLOW__SQLQUEUE__PAGE_CONNECTIONS", "legacy, web, nowhere")
    assert [each["id"] for each in get("api/connections")["connections"]] == ["legacy", "sqlqueue_default"]
    for conn_id in ("web", "nowhere", "broken"):
        assert page("GET", f"api/connections/{conn_id}/queues").status_code == 404
