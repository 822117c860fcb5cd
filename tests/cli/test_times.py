"""Times of options: a date, a time, a day by its name, an age; all from one reader."""

from __future__ import annotations

import re
import uuid
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from airflow_sqlqueue import Message, QueueClient
from airflow_sqlqueue.cli.app import app
from airflow_sqlqueue.drain.ledger import Ledger
from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.messages.envelope.times import format_time, moment_of
from airflow_sqlqueue.messages.message import HeaderNames
from tests.cli.runner import answer, one_sentence, sqlqueue

NOW = datetime(2026, 3, 5, 1, 30, tzinfo=timezone(timedelta(hours=2)))
"""In UTC it is still the evening of the 4th."""


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-01-31", datetime(2026, 1, 31, tzinfo=timezone.utc)),
        ("2026-01-31T08:00+01:00", datetime(2026, 1, 31, 7, tzinfo=timezone.utc)),
        ("2026-01-31 08:00", datetime(2026, 1, 31, 8, tzinfo=timezone.utc)),
        ("yesterday", datetime(2026, 3, 3, tzinfo=timezone.utc)),
        (" Today ", datetime(2026, 3, 4, tzinfo=timezone.utc)),
        ("tomorrow", datetime(2026, 3, 5, tzinfo=timezone.utc)),
        ("2h", NOW - timedelta(hours=2)),
        ("1.5d", NOW - timedelta(hours=36)),
        ("90s", NOW - timedelta(seconds=90)),
    ],
)
def test_forms_of_a_time(text: str, moment: datetime) -> None:
    assert moment_of("--since", text, NOW) == moment


def test_a_time_that_is_to_come() -> None:
    assert moment_of("--at", "2h", NOW, ahead=True) == NOW + timedelta(hours=2)
    assert moment_of("--at", "tomorrow", NOW, ahead=True) == datetime(2026, 3, 5, tzinfo=timezone.utc)


@pytest.mark.parametrize("text", ["", "soon", "2", "2026", "-2h", "2 h", "1w", "31.01.2026", "2026-02-30", "99999999d"])
def test_other_texts_are_no_times(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"--since is (not a time: write it as|'99999999d': that is too long)"):
        moment_of("--since", text, NOW)


@pytest.mark.parametrize("text", ["yesterday", "2h"])
def test_a_filter_of_a_task_takes_no_time_that_a_retry_would_read_otherwise(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"since is not a time: write it as [0-9T:-]+ or [0-9T:Z-]+\.$"):
        moment_of("since", text)


@pytest.fixture
def queue(url: str) -> str:
    """A queue with a message of each of the ages 1 h, 30 h and 80 h."""
    name = f"cli.{uuid.uuid4().hex[:10]}"
    answer("create", name, "--delayed", "--ledger", url=url)
    now = datetime.now(timezone.utc)
    sent = [format_time(now - timedelta(hours=hours)) for hours in (80, 30, 1)]
    messages = [
        Message(
            {
                HeaderNames.TIME_SENT: time,
                "NServiceBus.TimeOfFailure": time,
                HeaderNames.FAILED_Q: f"{name}@[dbo]@[sqlqueue]",
                HeaderNames.ENCLOSED_MESSAGE_TYPES: "T",
            }
        )
        for time in sent
    ]
    QueueClient.from_url(url).queue(name).send(messages)
    return name


def test_ages_select_messages(url: str, queue: str) -> None:
    assert len(answer("peek", queue, "--since", "2h", url=url)) == 1
    assert len(answer("peek", queue, "--since", "2d", url=url)) == 2
    assert len(answer("peek", queue, "--since", "4d", "--until", "1d", url=url)) == 2
    assert len(answer("peek", queue, "--until", "3d", url=url)) == 1
    assert sum(group["messages"] for group in answer("errors", queue, "--since", "3d", url=url)) == 2
    assert answer("purge", queue, "--older-than", "2d", "--dry-run", url=url)["remaining"] == 1
    days = (datetime.now(timezone.utc) - timedelta(days=2)).date()
    assert answer("purge", queue, "--older-than", f"{days}", "--dry-run", url=url)["remaining"] == 1
    for words in (["batches"], ["purge-archive", queue, "--dry-run"]):
        assert answer(*words, "--older-than", "yesterday", url=url) is not None
    for option in ("--since", "--until"):
        assert f"{option} is not a time" in one_sentence(sqlqueue("peek", queue, option, "lately", url=url), 2)
    for command in ("purge", "purge-archive"):
        late = sqlqueue(command, queue, "--older-than", "tomorrow", "--yes", url=url)
        assert "--older-than is a time that has not come yet" in one_sentence(late, 2)


def test_yesterday_is_one_day(url: str, queue: str) -> None:
    hours = datetime.now(timezone.utc).hour
    selected = answer("peek", queue, "--since", "yesterday", "--until", "today", url=url)
    # 30 hours ago was yesterday from six o'clock on, and an hour ago was in the hour after midnight.
    assert len(selected) == (hours >= 6) + (hours < 1)


def test_a_drain_is_resumed_with_the_time_that_it_began_with(url: str, queue: str, tmp_path: Path) -> None:
    batch_id, client = uuid.uuid4(), QueueClient.from_url(url)
    with client.session() as session:
        Ledger(session, client.settings.database).open(batch_id, client.resolve(queue).canonical, None)
    words = ["drain", queue, "--staging", str(tmp_path), "--since", "2d", "--batch-id", str(batch_id)]
    refused = sqlqueue(*words, url=url)
    assert "another filter" in refused.stderr
    command = re.search(r"Resume it with: .* --since (\S+)", refused.stderr)
    assert command is not None
    assert datetime.now(timezone.utc) - datetime.fromisoformat(command[1]) > timedelta(days=2)


def test_due_times_and_delays(url: str, queue: str) -> None:
    def due(*options: str) -> timedelta:
        sent = answer("send-delayed", queue, "--type", "T", *options, url=url)["message_id"]
        (found,) = [each for each in answer("delayed", queue, url=url) if each["message_id"] == sent]
        return datetime.fromisoformat(found["due"]) - datetime.now(timezone.utc)

    for options in (("--after", "2h"), ("--after", "7200"), ("--at", "2h")):
        assert timedelta(minutes=110) < due(*options) <= timedelta(hours=2, seconds=1)
    assert timedelta(0) < due("--at", "tomorrow") <= timedelta(days=1)
    wrong = one_sentence(sqlqueue("send-delayed", queue, "--type", "T", "--at", "soon", url=url), 2)
    assert "--at is not a time" in wrong
    answer("send", queue, "--type", "T", "--expire-after", "2h", url=url)


def times(command: Any) -> list[Any]:
    return [each for each in command.params if each.name in ("since", "until", "at", "after", "older_than", "retain")]


def test_the_help_calls_every_time_a_time() -> None:
    found = [each for command in get_command(app).commands.values() for each in times(command)]  # type: ignore[attr-defined]
    assert (len(found) > 20, {each.metavar for each in found if each.opts[0] != "--after"}) == (True, {"TIME"})
