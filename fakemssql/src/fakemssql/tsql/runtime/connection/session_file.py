"""File of a connection to PostgreSQL: data of the session that it serves, for the views of sql/60_sessions.sql.

It is mapped into memory, so that a change costs no round trip and no system call. A number is written at its end before
each change, and the same number at its start after it: a reader that finds both equal has read a consistent state. The
number 0 at its end means that no session has the connection. After a process was killed, its file is ignored when
PostgreSQL has ended its connection.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import struct
from pathlib import Path
from typing import Any

_SIZE = 32768
_STATE, _TEXT, _END = 8, 4096, _SIZE - 8
_LENGTH, _NUMBER = struct.Struct("<I"), struct.Struct("<Q")
TEXT_SIZE = _END - _TEXT - _LENGTH.size
"""Limit of bytes of a text."""


class SessionFile:
    """File that one connection writes, session after session."""

    def __init__(self, path: Path) -> None:
        self.path = path
        # Make a new file, not over the file of an earlier connection with this number: no reader sees a mixture.
        path.unlink(missing_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            os.ftruncate(descriptor, _SIZE)
            self._map = mmap.mmap(descriptor, _SIZE)
        finally:
            os.close(descriptor)
        self._number = 0

    def write(self, state: bytes, text: bytes | None = None) -> None:
        """Write the state of the session, and the text that it runs if that changes."""
        self._number += 1
        number = _NUMBER.pack(self._number)
        self._map[_END:_SIZE] = number
        self._put(_STATE, state)
        if text is not None:
            self._put(_TEXT, text)
        self._map[: _NUMBER.size] = number

    def _put(self, position: int, data: bytes) -> None:
        start = position + _LENGTH.size
        self._map[position:start] = _LENGTH.pack(len(data))
        self._map[start : start + len(data)] = data

    def end(self) -> None:
        """End the session."""
        self._map[_END:_SIZE] = _NUMBER.pack(0)
        self._put(_TEXT, b"")

    def close(self) -> None:
        """Remove the file: the connection ends."""
        with contextlib.suppress(OSError):
            self.path.unlink(missing_ok=True)

    def state_of(self, connection: int) -> dict[str, Any] | None:
        """Return the state of the session of another connection; None if it has none, or is changing it."""
        try:
            data = (self.path.parent / str(connection)).read_bytes()
        except OSError:
            return None
        start = _STATE + _LENGTH.size
        with contextlib.suppress(ValueError, struct.error):
            if any(data[_END:_SIZE]):
                state: dict[str, Any] = json.loads(data[start : start + _LENGTH.unpack_from(data, _STATE)[0]])
                return state
        return None
