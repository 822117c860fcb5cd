"""Session stack: open sessions of one thread."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from airflow_sqlqueue.server.session import Session


class SessionStack:
    """Open sessions of one thread, lent as a stack: a connection for each message would cost more than the message.

    Two transactions that borrow sessions in the same order get the same sessions for the same purposes.
    """

    def __init__(self, connect: Callable[[], Session]) -> None:
        self._connect = connect
        self._open: list[Session] = []
        self._lent = 0

    @contextmanager
    def lend(self) -> Iterator[Session]:
        """Lend the next session to the block. Blocks are nested: the last session lent is returned first.

        A further session that has lost its connection is replaced. The first one is left to the owner of the stack, who
        waits for the server.
        """
        if self._lent and self._lent < len(self._open) and self._open[self._lent].is_lost:
            self._open.pop(self._lent).close()
        if self._lent == len(self._open):
            self._open.append(self._connect())
        session = self._open[self._lent]
        self._lent += 1
        try:
            yield session
        finally:
            self._lent -= 1

    def close(self) -> None:
        """Close all sessions."""
        for session in self._open:
            session.close()
        self._open.clear()
