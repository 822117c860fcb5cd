"""Counts and limits of a server's connections, shared by its processes.

The listener forks a process for each connection and shares one piece of memory with all of them. Each process writes
its own bytes of this memory; the listener, which has one thread, assigns places and takes them back.
"""

from __future__ import annotations

import mmap
from dataclasses import dataclass

from fakemssql.contract import SqlError

MAX_SESSIONS = 180
"""Limit of logged-in connections. Each uses one connection of PostgreSQL, whose ``max_connections`` is higher."""
MAX_LOGGING_IN = 64
"""Limit of connections that are not logged in yet."""
_ADDRESSES = 1024
"""Number of remote addresses whose first login in clear is logged; all later addresses share the last entry."""

_FREE, _LOGGING_IN, _SESSION = b"\0", b"\1", b"\2"


class Connections:
    """Places for the processes of connections; a connection beyond a limit gets no place."""

    def __init__(self, *, max_sessions: int = MAX_SESSIONS, max_logging_in: int = MAX_LOGGING_IN) -> None:
        self.max_sessions, self.max_logging_in = max_sessions, max_logging_in
        self._states = mmap.mmap(-1, max_sessions + max_logging_in)
        self._in_clear = mmap.mmap(-1, _ADDRESSES)
        self._addresses: dict[str, int] = {}

    def take(self, address: str) -> Place | None:
        """Assign a place to a new connection (for the listener); None if too many connections are not logged in yet."""
        if self._count(_LOGGING_IN) >= self.max_logging_in:
            return None
        index = self._states.find(_FREE, 0)
        if index < 0:
            return None
        self._states[index : index + 1] = _LOGGING_IN
        return Place(self, index, self._number(address))

    def free(self, place: Place) -> None:
        """Take a place back from a connection whose process has ended or serves no client."""
        self._states[place.index : place.index + 1] = _FREE

    def enter(self, place: Place) -> bool:
        """Make a connection a session (called in its process); False if the limit of sessions is reached."""
        self._states[place.index : place.index + 1] = _SESSION
        # Write, then count: of two connections that take the last place at once, at most one is admitted.
        if self._count(_SESSION) <= self.max_sessions:
            return True
        self._states[place.index : place.index + 1] = _LOGGING_IN
        return False

    def first_in_clear(self, place: Place) -> bool:
        """True for the first call from the place's remote address."""
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
    """Place of one connection; ``address`` is the number of its remote address."""

    connections: Connections
    index: int
    address: int

    def enter(self) -> None:
        """Become a session. Raises :class:`SqlError` 17809 if the limit of sessions is reached."""
        if not self.connections.enter(self):
            raise SqlError(
                17809,
                f"Could not connect because the maximum number of '{self.connections.max_sessions}' user connections "
                "has already been reached. The connection has been closed.",
                severity=20,
            )

    def first_in_clear(self) -> bool:
        """True for the first call from this remote address."""
        return self.connections.first_in_clear(self)
