"""Fifteen tasks of a newcomer: his first guess does it, or the answer to it names the command that does."""

from __future__ import annotations

import csv
import io
import json
import re
import uuid
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from airflow_sqlqueue import QueueClient
from airflow_sqlqueue.messages.envelope.times import format_time
from tests.cli.runner import answer, sqlqueue

GUESSES = {
    "how many wait": ("count {orders}", "depth {orders}"),
    "all queues": ("queues", ""),
    "all queues, by another word": ("list", "queues"),
    "the first messages": ("peek {orders}", ""),
    "why do they fail": ("failures {error}", "errors {error}"),
    "one stack trace": ("errors {error} --list", "errors {error} --show {row}"),
    "retry yesterday's": ("retry {error} --since yesterday", "return {error} --since yesterday --until today"),
    "a batch back, by the characters that the page shows": ("requeue {batch:.8}", ""),
    "one batch": ("batch {batch:.8}", "batches {batch:.8}"),
    "the end of a batch": ("mark-consumed {batch:.8}", ""),
    "a file of JSON as a message": (
        "send {orders} --type Shop.Order --file {file}",
        "send {orders} --type Shop.Order --body @{file}",
    ),
    "CSV for the manager": ("errors {error} --csv", ""),
    "CSV, by another word": ("export {orders}", "drain --copy {orders} --staging {folder}"),
    "throw away old ones": ("purge {orders} --older-than 30d --dry-run", ""),
    "to another queue": ("forward {orders} {other}", ""),
    "to another queue, by another word": ("move {other} {orders}", "forward {other} {orders}"),
    "old batches": ("delete-batches {folder}", "sweep {folder} --dry-run"),
    "one message": ("find {orders}", "peek {orders}"),
    "by exception": ("errors {error} --group-by kind", "errors {error} --by kind"),
    "stuck batches": ("batches --state sealed --older-than 1d", ""),
    "a clean disk": ("sweep {folder} --dry-run", ""),
}
"""Each task with the first guess, and with the command that the answer leads to where the guess is none."""


@pytest.fixture(scope="module")
def names(url: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("staging")
    name = f"cli.{uuid.uuid4().hex[:10]}"
    orders, other, error = name, f"{name}.other", f"{name}.error"
    answer("create", orders, other, error, "--ledger", url=url)
    answer("generate", orders, "--count", "5", url=url)
    headers = {"NServiceBus.FailedQ": f"{orders}@[dbo]@[sqlqueue]", "NServiceBus.ExceptionInfo.StackTrace": "at Shop"}
    from airflow_sqlqueue import Message

    now = format_time(datetime.now(timezone.utc))
    QueueClient.from_url(url).queue(error).send([Message({**headers, "NServiceBus.TimeOfFailure": now})])
    file = folder / "order.json"
    file.write_text(json.dumps({"id": 1}))
    row = answer("errors", error, url=url)[0]["example"]
    return {"orders": orders, "other": other, "error": error, "file": file, "folder": folder, "row": row}


@pytest.mark.parametrize("task", GUESSES)
def test_the_first_guess_leads_to_the_command(task: str, url: str, names: dict[str, Any], tmp_path: Path) -> None:
    guess, right = GUESSES[task]
    if "{batch" in guess:
        answer("generate", names["orders"], "--count", "2", url=url)
        names = {**names, "batch": answer("drain", names["orders"], "--staging", str(tmp_path), url=url)["batch_id"]}
    guessed = sqlqueue(*guess.format(**names).split(), url=url)
    if right:
        assert (guessed.returncode, guessed.stdout) == (2, "")
        hint = re.search(r"There is no \w+ '[\w-]+': use (?:'sqlqueue ([\w -]+)'|(--\w+): )", guessed.stderr)
        assert hint is not None, guessed.stderr
        named = hint[1] or hint[2]
        assert right.startswith(named) or named in right
        assert "Traceback" not in guessed.stderr
        guessed = sqlqueue(*right.format(**names).split(), url=url)
    assert guessed.returncode == 0, guessed.stderr


def test_csv_of_failures_opens_as_a_table(url: str, names: dict[str, Any]) -> None:
    done = sqlqueue("errors", names["error"], "--csv", url=url)
    (row,) = csv.DictReader(io.StringIO(done.stdout, newline=""))
    assert (row["kind"], row["messages"]) == ("failed", "1")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["send", "q", "--file=x", "--type", "T"], "There is no option '--file': use --body: The body as text, @FILE"),
        (["batches", "--format", "csv"], "There is no option '--format': use --json or --csv."),
        (["requeue", "--id", "x"], "No such option: --id"),
        (["delete", "error", "--force"], "There is no option '--force': use --yes"),
        (["depth", "q", "--colour"], "No such option: --colour"),
    ],
)
def test_guessed_options(words: list[str], says: str, url: str) -> None:
    done = sqlqueue(*words, url=url, COLUMNS="400")
    assert done.returncode == 2
    assert says in done.stderr
