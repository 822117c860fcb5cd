"""A TCP proxy between driver and server that interferes with one round trip.

It knows the round trip by a text in the request, so the connection must not be encrypted (``Encrypt=no``: the login
still is). TDS requests carry text as UTF-16.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from types import TracebackType

from airflow_sqlqueue.server.settings import ConnectionSettings

BEFORE, DURING, AFTER = "before", "during", "after"
"""The request has not reached the server; the server has it and its answer has come no further than the proxy; the
answer has reached the driver."""
MOMENTS = (BEFORE, DURING, AFTER)

_LENGTH = 65536


@dataclass
class Trap:
    """At ``moment`` of the next ``times`` round trips whose request holds ``text``, ``act`` is called."""

    text: str
    moment: str
    act: Callable[[Link], None]
    times: int


class Link:
    """Connection through the proxy."""

    def __init__(self, proxy: Proxy, client: socket.socket, server: socket.socket) -> None:
        self._proxy, self._client, self._server = proxy, client, server
        self._due: Trap | None = None
        self._running, self._lock = 2, threading.Lock()
        self._pumps = [
            threading.Thread(target=self._pump, args=(pump,), daemon=True) for pump in (self._requests, self._answers)
        ]

    def start(self) -> None:
        """Pass on what comes from both ends, until one of them ends."""
        for pump in self._pumps:
            pump.start()

    def cut(self) -> None:
        """Cut both ends, like a failing network; bytes that were passed on stay so."""
        for end in (self._client, self._server):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    @property
    def port(self) -> int:
        """The port from which the server sees it come."""
        return int(self._server.getsockname()[1])

    def close(self) -> None:
        self.cut()
        for pump in self._pumps:
            pump.join()

    def _pump(self, pump: Callable[[], None]) -> None:
        """Pass on what comes from one end. Of a link whose both ends have ended nothing is left."""
        pump()
        with self._lock:
            self._running -= 1
            is_last = not self._running
        if is_last:
            self._client.close()
            self._server.close()
            self._proxy.forget(self)

    def _requests(self) -> None:
        seen = b""
        with suppress(OSError):
            while data := self._client.recv(_LENGTH):
                seen = seen[-1024:] + data
                if trap := self._proxy.sprung_by(seen):
                    seen = b""
                    if trap.moment == BEFORE:
                        trap.act(self)
                    else:
                        self._due = trap
                self._server.sendall(data)
        self.cut()

    def _answers(self) -> None:
        with suppress(OSError):
            while data := self._server.recv(_LENGTH):
                trap, ends = self._due, _ends(data)
                if trap and trap.moment == DURING:
                    self._due = None
                    trap.act(self)
                self._client.sendall(data)
                if trap and trap.moment == AFTER and ends:
                    self._due = None
                    trap.act(self)
        self.cut()


def _ends(data: bytes) -> bool:
    """Whether the packets that begin here end a message (MS-TDS 2.2.3.1: the status bit 0x01)."""
    position, last = 0, False
    while position + 8 <= len(data):
        last = bool(data[position + 1] & 1)
        position += max(int.from_bytes(data[position + 2 : position + 4], "big"), 8)
    return last and position == len(data)


class Proxy:
    """Listens on a port of this machine and passes everything on to the server of ``settings``.

    One that is not ``listening`` has its port, at which nobody answers until :meth:`listen`.
    """

    def __init__(self, settings: ConnectionSettings, *, listening: bool = True, port: int = 0) -> None:
        self._target = (settings.host, settings.port)
        self._listener = socket.socket()
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._listener.bind(("127.0.0.1", port))
        self.settings = replace(
            settings,
            host="127.0.0.1",
            port=self._listener.getsockname()[1],
            keywords={**settings.keywords, "Encrypt": "no", "TrustServerCertificate": "yes"},
        )
        self._lock = threading.Lock()
        self._trap: Trap | None = None
        self._links: set[Link] = set()
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self.sprung = threading.Event()
        if listening:
            self.listen()

    def listen(self) -> None:
        """Take connections from now on."""
        self._listener.listen()
        self._accepting.start()

    def __enter__(self) -> Proxy:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Cut what is connected, and take no connections any more."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        if self._accepting.ident is not None:
            self._accepting.join()
        self._listener.close()
        for link in self.links:
            link.close()

    @property
    def links(self) -> list[Link]:
        """The connections through it that are open."""
        with self._lock:
            return list(self._links)

    def forget(self, link: Link) -> None:
        with self._lock:
            self._links.discard(link)

    def set_trap(self, text: str, moment: str, act: Callable[[Link], None] = Link.cut, *, times: int = 1) -> None:
        self._trap = Trap(text, moment, act, times)

    @property
    def left(self) -> int:
        """Number of further times that the trap will spring."""
        return self._trap.times if self._trap else 0

    def sprung_by(self, request: bytes) -> Trap | None:
        with self._lock:
            trap = self._trap
            if trap is None or not trap.times or trap.text.encode("utf-16-le") not in request:
                return None
            trap.times -= 1
            self.sprung.set()
            return trap

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                try:
                    server = socket.create_connection(self._target)
                except OSError:
                    client.close()
                    continue
                link = Link(self, client, server)
                with self._lock:
                    self._links.add(link)
                link.start()
