"""The listener with its processes and a scripted engine in place of PostgreSQL: it starts at once.

``python small_server.py FOLDER MAX_SESSIONS MAX_LOGGING_IN`` prints its port, and logs to stderr. It ends with the
program that started it, by its stdin.
"""

from __future__ import annotations

import contextlib
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

from fakemssql.connections import MAX_LOGGING_IN, MAX_SESSIONS, Connections
from fakemssql.contract import Wait
from fakemssql.listener import Listener, listen
from fakemssql.tds import tls
from fakemssql.tds.connection import Front
from fakemssql.tds.login import Credentials
from support.scripted import Scripted


@dataclass
class SmallServer:
    """A running one."""

    port: int
    pid: int
    errors: Path

    def connections(self) -> list[psutil.Process]:
        """The processes of its connections."""
        found: list[psutil.Process] = psutil.Process(self.pid).children()
        return found

    def connected(self) -> list[psutil.Process]:
        """The processes that hold a client's connection now: one that ends meanwhile holds none."""
        return [process for process in self.connections() if has_connections(process)]

    def log(self) -> list[str]:
        return self.errors.read_text().splitlines()


def has_connections(process: psutil.Process) -> bool:
    """Whether the process holds a connection; one that has ended holds none."""
    try:
        return bool(process.net_connections())
    except psutil.NoSuchProcess:
        return False


@contextlib.contextmanager
def small_server(
    folder: Path, *, max_sessions: int = MAX_SESSIONS, max_logging_in: int = MAX_LOGGING_IN
) -> Iterator[SmallServer]:
    command = [sys.executable, __file__, str(folder), str(max_sessions), str(max_logging_in)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    errors = folder / "log"
    with (
        open(errors, "wb") as output,
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=output, env=environment
        ) as process,
    ):
        assert process.stdout is not None
        yield SmallServer(int(process.stdout.readline()), process.pid, errors)
        process.terminate()


def main(folder: str, max_sessions: str, max_logging_in: str) -> None:
    logging.basicConfig(stream=sys.stderr, format="%(message)s")

    def open_engine(database: str, user: str, wait: Wait, password: str | None) -> Scripted:
        return Scripted(database, user, wait)

    def announce() -> None:
        sys.stdout.write(f"{sock.getsockname()[1]}\n")
        sys.stdout.flush()

    sock = listen("127.0.0.1", 0)
    Listener(
        sock,
        Front(tls.contexts(Path(folder)), Credentials("sa", "geheim"), open_engine),
        connections=Connections(max_sessions=int(max_sessions), max_logging_in=int(max_logging_in)),
        parent=sys.stdin.fileno(),
        healthy=lambda: True,
    ).run(announce)


if __name__ == "__main__":
    main(*sys.argv[1:])
