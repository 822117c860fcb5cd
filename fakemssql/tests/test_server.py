"""The life of a server: start, end, death, return."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

import psutil
import pyodbc
import pytest

from fakemssql import FakeServer, FakeServerError
from support.folders import data_folder

pyodbc.pooling = False


@pytest.fixture
def own_server() -> Iterator[FakeServer]:
    """A server that a test may kill."""
    with FakeServer(password="P;w}'{1 ü", databases=("First", "Second One")) as found:
        yield found


def value(server: FakeServer, statement: str, database: str | None = None) -> object:
    text = server.odbc_connection_string(database)
    with contextlib.closing(pyodbc.connect(text, autocommit=True, timeout=20)) as connection:
        cursor = connection.execute(statement)
        return cursor.fetchval() if cursor.description else None


def test_databases_kill_and_restart(own_server: FakeServer) -> None:
    assert value(own_server, "SELECT DB_NAME()", "second one") == "Second One"
    assert value(own_server, "SELECT DB_NAME()", "master") == "master"
    value(own_server, "CREATE TABLE dbo.kept (a int)")
    value(own_server, "INSERT INTO dbo.kept VALUES (42)")
    port = own_server.port
    # The driver would try for ten seconds to recover the session.
    text = own_server.odbc_connection_string() + ";ConnectRetryCount=0"
    with contextlib.closing(pyodbc.connect(text, autocommit=True, timeout=20)) as connection:
        own_server.kill()
        assert own_server.pid is None
        with pytest.raises(pyodbc.Error):
            connection.execute("SELECT 1").fetchval()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((own_server.host, port), 5)
    own_server.restart()
    assert own_server.port == port
    assert value(own_server, "SELECT a FROM dbo.kept") == 42
    own_server.restart()
    assert value(own_server, "SELECT a FROM dbo.kept") == 42


def test_url(own_server: FakeServer) -> None:
    parts = urlsplit(own_server.url("Second One"))
    assert (parts.scheme, parts.hostname, parts.port) == ("mssql", own_server.host, own_server.port)
    assert (unquote(parts.username or ""), unquote(parts.password or "")) == (own_server.user, own_server.password)
    assert unquote(parts.path) == "/Second One"
    assert parts.query == "Encrypt=yes&TrustServerCertificate=yes"
    assert urlsplit(own_server.url()).path == "/First", "the first of its databases"
    assert FakeServer(databases=[]).url().partition("?")[0].endswith("/master")
    assert "@[::1]:1/" in FakeServer(host="::1", port=1).url()
    with pytest.raises(FakeServerError, match=r"databases is the text 'shop': give a list, \['shop'\]"):
        FakeServer(databases="shop")


def test_a_crashed_connection_leaves_the_others_open(own_server: FakeServer) -> None:
    text = (
        own_server.odbc_connection_string() + ";ConnectRetryCount=0"
    )  # else Microsoft's driver may recover the session
    with (
        contextlib.closing(pyodbc.connect(text, autocommit=True)) as first,
        contextlib.closing(pyodbc.connect(text, autocommit=True)) as second,
    ):
        assert own_server.pid is not None
        workers = [p for p in psutil.Process(own_server.pid).children() if "postgres" not in p.name()]
        assert len(workers) == 2
        min(workers, key=lambda process: process.pid).kill()
        with pytest.raises(pyodbc.Error):
            first.execute("SELECT 1")
        assert second.execute("SELECT 1").fetchval() == 1
    assert value(own_server, "SELECT 1") == 1


@pytest.mark.parametrize("statement", ["SELECT 1", "WAITFOR DELAY '00:01:00'"])
def test_a_crash_of_postgresql_closes_the_connections(own_server: FakeServer, statement: str) -> None:
    """As a crash of SQL Server would: a session gets no error of the server first, whatever it is doing."""
    text = own_server.odbc_connection_string() + ";ConnectRetryCount=0"
    assert own_server.pid is not None
    listener = psutil.Process(own_server.pid)
    (postgres,) = (p for p in listener.children() if "postgres" in p.name())
    with contextlib.closing(pyodbc.connect(text, autocommit=True, timeout=20)) as connection:
        # It would end the sessions soon.
        listener.suspend()
        killer = threading.Timer(0.5 if "WAITFOR" in statement else 0, postgres.kill)
        killer.start()
        try:
            with pytest.raises(pyodbc.Error) as caught:
                run_until_it_fails(connection, statement)
        finally:
            listener.resume()
            killer.join()
    assert caught.value.args[0] == "08S01"


def run_until_it_fails(connection: pyodbc.Connection, statement: str) -> None:
    while True:
        connection.execute(statement)


def family_of(pid: int) -> list[psutil.Process]:
    root = psutil.Process(pid)
    return [root, *root.children(recursive=True)]


def test_stop_ends_everything_and_removes_the_data() -> None:
    with FakeServer() as server:
        assert server.pid is not None
        family, data = family_of(server.pid), server.data
        assert value(server, "SELECT DB_NAME()", "made") == "made"
    assert not psutil.wait_procs(family, timeout=20)[1]
    assert not data.exists()
    with server:
        assert value(server, "SELECT DB_NAME()", "made") == "made", "made again with the new data"


@pytest.mark.parametrize("temporary", [False, True], ids=["a folder that was given", "a temporary one"])
def test_the_server_ends_with_the_process_that_made_it(temporary: bool) -> None:
    """A folder that was given stays, and a temporary one goes: nobody else knows of it, and it may be in memory."""
    code = (
        "import sys; from fakemssql import FakeServer; s = FakeServer(sys.argv[1] or None); s.start();"
        "sys.stdout.write(f'{s.pid}\\n{s.data}\\n'); sys.stdout.flush(); sys.stdin.read()"
    )
    with data_folder() as given:
        command = [sys.executable, "-c", code, "" if temporary else str(given)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
            assert parent.stdout is not None
            family = family_of(int(parent.stdout.readline()))
            data = Path(parent.stdout.readline().rstrip("\n"))
            assert any("postgres" in process.name() for process in family)
            parent.send_signal(signal.SIGKILL)
        assert not psutil.wait_procs(family, timeout=20)[1]
        assert data.exists() is not temporary


def test_the_command_prints_one_line_and_keeps_its_password_out_of_the_log() -> None:
    with data_folder() as directory:
        command = [sys.executable, "-m", "fakemssql", "--port", "0", "--json", "--data", str(directory)]
        with (
            open(directory / "stderr", "w+b") as errors,
            subprocess.Popen([*command, "--verbose"], stdout=subprocess.PIPE, stderr=errors, text=True) as process,
        ):
            assert process.stdout is not None
            facts = json.loads(process.stdout.readline())
            with socket.create_connection((facts["host"], facts["port"]), 5):
                pass
            process.send_signal(signal.SIGTERM)
            assert process.stdout.read() == ""
            assert process.wait(30) == 0
            errors.seek(0)
            assert facts["password"].encode() not in errors.read()
        assert facts["user"] == "sa"
        assert facts["host"] == "127.0.0.1"


def test_a_taken_port_is_reported() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(FakeServerError, match=r"(?i)in use"):
        FakeServer(port=taken.getsockname()[1]).start()


def test_escapes_in_the_connection_string() -> None:
    server = FakeServer(password="a}b;c", port=1)
    assert "PWD={a}}b;c};" in server.odbc_connection_string("x}y", driver="ODBC Driver 18 for SQL Server")
    assert "DATABASE={x}}y};" in server.odbc_connection_string("x}y", driver="ODBC Driver 18 for SQL Server")
    assert os.path.sep not in server.url()[8:].split("@")[0]


def test_a_requested_database_is_made(own_server: FakeServer) -> None:
    for name in ("made for a URL", "made ]for ODBC"):
        text = own_server.odbc_connection_string(name)
        with contextlib.closing(pyodbc.connect(text)) as connection:
            assert connection.execute("SELECT DB_NAME()").fetchval() == name
    assert urlsplit(own_server.url("made for a URL")).path == "/made%20for%20a%20URL"


def test_open_connections_see_a_new_database(fakemssql: FakeServer) -> None:
    text = fakemssql.odbc_connection_string()
    with contextlib.closing(pyodbc.connect(text, autocommit=True)) as connection:
        assert connection.execute("SELECT DB_ID('made later')").fetchval() is None
        fakemssql.create_database("Made Later")
        fakemssql.create_database("MADE LATER")
        assert connection.execute("USE [made later]; SELECT DB_NAME()").fetchval() == "Made Later"


@pytest.mark.parametrize("name", ["", " ", "a\0b", "x" * 129])
def test_a_name_that_no_database_can_have(fakemssql: FakeServer, name: str) -> None:
    with pytest.raises(FakeServerError, match="1 to 128 characters"):
        fakemssql.url(name)


def test_a_database_that_a_dead_server_cannot_make(own_server: FakeServer) -> None:
    assert own_server.pid is not None
    root, *others = family_of(own_server.pid)
    for process in others:
        with contextlib.suppress(psutil.NoSuchProcess):  # it may have ended with another
            process.kill()
    psutil.wait_procs([root], timeout=20)
    with pytest.raises(FakeServerError, match="the server has died"):
        own_server.create_database("late")


def test_the_port_of_a_killed_server_stays_its_own() -> None:
    """Another process that took it would hinder the next start."""
    with FakeServer() as server:
        port = server.port
        server.kill()
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind(("127.0.0.1", port))
        server.start()
        assert server.port == port
        connection = pyodbc.connect(server.odbc_connection_string())
        connection.close()


def test_a_host_that_is_not_this_machine_is_refused() -> None:
    with pytest.raises(FakeServerError, match="Cannot listen on 192"):
        FakeServer(host="192.0.2.1").start()
