"""The help, the version, and messages that name options."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from airflow_sqlqueue import __version__
from airflow_sqlqueue.cli.app import COMMANDS, app
from airflow_sqlqueue.cli.commands import SYNONYMS
from tests.cli.runner import answer, one_sentence, sqlqueue


@pytest.fixture(scope="module")
def refusing(url: str) -> str:
    """A queue with a message, on which every command below is refused."""
    queue = f"cli.{uuid.uuid4().hex[:10]}"
    answer("create", queue, "--delayed", url=url)
    answer("send", queue, "--type", "T", url=url)
    return queue


@pytest.fixture
def name(url: str) -> str:
    queue = f"cli.{uuid.uuid4().hex[:10]}"
    answer("create", queue, "--delayed", url=url)
    return queue


def test_brackets_of_addresses_are_shown() -> None:
    shown = sqlqueue("depth", "--help").stdout
    assert "table, table@[schema] or table@[schema]@[catalog]" in " ".join(shown.split())


@pytest.mark.parametrize("columns", [80, 50])
def test_all_commands_are_on_one_screen_under_their_headings(columns: int) -> None:
    """Each has one line, which is cut in a narrow terminal alone."""
    lines = sqlqueue("--help", COLUMNS=str(columns)).stdout.splitlines()
    assert columns < 80 or len(lines) <= 53
    assert [line for line in lines if len(line) > columns] == []
    assert columns < 80 or [line for line in lines if line.endswith("...")] == [lines[0]]
    assert lines[lines.index(f"{next(iter(COMMANDS))}:") - 1] == ""
    for heading, commands in COMMANDS.items():
        section = []
        for line in lines[lines.index(f"{heading}:") + 1 :]:
            if not line.startswith("  "):
                break
            section.append(line.split()[0])
        # The group of commands stands there as well.
        assert len(set(section) - {"schemas", "tables"}) == len(commands), heading
    assert sum(map(len, COMMANDS.values())) == len(app.registered_commands)


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("sqlqueue dr", {"drain", "drop"}),
        ("sqlqueue drain --incr", {"--incremental"}),
        ("sqlqueue schemas ch", {"check"}),
    ],
)
def test_a_shell_completes_commands_and_options(words: str, found: set[str]) -> None:
    number = str(words.count(" "))
    asked = {**os.environ, "_SQLQUEUE_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": number}
    command = [str(Path(sys.executable).with_name("sqlqueue"))]
    done = subprocess.run(command, env=asked, capture_output=True, text=True, timeout=120, check=True)
    assert (set(done.stdout.split()), done.stderr) == (found, "")


def test_lines_of_a_groups_help_are_whole() -> None:
    lines = sqlqueue("schemas", "--help", COLUMNS="80").stdout.splitlines()
    assert [line for line in lines[1:] if line.endswith("...")] == []


def test_a_password_is_explained_once() -> None:
    assert "SQLQUEUE_PASSWORD" in sqlqueue("--help").stdout
    assert "PASSWORD" not in sqlqueue("send", "--help").stdout


@pytest.mark.parametrize("word", SYNONYMS)
def test_a_word_that_people_try_leads_to_the_command(word: str) -> None:
    done = sqlqueue(word, "audit")
    assert done.returncode == 2
    assert f"There is no command {word!r}: use 'sqlqueue {SYNONYMS[word]}'." in done.stderr
    assert sqlqueue(*SYNONYMS[word].split(), "--help").returncode == 0


def test_a_mistyped_command_is_named() -> None:
    """Newer versions of typer name a similar one as well."""
    assert "No such command 'detph'" in sqlqueue("detph").stderr


def test_all_queues_are_listed_with_their_counts(url: str, name: str) -> None:
    """A queue without messages has no oldest one, and without a table of delayed messages no number of them."""
    answer("send", name, "--type", "T", url=url)
    answer("send", name, "--type", "T", "--expire-after", "0.001", url=url)
    answer("send-delayed", name, "--type", "T", "--after", "60", url=url)
    answer("create", f"{name}.empty", url=url)
    found = {row["queue"].partition("@")[0]: row for row in answer("queues", url=url)}
    assert f"{name}.Delayed" not in found
    row = found[name]
    assert (row["messages"], row["expired"], row["delayed"], row["findings"]) == (2, 1, 1, 0)
    empty = found[f"{name}.empty"]
    assert (empty["messages"], empty["expired"], empty["delayed"], empty["oldest_seconds"]) == (0, 0, None, None)
    assert name in sqlqueue("queues", url=url).stdout


def test_the_version() -> None:
    done = sqlqueue("--version")
    assert (done.returncode, done.stdout) == (0, f"sqlqueue {__version__}\n")


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["purge", "{}", "--all"], 2, "give --yes"),
        (["purge", "{}", "--older-than", "1d"], 2, "give --yes"),
        (["drop", "{}"], 1, "give --force"),
        (["return", "{}"], 2, "--all"),
        (["return", "{}", "--all", "--rate", "0"], 2, "--rate must be more than 0"),
        (["send", "{}", "--type", "T", "--expire-after", "-1"], 2, "--expire-after"),
        (["send", "{}", "--type", ""], 2, "--type is empty"),
        (["publish", "--type", " "], 2, "--type is empty"),
        (["send-delayed", "{}", "--type", "", "--after", "1"], 2, "--type is empty"),
        (["drain", "{}", "--staging", "/tmp/a", "--max-messages", "0"], 2, "--max-messages must be more than 0"),
        (["drain", "{}", "--staging", "/tmp/a", "--workers", "99"], 2, "--workers must be"),
        (["sweep", "/nope"], 2, "no staging folder '/nope'"),
        (["quarantine", "nope"], 1, "does not exist"),
        (["cancel", "{}", "4711"], 1, "Nothing was cancelled"),
        (["cancel", "{}", "--message-id", "x"], 1, "Nothing was cancelled"),
    ],
)
def test_errors_name_the_option_that_helps(url: str, refusing: str, arguments: list[str], code: int, says: str) -> None:
    assert says in one_sentence(sqlqueue(*(word.format(refusing) for word in arguments), url=url), code)


def test_a_dry_run_reports_its_effect(url: str, name: str) -> None:
    answer("send", name, "--type", "T", url=url)
    shown = sqlqueue("purge", name, "--all", "--dry-run", url=url).stdout
    assert "would delete  1" in shown
    assert "deleted" not in shown
    assert "would delete  0" in sqlqueue("purge", name, "--dry-run", url=url).stdout


def test_messages_that_a_purge_did_not_count_are_not_shown_as_none(url: str, name: str) -> None:
    for _ in range(2):
        answer("send", name, "--type", "T", url=url)
    limited = ["purge", name, "--older-than", "0s"]
    said = "not counted: a limit ended the search"
    shown = {"would delete": ["--dry-run", "--max-seconds", "1e-9"], "remaining": ["--yes", "--max-messages", "1"]}
    for title, options in shown.items():
        assert re.search(f"{title} +{said}", sqlqueue(*limited, *options, url=url).stdout)
    assert answer(*limited, "--dry-run", "--max-seconds", "1e-9", url=url)["remaining"] is None


def test_an_empty_quarantine_of_a_queue_that_is_there_is_no_error(url: str, name: str) -> None:
    assert answer("quarantine", name, url=url) == []


def test_an_edit_and_a_return_report_a_missing_database_alike(url: str, name: str) -> None:
    answer("send", name, "--type", "T", "--header", "NServiceBus.FailedQ=Sales@[dbo]@[nowhere]", url=url)
    reason = "outside of the allowed databases and schemas"
    assert answer("return", name, "--all", url=url)["left"] == {reason: 1}
    (message,) = answer("peek", name, url=url)
    edit = ("edit", name, "--row-version", str(message["row_version"]), "--body", "x")
    assert reason in one_sentence(sqlqueue(*edit, url=url), 2)
