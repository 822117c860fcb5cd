"""The commands that archive, restore, park and delete failed messages, as a person or a script meets them."""

from __future__ import annotations

import getpass
import uuid
from collections.abc import Iterator

import pytest

from airflow_sqlqueue import QueueClient
from airflow_sqlqueue.messages.message import Message
from tests.cli.runner import answer, one_sentence, sqlqueue, whole_answer
from tests.cli.test_errors import failed


@pytest.fixture
def error(url: str) -> Iterator[str]:
    """An error queue with two failures of one type, one of another, and a malformed message."""
    client, name = QueueClient.from_url(url), f"cli.{uuid.uuid4().hex[:10]}.error"
    client.tables.create(name)
    client.queue(name).send([failed("Sales", "Timeout", 1), failed("Sales", "Timeout", 2), failed("Sales", "Argument")])
    client.queue(name).send([Message("{poison", b"\x00")])
    yield name
    client.errors.archived.delete(name, all_messages=True, confirm=True)
    client.tables.drop(name, force=True)


def depth(url: str, name: str) -> int:
    return int(answer("depth", name, url=url)["messages"])


def test_archive_list_and_restore(url: str, error: str) -> None:
    timeouts = ("--exception-type", "System.Timeout")
    plan = answer("archive", error, *timeouts, "--dry-run", url=url)
    assert (plan["messages"], plan["dry_run"], depth(url, error)) == (2, True, 4)
    one = answer("archive", error, *timeouts, "--max-messages", "1", "--rate", "50", "--reason", "the bank", url=url)
    assert (one["messages"], one["complete"]) == (1, False)
    shown = sqlqueue("archive", error, "--all", "--reason", "too old", url=url)
    assert shown.returncode == 0
    assert "archived  3" in " ".join(shown.stdout.split("\n"))
    found = answer("errors", error, "--archived", "--by", "reason", "--by", "archived_by", url=url)
    assert [(group["reason"], group["messages"]) for group in found] == [("too old", 3), ("the bank", 1)]
    assert found[0]["archived_by"].startswith(f"{getpass.getuser()}@")
    text = sqlqueue("errors", error, "--archived", url=url).stdout
    assert f"sqlqueue errors {error} --archived --show" in text
    assert "4711" not in text
    number = str(found[1]["example"])
    example = answer("errors", error, "--archived", "--show", number, "--body", url=url)
    assert (example["reason"], example["body"], example["exception_type"]) == ("the bank", "größe", "System.Timeout")
    assert "takes the number" in sqlqueue("errors", error, "--archived", "--show", "an-id", url=url).stderr
    back = answer("restore", error, "--row-version", number, url=url)
    assert (back["messages"], depth(url, error)) == (1, 1)
    assert answer("restore", error, "--all", url=url)["messages"] == 3


def test_a_named_message_that_is_missing_is_the_exit_code(url: str, error: str) -> None:
    answer("create", f"{error}2", url=url)
    for command in (["archive", error], ["restore", error], ["delete", error, "--yes"], ["park", error, f"{error}2"]):
        done = sqlqueue(*command, "--message-id", "m-gone", url=url)
        assert (command[0], done.returncode) == (command[0], 1)
    assert depth(url, error) == 4
    answer("drop", f"{error}2", url=url)


def test_park(url: str, error: str) -> None:
    parked = f"{error}.parked"
    answer("create", parked, url=url)
    done = answer("park", error, parked, "--kind", "failed", url=url)
    assert (done["messages"], depth(url, error), depth(url, parked)) == (3, 1, 3)
    # The headers of the failure are there, so that it can be looked at, and returned, from there.
    assert whole_answer("errors", parked, "--failed-queue", "Sales", url=url)["matched"] == 3
    answer("drop", parked, "--force", url=url)


def test_delete_wants_a_yes(url: str, error: str) -> None:
    plan = answer("delete", error, "--kind", "malformed headers", "--dry-run", url=url)
    assert (plan["messages"], depth(url, error)) == (1, 4)
    assert "give --yes" in one_sentence(sqlqueue("delete", error, "--all", url=url), 2)
    done = sqlqueue("delete", error, "--kind", "malformed headers", "--yes", url=url)
    assert (done.returncode, depth(url, error)) == (0, 3)
    assert "deleted for good  1" in " ".join(done.stdout.split("\n"))


def test_delete_of_the_archive_by_age(url: str, error: str) -> None:
    answer("archive", error, "--all", url=url)
    assert answer("purge-archive", error, "--older-than", "1d", "--yes", url=url)["messages"] == 0
    both = ("--older-than", "0s", "--kind", "malformed headers")
    assert answer("purge-archive", error, *both, "--yes", url=url)["messages"] == 1
    assert "an age or all" in one_sentence(
        sqlqueue("purge-archive", error, "--older-than", "0s", "--all", "--yes", url=url), 2
    )
    assert answer("purge-archive", error, "--all", "--yes", url=url)["messages"] == 3


@pytest.mark.parametrize("command", [["archive"], ["restore"], ["park", "error", "x"], ["delete", "--yes"]])
def test_the_messages_are_chosen(command: list[str], url: str) -> None:
    assert "by a filter, as --row-version or --kind, or by --all" in one_sentence(sqlqueue(*command, url=url), 2)
    both = sqlqueue(*command, "--all", "--kind", "failed", url=url)
    assert "one of the two" in one_sentence(both, 2)
