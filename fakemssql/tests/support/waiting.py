"""Statements that wait for a lock: seen to wait by the server's own views, never by the clock."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread

from fakemssql.contract import Attention, ClientGone
from support.engine_client import Client, Recorder

_PATIENCE = 60.0
_BLOCKED = "SELECT COUNT(*) FROM sys.dm_exec_requests WHERE session_id = {} AND blocking_session_id <> 0"


class Waiter:
    """A batch that runs in a thread. ``result`` is there when the block of :func:`waiting` has ended."""

    def __init__(self, client: Client, text: str) -> None:
        self.cancelled = False
        self._found: list[Recorder] = []
        self._client, self._text = client, text
        self._thread = Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        try:
            self._found.append(self._client.run(self._text))
        except (Attention, ClientGone):
            self.cancelled = True

    def start(self, spid: int, watcher: Client) -> None:
        """Return when ``watcher`` sees that another session blocks the batch."""
        self._thread.start()
        deadline = time.monotonic() + _PATIENCE
        while watcher.value(_BLOCKED.format(spid)) == 0:
            assert self._thread.is_alive(), f"did not wait: {[r.messages for r in self._found]}"
            assert time.monotonic() < deadline, "never waited"

    def join(self) -> None:
        self._thread.join(_PATIENCE)
        assert not self._thread.is_alive(), "still waits"

    @property
    def result(self) -> Recorder:
        return self._found[0]


@contextmanager
def waiting(watcher: Client, client: Client, text: str) -> Iterator[Waiter]:
    """``text`` waits for a lock at the start of the block, and has ended at its end."""
    waiter = Waiter(client, text)
    waiter.start(int(client.value("SELECT @@SPID")), watcher)
    yield waiter
    waiter.join()


class Cancel:
    """What a session waits with until :meth:`request` cancels what it runs, as an attention of the client does."""

    def __init__(self) -> None:
        self._read, self._write = os.pipe()

    def wait(self, fd: int) -> None:
        """Return when there is something to read from ``fd``; :class:`Attention` after a request."""
        ready, _, _ = select.select([fd, self._read], [], [])
        if self._read in ready:
            os.read(self._read, 1)
            raise Attention

    def request(self) -> None:
        os.write(self._write, b"x")

    def close(self) -> None:
        os.close(self._read)
        os.close(self._write)
