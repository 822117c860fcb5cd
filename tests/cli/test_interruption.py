"""A drain that is interrupted says what is in its batch and how to go on; batches that were left are named."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from airflow_sqlqueue import QueueClient
from airflow_sqlqueue.messages.message import Message
from airflow_sqlqueue.queue import forwarding
from airflow_sqlqueue.queue.errors.bulk_action import BulkAction
from airflow_sqlqueue.server.session import Session
from airflow_sqlqueue.server.settings import ConnectionSettings
from airflow_sqlqueue.server.sql import Query
from tests.cli.runner import answer, sqlqueue

SIGNALS = pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])


@pytest.fixture
def name(url: str) -> str:
    """A queue with 50 messages that do not expire."""
    name = f"cli.{uuid.uuid4().hex[:10]}"
    answer("create", name, "--ledger", url=url)
    QueueClient.from_url(url).queue(name).send([Message({}, b"x")] * 50)
    return name


@pytest.fixture
def draining(url: str, name: str, tmp_path: Path) -> Iterator[Callable[[], Any]]:
    """Starts a drain that has committed 49 messages and waits for the last one, which is locked until the test ends."""
    with ExitStack() as stack:

        def start() -> Any:
            session = stack.enter_context(Session(ConnectionSettings.from_url(url)))
            session.begin()
            lock = f"SELECT TOP (1) 1 FROM [{name}] WITH (UPDLOCK, ROWLOCK) ORDER BY [RowVersion] DESC"
            session.run(Query("lock", "lock a test's row", lock))
            command = [sys.executable, "-m", "airflow_sqlqueue", "drain", name, "--staging", str(tmp_path / "staging")]
            command += ["--locked-wait-seconds", "600"]
            variables = {**os.environ, "SQLQUEUE_URL": url}
            process = subprocess.Popen(command, env=variables, stdout=-1, stderr=-1, text=True)
            stack.callback(process.communicate)
            stack.callback(process.kill)
            batches = QueueClient.from_url(url).batches
            while not any(info.messages == 49 for info in batches.list(name, states=["open"])):
                with suppress(subprocess.TimeoutExpired):
                    raise AssertionError(process.communicate(timeout=0.1))
            return process, session.roll_back

        yield start


@SIGNALS
def test_an_interrupted_drain_names_its_batch_and_the_command_that_resumes_it(
    url: str, name: str, draining: Any, number: signal.Signals, code: int
) -> None:
    process, unlock = draining()
    process.send_signal(number)
    _, said = process.communicate(timeout=60)
    assert process.returncode == code
    (info,) = QueueClient.from_url(url).batches.list(name)
    assert said.startswith(f"Batch {info.batch_id}\n"), "at the start"
    assert f"Interrupted. Batch {info.batch_id} is open and has 49 messages in 1 part" in said
    assert "HY000" not in said
    assert "Traceback" not in said
    unlock()
    program, *command = shlex.split(said.partition("Resume it with: ")[2])
    assert program == "sqlqueue"
    resumed = answer(*command, url=url)
    assert (resumed["batch_id"], resumed["messages"]) == (str(info.batch_id), 50)


def test_a_batch_with_a_worker_is_left_alone(url: str, name: str, tmp_path: Path) -> None:
    batches, batch_id = QueueClient.from_url(url).batches, str(uuid.uuid4())
    with batches.locks() as locks:
        assert locks.take(uuid.UUID(batch_id))
        done = sqlqueue("drain", name, "--staging", str(tmp_path), "--batch-id", batch_id, "--new", url=url)
        assert done.returncode == 1
        assert "is being worked on" in done.stderr
        given_up = sqlqueue("abandon", batch_id, url=url)
        assert given_up.returncode == 1
        assert "is being worked on" in given_up.stderr
    assert batches.list(name) == []


def test_an_unknown_batch_is_opened_only_on_request(url: str, name: str, tmp_path: Path) -> None:
    unknown = str(uuid.uuid4())
    arguments = ["drain", name, "--staging", str(tmp_path / "staging"), "--batch-id", unknown]
    refused = sqlqueue(*arguments, url=url)
    assert refused.returncode == 1
    assert "does not know batch" in refused.stderr
    assert "--new" in refused.stderr
    assert answer("batches", "--queue", name, url=url) == []
    assert answer(*arguments, "--new", url=url)["batch_id"] == unknown
    sealed = sqlqueue(*arguments, "--header", "a=b", url=url).stderr
    assert f"Batch {unknown} is sealed and has 50 messages: leave --batch-id out" in sealed
    assert "Resume" not in sealed
    assert sqlqueue("drain", name, "--staging", str(tmp_path), "--new", url=url).returncode == 2


@pytest.mark.parametrize("full", [True, False])
def test_a_staging_folder_that_cannot_be_used_leaves_no_batch(url: str, name: str, tmp_path: Path, full: bool) -> None:
    if not full:
        QueueClient.from_url(url).queue(name).receive(50)
    file = tmp_path / "file"
    file.write_text("")
    done = sqlqueue("drain", name, "--staging", str(file), url=url)
    assert done.returncode == 1
    assert "cannot be written" in done.stderr
    assert answer("batches", "--queue", name, url=url) == []


def test_an_open_batch_is_abandoned(url: str, name: str, draining: Any) -> None:
    process, unlock = draining()
    process.kill()
    process.communicate()
    unlock()
    (info,) = QueueClient.from_url(url).batches.list(name)
    old = sqlqueue("batches", "--queue", name, "--older-than", "0s", url=url)
    assert "1 batch has been open for 0 s or longer" in re.sub(r"\s+", " ", old.stderr)
    assert "sqlqueue abandon <id>" in re.sub(r"\s+", " ", old.stderr)
    with QueueClient.from_url(url).batches.locks() as locks:
        # The server notices a killed process by its connection.
        assert locks.take(info.batch_id, wait=30)
    done = answer("abandon", str(info.batch_id), url=url)
    assert (done["state"], done["messages"], done["repeated"]) == ("requeued", 49, False)
    assert answer("depth", name, url=url)["messages"] == 50
    assert sqlqueue("batches", "--queue", name, "--older-than", "0s", url=url).stderr == ""


@SIGNALS
def test_a_move_that_is_interrupted_says_how_many_it_moved(
    url: str, name: str, monkeypatch: pytest.MonkeyPatch, number: signal.Signals, code: int
) -> None:
    client = QueueClient.from_url(url)
    client.queue(name).send([Message({}, b"x")] * 500)
    answer("create", f"{name}.to", url=url)
    monkeypatch.setattr(forwarding, "_move", interrupted_in_the_second(number, forwarding._move))
    done = sqlqueue("forward", name, f"{name}.to", url=url)
    assert done.returncode == code
    assert f"Moved at least 500 messages; all others are in {name}@[dbo]@[sqlqueue]" in done.stderr
    assert "Traceback" not in done.stderr
    assert [client.queue(queue).depth().messages for queue in (name, f"{name}.to")] == [50, 500]


@SIGNALS
def test_an_action_that_is_interrupted_says_how_many_it_took(
    url: str, name: str, monkeypatch: pytest.MonkeyPatch, number: signal.Signals, code: int
) -> None:
    monkeypatch.setattr(BulkAction, "_commit", interrupted_in_the_second(number, BulkAction._commit))
    queue = QueueClient.from_url(url).queue(name)
    queue.send([Message({}, b"x")] * 150)
    done = sqlqueue("archive", name, "--all", "--reason", "x", url=url)
    assert done.returncode == code
    assert "Archived at least 128 messages; all others stayed: run it again to go on." in done.stderr
    assert queue.depth().messages == 72


def interrupted_in_the_second(number: signal.Signals, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that does the same once, and sends this process the signal when it is called again.

    A process in the background of a shell ignores Ctrl-C.
    """
    calls: list[object] = []

    def interrupted(*arguments: Any) -> Any:
        calls.append(arguments)
        if len(calls) == 2:
            if number == signal.SIGINT:
                raise KeyboardInterrupt
            signal.raise_signal(number)
        return function(*arguments)

    return interrupted
