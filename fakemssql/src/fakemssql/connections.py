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
        self.states = mmap.mmap(-1, max_sessions + max_logging_in)
        self.in_clear = mmap.mmap(-1, _ADDRESSES)
        self._addresses: dict[str, int] = {}

    def take(self, address: str) -> Place | None:
        """Assign a place to a new connection (for the listener); None if too many connections are not logged in yet."""
        if self.count(_LOGGING_IN) >= self.max_logging_in:
            return None
        index = self.states.find(_FREE, 0)
        if index < 0:
            return None
        self.states[index : index + 1] = _LOGGING_IN
        return Place(self, index, self._number(address))

    def free(self, place: Place) -> None:
        """Take a place back from a connection whose process has ended or serves no client."""
        self.states[place.index : place.index + 1] = _FREE

    def _number(self, address: str) -> int:
        number = self._addresses.get(address, len(self._addresses))
        if number >= _ADDRESSES:
            return _ADDRESSES - 1
        self._addresses[address] = number
        return number

    def count(self, state: bytes) -> int:
        return self.states[:].count(state)


@dataclass(frozen=True)
class Place:
    """Place of one connection; ``address`` is the number of its remote address."""

    connections: Connections
    index: int
    address: int

    def enter(self) -> None:
        """Become a session (called in the connection's process). Raises :class:`SqlError` 17809 at the limit."""
        shared = self.connections
        shared.states[self.index : self.index + 1] = _SESSION
        # Write, then count: of two connections that take the last place at once, at most one is admitted.
        if shared.count(_SESSION) > shared.max_sessions:
            shared.states[self.index : self.index + 1] = _LOGGING_IN
            raise SqlError(
                17809,
                f"Could not connect because the maximum number of '{shared.max_sessions}' user connections has already "
                "been reached. The connection has been closed.",
                severity=20,
            )

    def first_in_clear(self) -> bool:
        """True for the first call from this remote address."""
        first = not self.connections.in_clear[self.address]
        self.connections.in_clear[self.address] = 1
        return first
