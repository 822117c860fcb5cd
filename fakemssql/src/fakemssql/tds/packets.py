"""TDS packets: the header of 8 bytes, and the division of a message into packets (MS-TDS 2.2.3 Packets)."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum

HEADER = struct.Struct(">BBHHBB")
"""Type, status, length including the header, SPID, packet id, window; the only big-endian part of TDS."""

DEFAULT_SIZE = 4096
MIN_SIZE = 512
MAX_SIZE = 32767


class PacketType(IntEnum):
    """Types of packets (MS-TDS 2.2.3.1.1 Type)."""

    BATCH = 0x01
    RPC = 0x03
    RESULT = 0x04
    ATTENTION = 0x06
    BULK = 0x07
    FEDAUTH = 0x08
    TRANSACTION = 0x0E
    LOGIN7 = 0x10
    SSPI = 0x11
    PRELOGIN = 0x12


EOM = 0x01
IGNORE = 0x02
RESET = 0x08
RESET_KEEP_TRANSACTION = 0x10
"""Bits of the status byte (MS-TDS 2.2.3.1.2 Status)."""


@dataclass(frozen=True)
class Message:
    """Message of the client: its type, the joined status bits of its packets, and its data."""

    type: int
    status: int
    data: bytes

    @property
    def withdrawn(self) -> bool:
        """Whether the client withdrew the message (IGNORE); it has no data then."""
        return bool(self.status & IGNORE)


class Framer:
    """Divides responses into packets of the negotiated size."""

    def __init__(self, spid: int) -> None:
        self.size = DEFAULT_SIZE
        self._spid = spid & 0xFFFF
        self._id = 0

    def begin(self) -> None:
        """Begin a new message: packet ids start at 1 again."""
        self._id = 0

    def cut(self, data: bytes | memoryview, *, last: bool, kind: int = PacketType.RESULT) -> tuple[bytes, int]:
        """Return the packets for ``data``, and the number of its bytes in them.

        Unless this is the ``last`` data of the message, only full packets are made and at least one byte is left over,
        so that the last packet is never empty.
        """
        room = self.size - HEADER.size
        view = memoryview(data)
        total = len(view)
        count = max(1, -(-total // room)) if last else max(0, (total - 1) // room)
        pieces: list[bytes | memoryview] = []
        for index in range(count):
            start = index * room
            part = view[start : start + room]
            self._id = (self._id + 1) & 0xFF
            status = EOM if last and index == count - 1 else 0
            pieces.append(HEADER.pack(kind, status, HEADER.size + len(part), self._spid, self._id, 0))
            pieces.append(part)
        return b"".join(pieces), min(total, count * room)
