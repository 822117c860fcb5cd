"""One form of JSON and of CSV for all commands, which are found by looking at the program."""

from __future__ import annotations

import csv
import io
import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.core import TyperGroup
from typer.main import get_command

from airflow_sqlqueue import Message, QueueClient
from airflow_sqlqueue.cli.app import app
from airflow_sqlqueue.cli.output import show
from airflow_sqlqueue.messages.message import HeaderNames
from tests.cli.runner import Done, answer, one_sentence, sqlqueue


def commands(group: Any, before: tuple[str, ...] = ()) -> Iterator[tuple[str, set[str]]]:
    """Yield each command with its options."""
    for name, command in group.commands.items():
        if isinstance(command, TyperGroup):
            yield from commands(command, (*before, name))
        else:
            yield " ".join((*before, name)), {option for each in command.params for option in each.opts}


COMMANDS = dict(commands(get_command(app)))

SINGLE = {
    "depth": "depth {queue}",
    "send": "send {queue} --type T",
    "forward": "forward {queue} {other} --message-type No.Such",
    "purge": "purge {queue}",
    "generate": "generate {queue} --count 1",
    "consume": "consume {handlers} --queue {other} --error-queue {error} --until-empty",
    "drop": "drop {other} --force",
    "drain": "drain {queue} --stage table",
    "requeue": "requeue {returned}",
    "abandon": "abandon {open}",
    "mark-consumed": "mark-consumed {batch}",
    "sweep": "sweep --dry-run",
    "erase": "erase --message-id none --dry-run",
    "tables rewrite": "",
    "edit": "edit {error} --row-version {row} --body x",
    "return": "return {error} --all --dry-run",
    "redirect": "redirect {error} {queue} --all --dry-run",
    "park": "park {error} {queue} --all --dry-run",
    "archive": "archive {error} --all --dry-run",
    "delete": "delete {error} --all --dry-run",
    "restore": "restore {error} --all --dry-run",
    "purge-archive": "purge-archive {error} --all --dry-run",
    "send-delayed": "send-delayed {queue} --type T --after 1h",
    "cancel": "cancel {queue} {delayed}",
    "move-delayed": "move-delayed {queue}",
    "subscribe": "subscribe {queue} Shop.Event",
    "unsubscribe": "unsubscribe {queue} Shop.Event",
    "publish": "publish --type Shop.None",
}
"""Commands with one result, each with a call of it; a rewrite of tables needs Spark and is one by its code."""

LISTS = {
    "queues": "queues",
    "peek": "peek {queue}",
    "inspect": "inspect --all",
    "create": "create {queue}",
    "batches": "batches",
    "quarantine": "quarantine {queue}",
    "streams": "streams",
    "copies": "copies",
    "conversation": "conversation none",
    "redact": "redact {queue} --dry-run --rules {rules}",
    "schemas add": "schemas add {folder} {document}",
    "schemas infer": "schemas infer {folder} --batch {batch} --dry-run",
    "schemas diff": "schemas diff {folder} --batch {batch}",
    "schemas check": "schemas check {folder} --batch {batch}",
    "errors": "errors {error}",
    "delayed": "delayed {queue}",
    "subscriptions": "subscriptions",
}
"""Commands with a list."""


class Shop:
    """Queues, a failed message, a delayed one, batches and files, on which every command works."""

    def __init__(self, url: str, folder: Path) -> None:
        name = f"cli.{uuid.uuid4().hex[:10]}"
        queue, other, error = name, f"{name}.other", f"{name}.error"
        answer("create", queue, other, error, "--delayed", "--subscriptions", "--ledger", url=url)
        QueueClient.from_url(url).queue(error).send(
            [Message({HeaderNames.FAILED_Q: f"{queue}@[dbo]@[sqlqueue]"}, b"x")]
        )
        answer("generate", queue, "--count", "20", url=url)
        batch = answer("drain", queue, "--stage", "table", url=url)["batch_id"]
        answer("send", queue, "--type", "T", "--body", "{}", url=url)
        returned = answer("drain", queue, "--stage", "table", url=url)["batch_id"]
        answer("send", queue, "--type", "T", "--body", "{}", url=url)
        opened = uuid.uuid4()
        client = QueueClient.from_url(url)
        with client.session() as session:
            from airflow_sqlqueue.drain.ledger import Ledger

            Ledger(session, client.settings.database).open(opened, client.resolve(queue).canonical, None, "table")
        answer("send-delayed", queue, "--type", "T", "--after", "1h", url=url)
        rules = folder / "rules.json"
        rules.write_text('{"rules": [{"message_type": "*", "fields": {"card": "drop"}}]}')
        document = folder / "asyncapi.json"
        document.write_text('{"asyncapi": "3.0.0", "components": {"messages": {}}}')
        (folder / "shapes_handlers.py").write_text("def handle(message): pass\n")
        self.names = {
            "queue": queue,
            "other": other,
            "error": error,
            "batch": batch,
            "returned": returned,
            "open": str(opened),
            "row": answer("errors", error, url=url)[0]["example"],
            "delayed": answer("delayed", queue, url=url)[0]["row_version"],
            "rules": rules,
            "document": document,
            "folder": folder / "schemas",
            "handlers": "shapes_handlers:handle",
        }

    def words(self, call: str) -> list[str]:
        return [word.format(**self.names) for word in call.split()]


