"""Session recovery: a client restores a session whose connection broke while it was idle.

Source: MS-TDS 2.2.6.4 LOGIN7 (feature SESSIONRECOVERY), 2.2.7.11 FEATUREEXTACK, 2.2.7.21 SESSIONSTATE. The server sends
the state of the session, and whether it could be restored, each time that one of them changes. The client logs in again
and sends the state back. Only the server interprets the bytes of a state.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from fakemssql.contract import Engine
from fakemssql.tds.reader import Reader, Truncated

FEATURE = 0x01
_STATE_ID = 0
_TOKEN, _RECOVERABLE, _LONG = 0xE4, 0x01, 0xFF


@dataclass(frozen=True)
class Broken:
    """Session that a client had before it logged in again; the state is empty if the client had received no state."""

    database: str
    state: bytes


def parse(data: bytes) -> Broken | None:
    """Session that a login requests to restore; None for a new session. Raises :class:`ValueError`."""
    if not data:
        return None
    try:
        reader = Reader(data)
        first, then = (_session(Reader(bytes(reader.take(reader.long())))) for _ in range(2))
    except Truncated as error:
        raise ValueError("truncated session recovery") from error
    return Broken(then.database or first.database, then.state or first.state)


def _session(reader: Reader) -> Broken:
    database = reader.b_varchar()
    reader.take(reader.byte())  # the collation
    reader.b_varchar()  # the language
    state = b""
    while reader.left:
        number, length = reader.byte(), reader.byte()
        value = bytes(reader.take(reader.long() if length == _LONG else length))
        state = value if number == _STATE_ID else state
    return Broken(database, state)


class Recovery:
    """State of a session that the client knows, and its changes."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._number = 0
        self._sent = engine.session_state()

    def acknowledgement(self) -> bytes:
        """Return the acknowledgement of the feature: the first state."""
        return _states(self._sent[0])

    def change(self) -> bytes:
        """SESSIONSTATE token if the state has changed since the client received it, else no bytes."""
        state = self._engine.session_state()
        if state == self._sent:
            return b""
        self._sent, self._number = state, self._number + 1
        body = struct.pack("<IB", self._number, _RECOVERABLE if state[1] else 0) + _states(state[0])
        return struct.pack("<BI", _TOKEN, len(body)) + body


def _states(value: bytes) -> bytes:
    return struct.pack("<BBI", _STATE_ID, _LONG, len(value)) + value
