"""What a client may take before it is logged in: time, bytes and a place."""

from __future__ import annotations

import contextlib
import logging
import select
import socket

import pytest

from fakemssql.connections import Connections
from fakemssql.tds import prelogin
from fakemssql.tds.packets import EOM, HEADER, IGNORE
from fakemssql.tds.transport import LoginLimitReached, LoginLimits, Transport
from support.scripted import COUNT, Open
from support.tds_client import Client, login7, read_tokens

FAR_TOO_MUCH = 16 * 1024 * 1024
"""More than the limit and all that a socket holds."""
PRELOGIN, LOGIN7 = 0x12, 0x10
NO_ENCRYPTION = prelogin.build({prelogin.VERSION: bytes(6), prelogin.ENCRYPTION: b"\x02"})


def sent_until_closed(client: Client, data: bytes) -> int:
    """How many bytes the client gets rid of until the server hangs up."""
    sent = 0
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        while sent < FAR_TOO_MUCH:
            client.sock.sendall(data)
            sent += len(data)
    return sent


@pytest.mark.parametrize("kind", [PRELOGIN, LOGIN7])
def test_a_message_without_end_before_login_is_cut_off(
    open_client: Open, caplog: pytest.LogCaptureFixture, kind: int
) -> None:
    client = open_client(login=False)
    assert sent_until_closed(client, HEADER.pack(kind, 0, 4096, 0, 1, 0) + bytes(4088)) < FAR_TOO_MUCH
    (line,) = closing_lines(caplog, client)
    assert line == "closed the connection from this machine: it sent more than 163840 bytes before it was logged in"


@pytest.mark.parametrize("kind", [PRELOGIN, LOGIN7])
def test_a_withdrawn_message_before_login_ends_the_connection(open_client: Open, kind: int) -> None:
    client = open_client(login=False)
    client.send(kind, b"", status=EOM | IGNORE)
    assert client.sock.recv(1) == b""


def test_a_login_of_the_largest_size_gets_in(open_client: Open) -> None:
    """In small packets, whose headers count too."""
    client = open_client(lambda engine, text, output: output.done(1), login=False)
    client.send(PRELOGIN, NO_ENCRYPTION)
    client.receive()
    client.send(LOGIN7, login7("sa", "geheim", "db").ljust(128 * 1024 - 1, b"\0"), packet=504)
    assert read_tokens(client.receive()).of("loginack")
    assert client.batch("x" * 1_000_000).of("done") == [(COUNT, 1)], "after the login no limit is left"


@pytest.mark.parametrize("stage", ["prelogin", "login", "handshake"])
def test_a_client_that_trickles_bytes_is_closed_at_the_deadline(
    open_client: Open, caplog: pytest.LogCaptureFixture, stage: str
) -> None:
    client = open_client(login=False, limits=LoginLimits(seconds=0.5))
    if stage == "login":
        client.send(PRELOGIN, NO_ENCRYPTION)
        client.receive()
    start = {
        "prelogin": HEADER.pack(PRELOGIN, EOM, 30_000, 0, 1, 0),
        "login": HEADER.pack(LOGIN7, EOM, 30_000, 0, 1, 0),
        # A record of 16,000 bytes, a ClientHello.
        "handshake": b"\x16\x03\x01\x3e\x80\x01\x00\x3e\x7c",
    }[stage]
    client.sock.sendall(start)
    trickled = 0
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        while trickled < 400 and not select.select([client.sock], [], [], 0.05)[0]:
            client.sock.sendall(b"\0")
            trickled += 1
    assert trickled < 400, "each byte came before a limit of one read would be over"
    (line,) = closing_lines(caplog, client)
    assert line == "closed the connection from this machine: it was not logged in after 0.5 seconds"


def closing_lines(caplog: pytest.LogCaptureFixture, client: Client) -> list[str]:
    """What the log says at a warning's level, when the server's side has ended."""
    with contextlib.suppress(ConnectionResetError):
        while client.sock.recv(4096):
            pass
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def test_the_deadline_counts_before_the_login_and_not_after() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(b"x")
        transport = Transport(ours, LoginLimits(seconds=0))
        with pytest.raises(LoginLimitReached):
            transport.await_data()
        transport.logged_in()
        transport.await_data()
        assert transport.received == b"x"


def test_the_deadline_holds_for_a_client_that_does_not_read() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        transport = Transport(ours, LoginLimits(seconds=0.1))
        with pytest.raises(LoginLimitReached):
            transport.send(bytes(FAR_TOO_MUCH))


def test_a_session_beyond_the_limit_gets_an_error(open_client: Open) -> None:
    connections = Connections(max_sessions=1)
    first = open_client(lambda engine, text, output: output.done(1), connections=connections)
    second = open_client(login=False, connections=connections)
    second.send(LOGIN7, login7("sa", "geheim", "db"))
    ((number, severity, text, _),) = read_tokens(second.receive()).of("message")
    assert (number, severity) == (17809, 20)
    assert "maximum number of '1' user connections" in str(text)
    assert second.sock.recv(1) == b""
    assert first.batch("x").of("done") == [(COUNT, 1)]


def warnings_of_clear_logins(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if "without encryption" in record.getMessage()]


@pytest.mark.parametrize("address", ["192.0.2.7", "2001:db8::7", "fe80::7%eth0"])
def test_a_warning_for_the_first_login_in_clear_from_another_machine(
    open_client: Open, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    monkeypatch.setattr(Transport, "peer", (address, 50_000))
    connections = Connections()
    open_client(connections=connections)
    (line,) = warnings_of_clear_logins(caplog)
    assert line.startswith(f"{address} sent a login without encryption")
    open_client(connections=connections)
    assert warnings_of_clear_logins(caplog) == [line]


@pytest.mark.parametrize("address", ["127.0.0.1", "127.8.0.1", "::1", "::ffff:127.0.0.1", ""])
def test_no_warning_for_a_login_in_clear_from_this_machine(
    open_client: Open, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    monkeypatch.setattr(Transport, "peer", (address, 50_000))
    open_client()
    assert warnings_of_clear_logins(caplog) == []