@pytest.fixture
def shop(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "schemas").mkdir()
    return Shop(url, tmp_path)


def test_every_command_is_known_here() -> None:
    assert COMMANDS.keys() == SINGLE.keys() | LISTS.keys()
    assert not SINGLE.keys() & LISTS.keys()
    assert all("--json" in options for options in COMMANDS.values())
    # Nobody takes away the tables that he has just created.
    assert {name for name, options in COMMANDS.items() if "--csv" in options} == LISTS.keys() - {"create"}


def test_json_is_one_object_whose_list_is_called_items_and_csv_has_its_values(url: str, shop: Shop) -> None:
    for name, call in {**LISTS, **SINGLE}.items():
        if not call:
            continue
        words = shop.words(call)
        done = sqlqueue(*words, "--json", url=url)
        assert done.returncode == 0 or name == "schemas check", (call, done.stderr)
        found = json.loads(done.stdout)
        assert isinstance(found, dict), call
        assert ("items" in found) == (name in LISTS), call
        assert all(isinstance(item, dict) for item in found.get("items", ())), call
        if name in ("queues", "peek", "inspect", "batches", "errors", "delayed", "schemas diff"):
            check_csv(sqlqueue(*words, "--csv", url=url), found["items"])


def check_csv(done: Done, records: list[dict[str, Any]]) -> None:
    assert (done.returncode, done.stderr) == (0, ""), done.args
    first, *rows = csv.reader(io.StringIO(done.stdout, newline=""))
    assert (first, len(rows)) == (list(records[0]), len(records)), done.args
    stable = [index for index, column in enumerate(first) if "seconds" not in column]
    for record, row in zip(records, rows, strict=True):
        values = list(record.values())
        assert [row[index] for index in stable] == [text_of(values[index]) for index in stable]


def text_of(value: Any) -> str:
    return "" if value is None else value if isinstance(value, str) else json.dumps(value)


def test_a_record_is_a_row_and_an_empty_list_prints_nothing(url: str) -> None:
    name = f"cli.{uuid.uuid4().hex[:10]}"
    answer("create", name, url=url)
    answer("send", name, "--type", "T", url=url)
    batch = answer("drain", name, "--stage", "table", url=url)["batch_id"]
    rows = list(csv.DictReader(io.StringIO(sqlqueue("batches", batch, "--csv", url=url).stdout)))
    assert [row["batch_id"] for row in rows] == [batch]
    nothing = sqlqueue("peek", name, "--csv", url=url)
    assert (nothing.returncode, nothing.stdout) == (0, "")
    assert "one of --json and --csv" in one_sentence(sqlqueue("queues", "--json", "--csv", url=url), 2)


HOSTILE = [
    "=1+1",
    "+1",
    "-1",
    "@SUM(A1)",
    "\t=1",
    " =1",
    "\n=1",
    "\uff1d1",
    '",=1,"',
    "a;=cmd|' /C calc'!A0",
    "a\n=1",
    "a\t=1",
    "|x",
    "%x",
]


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_no_cell_of_any_spreadsheet_is_a_formula(text: str, separator: str, capsys: pytest.CaptureFixture[str]) -> None:
    """One with another separator does not see the quotes either, and reads line by line."""
    show([{"name": text, "text": f"x {text}", "nested": {"of": [text]}, "number": -1.5}], as_csv=True)
    printed = capsys.readouterr().out
    quoting = csv.QUOTE_MINIMAL if separator == "," else csv.QUOTE_NONE
    for row in csv.reader(io.StringIO(printed, newline=""), delimiter=separator, quoting=quoting):
        assert [cell for cell in row if cell[:1] in tuple("=+-@\t\uff1d") and cell != "-1.5"] == []


def test_texts_stay_as_they_are_where_they_are_harmless(capsys: pytest.CaptureFixture[str]) -> None:
    texts = ["Shop.Order", "größe", '{"a": [1, -2]}', "<a/>", "a, b", 'say "x"', "2026-01-31", "x\ny", "[dbo]", ""]
    show([{"text": text} for text in texts], as_csv=True)
    rows = list(csv.reader(io.StringIO(capsys.readouterr().out, newline="")))
    assert rows == [["text"], *([text] if text else [""] for text in texts)]


def test_csv_holds_no_characters_that_command_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    show([{"text": "a\x1b[2J\u202e\ud800\rb"}], as_csv=True)
    assert capsys.readouterr().out == "text\r\na\\x1b[2J\\u202e\\ud800\\x0db\r\n"
