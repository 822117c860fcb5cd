"""Conversations, on the page."""

from __future__ import annotations

import uuid
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from airflow_sqlqueue.hooks.sqlqueue import SqlQueueHook
from airflow_sqlqueue.messages.envelope.times import format_time
from airflow_sqlqueue.messages.message import HeaderNames, Message

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
    """The endpoint of three drained messages of one conversation, which has the same name."""
    name = f"Sales.{uuid.uuid4().hex[:8]}"
    hook.send(
        queue_name, [audited(name, name), audited(name, name, **{HeaderNames.FAILED_Q: "x"}), audited(name, name)]
    )
    hook.drain(queue_name, str(tmp_path / "staging"))
    return name


def test_a_conversation_is_searched_in_batches(post: Any, page: Any, endpoint: str) -> None:
    found = post(f"{CONNECTION}/conversation", {"conversation_id": endpoint})
    assert {(step["sender"], step["receiver"]) for step in found["steps"]} == {("Web", endpoint)}
    assert {step["failed"] for step in found["steps"]} == {True, False}
    assert found["batches"] >= 1
    assert page("POST", f"{CONNECTION}/conversation", json={"conversation_id": ""}).status_code == 400
    assert page("POST", f"{CONNECTION}/conversation", json={"conversation_id": "x"}, role="VIEWER").status_code == 403
