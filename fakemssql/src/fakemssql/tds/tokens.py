"""Tokens of a response other than rows (MS-TDS 2.2.7 Packet Data Token Stream Definition)."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from enum import IntEnum, IntFlag

from fakemssql.contract import SERVER_VERSION, SqlError
from fakemssql.tds.versions import Version

SERVER_NAME = "fakemssql"
COLLATION = bytes.fromhex("0904d00034")
"""SQL_Latin1_General_CP1_CI_AS: LCID 0x0409, compared without case, kana type and width; sort order 52."""


class Done(IntFlag):
    """Status bits of DONE, DONEPROC and DONEINPROC (2.2.7.6)."""

    FINAL = 0x00
    MORE = 0x01
    ERROR = 0x02
    COUNT = 0x10
    ATTENTION = 0x20
    RPC_IN_BATCH = 0x80


class DoneKind(IntEnum):
    DONE = 0xFD
    PROC = 0xFE
    IN_PROC = 0xFF


class Change(IntEnum):
    """Types of ENVCHANGE (2.2.7.9)."""

    DATABASE = 1
    LANGUAGE = 2
    PACKET_SIZE = 4
    COLLATION = 7
    BEGIN = 8
    COMMIT = 9
    ROLLBACK = 10
    RESET = 18


def utf16(text: str) -> bytes:
    return text.encode("utf-16-le", "surrogatepass")


def b_varchar(text: str) -> bytes:
    """B_VARCHAR: at most 255 UTF-16 units, after a byte with their count."""
    data = utf16(text)[:510]
    return bytes((len(data) // 2,)) + data


def us_varchar(text: str) -> bytes:
    """US_VARCHAR: UTF-16 units after their count of 16 bits."""
    data = utf16(text)[: 2 * 0xFFFF]
    return struct.pack("<H", len(data) // 2) + data


def done(version: Version, kind: int, status: int, command: int = 0, count: int = 0) -> bytes:
    if not version.wide:
        return struct.pack("<BHHI", kind, status, command, min(count, 0xFFFFFFFF))
    return struct.pack("<BHHQ", kind, status, command, count)


def message(version: Version, error: SqlError) -> bytes:
    """ERROR for severity 11 and above, else INFO. The text is cut to 2,048 characters, SQL Server's limit."""
    body = (
        struct.pack("<iBB", error.number, error.state & 0xFF, error.severity)
        + us_varchar(error.message[:2048])
        + b_varchar(SERVER_NAME)
        + b_varchar(error.procedure)
        + (struct.pack("<i", error.line) if version.wide else struct.pack("<H", min(error.line, 0xFFFF)))
    )
    return struct.pack("<BH", 0xAA if error.severity > 10 else 0xAB, len(body)) + body


def _env_change(kind: Change, body: bytes) -> bytes:
    return struct.pack("<BHB", 0xE3, len(body) + 1, kind) + body


def text_change(kind: Change, new: str, old: str = "") -> bytes:
    """ENVCHANGE for a new database, language or packet size."""
    return _env_change(kind, b_varchar(new) + b_varchar(old))


def collation_change() -> bytes:
    return _env_change(Change.COLLATION, bytes((len(COLLATION),)) + COLLATION + b"\0")


def reset_done() -> bytes:
    """ENVCHANGE for a connection that was reset, as the packet's header requests."""
    return _env_change(Change.RESET, b"\0\0")


def transaction_change(event: str, descriptor: int) -> bytes:
    """Return the ENVCHANGE of a transaction: ``begin`` has the new descriptor, ``commit`` and ``rollback`` have the old
    one.
    """
    name = b"\x08" + struct.pack("<Q", descriptor)
    if event == "begin":
        return _env_change(Change.BEGIN, name + b"\0")
    return _env_change(Change.COMMIT if event == "commit" else Change.ROLLBACK, b"\0" + name)


def login_ack(version: Version) -> bytes:
    """LOGINACK (2.2.7.14); the version has its most significant byte first."""
    major, minor, build, _ = SERVER_VERSION
    body = b"\x01" + struct.pack(">I", version.acknowledged) + b_varchar("Microsoft SQL Server")
    body += struct.pack(">BBH", major, minor, build)
    return struct.pack("<BH", 0xAD, len(body)) + body


def feature_ack(acknowledged: Mapping[int, bytes]) -> bytes:
    """FEATUREEXTACK (2.2.7.11): the answer to each feature that the client requested."""
    body = b"".join(struct.pack("<BI", feature, len(data)) + data for feature, data in acknowledged.items())
    return b"\xae" + body + b"\xff"


def return_status(value: int) -> bytes:
    return struct.pack("<Bi", 0x79, max(-(2**31), min(2**31 - 1, value)))
