"""The connections of a server, counted over its processes: how many may be there, and which are logged in.

The listener forks a process for each connection and shares one piece of memory with all of them. A process writes its
own bytes of it; the listener, which has one thread, gives places away and takes them back.
"""

from __future__ import annotations

import mmap
from dataclasses import dataclass

from fakemssql.contract import SqlError

MAX_SESSIONS = 180
"""Connections that are logged in. Each has one to PostgreSQL, whose ``max_connections`` leaves some for the rest."""
MAX_LOGGING_IN = 64
"""Connections that are not logged in yet."""
_ADDRESSES = 1024
"""Remote addresses whose first login in clear is told of; those that come later share the last entry."""

_FREE, _LOGGING_IN, _SESSION = b"\0", b"\1", b"\2"


class Connections:
    """Places for the processes of connections. One that is beyond a limit gets none."""

    def __init__(self, *, max_sessions: int = MAX_SESSIONS, max_logging_in: int = MAX_LOGGING_IN) -> None:
        self.max_sessions, self.max_logging_in = max_sessions, max_logging_in
        self._states = mmap.mmap(-1, max_sessions + max_logging_in)
        self._in_clear = mmap.mmap(-1, _ADDRESSES)
        self._addresses: dict[str, int] = {}

    def take(self, address: str) -> Place | None:
        """A place for a new connection, for the listener to take; None where too many are not logged in yet."""
        if self._count(_LOGGING_IN) >= self.max_logging_in:
            return None
        index = self._states.find(_FREE, 0)
        if index < 0:
            return None
        self._states[index : index + 1] = _LOGGING_IN
        return Place(self, index, self._number(address))

    def free(self, place: Place) -> None:
        """The process of a connection has ended, in whatever way."""
        self._states[place.index : place.index + 1] = _FREE

    def enter(self, place: Place) -> bool:
        """Make a connection a session, in its own process; False where there are as many as may be."""
        self._states[place.index : place.index + 1] = _SESSION
        # Counted after it is written: of two that take the last place at once both may be refused, never both let in.
        if self._count(_SESSION) <= self.max_sessions:
            return True
        self._states[place.index : place.index + 1] = _LOGGING_IN
        return False

    def first_in_clear(self, place: Place) -> bool:
        """Whether nobody from the same address has asked this before."""
        first = not self._in_clear[place.address]
        self._in_clear[place.address] = 1
        return first

    def _number(self, address: str) -> int:
        number = self._addresses.get(address, len(self._addresses))
        if number >= _ADDRESSES:
            return _ADDRESSES - 1
        self._addresses[address] = number
        return number

    def _count(self, state: bytes) -> int:
        return self._states[:].count(state)


@dataclass(frozen=True)
class Place:
    """One connection's place; ``address`` numbers the remote address it comes from."""

    connections: Connections
    index: int
    address: int

    def enter(self) -> None:
        """Become a session. Raises :class:`SqlError` 17809 where there are as many as may be."""
        if not self.connections.enter(self):
            raise SqlError(
                17809,
                f"Could not connect because the maximum number of '{self.connections.max_sessions}' user connections "
                "has already been reached. The connection has been closed.",
                severity=20,
            )

    def first_in_clear(self) -> bool:
        """Whether nobody from the same address has asked this before."""
        return self.connections.first_in_clear(self)
