"""Delayed messages and events on the command line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from typing import Any

import pytest


@pytest.fixture(scope="module")
def url(server: Any) -> str:
    return str(server.url("sqlqueue"))


@pytest.fixture
def name() -> str:
    return f"cli.{uuid.uuid4().hex[:10]}"


def sqlqueue(url: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    variables = {**os.environ, "SQLQUEUE_URL": url}
    command = [sys.executable, "-m", "airflow_sqlqueue", *arguments]
    return subprocess.run(command, env=variables, capture_output=True, text=True, timeout=120, check=False)


def answer(url: str, *arguments: str) -> Any:
    """The JSON that a command prints; it must succeed."""
    done = sqlqueue(url, *arguments, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_delayed_messages_in_turn(url: str, name: str) -> None:
    answer(url, "create", name, "--delayed")
    sent = [
        answer(url, "send-delayed", name, "--type", "Shop.Remind", "--after", "0", "--body", "now"),
        answer(url, "send-delayed", name, "--type", "Shop.Remind", "--at", "2031-01-31T08:00:00+01:00"),
        answer(url, "send-delayed", "test.nowhere", "--type", "T", "--after", "0", "--through", name),
        answer(url, "send-delayed", name, "--type", "Shop.Remind, Shop", "--after", "86400", "--header", "a=b"),
    ]
    waiting = answer(url, "delayed", name)
    assert [row["message_id"] for row in waiting] == [sent[n]["message_id"] for n in (0, 2, 3, 1)]
    assert (waiting[2]["type"], waiting[1]["forward_to"]) == ("Shop.Remind", "test.nowhere@[dbo]@[sqlqueue]")
    assert waiting[3]["due"] == "2031-01-31T07:00:00+00:00"
    assert answer(url, "cancel", name, str(waiting[2]["row_version"]))["cancelled"] == 1
    assert answer(url, "cancel", name, "--message-id", sent[1]["message_id"])["cancelled"] == 1
    shown = sqlqueue(url, "move-delayed", name, "--json")
    assert "Not forwarded to 'test.nowhere@[dbo]@[sqlqueue]'" in shown.stderr
    moved = json.loads(shown.stdout)
    assert (moved["moved"], moved["left"], moved["complete"]) == (1, 1, True)
    assert answer(url, "peek", name, "--body")[0]["body"] == "now"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["send-delayed", "q", "--type", "T"], "a delay or a time"),
        (["send-delayed", "q", "--type", "T", "--at", "tomorrow"], "--at takes a time"),
        (["send-delayed", "q", "--type", "T", "--at", "2031-01-31T08:00:00"], "without a time zone"),
        (["send-delayed", "q", "--type", "T", "--after", "1e300"], "--after takes a number"),
        (["send-delayed", "q", "--type", "T", "--after", "1", "--header", "x"], "--header takes NAME=VALUE"),
        (["cancel", "q"], "by their row versions or by --message-id"),
    ],
)
def test_wrong_calls_are_refused_with_the_reason(url: str, arguments: list[str], says: str) -> None:
    done = sqlqueue(url, *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert says in done.stderr


def test_subscribe_and_publish(url: str, name: str) -> None:
    answer(url, "create", name, "--subscriptions")
    event = f"Shop.{name}"
    assert answer(url, "subscribe", name, event)["changed"] is True
    assert answer(url, "subscribe", name, event)["changed"] is False
    address = f"{name}@[dbo]@[sqlqueue]"
    row = {"topic": event, "endpoint": name, "queue_address": address}
    assert row in answer(url, "subscriptions")
    published = answer(url, "publish", "--type", "Shop.Other", "--base-type", event, "--body", "{}")
    assert published["queues"] == [address]
    assert answer(url, "peek", name)[0]["message_id"] == published["message_id"]
    assert answer(url, "unsubscribe", name, event)["changed"] is True
    assert row not in answer(url, "subscriptions")
