"""One client from its first byte to its last: prelogin, TLS, login, requests."""

from __future__ import annotations

import logging
import os
import socket
import traceback
from dataclasses import dataclass

from fakemssql.contract import Attention, Client, ClientGone, Engine, OpenEngine, SqlError
from fakemssql.tds import login as login7
from fakemssql.tds import prelogin, requests, tls, tokens
from fakemssql.tds.packets import (
    MAX_SIZE,
    MIN_SIZE,
    RESET,
    RESET_KEEP_TRANSACTION,
    Message,
    PacketType,
)
from fakemssql.tds.prelogin import Encryption
from fakemssql.tds.procedures import Procedures
from fakemssql.tds.reader import Truncated
from fakemssql.tds.response import Response
from fakemssql.tds.stream import Stream
from fakemssql.tds.tokens import Change, Done, DoneKind
from fakemssql.tds.transport import Transport

log = logging.getLogger(__name__)

_LOGIN_SECONDS = 30.0
_TLS_RECORD_HANDSHAKE = 0x16
_SUPPORTED = {
    0x73: login7.TDS_7_3,
    0x74: login7.TDS_7_4,
    0x08: login7.TDS_8_0,
}
"""What is answered to a client by the first byte of the version it asks for. Before 7.3 there were no date types."""


@dataclass(frozen=True)
class Front:
    """What all connections of a server share."""

    tls: tls.TlsContexts
    credentials: login7.Credentials
    open_engine: OpenEngine


def serve(sock: socket.socket, front: Front) -> None:
    """Serve one client until it leaves. Never raises for what the client does."""
    transport = Transport(sock)
    try:
        Connection(Stream(transport, os.getpid()), front).run()
    except (ClientGone, Truncated):
        log.debug("client left")
    finally:
        transport.close()


class Connection:
    """The state of one connection."""

    def __init__(self, stream: Stream, front: Front) -> None:
        self._stream = stream
        self._front = front
        self._encryption = Encryption.NOT_SUPPORTED

    def run(self) -> None:
        """From the first byte to the end. Raises :class:`ClientGone` when the client left."""
        login = self._arrive()
        engine = self._enter(login)
        if engine is None:
            return
        try:
            _Requests(self._stream, engine).run()
        finally:
            engine.close()

    def _arrive(self) -> login7.Login:
        """PRELOGIN and TLS, up to a decoded LOGIN7. Raises :class:`ClientGone` for one that makes no sense."""
        stream = self._stream
        stream.transport.await_data(_LOGIN_SECONDS)
        strict = stream.transport.received[0] == _TLS_RECORD_HANDSHAKE
        if strict:
            stream.transport.start_tls(self._front.tls.strict)
        message = stream.read_message(_LOGIN_SECONDS)
        if message.type == PacketType.PRELOGIN:
            self._prelogin(message, strict=strict)
            message = stream.read_message(_LOGIN_SECONDS)
        if message.type != PacketType.LOGIN7:
            raise ClientGone
        if self._encryption is Encryption.OFF:
            # Only the login is encrypted (2.2.6.5): from here on both sides are plain again.
            stream.transport.drop_tls()
        try:
            return login7.parse(message.data)
        except ValueError as error:
            raise ClientGone from error

    def _prelogin(self, message: Message, *, strict: bool) -> None:
        try:
            asked = prelogin.parse(message.data)
        except ValueError as error:
            raise ClientGone from error
        wanted = asked.get(prelogin.ENCRYPTION, b"\x02")[:1] or b"\x02"
        if not strict:
            self._encryption = prelogin.negotiate(wanted[0] & 0x03)
        self._stream.begin()
        self._stream.write(prelogin.response(asked, self._encryption))
        self._stream.end()
        if self._encryption is not Encryption.NOT_SUPPORTED:
            inner = tls.handshake_in_prelogin(self._stream, self._front.tls.login, _LOGIN_SECONDS)
            self._stream.transport.use_tls(inner)

    def _enter(self, login: login7.Login) -> Engine | None:
        """Check the login and open its engine; None after a login that failed."""
        stream = self._stream
        stream.begin()
        version = _SUPPORTED.get(login.tds_version >> 24)
        try:
            if version is None:
                raise SqlError(17828, "fakemssql speaks TDS 7.3, 7.4 and 8.0.", severity=20)
            administrator = self._front.credentials.check(login)
            password = None if administrator else login.password
            name = self._front.credentials.user if administrator else login.user
            engine = self._front.open_engine(login.database, name, stream.wait, password)
        except SqlError as error:
            log.info("login refused: error %d", error.number)
            self._refuse(error, login)
            return None
        except Exception as error:
            log.error("login failed: %s", describe(error))
            self._refuse(SqlError(18456, "fakemssql could not open a session.", severity=14), login)
            return None
        engine.introduce(self._client(login))
        stream.write(tokens.text_change(Change.DATABASE, engine.database, "master"))
        stream.write(_info(5701, f"Changed database context to '{engine.database}'."))
        stream.write(tokens.collation_change())
        stream.write(tokens.text_change(Change.LANGUAGE, "us_english", ""))
        stream.write(_info(5703, "Changed language setting to us_english."))
        stream.write(tokens.login_ack(version))
        size = stream.framer.size
        if login.packet_size:
            size = min(MAX_SIZE, max(MIN_SIZE, login.packet_size))
        stream.write(tokens.text_change(Change.PACKET_SIZE, str(size), str(stream.framer.size)))
        stream.write(tokens.done(DoneKind.DONE, Done.FINAL))
        stream.end()
        stream.framer.size = size
        return engine

    def _client(self, login: login7.Login) -> Client:
        transport = self._stream.transport
        address, port = transport.peer
        return Client(
            login.user,
            login.host,
            login.application,
            login.library,
            login.process,
            address,
            port,
            login.packet_size or 4096,
            transport.encrypted,
        )

    def _refuse(self, error: SqlError, login: login7.Login) -> None:
        self._stream.write(tokens.message(error))
        if error.number in (4060, 4064):
            self._stream.write(tokens.message(login7.login_failed(login.user)))
        self._stream.write(tokens.done(DoneKind.DONE, Done.ERROR))
        self._stream.end()


