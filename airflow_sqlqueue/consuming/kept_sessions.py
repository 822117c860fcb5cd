"""Sessions that stay open over many transactions: a connection for each message would cost more than the message."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from airflow_sqlqueue.session import Session


class KeptSessions:
    """The sessions of one thread, opened when one more is needed, and lent one after the other.

    A transaction that borrows them in the same order as the last one gets the same sessions for the same purpose.
    """

    def __init__(self, connect: Callable[[], Session]) -> None:
        self._connect = connect
        self._open: list[Session] = []
        self._lent = 0

    @contextmanager
    def lend(self) -> Iterator[Session]:
        """The next session, for the block. Blocks are nested: the last session lent comes back first."""
        if self._lent == len(self._open):
            self._open.append(self._connect())
        session = self._open[self._lent]
        self._lent += 1
        try:
            yield session
        finally:
            self._lent -= 1

    def close(self) -> None:
        """Close them all."""
        for session in self._open:
            session.close()
        self._open.clear()
