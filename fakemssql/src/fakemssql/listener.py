"""The accepting process: one child per connection, and an orderly end.

It forks, so it has one thread and no connection of its own to PostgreSQL. Everything is imported before the first fork;
a child starts in a millisecond, runs on a core of its own, and takes nothing else down if it crashes.
"""

from __future__ import annotations

import contextlib
import gc
import logging
import os
import select
import signal
import socket
import time
from collections.abc import Callable
from types import FrameType

from fakemssql.connections import Connections, Place
from fakemssql.tds.connection import Front, serve
from fakemssql.tds.request_loop import describe

log = logging.getLogger(__name__)

_CHILD_STOP_SECONDS = 5.0
_STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes a free one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind((host, port))
    sock.listen(128)
    sock.setblocking(False)
    return sock


class Listener:
    """Accepts connections until told to stop by a signal, by ``parent`` reaching its end, or by ``healthy``."""

    def __init__(
        self,
        sock: socket.socket,
        front: Front,
        *,
        connections: Connections,
        parent: int | None = None,
        healthy: Callable[[], bool],
    ) -> None:
        self._sock = sock
        self._front = front
        self._parent = parent
        self._healthy = healthy
        self._connections = connections
        self._children: dict[int, Place] = {}
        self._refusing = False
        self._stopping = False

    def run(self, ready: Callable[[], None]) -> None:
        """Serve; returns when all children have ended. ``ready`` is called when signals and clients are heeded."""
        wake_read, wake_write = os.pipe()
        for fd in (wake_read, wake_write):
            os.set_blocking(fd, False)
        signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        for number in _STOP_SIGNALS:
            signal.signal(number, self._stop)
        signal.signal(signal.SIGCHLD, _ignore)
        poll = select.poll()
        for watched in (self._sock.fileno(), wake_read, *(() if self._parent is None else (self._parent,))):
            poll.register(watched, select.POLLIN)
        own = [wake_read, wake_write, *(() if self._parent is None else (self._parent,))]
        # What was imported stays for good; a collector that walks it in each child copies every page of it.
        gc.collect()
        gc.freeze()
        try:
            ready()
            while not self._stopping:
                found = {fd for fd, _ in poll.poll()}
                if wake_read in found:
                    _drain(wake_read)
                    self._reap()
                    if not self._healthy():
                        log.error("PostgreSQL ended; stopping")
                        return
                if self._parent in found:
                    log.info("the process that started this server is gone; stopping")
                    return
                if self._sock.fileno() in found:
                    self._accept(own)
        finally:
            self._end_children()

    def _stop(self, _number: int, _frame: FrameType | None) -> None:
        self._stopping = True

    def _accept(self, own: list[int]) -> None:
        try:
            client, address = self._sock.accept()
        except OSError:
            return
        with client:
            if _has_gone(client):
                return
            place = self._place(str(address[0]))
            if place is None:
                return
            try:
                pid = os.fork()
            except OSError as error:
                log.error("closed a connection from %s: no process can be made for it: %s", address[0], error.strerror)
                self._connections.free(place)
                return
            if pid == 0:
                self._child(client, place, own)
            self._children[pid] = place

    def _place(self, address: str) -> Place | None:
        """A place for a new connection; where there is none it is closed, and the first of them in a row is logged."""
        place = self._connections.take(address)
        if place is None:
            # One that has ended since is not counted.
            self._reap()
            place = self._connections.take(address)
        if place is None and not self._refusing:
            log.warning(
                "closed a connection from %s: %d others are not logged in yet, the most that may be (further ones are "
                "closed without a report until one of those logs in or ends)",
                address,
                self._connections.max_logging_in,
            )
        self._refusing = place is None
        return place

    def _child(self, client: socket.socket, place: Place, own: list[int]) -> None:
        """Never returns: what the parent would do at its exit is not for a child to do."""
        code = 1
        try:
            signal.set_wakeup_fd(-1)
            for number in (*_STOP_SIGNALS, signal.SIGCHLD):
                signal.signal(number, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            self._sock.close()
            for fd in own:
                os.close(fd)
            serve(client, self._front, place)
            code = 0
        except Exception as error:
            log.error("connection ended: %s", describe(error))
        finally:
            os._exit(code)

    def _reap(self) -> None:
        for pid in list(self._children):
            with contextlib.suppress(ChildProcessError):
                found, status = os.waitpid(pid, os.WNOHANG)
                if not found:
                    continue
                if os.WIFSIGNALED(status):
                    log.warning("the process of a connection was killed by signal %d", os.WTERMSIG(status))
            self._connections.free(self._children.pop(pid))

    def _end_children(self) -> None:
        self._sock.close()
        for number in (signal.SIGTERM, signal.SIGKILL):
            for pid in self._children:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)
            deadline = time.monotonic() + _CHILD_STOP_SECONDS
            while self._children and time.monotonic() < deadline:
                self._reap()
                time.sleep(0.005)


def _has_gone(client: socket.socket) -> bool:
    """Whether the client has closed already, as one that only looks whether the port is open: no process is made."""
    try:
        return not client.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except BlockingIOError:
        return False
    except OSError:
        return True


def _ignore(_number: int, _frame: FrameType | None) -> None:
    """A handler that does nothing still wakes the poll."""


def _drain(fd: int) -> None:
    with contextlib.suppress(BlockingIOError):
        while os.read(fd, 4096):
            pass
