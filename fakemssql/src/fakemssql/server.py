"""FakeServer, a server for tests and notebooks: ``with FakeServer() as server: ...``."""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType

import psutil  # type: ignore[import-untyped]

from fakemssql import data_folder, odbc, switches
from fakemssql.processes import is_alive
from fakemssql.system_user import make_folder
from fakemssql.tds import access_tokens
from fakemssql.tds.tls import certificate_path

SYSTEM_DATABASES = ("master", "tempdb", "msdb", "model")
DATABASE = "test"
"""Database of a server whose databases are not given."""
PASSWORD_VARIABLE = "FAKEMSSQL_PASSWORD"  # noqa: S105 - the name of a variable
SNAPSHOT_VARIABLE = "FAKEMSSQL_READ_COMMITTED_SNAPSHOT"
_STOP_SECONDS = 30.0


class FakeServerError(Exception):
    """The server cannot start or cannot do a request; after a failed start the text has the last lines of its log."""


class FakeServer:
    """Stand-in for SQL Server, which runs in a process of its own with child processes.

    :param data: the data directory; unless given, a temporary one, which is removed at the end. ``FAKEMSSQL_TMPDIR``
        names the folder for temporary ones, in place of the system's folder for temporary files.
    :param host: the address to listen on.
    :param port: the port on ``host``; unless given, a free one.
    :param user: the login.
    :param password: its password; unless given, a random one.
    :param databases: databases that the server makes at its start, besides master, tempdb, msdb and model. The first
        one is the default of :meth:`url` and :meth:`odbc_connection_string`.
    :param read_committed_snapshot: whether new databases have READ_COMMITTED_SNAPSHOT and ALLOW_SNAPSHOT_ISOLATION ON,
        as those of Azure SQL Database; unless given, ``FAKEMSSQL_READ_COMMITTED_SNAPSHOT`` (on or off) decides, else
        both are OFF, as on SQL Server. ALTER DATABASE changes them.
    :param startup_timeout: seconds after which a start counts as failed.

    Use it as a context manager, or call :meth:`start` and :meth:`stop`. The server ends with the process that made it,
    even if that process is killed.
    """

    def __init__(
        self,
        data: str | os.PathLike[str] | None = None,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        user: str = "sa",
        password: str | None = None,
        databases: Sequence[str] = (DATABASE,),
        read_committed_snapshot: bool | None = None,
        startup_timeout: float = 60.0,
    ) -> None:
        if isinstance(databases, str):
            raise FakeServerError(f"databases is the text {databases!r}: give a list, [{databases!r}].")
        self.host, self.port, self.user = host, port, user
        self.password = password or data_folder.strong_password()
        self.databases = tuple(databases) or ("master",)
        self._known: set[str] = set()
        self._snapshot = read_committed_snapshot
        self._startup_timeout = startup_timeout
        self._conninfo = ""
        self._temporary = data is None
        self._data = None if data is None else Path(data).resolve()
        self._process: subprocess.Popen[bytes] | None = None
        self._lifeline: int | None = None
        self._reserved: socket.socket | None = None

    def __enter__(self) -> FakeServer:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def data(self) -> Path:
        """Data directory. Raises :class:`FakeServerError` before the first start if the directory is temporary."""
        if self._data is None:
            raise FakeServerError("The server has no folder yet: start it first.")
        return self._data

    @property
    def certificate(self) -> Path:
        """Path of the server's certificate (PEM), for clients that pin it, as with ``Encrypt=strict``."""
        return certificate_path(self.data)

    @property
    def pid(self) -> int | None:
        """Id of the listener's process; None if the server does not run."""
        return self._process.pid if self._process else None

    def start(self) -> None:
        """Start, and return when the server takes connections. Raises :class:`FakeServerError`."""
        if self._process is not None:
            raise FakeServerError("The server runs already: stop it before you start it again.")
        if self._data is None:
            try:
                self._data = data_folder.temporary()
            except data_folder.DataFolderError as error:
                raise FakeServerError(str(error)) from error
        make_folder(self._data)
        if not self.port:
            self._reserve_port()
        ready_read, ready_write = os.pipe()
        parent_read, self._lifeline = os.pipe()
        command = [sys.executable, "-m", "fakemssql", "--host", self.host, "--port", str(self.port)]
        command += ["--data", str(self._data), "--user", self.user]
        command += ["--ready-fd", str(ready_write), "--parent-fd", str(parent_read)]
        if self._snapshot is not None:
            command += ["--read-committed-snapshot", "on" if self._snapshot else "off"]
        command += [f"--database={name}" for name in self.databases]
        command += ["--temporary"] * self._temporary
        try:
            with open(self._log, "ab") as log:
                self._process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env={**os.environ, PASSWORD_VARIABLE: self.password, "PYTHONPATH": _python_path()},
                    pass_fds=(ready_write, parent_read),
                    # Ctrl-C reaches only the program that uses the server; that program then stops the server.
                    start_new_session=True,
                )
        finally:
            os.close(ready_write)
            os.close(parent_read)
        try:
            self._conninfo = self._await_ready(ready_read)["conninfo"]
        except BaseException:
            self.kill()
            self._remove()
            raise
        finally:
            os.close(ready_read)
        self._known = {*SYSTEM_DATABASES, *self.databases}

    def stop(self) -> None:
        """Stop the server and its child processes; remove a temporary data directory."""
        self._end()
        self._remove()

    def _end(self) -> None:
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self.kill()
        self._let_go()

    def kill(self) -> None:
        """Send SIGKILL to the server, its connections and PostgreSQL, like a power cut. Data stay."""
        if self._process is None:
            return
        _kill_tree(self._process.pid, self._process.wait, _STOP_SECONDS)
        self._let_go()

    def restart(self) -> None:
        """Stop the server if it runs, and start it again on the same data and port."""
        self._end()
        self.start()

    def url(self, database: str | None = None) -> str:
        """``mssql://user:password@host:port/database?Encrypt=yes&TrustServerCertificate=yes``, percent-escaped.

        The query part has ODBC keywords. Makes the database if it is missing.
        """
        return odbc.url(self._login, self._database(database))

    def odbc_connection_string(
        self, database: str | None = None, *, encrypt: str = "no", driver: str | None = None
    ) -> str:
        """Connection string for pyodbc. Makes the database if it is missing.

        :param encrypt: ``no``, ``yes`` or ``strict`` (TDS 8.0, the certificate pinned).
        :param driver: a driver's name or the path of its library; unless given, an installed driver is used. Raises
            :class:`FakeServerError` if no driver is installed.
        """
        if driver is None and (driver := odbc.find_driver()) is None:
            raise FakeServerError(
                "No ODBC driver for SQL Server was found: run \"pip install 'fakemssql[odbc]'\" or install Microsoft's."
            )
        name = self._database(database)
        keywords = {"Encrypt": encrypt}
        if encrypt == "strict":
            keywords["ServerCertificate"] = str(self.certificate)
        else:
            keywords["TrustServerCertificate"] = "yes"
        return odbc.connection_string(driver, self._login, name, keywords)

    def access_token(self, *, lifetime: float = 3600.0) -> str:
        """Return the token that logs its bearer in as the administrator, like a token of Microsoft Entra ID.

        Clients give it to the driver in place of user and password (``SQL_COPT_SS_ACCESS_TOKEN`` of ODBC).

        :param lifetime: seconds until the token expires; with a negative number it has expired already.
        """
        return access_tokens.issue(self.user, self.password, lifetime)

    def create_database(self, name: str) -> None:
        """Make a database if it is missing. Open connections see it too.

        :meth:`url` and :meth:`odbc_connection_string` call this, so that a test need not. Raises
        :class:`FakeServerError`.
        """
        if self._process is None or name in self._known:
            return
        # Loaded here: most programs never need the engine in this process.
        from fakemssql.tsql import install

        try:
            install.create_database(self._conninfo, name)
        except ValueError as error:
            raise FakeServerError(f"The database {name!r} cannot be made: {error}.") from error
        except ConnectionError as error:
            raise FakeServerError(
                f"The database {name!r} cannot be made: the server has died, start it again."
            ) from error
        self._known.add(name)

    @contextlib.contextmanager
    def switched(
        self,
        *,
        properties: Mapping[str, str | int | None] | None = None,
        lose_transaction_at: int | None = None,
        page_locks: bool = False,
        failing_dirty_reads: int = 0,
        refuse_recovery: bool = False,
    ) -> Iterator[None]:
        """Switch faults and server properties on for the connections that are opened in the block.

        :param properties: values of SERVERPROPERTY by name, such as ``{"EngineEdition": 6}``.
        :param lose_transaction_at: each connection loses an open transaction once, without an error, just before the
            request of that number; only requests in a transaction count, from 1.
        :param page_locks: statements without ROWLOCK lock pages, as SQL Server may; READPAST waits for locked pages.
        :param failing_dirty_reads: number of statements of each connection that fail with error 601 when they read a
            table under NOLOCK.
        :param refuse_recovery: restore no session whose connection broke while it was idle.
        """
        file, more = self.data / switches.FILE, (page_locks, failing_dirty_reads, refuse_recovery)
        before = switches.read(file)
        switches.write(file, switches.Switches(properties or {}, lose_transaction_at, *more))
        try:
            yield
        finally:
            switches.write(file, before)

    @property
    def _login(self) -> odbc.ServerLogin:
        return odbc.ServerLogin(self.host, self.port, self.user, self.password)

    def _database(self, name: str | None) -> str:
        """Name of the given or default database, which is made if the server runs."""
        name = self.databases[0] if name is None else name
        self.create_database(name)
        return name

    @property
    def _log(self) -> Path:
        return self.data / "server.log"

    def _await_ready(self, fd: int) -> dict[str, str]:
        deadline, line = time.monotonic() + self._startup_timeout, b""
        poll = select.poll()
        poll.register(fd, select.POLLIN)
        while not line.endswith(b"\n"):
            if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
                raise FakeServerError(f"The server did not start within {self._startup_timeout:g} seconds.")
            data = os.read(fd, 4096)
            if not data:
                tail = "\n".join(self._log.read_text(errors="replace").splitlines()[-15:])
                raise FakeServerError(f"The server did not start:\n{tail}")
            line += data
        facts: dict[str, str] = json.loads(line)
        return facts

    def _reserve_port(self) -> None:
        """Choose a free port and keep it: the system gives it to no other process while the server is down.

        A socket that is bound and does not listen reserves a port, and refuses connections.
        """
        reserved = socket.socket(socket.AF_INET6 if ":" in self.host else socket.AF_INET)
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            reserved.bind((self.host, 0))
        except OSError as error:
            reserved.close()
            self._remove()
            raise FakeServerError(f"Cannot listen on {self.host}: {error.strerror}; choose another host.") from error
        self._reserved, self.port = reserved, reserved.getsockname()[1]

    def _let_go(self) -> None:
        self._process = None
        if self._lifeline is not None:
            os.close(self._lifeline)
            self._lifeline = None

    def _remove(self) -> None:
        if self._reserved is not None:
            self._reserved.close()
            self._reserved = None
        if self._temporary and self._data is not None:
            shutil.rmtree(self._data, ignore_errors=True)
            self._data = None


def _python_path() -> str:
    """Import path of this process, so that the server runs the same code."""
    return os.pathsep.join(path for path in sys.path if path)


def _kill_tree(pid: int, reap: Callable[[], object], seconds: float) -> None:
    """Kill a child process and all processes below it; returns when they have ended, or after ``seconds``.

    ``reap`` waits for the child.
    """
    doomed: list[psutil.Process] = []
    with contextlib.suppress(psutil.Error):
        root = psutil.Process(pid)
        # Suspend the child first: it must not start another process meanwhile.
        root.suspend()
        doomed = [root, *root.children(recursive=True)]
    # Suspend all: otherwise a connection whose PostgreSQL has ended could report that to its client.
    for signal_one in (psutil.Process.suspend, psutil.Process.kill):
        for process in doomed:
            with contextlib.suppress(psutil.Error):
                signal_one(process)
    reap()
    deadline = time.monotonic() + seconds
    while any(map(is_alive, doomed)) and time.monotonic() < deadline:
        time.sleep(0.005)
