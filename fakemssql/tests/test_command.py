"""``python -m fakemssql``: its data folder, its password, and what it says of options that cannot be."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyodbc
import pytest

from fakemssql import FakeServer, FakeServerError, odbc
from fakemssql.data_folder import PARENT_VARIABLE, kept_password
from fakemssql.server import SNAPSHOT_VARIABLE
from support.folders import data_folder


@pytest.fixture
def folder() -> Iterator[Path]:
    with data_folder() as found:
        yield found


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "fakemssql", "--port", "0", *arguments]


@contextlib.contextmanager
def running(folder: Path) -> Iterator[dict[str, Any]]:
    """A server on the folder, and the facts it prints."""
    with subprocess.Popen(command("--json", "--data", str(folder)), stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield json.loads(process.stdout.readline())
        finally:
            process.terminate()


def test_a_second_server_on_the_same_folder_is_refused_and_the_first_lives_on(folder: Path) -> None:
    with FakeServer(folder) as first:
        second = subprocess.run(command("--data", str(folder)), capture_output=True, text=True, timeout=60, check=False)
        assert (second.returncode, second.stdout) == (2, "")
        (sentence,) = second.stderr.splitlines()
        assert f"Another server uses the data folder {folder}" in sentence
        with pytest.raises(FakeServerError, match="Another server uses the data folder"):
            FakeServer(folder).start()
        with contextlib.closing(pyodbc.connect(first.odbc_connection_string(), timeout=20)) as connection:
            assert connection.execute("SELECT 1").fetchval() == 1


def test_the_password_stays_with_the_data(folder: Path) -> None:
    with running(folder) as first:
        pass
    with running(folder) as second:
        assert second["password"] == first["password"]
    file = folder / "password"
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.read_text("utf-8").strip() == first["password"]


@pytest.mark.parametrize(
    ("variable", "argument", "expected"),
    [("", None, False), ("on", None, True), ("On", None, True), ("off", True, True), ("on", False, False)],
)
def test_databases_have_row_versions_on_request(
    monkeypatch: pytest.MonkeyPatch, variable: str, argument: bool | None, expected: bool
) -> None:
    monkeypatch.setenv(SNAPSHOT_VARIABLE, variable)
    query = "SELECT is_read_committed_snapshot_on FROM sys.databases WHERE name = 'shop'"
    server = FakeServer(databases=["shop"], read_committed_snapshot=argument)
    with server, contextlib.closing(pyodbc.connect(server.odbc_connection_string(), timeout=20)) as connection:
        assert connection.execute(query).fetchval() is expected


def test_an_unknown_setting_is_reported_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SNAPSHOT_VARIABLE, "perhaps")
    done = subprocess.run(command(), capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (2, f"{SNAPSHOT_VARIABLE} is 'perhaps': give on or off.\n")


def test_temporary_data_are_where_the_variable_says(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setenv(PARENT_VARIABLE, str(folder))
    with FakeServer() as server:
        assert list(folder.resolve().iterdir()) == [server.data]
    assert not list(folder.iterdir())


def test_a_missing_folder_for_temporary_data_is_reported_in_a_sentence(
    monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    monkeypatch.setenv(PARENT_VARIABLE, str(folder / "nowhere"))
    done = subprocess.run(command(), capture_output=True, text=True, timeout=60, check=False)
    (sentence,) = done.stderr.splitlines()
    assert done.returncode == 2
    assert sentence.startswith(f"No folder for the data can be made in {PARENT_VARIABLE}={folder / 'nowhere'}: No such")
    with pytest.raises(FakeServerError, match="No folder for the data can be made"):
        FakeServer().start()


def test_an_empty_password_file_counts_as_missing(folder: Path) -> None:
    (folder / "password").write_text("\n")
    assert kept_password(folder, "new") == "new"
    assert kept_password(folder, "newer") == "new"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_clean_stop_logs_nothing(folder: Path, number: signal.Signals) -> None:
    """Connections that were served and one that is open end with it, and that is no crash."""
    start = command("--json", "--data", str(folder))
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(start, start_new_session=True, **streams) as process, contextlib.ExitStack() as stack:
        assert process.stdout is not None
        facts = json.loads(process.stdout.readline())
        login = odbc.ServerLogin(facts["host"], facts["port"], facts["user"], facts["password"])
        trusting = {"TrustServerCertificate": "yes"}
        text = odbc.connection_string(odbc.find_driver() or "", login, "master", trusting)
        connections = [pyodbc.connect(text, timeout=20) for _ in range(3)]
        for connection in connections[1:]:
            connection.close()
        stack.callback(connections[0].close)
        # As a terminal does it, to all of the group, and as a supervisor does, to the server alone.
        os.killpg(process.pid, number) if number == signal.SIGINT else process.send_signal(number)
        _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, "")


@pytest.mark.parametrize("given", [True, False])
def test_the_url_shows_no_password_that_was_given_and_says_where_it_goes(folder: Path, given: bool) -> None:
    start = command("--data", str(folder), *(["--password", "Aa1-given-secret"] if given else []))
    with subprocess.Popen(start, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = process.stdout.readline()
        process.terminate()
        rest, errors = process.communicate(timeout=60)
    assert rest == ""
    assert "Aa1-given-secret" not in url + errors
    assert ("sa:...@" in url) is given
    said = "The password that was given is not shown: put it in place of the ... in the URL.\n"
    assert errors == (said if given else "")


@pytest.mark.parametrize("port", ["http", "65536", "-1"])
def test_an_invalid_port_is_reported_in_a_sentence(port: str) -> None:
    shown = [sys.executable, "-m", "fakemssql", f"--port={port}"]
    done = subprocess.run(shown, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert f"a port is a number from 0 to 65535, not {port!r}" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_unusable_folder_is_reported_in_a_sentence(folder: Path) -> None:
    file = folder / "file"
    file.write_text("")
    for wrong in (file, file / "below"):
        done = subprocess.run(command("--data", str(wrong)), capture_output=True, text=True, timeout=60, check=False)
        (sentence,) = done.stderr.splitlines()
        assert done.returncode == 2
        assert f"The data folder {wrong} cannot be used" in sentence


@pytest.mark.parametrize(("host", "reachable"), [("127.0.0.1", False), ("0.0.0.0", True)])
def test_a_warning_for_an_address_that_other_machines_may_reach(folder: Path, host: str, reachable: bool) -> None:
    start = command("--host", host, "--json", "--data", str(folder))
    with subprocess.Popen(start, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["host"] == host
        process.terminate()
        _, errors = process.communicate(timeout=60)
    assert [f"listening on {host}, which other machines may reach" in line for line in errors.splitlines()] == (
        [True] if reachable else []
    )
