"""Output on a terminal: values that a person may copy are never cut or broken, even on a narrow one."""

from __future__ import annotations

import os
import pty
import re
import struct
import subprocess
import sys
import termios
import uuid
from fcntl import ioctl
from pathlib import Path
from typing import TextIO

import pytest

from airflow_sqlqueue.cli.output import duration, lines_of
from airflow_sqlqueue.messages.message import HeaderNames, Message
from airflow_sqlqueue.messages.routing import AddressResolver
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.server.session import Session
from airflow_sqlqueue.server.settings import ConnectionSettings
from airflow_sqlqueue.server.sql import Query
from tests.cli.runner import answer, environment_of, sqlqueue

TRACE = "System.TimeoutException: slow\r\n" + "\r\n".join(f"   at Shop.{'Deep' * 60}.Number{n}()" for n in range(3))
BODY = '{"card": "' + "4711 " * 200 + '"}'


@pytest.fixture(scope="module")
def error(url: str) -> str:
    """An error queue with one message, whose row version has five digits."""
    name = f"cli.{uuid.uuid4().hex[:10]}.error"
    answer("create", name, url=url)
    settings = ConnectionSettings.from_url(url)
    headers = {
        HeaderNames.MESSAGE_ID: str(uuid.uuid4()),
        HeaderNames.FAILED_Q: f"{name}@[dbo]@[{settings.database}]",
        HeaderNames.EXCEPTION_TYPE: "System.TimeoutException",
        HeaderNames.EXCEPTION_STACK_TRACE: TRACE,
    }
    with Session(settings) as session:
        queue = QueueTable(session, AddressResolver(None, settings.database).resolve(name))
        table = queue.address.qualified_name
        session.run(Query("reseed", "count from there", f"DBCC CHECKIDENT ('{table}', RESEED, 12345)"))
        queue.send([Message(headers, BODY.encode())])
    return name


def on_a_terminal(columns: int, *arguments: str, url: str) -> str:
    """Output for a terminal of this width, without its colours."""
    leader, follower = pty.openpty()
    ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    variables = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "LINES")}
    variables |= {"SQLQUEUE_URL": url, "TERM": "xterm"}
    command = [sys.executable, "-m", "airflow_sqlqueue", *arguments]
    with subprocess.Popen(command, env=variables, stdin=follower, stdout=follower, stderr=follower) as process:
        os.close(follower)
        shown = b""
        try:
            while data := os.read(leader, 65_536):
                shown += data
        except OSError:  # Linux: the terminal's other end was closed
            pass
        os.close(leader)
        assert process.wait(60) == 0, shown
    return re.sub(r"\x1b\[[\d;]*m", "", shown.decode()).replace("\r\n", "\n")


def test_bodies_headers_and_stack_traces_are_whole(url: str, error: str) -> None:
    (group,) = answer("errors", error, url=url)
    shown = on_a_terminal(80, "errors", error, "--show", str(group["example"]), "--body", url=url)
    assert f"\nbody\n{BODY}\n" in shown
    assert TRACE.replace("\r\n", "\n") in shown
    assert f"{HeaderNames.FAILED_Q} = {error}@[dbo]@[sqlqueue]\n" in shown


@pytest.mark.parametrize(
    ("columns", "form"), [(40, "\nrow version  1234"), (80, "\nrow version  1234"), (200, "┃ row version ┃")]
)
def test_a_list_is_a_table_where_there_is_room_and_ids_break_nowhere(
    url: str, error: str, columns: int, form: str
) -> None:
    (message,) = answer("peek", error, url=url)
    shown = on_a_terminal(columns, "peek", error, url=url)
    assert form in shown
    assert message["message_id"] in shown
    assert message["time_sent"] is None
    assert f"{error}@[dbo]@[sqlqueue]" in shown


def test_row_versions_are_shown_as_options_take_them(url: str, error: str) -> None:
    (message,) = answer("peek", error, url=url)
    number = str(message["row_version"])
    assert len(number) == 5
    for command in (["peek", error], ["errors", error], ["errors", error, "--show", number]):
        assert number in sqlqueue(*command, url=url).stdout, command


def test_ages_are_for_people_and_seconds_for_programs(url: str) -> None:
    name = f"cli.{uuid.uuid4().hex[:10]}"
    answer("create", name, url=url)
    answer("send", name, "--type", "T", "--header", "NServiceBus.TimeSent=2026-03-05 14:01:00:000000 Z", url=url)
    assert answer("depth", name, url=url)["oldest_seconds"] > 60
    shown = sqlqueue("depth", name, url=url).stdout
    assert re.search(r"^oldest +\d+ d( \d+ h)?$", shown, re.MULTILINE), shown


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.4, "0 s"), (59.2, "59 s"), (61, "1 min 1 s"), (3_600, "1 h"), (11_520, "3 h 12 min"), (190_800, "2 d 5 h")],
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_a_mapping_has_a_line_for_each_name() -> None:
    assert lines_of("headers", {"x": "1\n2\x1b", "n": None}) == ["x = 1", "2\\x1b", "n = null"]


@pytest.mark.parametrize("options", [(), ("--csv",)])
def test_characters_that_the_encoding_lacks_are_escaped(url: str, options: tuple[str, ...]) -> None:
    name = f"cli.{uuid.uuid4().hex[:10]}.€😀"
    answer("create", name, url=url)
    answer("send", name, "--type", "T", "--body", "größe €😀", url=url)
    shown = sqlqueue("peek", name, "--body", *options, url=url, PYTHONIOENCODING="ascii")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert r"gr\xf6\xdfe \u20ac\U0001f600" in shown.stdout


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a full device")
@pytest.mark.parametrize("words", [["--version"], ["drain", "--help"]], ids=" ".join)
def test_an_output_that_takes_no_more_is_one_sentence(words: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        assert written_to(full, *words) == (1, "Error: The output cannot be written: No space left on device.\n")


def test_a_pipe_without_a_reader_ends_the_command() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as pipe:
        assert written_to(pipe, "--version") == (1, "")


def test_a_closed_output_loses_the_output_alone(url: str) -> None:
    name = f"cli.{uuid.uuid4().hex[:10]}"
    answer("create", name, url=url)
    for streams in (">&-", "<&- >&-"):
        words = [sys.executable, "-m", "airflow_sqlqueue", "send", name, "--type", "T", "--body", "-"]
        command = ["sh", "-c", f'exec "$@" {streams}', "sh", *words]
        done = subprocess.run(
            command, env=environment_of(url), stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, timeout=120
        )
        assert (done.returncode, done.stderr) == (0, "")
    assert answer("depth", name, url=url)["messages"] == 2


def written_to(output: TextIO, *words: str) -> tuple[int, str]:
    """The exit code and the standard error of a command."""
    command = [sys.executable, "-m", "airflow_sqlqueue", *words]
    done = subprocess.run(command, stdout=output, stderr=subprocess.PIPE, text=True, timeout=120, check=False)
    return done.returncode, done.stderr
