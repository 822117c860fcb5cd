"""PRELOGIN exchange: version and encryption (MS-TDS 2.2.6.5 PRELOGIN)."""

from __future__ import annotations

import struct
from enum import IntEnum

from fakemssql.contract import SERVER_VERSION

VERSION, ENCRYPTION, INSTANCE, THREAD, MARS, _TRACE_ID, FEDAUTH_REQUIRED = range(7)
TERMINATOR = 0xFF


class Encryption(IntEnum):
    """Values of the option ENCRYPTION."""

    OFF = 0
    ON = 1
    NOT_SUPPORTED = 2
    REQUIRED = 3


def parse(data: bytes) -> dict[int, bytes]:
    """Return the options of a PRELOGIN message by token. Raises :class:`ValueError` if one points outside of the
    message.
    """
    options: dict[int, bytes] = {}
    position = 0
    while position < len(data) and data[position] != TERMINATOR:
        if position + 5 > len(data):
            raise ValueError("truncated prelogin option")
        token, offset, length = struct.unpack_from(">BHH", data, position)
        if offset + length > len(data):
            raise ValueError("prelogin option outside of its message")
        options[token] = data[offset : offset + length]
        position += 5
    return options


def build(options: dict[int, bytes]) -> bytes:
    """Build a PRELOGIN message with these options."""
    offset = 5 * len(options) + 1
    head, body = b"", b""
    for token, value in options.items():
        head += struct.pack(">BHH", token, offset + len(body), len(value))
        body += value
    return head + bytes((TERMINATOR,)) + body


def negotiate(asked: int) -> Encryption:
    """Encryption that the server answers, by the table of section 2.2.6.5: as the client requests, never more."""
    if asked == Encryption.NOT_SUPPORTED:
        return Encryption.NOT_SUPPORTED
    if asked == Encryption.OFF:
        return Encryption.OFF
    return Encryption.ON


def response(asked: dict[int, bytes], encryption: Encryption) -> bytes:
    """Return the PRELOGIN of the server: no instance check, no MARS, and access tokens if the client has one."""
    major, minor, build_number, _ = SERVER_VERSION
    options = {
        VERSION: struct.pack(">BBHH", major, minor, build_number, 0),
        ENCRYPTION: bytes((encryption,)),
        INSTANCE: b"\0",
        THREAD: b"",
    }
    if MARS in asked:
        options[MARS] = b"\0"
    if FEDAUTH_REQUIRED in asked:
        options[FEDAUTH_REQUIRED] = asked[FEDAUTH_REQUIRED]
    return build(options)
