"""The client's side of the protocol, as far as the tests need it, and a reader of the tokens of a response."""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass, field

from compat.relay import obscure
from fakemssql.tds.packets import EOM, HEADER
from fakemssql.tds.reader import Reader
from fakemssql.tds.versions import TDS_7_4


def all_headers() -> bytes:
    return struct.pack("<IIHQI", 22, 18, 2, 0, 1)


def rpc_by_id(number: int, parameters: bytes) -> bytes:
    return struct.pack("<HHH", 0xFFFF, number, 0) + parameters


def rpc_by_name(name: str, parameters: bytes) -> bytes:
    return struct.pack("<H", len(name)) + name.encode("utf-16-le") + b"\0\0" + parameters


def _name(name: str) -> bytes:
    return bytes((len(name),)) + name.encode("utf-16-le")


def parameter_int(name: str, value: int | None, flags: int = 0) -> bytes:
    data = b"\x00" if value is None else b"\x04" + struct.pack("<i", value)
    return _name(name) + bytes((flags,)) + b"\x26\x04" + data


def parameter_text(name: str, value: str, flags: int = 0) -> bytes:
    data = value.encode("utf-16-le")
    head = struct.pack("<BH", 0xE7, 8000) + bytes.fromhex("0904d00034")
    return _name(name) + bytes((flags,)) + head + struct.pack("<H", len(data)) + data


def login7(
    user: str,
    password: str,
    database: str,
    *,
    features: dict[int, bytes] | None = None,
    version: int = TDS_7_4.acknowledged,
) -> bytes:
    fixed = struct.pack("<IIIIIBBBBiI", version, 4096, 0, 1, 0, 0, 0, 0, 0x10 if features else 0, 0, 0)
    texts = ["host", user, password, "tests", "server", None, "", "", database]
    table, body = b"", b""
    start = 94
    extension_at = 0
    for index, text in enumerate(texts):
        if text is None:
            length = 4 if features else 0
            table += struct.pack("<HH", start + len(body), length)
            extension_at = len(body)
            body += b"\0" * length
            continue
        data = obscure(text) if index == 2 else text.encode("utf-16-le")
        table += struct.pack("<HH", start + len(body), len(text))
        body += data
    table += b"\0" * 6 + struct.pack("<HHHHHHI", 0, 0, 0, 0, 0, 0, 0)
    if features:
        pointer = struct.pack("<I", start + len(body))
        body = body[:extension_at] + pointer + body[extension_at + 4 :]
        for feature, data in features.items():
            body += struct.pack("<BI", feature, len(data)) + data
        body += b"\xff"
    rest = fixed + table + body
    return struct.pack("<I", len(rest) + 4) + rest


@dataclass
class Tokens:
    """What a response says, in order: ``(kind, facts...)``."""

    found: list[tuple[object, ...]] = field(default_factory=list)

    def of(self, kind: str) -> list[tuple[object, ...]]:
        return [token[1:] for token in self.found if token[0] == kind]


class Client:
    """A plain TDS connection over a socket."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        sock.settimeout(20)

    def send(self, kind: int, data: bytes, *, status: int = EOM, packet: int = 4088) -> None:
        parts = [data[i : i + packet] for i in range(0, len(data), packet)] or [b""]
        for number, part in enumerate(parts):
            bits = status if number == len(parts) - 1 else status & ~EOM
            self.sock.sendall(HEADER.pack(kind, bits, len(part) + 8, 0, number & 0xFF, 0) + part)

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            more = self.sock.recv(size - len(data))
            if not more:
                raise EOFError
            data += more
        return data

    def receive(self) -> bytes:
        """The data of the next message."""
        data, status = b"", 0
        while not status & EOM:
            _, status, length, *_ = HEADER.unpack(self._exactly(8))
            data += self._exactly(length - 8)
        return data

    def batch(self, text: str) -> Tokens:
        self.send(1, all_headers() + text.encode("utf-16-le"))
        return read_tokens(self.receive())

    def rpc(self, *calls: bytes) -> Tokens:
        self.send(3, all_headers() + b"\xff".join(calls))
        return read_tokens(self.receive())


DONE = {0xFD: "done", 0xFE: "proc", 0xFF: "inproc"}


def read_tokens(data: bytes) -> Tokens:
    """Reads every token that the server writes; rows only of int columns."""
    reader, tokens, width = Reader(data), Tokens(), 0
    while reader.left:
        token = reader.byte()
        if token in DONE:
            status, _ = reader.short(), reader.short()
            tokens.found.append((DONE[token], status, reader.longlong()))
        elif token in (0xAA, 0xAB):
            inner = Reader(bytes(reader.take(reader.short())))
            number, state, severity = inner.long(), inner.byte(), inner.byte()
            tokens.found.append(("message", number, severity, inner.us_varchar(), state))
        elif token == 0xE3:
            inner = Reader(bytes(reader.take(reader.short())))
            tokens.found.append(("change", inner.byte(), bytes(inner.rest())))
        elif token == 0xAD:
            tokens.found.append(("loginack", bytes(reader.take(reader.short()))))
        elif token == 0x79:
            tokens.found.append(("status", reader.long()))
        elif token == 0xAC:
            ordinal, name = reader.short(), reader.b_varchar()
            reader.take(1 + 4 + 2 + 2)
            tokens.found.append(("value", ordinal, name, int.from_bytes(reader.take(reader.byte()), "little")))
        elif token == 0x81:
            width = reader.short()
            for _ in range(width):
                reader.take(6)
                assert reader.byte() == 0x26
                reader.byte()
                reader.b_varchar()
            tokens.found.append(("columns", width))
        elif token == 0xD1:
            row = tuple(int.from_bytes(reader.take(reader.byte()), "little", signed=True) for _ in range(width))
            tokens.found.append(("row", *row))
        else:
            raise AssertionError(f"unexpected token {token:#x}")
    return tokens
