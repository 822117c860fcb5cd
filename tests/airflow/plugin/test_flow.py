"""Usage by day, its report, and conversations, on the page."""

from __future__ import annotations

import uuid
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from airflow_sqlqueue.envelope.times import format_time
from airflow_sqlqueue.hooks.sqlqueue import SqlQueueHook
from airflow_sqlqueue.message import HeaderNames, Message

pytestmark = pytest.mark.airflow

CONNECTION = "api/connections/sqlqueue_default"
YESTERDAY = datetime.now(timezone.utc) - timedelta(days=1)


def audited(endpoint: str, conversation: str, **others: str) -> Message:
    headers = {
        HeaderNames.CONVERSATION_ID: conversation,
        HeaderNames.ORIGINATING_ENDPOINT: "Web",
        HeaderNames.PROCESSING_ENDPOINT: endpoint,
        HeaderNames.ENCLOSED_MESSAGE_TYPES: "Shop.Placed, Shop",
        HeaderNames.TIME_SENT: format_time(YESTERDAY),
    }
    return Message({**headers, **others})


@pytest.fixture
def endpoint(hook: SqlQueueHook, queue_name: str, tmp_path: Path) -> str:
    """The endpoint of three counted messages of one conversation, which has the same name."""
    name = f"Sales.{uuid.uuid4().hex[:8]}"
    hook.client.usage.record()
    hook.send(
        queue_name, [audited(name, name), audited(name, name, **{HeaderNames.FAILED_Q: "x"}), audited(name, name)]
    )
    hook.client.usage.record()
    hook.client.usage.count_batch(hook.drain(queue_name, str(tmp_path / "staging")).batch)
    return name


def test_usage_is_shown_by_day(get: Any, page: Any, endpoint: str, queue_name: str) -> None:
    shown = get(f"{CONNECTION}/usage", params={"days": 3})
    assert shown["days"][1] == f"{YESTERDAY:%Y-%m-%d}"
    (queue,) = [each for each in shown["queues"] if each["queue"].startswith(f"{queue_name}@")]
    assert queue["counts"] == [None, None, 3]
    (found,) = [each for each in shown["endpoints"] if each["endpoint"] == endpoint]
    assert found == {
        "endpoint": endpoint,
        "message_type": "Shop.Placed",
        "failed": 1,
        "counts": [None, 3, None],
    }
    assert page("GET", f"{CONNECTION}/usage", params={"days": 0}).status_code == 400
    assert page("GET", f"{CONNECTION}/usage", role="VIEWER").status_code == 403


def test_only_rows_with_the_most_messages_are_shown(get: Any, endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("airflow_sqlqueue.plugin.flow.MAX_ROWS", 0)
    shown = get(f"{CONNECTION}/usage")
    assert shown["queues"] == shown["endpoints"] == []
    assert shown["left_out"] >= 2


def test_the_report_is_made_on_the_page(post: Any, page: Any, endpoint: str) -> None:
    made = post(f"{CONNECTION}/usage/report", {"customer": "Contoso"})["ReportData"]
    assert made["CustomerName"] == "Contoso"
    assert endpoint in {queue["QueueName"] for queue in made["Queues"]}
    assert page("POST", f"{CONNECTION}/usage/report", json={"customer": ""}).status_code == 400


def test_a_conversation_is_searched_in_batches(post: Any, page: Any, endpoint: str) -> None:
    found = post(f"{CONNECTION}/conversation", {"conversation_id": endpoint})
    assert {(step["sender"], step["receiver"]) for step in found["steps"]} == {("Web", endpoint)}
    assert {step["failed"] for step in found["steps"]} == {True, False}
    assert found["batches"] >= 1
    assert page("POST", f"{CONNECTION}/conversation", json={"conversation_id": ""}).status_code == 400
    assert page("POST", f"{CONNECTION}/conversation", json={"conversation_id": "x"}, role="VIEWER").status_code == 403
