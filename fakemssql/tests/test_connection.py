"""A whole connection over a socket pair, with an engine that does what the test says."""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from tests.localdb.client import (
    Client,
    Tokens,
    all_headers,
    login7,
    parameter_int,
    parameter_text,
    read_tokens,
    rpc_by_id,
    rpc_by_name,
)

from fakemssql.contract import Attention, Column, Output, Parameter, SqlError, Wait
from fakemssql.tds import prelogin, tls
from fakemssql.tds.connection import Front, serve
from fakemssql.tds.login import Credentials
from fakemssql.types import SqlType

MORE, ERROR, COUNT, ATTN, RPC_IN_BATCH = 1, 2, 0x10, 0x20, 0x80
INT = [Column("a", SqlType("int"), 23)]


class Rows:
    def __init__(self, *values: int) -> None:
        self._values = values
        self.ntuples = len(values)

    def get_value(self, row_number: int, column_number: int) -> bytes | None:
        return struct.pack(">i", self._values[row_number])


class Scripted:
    """``script(engine, text, output)`` runs for every batch and parameterised text."""

    script: Callable[[Scripted, str, Output], None] = staticmethod(lambda engine, text, output: None)

    def __init__(self, database: str, login: str, wait: Wait) -> None:
        if database == "missing":
            raise SqlError(4060, 'Cannot open database "missing" requested by the login.', severity=11)
        self.database, self.transaction_descriptor, self.wait = database, 0, wait
        self.seen: list[object] = []

    def introduce(self, client: object) -> None:
        self.client = client

    def batch(self, text: str, output: Output) -> None:
        self.script(self, text, output)

    def parameterised(self, text: str, parameters: Sequence[Parameter], output: Output) -> None:
        self.seen.append([(p.name, p.value) for p in parameters])
        self.script(self, text, output)

    def call(self, procedure: str, parameters: Sequence[Parameter], output: Output) -> int:
        if procedure != "dbo.echo":
            raise SqlError(2812, f"Could not find stored procedure '{procedure}'.")
        for parameter in parameters:
            output.return_value(parameter)
        return 7

    def prepare(self, text: str, parameters: Sequence[Parameter]) -> None:
        if text == "wrong":
            raise SqlError(102, "Incorrect syntax.", severity=15)

    def transaction_request(self, kind: str, isolation: int, name: str, output: Output) -> None:
        output.transaction(kind, 5)

    def reset(self, keep_transaction: bool) -> None:
        self.seen.append(("reset", keep_transaction))

    def close(self) -> None:
        self.seen.append("closed")


@pytest.fixture(scope="module")
def contexts(tmp_path_factory: pytest.TempPathFactory) -> tls.TlsContexts:
    return tls.contexts(tmp_path_factory.mktemp("tls"))


Open = Callable[..., Client]


@pytest.fixture
def open_client(contexts: tls.TlsContexts) -> Iterator[Open]:
    """Opens a connection whose server side runs ``script``; logs in unless told not to."""
    threads: list[threading.Thread] = []
    sockets: list[socket.socket] = []
    engines: list[Scripted] = []

    def connect(
        script: Callable[[Scripted, str, Output], None] | None = None,
        *,
        login: bool = True,
        engine_list: list[Scripted] | None = None,
    ) -> Client:
        def open_engine(database: str, user: str, wait: Wait, password: str | None) -> Scripted:
            if password is not None:
                raise SqlError(18456, f"Login failed for user '{user}'.", severity=14)
            engine = Scripted(database, user, wait)
            if script is not None:
                engine.script = script  # type: ignore[method-assign]
            engines.append(engine)
            if engine_list is not None:
                engine_list.append(engine)
            return engine

        client_side, server_side = socket.socketpair()
        front = Front(contexts, Credentials("sa", "geheim"), open_engine)
        thread = threading.Thread(target=serve, args=(server_side, front))
        thread.start()
        threads.append(thread)
        sockets.append(client_side)
        client = Client(client_side)
        if login:
            client.send(0x10, login7("sa", "geheim", "db"))
            assert read_tokens(client.receive()).of("loginack")
        return client

    yield connect
    for sock in sockets:
        sock.close()
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive()
    assert all(engine.seen[-1] == "closed" for engine in engines)


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
def test_encryption_of_the_login_or_of_everything(open_client: Open, asked: int, everything: bool) -> None:
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


