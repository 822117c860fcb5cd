"""Metrics of the page: in OpenMetrics for requests with the token, and among Airflow's own."""

from __future__ import annotations

import json
import os
import re
import uuid
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from airflow_sqlqueue.drain.request import DrainRequest
from airflow_sqlqueue.hooks.sqlqueue import SqlQueueHook
from airflow_sqlqueue.messages.message import Message
from airflow_sqlqueue.plugin.metrics import FAMILIES, exposition

pytestmark = pytest.mark.airflow


@pytest.fixture
def token(monkeypatch: Any) -> str:
    monkeypatch.setenv("AIRFLOW__SQLQUEUE__PAGE_METRICS_TOKEN", "scrape-me")
    return "scrape-me"


def test_metrics_are_off_until_there_is_a_token(page: Any, live: str, monkeypatch: Any) -> None:
    for given in ("", "Bearer ", "Bearer None"):
        assert page("GET", "metrics", role=None, headers={"Authorization": given}).status_code == 401
    monkeypatch.setenv("AIRFLOW__SQLQUEUE__PAGE_METRICS_TOKEN", "scrape-me")
    assert page("GET", "metrics", role=None).status_code == 401
    assert page("GET", "metrics", role="ADMIN").status_code == 401
    assert (
        page("GET", "metrics", role=None, headers={"Authorization": "Bearer scrape-m\u00e9".encode()}).status_code
        == 401
    )


def test_a_scrape_has_every_connection(
    page: Any, hook: SqlQueueHook, queue_name: str, connection: Any, token: str, monkeypatch: Any
) -> None:
    down = {**json.loads(os.environ["AIRFLOW_CONN_SQLQUEUE_DEFAULT"]), "port": 1}
    monkeypatch.setenv("AIRFLOW_CONN_DOWN", json.dumps(down))
    hook.send(queue_name, [Message({"NServiceBus.TimeSent": "2026-01-01 12:00:00:000000 Z"})] * 3)
    hook.drain(queue_name, request=DrainRequest(batch_id=uuid.uuid4()), stage="table")
    hook.send(queue_name, [Message()])
    answer = page("GET", "metrics", role=None, headers={"Authorization": f"Bearer {token}"})
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/openmetrics-text; version=1.0.0; charset=utf-8"
    lines = answer.text.splitlines()
    assert lines[-1] == "# EOF"
    assert answer.text.endswith("\n")
    assert 'sqlqueue_up{conn_id="down"} 0' in lines
    assert 'sqlqueue_up{conn_id="sqlqueue_default"} 1' in lines
    catalog = hook.client.settings.database
    labels = f'{{conn_id="sqlqueue_default",catalog="{catalog}",schema="dbo",queue="{queue_name}",kind="queue"}}'
    assert f"sqlqueue_messages{labels} 1" in lines
    assert f"sqlqueue_inserted_total{labels} 4" in lines
    sealed = f'sqlqueue_batches{{conn_id="sqlqueue_default",catalog="{catalog}",state="sealed"}} '
    assert [int(line.removeprefix(sealed)) > 0 for line in lines if line.startswith(sealed)] == [True]
    families = [line.split()[2] for line in lines if line.startswith("# TYPE")]
    assert len(families) == len(set(families))
    assert set(families) <= FAMILIES.keys()


@pytest.mark.parametrize(
    "broken",
    [
        *(
            {"extra": {name: value}}
            for name in ("login_timeout", "lock_timeout")
            for value in ("inf", "nan", -5, "1e400")
        ),
        *({"extra": {name: 5}} for name in ("allowed_catalogs", "queue_schemas", "keywords", "connection_string")),
        {"extra": {"keywords": {"Encrypt": ["no"]}}},
        {"extra": {"driver": {"a": 1}}},
        {"port": 99999},
        {"host": "a\0b"},
    ],
    ids=str,
)
def test_a_connection_fails_alone_whatever_is_in_it(
    page: Any, live: str, token: str, monkeypatch: Any, broken: dict[str, Any]
) -> None:
    values = json.loads(os.environ["AIRFLOW_CONN_SQLQUEUE_DEFAULT"])
    monkeypatch.setenv("AIRFLOW_CONN_BROKEN", json.dumps({**values, **broken}))
    answer = page("GET", "metrics", role=None, headers={"Authorization": f"Bearer {token}"})
    assert answer.status_code == 200
    lines = answer.text.splitlines()
    assert {f'sqlqueue_up{{conn_id="{name}"}} {up}' for name, up in (("broken", 0), (live, 1))} <= set(lines)
    own = page("GET", "api/connections/broken/queues/audit/messages/1")
    assert own.status_code in (400, 503), own.text


def test_an_unexpected_error_costs_no_other_connection_its_metrics(page: Any, live: str, token: str) -> None:
    with patch("airflow_sqlqueue.plugin.metrics.server_of", side_effect=RuntimeError("what nobody expects")):
        answer = page("GET", "metrics", role=None, headers={"Authorization": f"Bearer {token}"})
    assert (answer.status_code, f'sqlqueue_up{{conn_id="{live}"}} 0' in answer.text) == (200, True)


def test_the_guide_and_the_dashboard_know_every_metric_and_no_other() -> None:
    docs = Path(__file__).parents[3] / "docs"
    known = {f"{name}_total" if family.kind == "counter" else name for name, family in FAMILIES.items()}
    guide = (docs / "guides" / "page.md").read_text("utf-8")
    rows = [line for line in guide.splitlines() if line.startswith("| `sqlqueue_")]
    assert {name for row in rows for name in re.findall(r"`(sqlqueue_\w+)`", row)} == known
    queries = re.findall(r"expr: (.*)", guide)
    dashboard = json.loads((docs / "grafana-dashboard.json").read_text("utf-8"))
    queries += [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    assert len(queries) > 10
    assert {name for query in queries for name in re.findall(r"sqlqueue_\w+", query)} <= known


def test_names_of_queues_are_written_as_openmetrics_has_them() -> None:
    text = exposition([("sqlqueue_messages", {"queue": 'a"b\\c\nd'}, 1.5)])
    assert text.splitlines()[2] == 'sqlqueue_messages{queue="a\\"b\\\\c\\nd"} 1.500'


def test_a_snapshot_sets_airflows_gauges_too(
    get: Any, hook: SqlQueueHook, queue_name: str, statsd: Any, monkeypatch: Any
) -> None:
    """Airflow has two statistics clients: for its servers, and for tasks. The tests listen to the second one."""
    from airflow_sqlqueue.plugin import snapshots
    from airflow_sqlqueue.versions.airflow import TaskStats

    monkeypatch.setattr(snapshots, "ServerStats", TaskStats)
    hook.send(queue_name, [Message({"NServiceBus.TimeSent": "2026-01-01 12:00:00:000000 Z"})] * 2)
    for _ in range(2):
        get("api/connections/sqlqueue_default/queues")
    found = {tags: value for tags, value in statsd.named("backlog.messages").items() if queue_name in tags}
    assert list(found.values()) == [2.0]
    assert [age > 0 for tags, age in statsd.named("backlog.oldest_seconds").items() if queue_name in tags] == [True]


def test_a_page_is_shown_though_the_metrics_fail(
    get: Any, hook: SqlQueueHook, queue_name: str, statsd: Any, monkeypatch: Any
) -> None:
    from airflow_sqlqueue.plugin import snapshots

    monkeypatch.setattr(snapshots, "ServerStats", None)
    assert queue_name in json.dumps(get("api/connections/sqlqueue_default/queues"))
