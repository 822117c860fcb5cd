"""Transport over the client's socket, plain or under TLS, whose waits end when the client or a limit ends them.

TLS runs on memory buffers (``ssl.MemoryBIO``) because its handshake travels inside prelogin packets (MS-TDS 3.3.5.2
and 2.2.6.5) and TLS may end after the login.
"""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import time
from dataclasses import dataclass

from fakemssql import killing
from fakemssql.contract import ClientGone

_CHUNK = 1 << 18
_RECEIVED = 1 << 16
"""Limit of one reading: memory for more would come from the system each time, which takes longer than the reading."""


@dataclass(frozen=True)
class LoginLimits:
    """Limits of a client from its first byte until it is logged in.

    ``seconds`` is for PRELOGIN, TLS and login together. ``size`` counts the bytes that it sends: a LOGIN7 message has
    at most 128 KiB - 1 (MS-TDS 2.2.6.4), the rest is for PRELOGIN, the handshake, and headers of packets and records.
    """

    seconds: float = 30.0
    size: int = 160 * 1024


class LoginLimitReached(ClientGone):
    """The client exceeded its :class:`LoginLimits`: its connection is closed, with this text in the log."""


class Transport:
    """Bytes from and to one client. ``received`` has the decrypted bytes that are not used yet.

    The limits apply until :meth:`logged_in`.
    """

    def __init__(self, sock: socket.socket, limits: LoginLimits) -> None:
        sock.setblocking(False)
        if sock.family in (socket.AF_INET, socket.AF_INET6):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._sock = sock
        self._limits: LoginLimits | None = limits
        self._deadline = time.monotonic() + limits.seconds
        self._size = 0
        self.received = bytearray()
        self._tls: ssl.SSLObject | None = None
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()

    def fileno(self) -> int:
        return self._sock.fileno()

    @property
    def peer(self) -> tuple[str, int]:
        """Address and port of the client; empty and 0 for a socket without them (a pair of sockets)."""
        try:
            name = self._sock.getpeername()
        except OSError:
            return "", 0
        return (str(name[0]), int(name[1])) if isinstance(name, tuple) else ("", 0)

    @property
    def encrypted(self) -> bool:
        return self._tls is not None

    def close(self) -> None:
        # The listener may still have its own descriptor of the socket open.
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)
        self._sock.close()

    def logged_in(self) -> None:
        """Lift the limits: the client is logged in."""
        self._limits = None

    def receive(self) -> bool:
        """Read the available data of the socket; False if there are no data. Raises :class:`ClientGone` at its end."""
        data = self._read()
        if not data:
            return False
        if self._tls is None:
            self.received += data
        else:
            self._incoming.write(data)
            self._decrypt()
        return True

    def _read(self) -> bytes:
        """Next bytes of the socket, not decrypted; empty if no data are available."""
        try:
            data = self._sock.recv(_RECEIVED)
        except (BlockingIOError, InterruptedError):
            return b""
        except OSError as error:
            raise ClientGone from error
        if not data:
            raise ClientGone
        if self._limits is not None:
            self._size += len(data)
            if self._size > self._limits.size:
                raise LoginLimitReached(f"it sent more than {self._limits.size} bytes before it was logged in")
        return data

    def await_data(self) -> None:
        """Wait for data and read it. Raises :class:`LoginLimitReached` at the deadline of a login."""
        before = len(self.received)
        while len(self.received) == before:
            self._await(select.POLLIN)
            self.receive()

    def _await(self, events: int) -> None:
        """Wait until the socket is ready; the deadline of the login is for all waits together."""
        poll = select.poll()
        poll.register(self._sock, events)
        if self._limits is None:
            killing.poll(poll)
            return
        left = self._deadline - time.monotonic()
        if left <= 0 or not poll.poll(left * 1000):
            raise LoginLimitReached(f"it was not logged in after {self._limits.seconds:g} seconds")

    def send(self, data: bytes) -> None:
        """Send all of ``data``, encrypted if TLS is on; read from the client while it does not receive."""
        if self._tls is None:
            self._send(data)
            return
        view = memoryview(data)
        for start in range(0, len(view), _CHUNK):
            self._tls.write(view[start : start + _CHUNK])
            self._send(self._outgoing.read())

    def _send(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            try:
                view = view[self._sock.send(view) :]
            except (BlockingIOError, InterruptedError):
                self._await(select.POLLIN | select.POLLOUT)
                # A client that cancels may stop reading until the server has read its attention.
                self.receive()
            except OSError as error:
                raise ClientGone from error

    def start_tls(self, context: ssl.SSLContext) -> None:
        """Start TLS, with the handshake directly on the socket (TDS 8.0)."""
        tls = self.begin_handshake(context)
        self._incoming.write(bytes(self.received))
        self.received.clear()
        while not self._handshake(tls):
            self._send(self._outgoing.read())
            self._await(select.POLLIN)
            self._incoming.write(self._read())
        self._send(self._outgoing.read())
        self._tls = tls
        self._decrypt()

    def handshake_step(self, tls: ssl.SSLObject, data: bytes) -> tuple[bool, bytes]:
        """Do a step of a handshake inside messages: whether it is complete, and the bytes to send."""
        self._incoming.write(data)
        complete = self._handshake(tls)
        return complete, self._outgoing.read()

    def use_tls(self, tls: ssl.SSLObject) -> None:
        """Use ``tls``, whose handshake is complete, from here on."""
        self._tls = tls
        self._incoming.write(bytes(self.received))
        self.received.clear()
        self._decrypt()

    def drop_tls(self) -> None:
        """End TLS after the login, if only the login is encrypted."""
        self._tls = None

    def begin_handshake(self, context: ssl.SSLContext) -> ssl.SSLObject:
        """Make a TLS object, whose handshake the caller does."""
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        return context.wrap_bio(self._incoming, self._outgoing, server_side=True)

    @staticmethod
    def _handshake(tls: ssl.SSLObject) -> bool:
        try:
            tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        except ssl.SSLError as error:
            raise ClientGone from error
        return True

    def _decrypt(self) -> None:
        assert self._tls is not None
        try:
            while data := self._tls.read(_RECEIVED):
                self.received += data
                if not self._incoming.pending and not self._tls.pending():
                    return
        except ssl.SSLWantReadError:
            return
        except ssl.SSLError as error:
            raise ClientGone from error
        raise ClientGone
