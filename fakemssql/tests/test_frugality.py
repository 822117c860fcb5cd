"""Memory and processor time of open connections.

The bounds are wide: what they find is a connection that polls, or one that keeps a server of its own.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing

import psutil  # type: ignore[import-untyped]
import pyodbc

from fakemssql import FakeServer


def processes(server: FakeServer) -> list[psutil.Process]:
    """All running processes of the server."""
    root = psutil.Process(server.pid)
    return [root, *root.children(recursive=True)]


def memory(server: FakeServer) -> float:
    """Memory in megabytes. On Linux shared pages count once (PSS); elsewhere only unshared pages count."""
    total = 0
    for process in processes(server):
        with contextlib.suppress(psutil.NoSuchProcess):
            found = process.memory_full_info()
            total += found.pss if sys.platform == "linux" else found.uss
    return total / 1e6


def cpu(server: FakeServer) -> float:
    """Seconds of processor time of the running processes."""
    total = 0.0
    for process in processes(server):
        with contextlib.suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            total += times.user + times.system
    return total


@contextlib.contextmanager
def many(server: FakeServer, count: int) -> Iterator[None]:
    """Open connections that have each run a query."""
    with ExitStack() as stack:
        for _ in range(count):
            connection = pyodbc.connect(server.odbc_connection_string(), autocommit=True)
            stack.enter_context(closing(connection)).execute("SELECT 1").fetchall()
        yield


def test_memory_of_connections(fakemssql: FakeServer) -> None:
    """All that the server takes, shared by its connections, of which more are open than wait for clients."""
    count = 12
    with many(fakemssql, count):
        assert memory(fakemssql) / count <= 40


def test_idle_connections_take_no_core(fakemssql: FakeServer) -> None:
    with many(fakemssql, 10):
        before, start = cpu(fakemssql), time.perf_counter()
        time.sleep(1)
        assert cpu(fakemssql) - before <= 0.3 * (time.perf_counter() - start)
