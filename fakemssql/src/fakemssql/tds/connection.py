"""Connection of one client, from its first byte to its last: prelogin, TLS, login, requests."""

from __future__ import annotations

import ipaddress
import logging
import os
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from fakemssql import killing
from fakemssql.contract import Client, ClientGone, Engine, OpenEngine, SqlError
from fakemssql.tds import access_tokens, prelogin, recovery, tls, tokens, versions
from fakemssql.tds import login as login7
from fakemssql.tds.packets import MAX_SIZE, MIN_SIZE, Message, PacketType
from fakemssql.tds.prelogin import Encryption
from fakemssql.tds.reader import Truncated
from fakemssql.tds.recovery import Recovery
from fakemssql.tds.request_loop import RequestLoop, describe
from fakemssql.tds.stream import Stream
from fakemssql.tds.tokens import Change, Done, DoneKind
from fakemssql.tds.transport import LoginLimitReached, LoginLimits, Transport
from fakemssql.tds.versions import Version

log = logging.getLogger(__name__)

_TLS_RECORD_HANDSHAKE = 0x16


@dataclass(frozen=True)
class Front:
    """Settings that all connections of a server share."""

    tls: tls.TlsContexts
    credentials: login7.Credentials
    open_engine: OpenEngine
    limits: LoginLimits = field(default_factory=LoginLimits)
    close: Callable[[], None] = lambda: None
    """Closes what engines leave for the next ones; called when a process ends."""


class Admission(Protocol):
    """Counts of the server's connections, as one connection uses them. Implemented by ``connections.Place``."""

    def enter(self) -> None:
        """Count this connection as a session. Raises :class:`SqlError` if the limit of sessions is reached."""

    def first_in_clear(self) -> bool:
        """True for the first login without encryption from this client's address."""


def serve(sock: socket.socket, front: Front, admission: Admission) -> None:
    """Serve one client until it leaves. Errors of the client raise nothing."""
    killing.begin()
    transport = Transport(sock, front.limits)
    try:
        Connection(Stream(transport, os.getpid()), front, admission).run()
    except LoginLimitReached as error:
        log.warning("closed the connection from %s: %s", transport.peer[0] or "this machine", error)
    except (ClientGone, Truncated):
        log.debug("client left")
    finally:
        transport.close()


class Connection:
    """State of one connection."""

    def __init__(self, stream: Stream, front: Front, admission: Admission) -> None:
        self._stream = stream
        self._front = front
        self._admission = admission
        self._encryption = Encryption.NOT_SUPPORTED
        self._version = versions.TDS_7_4
        self._recovery: Recovery | None = None

    def run(self) -> None:
        """Log the client in and answer its requests. Raises :class:`ClientGone` when the client leaves."""
        login = self._arrive()
        engine = self._enter(login)
        if engine is None:
            return
        try:
            if self._stream.gone:
                raise ClientGone
            self._stream.transport.logged_in()
            RequestLoop(self._stream, engine, self._version, self._recovery).run()
        except killing.Killed:
            # Close the client's connection first: it must be closed when others see that the session is gone.
            self._stream.transport.close()
            raise
        finally:
            engine.close()

    def _arrive(self) -> login7.Login:
        """Do PRELOGIN and TLS, and decode LOGIN7. Raises :class:`ClientGone` for invalid messages."""
        stream = self._stream
        stream.transport.await_data()
        strict = stream.transport.received[0] == _TLS_RECORD_HANDSHAKE
        if strict:
            stream.transport.start_tls(self._front.tls.strict)
        message = stream.read_message()
        if message.type == PacketType.PRELOGIN:
            self._prelogin(message, strict=strict)
            message = stream.read_message()
        if message.type != PacketType.LOGIN7 or message.withdrawn:
            raise ClientGone
        self._warn_of_clear_login()
        if self._encryption is Encryption.OFF:
            # Only the login is encrypted (2.2.6.5): from here on neither side encrypts.
            stream.transport.drop_tls()
        try:
            return login7.parse(message.data)
        except ValueError as error:
            raise ClientGone from error

    def _prelogin(self, message: Message, *, strict: bool) -> None:
        if message.withdrawn:
            raise ClientGone
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
            inner = tls.handshake_in_prelogin(self._stream, self._front.tls.login)
            self._stream.transport.use_tls(inner)

    def _warn_of_clear_login(self) -> None:
        """Log the first login in clear from an address; SQL Server without Force Encryption takes it as well."""
        transport = self._stream.transport
        address, _ = transport.peer
        if not transport.encrypted and not is_loopback(address) and self._admission.first_in_clear():
            log.warning(
                "%s sent a login without encryption: others on the network could read its password. Set "
                "Encrypt=yes in the client (further logins from this address are not reported)",
                address,
            )

    def _enter(self, login: login7.Login) -> Engine | None:
        """Check the login, open its engine, and answer the client; None if the login failed."""
        stream = self._stream
        stream.begin()
        version = versions.spoken(login.tds_version)
        try:
            if version is None:
                raise SqlError(17828, f"fakemssql speaks {versions.SPOKEN}.", severity=20)
            self._version = version
            self._admission.enter()
            account = self._front.credentials.admit(login)
            broken = recovery.parse(login.features.get(recovery.FEATURE, b""))
            database = login.database if broken is None else broken.database
            engine = self._front.open_engine(database, account.name, stream.wait, account.password)
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
        stream.write(_info(version, 5701, f"Changed database context to '{engine.database}'."))
        stream.write(tokens.collation_change())
        stream.write(tokens.text_change(Change.LANGUAGE, "us_english", ""))
        stream.write(_info(version, 5703, "Changed language setting to us_english."))
        stream.write(tokens.login_ack(version))
        features = {} if account.nonce is None else {access_tokens.FEDAUTH: account.nonce}
        if recovery.FEATURE in login.features:
            beginning = Recovery(engine)
            if broken is None or engine.restore(broken.state):
                self._recovery = beginning
                features[recovery.FEATURE] = beginning.acknowledgement()
        if features:
            stream.write(tokens.feature_ack(features))
        size = stream.framer.size
        if login.packet_size:
            size = min(MAX_SIZE, max(MIN_SIZE, login.packet_size))
        stream.write(tokens.text_change(Change.PACKET_SIZE, str(size), str(stream.framer.size)))
        if self._recovery is not None:
            stream.write(self._recovery.change())
        stream.write(tokens.done(self._version, DoneKind.DONE, Done.FINAL))
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
            self._version.acknowledged,
        )

    def _refuse(self, error: SqlError, login: login7.Login) -> None:
        self._stream.write(tokens.message(self._version, error))
        if error.number in (4060, 4064):
            self._stream.write(tokens.message(self._version, login7.login_failed(login.user)))
        self._stream.write(tokens.done(self._version, DoneKind.DONE, Done.ERROR))
        self._stream.end()


def is_loopback(address: str) -> bool:
    """Return whether only this machine reaches an address; an empty one is that of a socket without a network."""
    if not address:
        return True
    found = ipaddress.ip_address(address)
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return (mapped or found).is_loopback


def _info(version: Version, number: int, text: str) -> bytes:
    return tokens.message(version, SqlError(number, text, severity=0, state=1))
