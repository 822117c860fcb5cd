"""Session recovery: what a client needs to restore a session whose connection broke while it was idle.

Source: MS-TDS 2.2.6.4 LOGIN7 (feature SESSIONRECOVERY), 2.2.7.11 FEATUREEXTACK, 2.2.7.21 SESSIONSTATE. The server says
what state the session has, and whether it could be restored, each time that this changes. The client logs in again and
brings the state along. What the bytes of a state mean is the server's affair.
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
    """The session that a client had before it logged in again; the state is empty where it was sent none."""

    database: str
    state: bytes


def parse(data: bytes) -> Broken | None:
    """The session that a login asks to be restored; None for a new one. Raises :class:`ValueError`."""
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
    """The state of a session, as far as the client of one connection knows it."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._number = 0
        self._told = engine.session_state()

    def acknowledgement(self) -> bytes:
        """The acknowledgement of the feature: the state at the beginning."""
        return _states(self._told[0])

    def change(self) -> bytes:
        """SESSIONSTATE where something has changed since the client was told, else nothing."""
        state = self._engine.session_state()
        if state == self._told:
            return b""
        self._told, self._number = state, self._number + 1
        body = struct.pack("<IB", self._number, _RECOVERABLE if state[1] else 0) + _states(state[0])
        return struct.pack("<BI", _TOKEN, len(body)) + body


def _states(value: bytes) -> bytes:
    return struct.pack("<BBI", _STATE_ID, _LONG, len(value)) + value