def test_garbage_is_hung_up_on(open_client: Open) -> None:
    client = open_client(login=False)
    client.sock.sendall(b"GET / HTTP/1.1\r\n\r\n" + bytes(20000))
    with contextlib.suppress(ConnectionResetError):
        assert client.sock.recv(1) == b""


def two_results(engine: Scripted, text: str, output: Output) -> None:
    output.message(SqlError(0, "hello", severity=0))
    output.columns(INT)
    output.rows(Rows(1, -2))
    output.done(2)
    output.done(7)
    output.columns(INT)
    output.done(0)


def test_done_tokens_of_a_batch(open_client: Open) -> None:
    tokens = open_client(two_results).batch("x")
    assert [token[0] for token in tokens.found] == [
        "message",
        "columns",
        "row",
        "row",
        "done",
        "done",
        "columns",
        "done",
    ]
    assert tokens.of("row") == [(1,), (-2,)]
    assert tokens.of("done") == [(COUNT | MORE, 2), (COUNT | MORE, 7), (COUNT, 0)]


def test_done_tokens_of_a_call(open_client: Open) -> None:
    tokens = open_client(two_results).rpc(rpc_by_id(10, parameter_text("", "x")))
    assert tokens.of("inproc") == [(COUNT | MORE, 2), (COUNT | MORE, 7), (COUNT | MORE, 0)]
    assert [token[0] for token in tokens.found][-2:] == ["status", "proc"]
    assert tokens.of("proc") == [(0, 0)]


def test_an_empty_batch_is_done(open_client: Open) -> None:
    assert open_client().batch("").found == [("done", 0, 0)]


def test_statements_without_a_count_stay_silent(open_client: Open) -> None:
    def script(engine: Scripted, text: str, output: Output) -> None:
        output.done(None)
        output.columns(INT)
        output.rows(Rows(1))
        output.done(None)
        output.done(None)

    assert open_client(script).batch("x").of("done") == [(0, 0)]


def test_an_error_in_the_middle(open_client: Open) -> None:
    def script(engine: Scripted, text: str, output: Output) -> None:
        output.columns(INT)
        output.rows(Rows(1))
        output.message(SqlError(8134, "Divide by zero error encountered."))
        output.done(None)
        output.done(1)

    client = open_client(script)
    assert client.batch("x").of("done") == [(ERROR | MORE, 0), (COUNT, 1)]
    tokens = client.rpc(rpc_by_id(10, parameter_text("", "x")))
    assert tokens.of("inproc") == [(ERROR | MORE, 0), (COUNT | MORE, 1)]
    assert (tokens.of("proc"), tokens.of("status")) == ([(0, 0)], [(8134,)])


def test_a_value_that_does_not_fit_ends_its_result_set(open_client: Open) -> None:
    def script(engine: Scripted, text: str, output: Output) -> None:
        output.columns([Column("a", SqlType("tinyint"), 23)])
        output.rows(Rows(1))
        output.rows(Rows(2, 256))
        output.rows(Rows(3))
        output.done(4)

    tokens = open_client(script).batch("x")
    assert tokens.of("row") == [(1,), (2,)]
    assert tokens.of("message")[0][0] == 8115
    assert tokens.of("done") == [(ERROR, 0)]