class _Requests:
    """The requests of a client that is logged in."""

    def __init__(self, stream: Stream, engine: Engine) -> None:
        self._stream = stream
        self._engine = engine
        self._procedures = Procedures(engine)

    def run(self) -> None:
        """Answer requests until the client leaves (:class:`ClientGone`) or a fatal error ends the connection."""
        fatal = False
        while not fatal:
            message = self._stream.read_message()
            self._stream.begin()
            response = Response(self._stream)
            if message.type == PacketType.ATTENTION:
                # It came after the response: it is acknowledged all the same.
                response.attention(running=False)
            else:
                self._answer(message, response)
            self._stream.end()
            if self._stream.gone:
                raise ClientGone
            fatal = response.fatal

    def _answer(self, message: Message, response: Response) -> None:
        try:
            if message.status & (RESET | RESET_KEEP_TRANSACTION):
                self._procedures.forget()
                self._engine.reset(bool(message.status & RESET_KEEP_TRANSACTION))
                response.reset_done()
            self._dispatch(message, response)
            self._stream.check()
        except Attention:
            response.attention(running=True)

    def _dispatch(self, message: Message, response: Response) -> None:
        if message.type == PacketType.RPC:
            self._rpc(message.data, response)
            return
        try:
            if message.type == PacketType.BATCH:
                self._engine.batch(requests.batch_text(message.data), response)
            elif message.type == PacketType.TRANSACTION:
                self._transaction(message.data, response)
            else:
                raise SqlError(40510, "Bulk load is not supported by fakemssql.")
        except (Attention, ClientGone):
            raise
        except Exception as error:
            response.message(as_sql_error(error))
        response.end_batch()

    def _rpc(self, data: bytes, response: Response) -> None:
        calls = requests.calls(data)
        last = False
        while not last:
            response.begin_call()
            status = 0
            try:
                call = next(calls)
                last = call.last
                status = self._procedures.run(call, response)
            except (Attention, ClientGone):
                raise
            except Exception as error:
                failure = as_sql_error(error)
                response.message(failure)
                status = failure.number
                # What follows a request that cannot be decoded cannot be either.
                last = last or not isinstance(error, SqlError) or failure.number == 8016
            response.end_call(status, last=last)

    def _transaction(self, data: bytes, response: Response) -> None:
        request = requests.transaction_request(data)
        self._engine.transaction_request(request.kind, request.isolation, request.name, response)
        if request.then_begin is not None:
            self._engine.transaction_request("begin", request.then_begin, "", response)


def as_sql_error(error: Exception) -> SqlError:
    """What the client is told of an exception: SQL Server's errors as they are, a defect of this server as 50000."""
    if isinstance(error, SqlError):
        return error
    if isinstance(error, Truncated):
        return SqlError(8009, "The incoming tabular data stream (TDS) protocol stream is incorrect.")
    log.error("request failed: %s", describe(error))
    return SqlError(50000, f"fakemssql failed on this request: {describe(error)}")


def describe(error: Exception) -> str:
    """Class and place of an exception. Its text may quote data and is left out."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f" at {os.path.basename(frames[-1].filename)}:{frames[-1].lineno}" if frames else ""
    return type(error).__name__ + place


def _info(number: int, text: str) -> bytes:
    return tokens.message(SqlError(number, text, severity=0, state=1))
