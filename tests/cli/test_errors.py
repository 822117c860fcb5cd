"""The commands on error queues, as a person or a script meets them."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_sqlqueue.messages.message import HeaderNames, Message
from airflow_sqlqueue.messages.routing import AddressResolver
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.queue.depth import depth
from airflow_sqlqueue.queue.tables.create import create_queue, drop_queue
from airflow_sqlqueue.server.session import Session
from airflow_sqlqueue.server.settings import ConnectionSettings
from tests.cli.runner import answer, one_sentence, sqlqueue, whole_answer


def failed(queue_name: str, exception: str, minute: int = 0) -> Message:
    headers = {
        HeaderNames.MESSAGE_ID: f"m-{exception}-{minute}",
        HeaderNames.ENCLOSED_MESSAGE_TYPES: "Shop.PlaceOrder, Shop",
        HeaderNames.FAILED_Q: queue_name,
        HeaderNames.EXCEPTION_TYPE: f"System.{exception}",
        HeaderNames.EXCEPTION_MESSAGE: "Wrong [bold]card[/] 4711",
        HeaderNames.TIME_OF_FAILURE: f"2026-03-05 14:{minute:02}:00:000000 Z",
    }
    return Message(headers, "größe".encode())


@pytest.fixture
def source(url: str) -> Iterator[QueueTable]:
    """The queue where messages failed; beside it stands its error queue with three of them and a malformed one."""
    settings = ConnectionSettings.from_url(url)
    resolver = AddressResolver(None, settings.database)
    name = f"cli.{uuid.uuid4().hex[:10]}"
    with Session(settings) as session:
        source, error = (QueueTable(session, resolver.resolve(n)) for n in (name, f"{name}.error"))
        for queue in (source, error):
            create_queue(session, queue.address)
        error.send([failed(name, "Timeout", 1), failed(name, "Timeout", 2), failed(name, "Argument", 3)])
        error.send([Message("{poison", b"\x00")])
        yield source
        for queue in (source, error):
            drop_queue(session, queue.address, force=True)


@pytest.fixture
def error(source: QueueTable) -> str:
    return f"{source.address.table}.error"


def test_errors_in_groups(url: str, error: str) -> None:
    found = whole_answer("errors", error, url=url)
    assert (found["queue"], found["scanned"], found["complete"]) == (f"{error}@[dbo]@[sqlqueue]", 4, True)
    first, *_ = found["items"]
    assert (first["kind"], first["exception_type"], first["messages"]) == ("failed", "System.Timeout", 2)
    assert (first["first"], first["last"]) == ("2026-03-05T14:01:00+00:00", "2026-03-05T14:02:00+00:00")
    arguments = ("--by", "day", "--by", "kind", "--since", "2026-03-05T14:02:00Z")
    (group,) = answer("errors", error, *arguments, url=url)
    assert (group["day"], group["kind"], group["messages"]) == ("2026-03-05", "failed", 2)
    assert whole_answer("errors", error, "--exception-type", "", url=url)["matched"] == 1
    shown = sqlqueue("errors", error, "--limit", "3", url=url)
    assert shown.returncode == 0
    assert "System.Timeout" in shown.stdout
    assert "only the first 3 were read" in shown.stdout
    assert "4711" not in shown.stdout


def test_show_prints_an_error_in_full(url: str, error: str) -> None:
    shown = answer("errors", error, "--show", "m-Argument-3", url=url)
    assert (shown["exception_type"], shown["headers"][HeaderNames.EXCEPTION_MESSAGE]) == (
        "System.Argument",
        "Wrong [bold]card[/] 4711",
    )
    assert "body" not in shown
    with_body = answer("errors", error, "--show", str(shown["row_version"]), "--body", url=url)
    assert with_body == {**shown, "body": "größe"}
    for_people = sqlqueue("errors", error, "--show", "m-Argument-3", url=url)
    assert "Wrong [bold]card[/] 4711" in for_people.stdout
    poison = answer("errors", error, "--kind", "malformed headers", url=url)[0]["example"]
    assert answer("errors", error, "--show", str(poison), url=url)["headers"] == "{poison"
    assert "begins with 'm-0'" in one_sentence(sqlqueue("errors", error, "--show", "m-0", url=url), 1)
    assert "begins with" in one_sentence(sqlqueue("errors", error, "--show", "9" * 5_000, url=url), 1)


def test_return_some_then_all(url: str, source: QueueTable, error: str) -> None:
    address = source.address.canonical
    tried = answer("return", error, "--all", "--dry-run", url=url)
    assert (tried["destinations"], tried["left"], tried["dry_run"]) == ({address: 3}, {"malformed headers": 1}, True)
    some = answer("return", error, "--exception-type", "System.Timeout", "--until", "2026-03-05T14:02:00Z", url=url)
    assert (some["messages"], some["complete"]) == (1, True)
    one = answer("return", error, "--message-id", "m-Argument-3", "--rate", "50", url=url)
    assert one["messages"] == 1
    shown = sqlqueue("return", error, "--all", "--max-messages", "5", url=url)
    assert shown.returncode == 0
    assert f"1 to {address}" in shown.stdout
    assert "1: malformed headers" in shown.stdout
    assert depth(source).messages == 3
    moved = answer("redirect", error, address, "--kind", "malformed headers", "--malformed", url=url)
    assert moved["messages"] == 1


def row_of(url: str, error: str, *filters: str) -> str:
    return str(answer("errors", error, *filters, url=url)[0]["example"])


def test_a_return_lists_messages_that_stay_with_their_remedy(url: str, source: QueueTable, error: str) -> None:
    """The output never says complete, which a reader would take for "all went back"."""
    with Session(ConnectionSettings.from_url(url)) as session:
        QueueTable(session, AddressResolver(None, "sqlqueue").resolve(error)).send([failed("no.such.queue", "Lost")])
    done = sqlqueue("return", error, "--exception-type", "System.Lost", url=url)
    _, *lines = done.stdout.splitlines()
    assert (done.returncode, lines[0].split(maxsplit=1)) == (0, ["returned", "0"])
    assert lines[1].split(maxsplit=1) == ["left", "1: the failed queue does not exist"]
    assert lines[-1] == "The command redirect sends these to a queue that you name."
    assert "complete" not in done.stdout
    some = sqlqueue("return", error, "--exception-type", "System.Timeout", "--max-messages", "1", url=url)
    assert "A limit ended the work" in some.stdout
    done = sqlqueue("redirect", error, source.address.canonical, "--exception-type", "System.Lost", url=url)
    assert f"1 to {source.address.canonical}" in done.stdout
    assert "The command redirect" not in done.stdout


def test_a_dry_run_of_a_return_reports_the_counts(url: str, source: QueueTable, error: str) -> None:
    shown = sqlqueue("return", error, "--all", "--dry-run", url=url).stdout
    assert [line.partition("  ")[0] for line in shown.splitlines()[1:3]] == ["would be returned", "would stay"]
    assert not any(line.startswith("returned") for line in shown.splitlines())
    assert depth(source).messages == 0


@pytest.mark.parametrize("arguments", [(), ("--dry-run",), ("--json",)])
def test_a_named_message_that_does_not_go_back_is_exit_code_1(url: str, error: str, arguments: tuple[str, ...]) -> None:
    poison = row_of(url, error, "--kind", "malformed headers")
    done = sqlqueue("return", error, "--row-version", poison, *arguments, url=url)
    assert done.returncode == 1
    assert done.stderr == ""
    if "--json" in arguments:
        assert json.loads(done.stdout)["left"] == {"malformed headers": 1}
    else:
        assert "use redirect --malformed" in done.stdout
    for missing in (("--message-id", "m-0"), ("--row-version", "999999")):
        assert sqlqueue("return", error, *missing, *arguments, url=url).returncode == 1
    there = row_of(url, error, "--exception-type", "System.Argument")
    both = ("--row-version", there, "--message-id", "m-Argument-3")
    assert sqlqueue("return", error, *both, *arguments, url=url).returncode == 0
    assert sqlqueue("return", error, "--kind", "malformed headers", *arguments, url=url).returncode == 0


def test_groups_of_errors_end_with_the_command_that_shows_an_example(url: str, error: str) -> None:
    lines = sqlqueue("errors", error, url=url).stdout.splitlines()
    assert lines[-1].startswith("An example in full: sqlqueue errors ")
    shown = sqlqueue(*lines[-1].partition(": sqlqueue ")[2].split(), url=url)
    assert "m-Timeout-" in shown.stdout
    assert "--show" not in sqlqueue("errors", error, "--endpoint", "Nobody", url=url).stdout


def test_return_one_edited(url: str, source: QueueTable, error: str, tmp_path: Path) -> None:
    row_version = answer("errors", error, "--message-id", "m-Argument-3", url=url)[0]["example"]
    body = tmp_path / "body.json"
    body.write_text('{"card": 1}')
    arguments = ("--row-version", str(row_version), "--body", f"@{body}", "--header", "Shop.Fixed=a=b")
    kept = answer("edit", error, *arguments, "--keep-original", url=url)
    edited = answer("edit", error, *arguments, url=url)
    assert kept["edit_of"] == edited["edit_of"] == "m-Argument-3"
    first, second = source.receive(5)
    assert first.body == second.body == b'{"card": 1}'
    headers = json.loads(second.headers)
    assert (headers[HeaderNames.MESSAGE_ID], headers["ServiceControl.EditOf"]) == (edited["message_id"], "m-Argument-3")
    assert (headers["Shop.Fixed"], HeaderNames.FAILED_Q in headers) == ("a=b", False)
    gone = one_sentence(sqlqueue("edit", error, *arguments, url=url), 1)
    assert f"RowVersion {row_version}" in gone


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["return"], "Select the messages by a filter"),
        (["return", "--all", "--endpoint", "Sales"], "one of the two"),
        (["return", "--all", "--rate", "0"], "rate must be"),
        (["edit", "--row-version", "1", "--header", "x"], "--header takes NAME=VALUE"),
        (["edit", "--row-version", "1", "--body", "@/no/such"], "cannot be read"),
        (["edit", "--row-version", "1", "--keep-original"], "Nothing is edited"),
        (["errors", "--body"], "--show names one message"),
        (["errors", "--show", "1", "--endpoint", "Sales"], "--show names one message"),
        (["errors", "--by", "colour"], "choose from 'kind', 'exception_type',"),
        (["errors", "--since", "soon"], "--since is not a time: write it as 2026-01-31 or"),
        (["errors", "--kind", "poison"], "no kind 'poison'"),
    ],
)
def test_wrong_calls_are_refused_with_the_reason(url: str, error: str, arguments: list[str], says: str) -> None:
    command, *options = arguments
    assert says in one_sentence(sqlqueue(command, error, *options, url=url), 2)


def test_the_queue_is_error_unless_named() -> None:
    assert "[default: error]" in sqlqueue("errors", "--help").stdout
