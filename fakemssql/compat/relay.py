"""Relay before the server, which records the bytes that a client sends."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
import time

from fakemssql.tds.packets import PacketType

_CHUNK = 1 << 16
_OBSCURE = bytes((byte >> 4 | (byte << 4 & 0xF0)) ^ 0xA5 for byte in range(256))


def obscure(password: str) -> bytes:
    """Password in the form of LOGIN7: the halves of each byte are exchanged, then the byte is XORed with 0xA5."""
    return password.encode("utf-16-le", "surrogatepass").translate(_OBSCURE)


class Relay:
    """Relay that takes connections on ``port``, passes them on and records the clients' bytes; a context manager.

    The answer to each login is delayed by ``hold`` seconds.
    """

    def __init__(self, host: str, port: int, hold: float = 0.0) -> None:
        self._target = (host, port)
        self._hold = hold
        self._sent: list[bytearray] = []
        self._threads: list[threading.Thread] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]

    def __enter__(self) -> Relay:
        self._start(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join(20)

    def in_clear(self, text: str) -> bool:
        """Whether a client sent this text as UTF-16."""
        return any(text.encode("utf-16-le") in sent for sent in self._sent)

    def password_in_clear(self, password: str) -> bool:
        """Whether a client sent this password in a login without encryption."""
        return any(obscure(password) in sent for sent in self._sent)

    def _start(self, target: object, *arguments: object) -> None:
        thread = threading.Thread(target=target, args=arguments, daemon=True)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self._start(self._pass_on, client)

    def _pass_on(self, client: socket.socket) -> None:
        sent = bytearray()
        self._sent.append(sent)
        answers = 0
        with client, socket.create_connection(self._target) as server:
            while True:
                ready, _, _ = select.select([client, server], [], [])
                for source in ready:
                    try:
                        data = source.recv(_CHUNK)
                        if source is server and data[:1] == bytes((PacketType.RESULT,)):
                            # The first result answers PRELOGIN; the TLS handshake is in packets of another type.
                            answers += 1
                            time.sleep(self._hold if answers == 2 else 0)
                        (server if source is client else client).sendall(data)
                    except OSError:
                        return
                    if not data:
                        return
                    if source is client:
                        sent += data
