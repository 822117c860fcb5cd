"""``sqlqueue usage`` and ``sqlqueue conversation``."""

from __future__ import annotations

import json
import uuid
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from airflow_sqlqueue.client import QueueClient
from airflow_sqlqueue.envelope.times import format_time
from airflow_sqlqueue.message import HeaderNames, Message
from tests.cli.runner import answer, sqlqueue

YESTERDAY = datetime.now(timezone.utc) - timedelta(days=1)


@pytest.fixture
def url(server: Any) -> str:
    return str(server.url("sqlqueue"))


def test_a_batch_is_counted_shown_and_reported(url: str, tmp_path: Path) -> None:
    endpoint, conversation, name = (f"cli.{uuid.uuid4().hex[:10]}" for _ in range(3))
    answer("create", name, url=url)
    headers = {
        HeaderNames.PROCESSING_ENDPOINT: endpoint,
        HeaderNames.TIME_SENT: format_time(YESTERDAY),
        HeaderNames.CONVERSATION_ID: conversation,
    }
    QueueClient.from_url(url).queue(name).send([Message(headers), Message(headers)])
    assert answer("usage", "record", url=url)["queues"] >= 1
    batch = answer("drain", name, "--staging", str(tmp_path), url=url)["batch_id"]
    expected = {"endpoint": endpoint, "message_type": "", "day": f"{YESTERDAY:%Y-%m-%d}", "messages": 2, "failed": 0}
    assert answer("usage", "count", batch, url=url) == [expected]
    shown = answer("usage", "endpoints", "--since", f"{YESTERDAY:%Y-%m-%d}", url=url)
    assert [day for day in shown if day["endpoint"] == endpoint] == [expected]
    assert name in {day["queue"].partition("@")[0] for day in answer("usage", "queues", url=url)}
    out = tmp_path / "report.json"
    done = sqlqueue("usage", "report", "--customer", "Contoso", "--out", str(out), url=url)
    assert done.returncode == 0, done.stderr
    report = json.loads(out.read_text("utf-8"))["ReportData"]
    assert {"QueueName": endpoint, "Throughput": 2}.items() <= next(
        queue for queue in report["Queues"] if queue["QueueName"] == endpoint
    ).items()
    # Batches of other tests, whose files are gone, are counted in a note.
    done = sqlqueue("conversation", conversation, "--json", url=url)
    assert done.returncode == 0, done.stderr
    (step,) = json.loads(done.stdout)
    assert step["receiver"] == endpoint


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("queues", "--since", "yesterday"), "--since takes a day as 2026-01-31, not 'yesterday'"),
        (("record", "--retain", "1h"), "retain is a time of one day or more"),
        (("report", "--customer", ""), "names the customer that the license is registered to"),
    ],
)
def test_wrong_options_are_refused(url: str, arguments: tuple[str, ...], sentence: str) -> None:
    done = sqlqueue("usage", *arguments, url=url)
    assert done.returncode == 2
    assert sentence in done.stderr
