"""Delayed messages and events on the command line."""

from __future__ import annotations

import json
import uuid

import pytest

from tests.cli.runner import answer, one_sentence, sqlqueue


@pytest.fixture
def name() -> str:
    return f"cli.{uuid.uuid4().hex[:10]}"


def test_delayed_messages_in_turn(url: str, name: str) -> None:
    answer("create", name, "--delayed", url=url)
    sent = [
        answer("send-delayed", name, "--type", "Shop.Remind", "--after", "0", "--body", "now", url=url),
        answer("send-delayed", name, "--type", "Shop.Remind", "--at", "2031-01-31T08:00:00+01:00", url=url),
        answer("send-delayed", "test.nowhere", "--type", "T", "--after", "0", "--through", name, url=url),
        answer("send-delayed", name, "--type", "Shop.Remind, Shop", "--after", "86400", "--header", "a=b", url=url),
    ]
    waiting = answer("delayed", name, url=url)
    assert [row["message_id"] for row in waiting] == [sent[n]["message_id"] for n in (0, 2, 3, 1)]
    assert (waiting[2]["type"], waiting[1]["forward_to"]) == ("Shop.Remind", "test.nowhere@[dbo]@[sqlqueue]")
    assert waiting[3]["due"] == "2031-01-31T07:00:00+00:00"
    assert answer("cancel", name, str(waiting[2]["row_version"]), url=url)["cancelled"] == 1
    assert answer("cancel", name, "--message-id", sent[1]["message_id"], url=url)["cancelled"] == 1
    shown = sqlqueue("move-delayed", name, "--json", url=url)
    assert "Not forwarded to 'test.nowhere@[dbo]@[sqlqueue]'" in shown.stderr
    moved = json.loads(shown.stdout)
    assert (moved["moved"], moved["left"], moved["complete"]) == (1, 1, True)
    assert answer("peek", name, "--body", url=url)[0]["body"] == "now"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["send-delayed", "q", "--type", "T"], "a delay or a time"),
        (["send-delayed", "q", "--type", "T", "--at", "soon"], "--at is not a time"),
        (["send-delayed", "q", "--type", "T", "--after", "1e300"], "--after is '1e300': that is too long a time"),
        (["send-delayed", "q", "--type", "T", "--after", "1", "--header", "x"], "--header takes NAME=VALUE"),
        (["cancel", "q"], "by their row versions or by --message-id"),
    ],
)
def test_wrong_calls_are_refused_with_the_reason(url: str, arguments: list[str], says: str) -> None:
    done = sqlqueue(*arguments, url=url)
    assert (done.returncode, done.stdout) == (2, "")
    assert says in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [["delayed"], ["send-delayed", "--type", "T", "--after", "1"], ["cancel", "1"], ["move-delayed"]],
    ids=lambda arguments: arguments[0],
)
def test_a_missing_table_of_delayed_messages_is_made_by_the_command_named(
    url: str, name: str, arguments: list[str]
) -> None:
    answer("create", name, url=url)
    command, *rest = arguments
    says = one_sentence(sqlqueue(command, name, *rest, url=url), 1)
    assert f"The table of delayed messages {name}.Delayed@[dbo]@[sqlqueue] does not exist" in says
    assert f"create it with 'sqlqueue create {name} --delayed'" in says
    answer("create", name, "--delayed", url=url)
    assert "does not exist" not in sqlqueue(command, name, *rest, url=url).stderr


@pytest.mark.parametrize("arguments", [["subscriptions"], ["subscribe", "Sales", "T"]], ids=lambda given: given[0])
def test_a_missing_subscription_table_names_the_command_that_makes_it(
    url: str, name: str, arguments: list[str]
) -> None:
    says = one_sentence(sqlqueue(*arguments, "--table", f"SubscriptionRouting@[{name}]", url=url), 1)
    assert "The subscription table SubscriptionRouting@[" in says
    assert "create it with 'sqlqueue create <endpoint> --subscriptions'" in says


def test_no_queue_is_made_where_the_place_of_its_delayed_messages_is_taken(url: str, name: str) -> None:
    answer("create", f"{name}.Delayed", url=url)
    assert "is not a delayed table" in one_sentence(sqlqueue("create", name, "--delayed", url=url), 1)
    assert "does not exist" in one_sentence(sqlqueue("depth", name, url=url), 1)


def test_subscribe_and_publish(url: str, name: str) -> None:
    answer("create", name, "--subscriptions", url=url)
    event = f"Shop.{name}"
    assert answer("subscribe", name, event, url=url)["changed"] is True
    assert answer("subscribe", name, event, url=url)["changed"] is False
    address = f"{name}@[dbo]@[sqlqueue]"
    row = {"topic": event, "endpoint": name, "queue_address": address}
    assert row in answer("subscriptions", url=url)
    published = answer("publish", "--type", "Shop.Other", "--base-type", event, "--body", "{}", url=url)
    assert published["queues"] == [address]
    assert answer("peek", name, url=url)[0]["message_id"] == published["message_id"]
    assert answer("unsubscribe", name, event, url=url)["changed"] is True
    assert row not in answer("subscriptions", url=url)


def test_publishing_to_a_missing_queue_names_the_unsubscribe_commands(url: str, name: str) -> None:
    answer("create", f"{name}.other", "--subscriptions", url=url)
    event, generic = f"Shop.{name}", "Shop.Of`1[[Shop.A, Shop]]"
    for endpoint, topic in ((name, event), (name, generic), (name, "Shop.Another"), (f"{name}.other", event)):
        answer("subscribe", endpoint, topic, url=url)
    publish = ["publish", "--type", event, "--base-type", generic]
    says = one_sentence(sqlqueue(*publish, url=url), 1)
    assert f"The queue {name}@[dbo]@[sqlqueue] of a subscriber does not exist, and nothing was published" in says
    assert says.endswith(f"'sqlqueue unsubscribe {name} {event}' and 'sqlqueue unsubscribe {name} '{generic}''.")
    for topic in (event, generic):
        assert answer("unsubscribe", name, topic, url=url)["changed"] is True
    assert answer(*publish, url=url)["queues"] == [f"{name}.other@[dbo]@[sqlqueue]"]
    answer("unsubscribe", f"{name}.other", event, url=url)
    answer("unsubscribe", name, "Shop.Another", url=url)
