"""Ids by their beginnings, wherever a command takes an id: one that is not unique does nothing."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from airflow_sqlqueue import Message, QueueClient
from airflow_sqlqueue.client.beginnings import name_beginning
from airflow_sqlqueue.drain.ledger import Ledger
from airflow_sqlqueue.errors import ConfigurationError, LockTimeoutError
from airflow_sqlqueue.messages.message import HeaderNames
from airflow_sqlqueue.server.sql import Query
from tests.cli.runner import answer, one_sentence, sqlqueue


@pytest.fixture
def queue(url: str) -> str:
    name = f"cli.{uuid.uuid4().hex[:10]}"
    answer("create", name, f"{name}.error", url=url)
    return name


def opened(url: str, queue: str, *ids: str) -> None:
    client = QueueClient.from_url(url)
    with client.session() as session:
        ledger = Ledger(session, client.settings.database)
        ledger.create()
        for batch_id in ids:
            ledger.open(uuid.UUID(batch_id), client.resolve(queue).canonical, None)


def two_ids(first: str = "", second: str = "") -> tuple[str, str]:
    """Two ids with the same first nine hexadecimal digits, of which the tenth differs."""
    same = uuid.uuid4().hex[:9]
    one, other = (f"{same}{digit}{uuid.uuid4().hex[10:]}" for digit in "01")
    return str(uuid.UUID(one)), str(uuid.UUID(other))


COMMANDS = [
    ["batches", "{}"],
    ["requeue", "{}"],
    ["abandon", "{}"],
    ["mark-consumed", "{}"],
    ["drain", "{queue}", "--staging", "{folder}", "--batch-id", "{}"],
    ["erase", "--message-id", "x", "--batch", "{}"],
    ["schemas", "diff", "{folder}", "--batch", "{}"],
]


def test_a_beginning_that_names_no_batch_or_several_does_nothing(url: str, queue: str, tmp_path: Path) -> None:
    first, second = two_ids()
    opened(url, queue, first, second)

    def refused(command: list[str], beginning: str, code: int) -> str:
        words = (word.format(beginning, queue=queue, folder=tmp_path) for word in command)
        return one_sentence(sqlqueue(*words, url=url), code)

    several = f"is the beginning of '{first}', '{second}': give more characters"
    for command in COMMANDS:
        assert several in refused(command, first[:10], 2), command
        assert "No id of a batch begins with" in refused(command, "0123456789abcdef", 1), command
        assert "no id of a batch: give the id, or at least 4 characters" in refused(command, "%%%%", 2), command
    for wrong in ("012", "____", "[0-9]", "zzzz", "", f"{first}0", f"{first[:-1]}%", "0-1-2"):
        assert "no id of a batch: give the id, or at least 4 characters" in refused(COMMANDS[0], wrong, 2), wrong
    assert {each["state"] for each in answer("batches", "--queue", queue, url=url)} == {"open"}


def test_a_unique_beginning_names_a_batch_in_upper_case_and_with_or_without_hyphens(url: str, queue: str) -> None:
    first, second = two_ids()
    opened(url, queue, first, second)
    assert answer("batches", first[:11], url=url)["batch_id"] == first
    assert answer("batches", second[:14].upper(), url=url)["batch_id"] == second
    assert answer("batches", second.replace("-", "")[:20], url=url)["batch_id"] == second
    assert answer("abandon", second[:12], url=url)["batch_id"] == second
    assert answer("batches", first, url=url)["state"] == "open"


def test_a_batch_that_another_session_works_on_counts_too(url: str, queue: str) -> None:
    """A search that passed over its row would find the other batch alone, and act on that."""
    first, second = two_ids()
    opened(url, queue, first, second)
    client = QueueClient.from_url(url)
    with client.session() as session, session.transaction():
        ledger = Ledger(session, client.settings.database)
        text = f"UPDATE {ledger.address.qualified_name} SET [Origin] = [Origin] WHERE [BatchId] = '{second}'"
        session.run(Query("hold", "hold the row", text))
        with client.session() as other, other.lock_timeout(0.2), pytest.raises(LockTimeoutError):
            Ledger(other, client.settings.database).beginning(first[:9].upper())


def failed(url: str, queue: str, *ids: str) -> None:
    source = f"{queue}@[dbo]@[sqlqueue]"
    messages = [Message({HeaderNames.MESSAGE_ID: each, HeaderNames.FAILED_Q: source}, b"x") for each in ids]
    QueueClient.from_url(url).queue(f"{queue}.error").send(messages)


def test_a_message_id_by_its_beginning(url: str, queue: str) -> None:
    first, second = two_ids()
    error, ids = f"{queue}.error", [first, second, "order-1", "order-11", "50%_off[1]", "50xxoff1"]
    failed(url, queue, *ids)
    for beginning, says, code in (
        ("orde", "is the beginning of 'order-1', 'order-11'", 2),
        ("ord", "too short a beginning", 2),
        ("%", "begins with '%'", 1),
        ("50%%", "begins with '50%%'", 1),
        ("", "too short a beginning", 2),
    ):
        assert says in one_sentence(sqlqueue("errors", error, "--message-id", beginning, url=url), code), beginning
    for beginning in (first[:12], "order-1", "50%_"):
        assert answer("errors", error, "--message-id", beginning, url=url)[0]["messages"] == 1, beginning
    commands = [(first[:12], "return"), ("50%_", "delete", "--yes"), ("order-1", "archive")]
    for done, (beginning, name, *options) in enumerate(commands):
        words = [name, error, *options, "--message-id"]
        for wrong, says, code in (
            ("orde", "is the beginning of", 2),
            (str(uuid.uuid4())[:20], "No id of a message", 1),
        ):
            assert says in one_sentence(sqlqueue(*words, wrong, url=url), code), words
        assert answer("depth", error, url=url)["messages"] == len(ids) - done, words
        assert answer(*words, beginning, url=url)["messages"] == 1, words


def test_an_archived_message_and_a_shown_one_by_the_beginning_of_the_id(url: str, queue: str) -> None:
    first, second = two_ids()
    failed(url, queue, first, second)
    error = f"{queue}.error"
    assert answer("errors", error, "--show", first[:12], url=url)["message_id"] == first
    assert "is the beginning of" in one_sentence(sqlqueue("errors", error, "--show", first[:9], url=url), 2)
    answer("archive", error, "--all", url=url)
    commands = [(["restore", error], first), (["purge-archive", error, "--yes"], second)]
    for words, _ in commands:
        assert "is the beginning of" in one_sentence(sqlqueue(*words, "--message-id", first[:9], url=url), 2)
    for words, named in commands:
        assert answer(*words, "--message-id", named[:12], url=url)["messages"] == 1


def test_locked_messages_may_have_the_same_beginning(url: str, queue: str) -> None:
    first, second = two_ids()
    failed(url, queue, first, second)
    client = QueueClient.from_url(url)
    with client.session() as session, session.transaction():
        table = client.resolve(f"{queue}.error").qualified_name
        session.run(Query("hold", "hold the first row", f"UPDATE TOP (1) {table} SET [Body] = [Body]"))
        words = ["delete", f"{queue}.error", "--yes", "--message-id"]
        assert "Others have locked 1 message" in one_sentence(sqlqueue(*words, second[:9], url=url), 2)
        assert answer(*words, second, url=url)["messages"] == 1
    assert answer("depth", f"{queue}.error", url=url)["messages"] == 1


def test_names_of_copies_and_streams(url: str, queue: str, tmp_path: Path) -> None:
    answer("send", queue, "--type", "T", url=url)
    copy = ["drain", queue, "--staging", str(tmp_path), "--copy", "--incremental"]
    for name in ("nightly", "nightly-2", "hourly"):
        answer(*copy, name, url=url)
    assert "is the beginning of 'nightly', 'nightly-2'" in one_sentence(
        sqlqueue("copies", "--queue", queue, "--reset", "night", url=url), 2
    )
    assert answer("copies", "--queue", queue, "--reset", "nightly", url=url)["reset"] == "nightly"
    assert answer("copies", "--queue", queue, "--reset", "hour", url=url)["reset"] == "hourly"
    assert [each["name"] for each in answer("copies", "--queue", queue, url=url)] == ["nightly-2"]


@pytest.mark.parametrize(
    ("beginning", "found"), [("lake", "lake"), ("lake-", "lake-2"), ("pond", None), ("LAKE", None), ("a", "a")]
)
def test_a_name_in_full_wins(beginning: str, found: str | None) -> None:
    assert name_beginning(beginning, ["lake", "lake-2", "a"]) == found


def test_many_names_are_not_all_listed() -> None:
    with pytest.raises(ConfigurationError, match=r"'lake-0', 'lake-1', 'lake-2', 'lake-3', 'lake-4', \.\.\.:"):
        name_beginning("lake", [f"lake-{number}" for number in range(9)])
    with pytest.raises(ConfigurationError, match="'lake-3', 'lake-4': give more"):
        name_beginning("lake", [f"lake-{number}" for number in range(5)])
