"""Logging in: what is agreed on, what is refused, and the kinds of encryption."""

from __future__ import annotations

import contextlib
import ssl
from pathlib import Path

import pytest

from fakemssql.tds import prelogin, tls
from fakemssql.tds.transport import Transport
from support.scripted import COUNT, ERROR, Open
from support.tds_client import Client, login7, read_tokens


def test_login_names_database_and_packet_size(open_client: Open) -> None:
    client = open_client(login=False)
    client.send(0x12, prelogin.build({prelogin.VERSION: bytes(6), prelogin.ENCRYPTION: b"\x02"}))
    answer = prelogin.parse(client.receive())
    assert answer[prelogin.ENCRYPTION] == b"\x02"
    client.send(0x10, login7("sa", "geheim", "db", features={4: b"\x01", 0x0A: b""}))
    tokens = read_tokens(client.receive())
    changes = dict(tokens.of("change"))
    assert changes[1] == b"\x02" + "db".encode("utf-16-le") + b"\x06" + "master".encode("utf-16-le")
    assert changes[4].startswith(b"\x04" + "4096".encode("utf-16-le"))
    assert tokens.of("loginack")[0][0][1:5] == b"\x74\x00\x00\x04"
    assert tokens.found[-1] == ("done", 0, 0)


@pytest.mark.parametrize(
    ("user", "password", "database", "numbers"),
    [("sa", "wrong", "db", [18456]), ("sb", "geheim", "db", [18456]), ("sa", "geheim", "missing", [4060, 18456])],
)
def test_refused_logins(open_client: Open, user: str, password: str, database: str, numbers: list[int]) -> None:
    client = open_client(login=False)
    client.send(0x10, login7(user, password, database))
    tokens = read_tokens(client.receive())
    assert [token[0] for token in tokens.of("message")] == numbers
    assert tokens.of("done") == [(ERROR, 0)]
    assert client.sock.recv(1) == b""


class InPrelogin:
    """The handshake of TLS inside of prelogin packets, then TLS on the socket."""

    def __init__(self, client: Client) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        self._client = client
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._in, self._out)
        while True:
            try:
                self._tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                client.send(0x12, self._out.read())
                self._in.write(client.receive())
        if rest := self._out.read():
            client.send(0x12, rest)
        self.version = self._tls.version()

    def sendall(self, data: bytes) -> None:
        self._tls.write(data)
        self._client.sock.sendall(self._out.read())

    def recv(self, size: int) -> bytes:
        while True:
            try:
                return self._tls.read(size)
            except ssl.SSLWantReadError:
                self._in.write(self._client.sock.recv(65536))


@pytest.mark.parametrize(("asked", "everything"), [(0, False), (1, True), (3, True)])
def test_encryption_of_the_login_or_of_everything(
    open_client: Open,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    asked: int,
    everything: bool,
) -> None:
    monkeypatch.setattr(Transport, "peer", ("192.0.2.7", 50_000))
    client = open_client(lambda engine, text, output: output.done(3), login=False)
    client.send(0x12, prelogin.build({prelogin.VERSION: bytes(6), prelogin.ENCRYPTION: bytes((asked,))}))
    client.receive()
    encrypted = InPrelogin(client)
    assert encrypted.version == "TLSv1.2"
    inner = Client.__new__(Client)
    inner.sock = encrypted  # type: ignore[assignment]
    inner.send(0x10, login7("sa", "geheim", "db"))
    rest = inner if everything else client
    assert read_tokens(rest.receive()).of("loginack")
    assert rest.batch("x").of("done") == [(COUNT, 3)]
    assert "without encryption" not in caplog.text, "the login was encrypted, and that is what is warned of"


def test_strict_encryption_starts_with_tls(open_client: Open) -> None:
    client = open_client(lambda engine, text, output: output.done(3), login=False)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["tds/8.0"])
    with context.wrap_socket(client.sock) as encrypted:
        assert encrypted.selected_alpn_protocol() == "tds/8.0"
        inner = Client(encrypted)
        inner.send(0x12, prelogin.build({prelogin.VERSION: bytes(6), prelogin.ENCRYPTION: b"\x00"}))
        inner.receive()
        inner.send(0x10, login7("sa", "geheim", "db"))
        assert read_tokens(inner.receive()).of("loginack")
        assert inner.batch("x").of("done") == [(COUNT, 3)]


def test_the_certificate_is_made_once(tmp_path: Path) -> None:
    certificate, key = tls.ensure_certificate(tmp_path)
    before = certificate.read_bytes()
    assert tls.ensure_certificate(tmp_path) == (certificate, key)
    assert certificate.read_bytes() == before
    assert key.stat().st_mode & 0o777 == 0o600


def test_a_client_that_sends_garbage_is_disconnected(open_client: Open) -> None:
    client = open_client(login=False)
    client.sock.sendall(b"GET / HTTP/1.1\r\n\r\n" + bytes(20000))
    with contextlib.suppress(ConnectionResetError):
        assert client.sock.recv(1) == b""