def test_an_error_at_the_end(open_client: Open) -> None:
    def script(engine: Scripted, text: str, output: Output) -> None:
        output.done(1)
        output.message(SqlError(2627, "Violation."))

    client = open_client(script)
    assert client.batch("x").of("done") == [(COUNT | MORE, 1), (ERROR, 0)]
    assert client.rpc(rpc_by_id(10, parameter_text("", "x"))).of("proc") == [(ERROR, 0)]


def test_a_defect_is_reported_without_its_text(open_client: Open, caplog: pytest.LogCaptureFixture) -> None:
    def script(engine: Scripted, text: str, output: Output) -> None:
        raise KeyError("secret body")

    client = open_client(script)
    tokens = client.batch("x")
    assert tokens.of("message")[0][0] == 50000
    assert "secret" not in str(tokens.found) + caplog.text
    assert tokens.of("done") == [(ERROR, 0)]
    assert client.batch("x").of("message")


def test_a_fatal_error_ends_the_connection(open_client: Open) -> None:
    client = open_client(lambda engine, text, output: output.message(SqlError(596, "Killed.", severity=21)))
    assert client.batch("x").of("message")[0][:2] == (596, 21)
    assert client.sock.recv(1) == b""


def test_prepared_handles(open_client: Open) -> None:
    engines: list[Scripted] = []
    client = open_client(lambda engine, text, output: output.done(1), engine_list=engines)
    prepare = parameter_int("", None, 1) + parameter_text("", "@a int") + parameter_text("", "insert")
    tokens = client.rpc(rpc_by_id(13, prepare + parameter_int("", 5)))
    assert [token[0] for token in tokens.found] == ["inproc", "status", "value", "proc"]
    handle = int(tokens.of("value")[0][2])  # type: ignore[call-overload]
    execute = [rpc_by_id(12, parameter_int("", handle) + parameter_int("", n)) for n in (6, 7)]
    tokens = client.rpc(*execute)
    assert tokens.of("proc") == [(MORE | RPC_IN_BATCH, 0), (0, 0)]
    assert tokens.of("status") == [(0,), (0,)]
    assert engines[0].seen == [[("@a", 5)], [("@a", 6)], [("@a", 7)]]
    assert client.rpc(rpc_by_id(15, parameter_int("", handle))).of("proc") == [(0, 0)]
    assert client.rpc(execute[0]).of("message")[0][0] == 8179
    assert client.rpc(rpc_by_id(11, prepare)).of("value")
    wrong = parameter_int("", None, 1) + parameter_text("", "") + parameter_text("", "wrong")
    assert client.rpc(rpc_by_id(11, wrong)).of("message")[0][0] == 102


def test_one_failing_call_of_many(open_client: Open) -> None:
    client = open_client(lambda engine, text, output: output.done(1))
    good = rpc_by_id(10, parameter_text("", "x"))
    tokens = client.rpc(good, rpc_by_name("nope", b""), good)
    assert tokens.of("proc") == [(MORE | RPC_IN_BATCH, 0), (MORE | RPC_IN_BATCH | ERROR, 0), (0, 0)]
    assert [token[0] for token in tokens.of("message")] == [2812]


def test_a_procedure_by_name(open_client: Open) -> None:
    tokens = open_client().rpc(rpc_by_name("dbo.echo", parameter_int("@a", 4, 1)))
    assert tokens.found == [("status", 7), ("value", 0, "@a", 4), ("proc", 0, 0)]


def test_server_cursors_are_refused(open_client: Open) -> None:
    assert open_client().rpc(rpc_by_id(2, parameter_int("", 4, 1))).of("message")[0][0] == 40510


def test_transaction_requests(open_client: Open) -> None:
    client = open_client()
    client.send(0x0E, all_headers() + struct.pack("<HBB", 5, 2, 0))
    tokens = read_tokens(client.receive())
    assert tokens.found == [("change", 8, b"\x08" + struct.pack("<Q", 5) + b"\0"), ("done", 0, 0)]
    client.send(0x0E, all_headers() + struct.pack("<HBB", 8, 0, 0))
    assert read_tokens(client.receive()).of("change") == [(10, b"\0\x08" + struct.pack("<Q", 5))]


@pytest.mark.parametrize(("bit", "keep"), [(0x08, False), (0x10, True)])
def test_a_pooled_connection_is_reset(open_client: Open, bit: int, keep: bool) -> None:
    engines: list[Scripted] = []
    client = open_client(engine_list=engines)
    client.send(1, all_headers(), status=1 | bit)
    tokens = read_tokens(client.receive())
    assert tokens.found == [("change", 18, b"\0\0"), ("done", 0, 0)]
    assert engines[0].seen == [("reset", keep)]


def test_attention_when_nothing_runs(open_client: Open) -> None:
    client = open_client(lambda engine, text, output: output.done(1))
    client.send(6, b"")
    assert read_tokens(client.receive()).found == [("done", ATTN, 0)]
    assert client.batch("x").of("done") == [(COUNT, 1)]


def test_attention_while_the_engine_waits(open_client: Open) -> None:
    started = threading.Event()
    never, other = os.pipe()

    def script(engine: Scripted, text: str, output: Output) -> None:
        if text == "again":
            return output.done(1)
        output.columns(INT)
        output.rows(Rows(1))
        started.set()
        try:
            engine.wait(never)
        except Attention:
            engine.seen.append("cancelled")
            raise

    client = open_client(script)
    client.send(1, all_headers() + "x".encode("utf-16-le"))
    assert started.wait(10)
    client.send(6, b"")
    tokens = read_tokens(client.receive())
    assert tokens.of("row") == [(1,)]
    assert tokens.of("done") == [(ERROR | MORE, 0), (ATTN, 0)]
    assert client.batch("again").of("done") == [(COUNT, 1)]
    os.close(never)
    os.close(other)


def test_attention_while_results_are_written(open_client: Open) -> None:
    produced: list[int] = []
    ready, other = os.pipe()
    os.write(other, b"x")

    def script(engine: Scripted, text: str, output: Output) -> None:
        if text == "again":
            return output.done(1)
        output.columns(INT)
        # Far more than the socket holds: it goes on only because the attention stops it.
        for number in range(10**9):
            engine.wait(ready)
            output.rows(Rows(*range(1000)))
            produced.append(number)

    client = open_client(script)
    client.send(1, all_headers() + "x".encode("utf-16-le"))
    first = client.sock.recv(10000, socket.MSG_PEEK)
    assert first
    client.send(6, b"")
    tokens = read_tokens(client.receive())
    assert tokens.found[-1] == ("done", ATTN, 0)
    assert len(tokens.of("row")) % 1000 == 0
    assert len(produced) < 10**6
    assert client.batch("again").of("done") == [(COUNT, 1)]
    os.close(ready)
    os.close(other)


def test_a_client_that_leaves_ends_the_request(open_client: Open) -> None:
    started = threading.Event()
    never, _ = os.pipe()

    def script(engine: Scripted, text: str, output: Output) -> None:
        started.set()
        engine.wait(never)

    client = open_client(script)
    client.send(1, all_headers())
    assert started.wait(10)
    client.sock.close()


def test_a_request_that_is_taken_back(open_client: Open) -> None:
    client = open_client(lambda engine, text, output: output.done(len(text)))
    client.send(1, all_headers() + "x".encode("utf-16-le"), status=1 | 2)
    client.send(6, b"")
    assert read_tokens(client.receive()).of("done") == [(ATTN, 0)]


def test_a_large_request_and_a_large_response(open_client: Open) -> None:
    def script(engine: Scripted, text: str, output: Output) -> None:
        output.columns(INT)
        output.rows(Rows(*range(200_000)))
        output.done(len(text))

    tokens: Tokens = open_client(script).batch("x" * 1_000_000)
    assert tokens.of("done") == [(COUNT, 1_000_000)]
    assert tokens.of("row") == [(n,) for n in range(200_000)]
