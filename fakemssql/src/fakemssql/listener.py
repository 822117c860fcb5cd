"""Listener: accepts clients, gives each a process, and ends the processes in order.

The listener forks, so it has one thread and no connection of its own to PostgreSQL. All modules are imported before the
first fork. If a connection's process crashes, the others go on. A process whose client has left waits for the next
client, because a new process costs much more; see :mod:`fakemssql.workers`.
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

from fakemssql import workers
from fakemssql.connections import Connections, Place
from fakemssql.tds.connection import Front
from fakemssql.workers import STOP_SIGNALS, Worker

log = logging.getLogger(__name__)

MAX_IDLE = 8
"""Limit of processes that wait for a client. Each has a connection to PostgreSQL, which takes 200."""
_CHILD_STOP_SECONDS = 5.0


def listen(host: str, port: int) -> socket.socket:
    """Open a listening socket; port 0 takes a free port."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind((host, port))
    sock.listen(128)
    sock.setblocking(False)
    return sock


class Listener:
    """Accepts connections until a signal comes, the pipe ``parent`` ends, or ``healthy`` returns False."""

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
        self._workers: dict[int, Worker] = {}  # by process id
        self._channels: dict[int, Worker] = {}  # by descriptor
        self._idle: list[Worker] = []
        self._poll = select.poll()
        self._refusing = False
        self._stopping = False
        self._own: list[int] = []

    def run(self, ready: Callable[[], None]) -> bool:
        """Serve until all child processes have ended; True if ``parent`` ended the listener.

        ``ready`` is called when the listener takes signals and clients.
        """
        wake_read, wake_write = os.pipe()
        for fd in (wake_read, wake_write):
            os.set_blocking(fd, False)
        signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        for number in STOP_SIGNALS:
            signal.signal(number, self._stop)
        # The call of a handler is enough to wake the poll.
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for watched in (self._sock.fileno(), wake_read, *(() if self._parent is None else (self._parent,))):
            self._poll.register(watched, select.POLLIN)
        self._own = [wake_read, wake_write, *(() if self._parent is None else (self._parent,))]
        # The imported modules stay; a garbage collection over them in each child would copy every page of them.
        gc.collect()
        gc.freeze()
        try:
            ready()
            while not self._stopping:
                found = {fd for fd, _ in self._poll.poll()}
                if wake_read in found:
                    _drain(wake_read)
                    self._reap()
                    if not self._healthy():
                        log.error("PostgreSQL ended; stopping")
                        return False
                if self._parent in found:
                    log.info("the process that started this server is gone; stopping")
                    return True
                for fd in found & self._channels.keys():
                    self._hear(self._channels[fd])
                if self._sock.fileno() in found:
                    self._accept()
            return False
        finally:
            self._end_children()

    def _stop(self, _number: int, _frame: FrameType | None) -> None:
        self._stopping = True

    def _accept(self) -> None:
        try:
            client, address = self._sock.accept()
        except OSError:
            return
        with client:
            if _has_gone(client):
                return
            place = self._place(str(address[0]))
            if place is None or self._give_to_idle(client, place):
                return
            try:
                closed = [self._sock.fileno(), *self._own, *self._channels]
                worker = workers.start(client, place, self._front, self._connections, closed)
            except OSError as error:
                log.error("closed a connection from %s: no process can be made for it: %s", address[0], error.strerror)
                self._connections.free(place)
                return
            self._workers[worker.pid] = worker
            self._channels[worker.channel.fileno()] = worker
            self._poll.register(worker.channel, select.POLLIN)

    def _give_to_idle(self, client: socket.socket, place: Place) -> bool:
        while self._idle:
            # Take the process that was busy last: its memory is warm.
            if self._idle.pop().hand_over(client, place):
                return True
        return False

    def _hear(self, worker: Worker) -> None:
        """Keep a process that has served its client for the next one, or drop a process that has ended."""
        stays = worker.has_served()
        self._free_place(worker)
        if stays and len(self._idle) < MAX_IDLE:
            self._idle.append(worker)
            return
        self._let_go(worker)

    def _free_place(self, worker: Worker) -> None:
        if worker.place is not None:
            self._connections.free(worker.place)
            worker.place = None

    def _let_go(self, worker: Worker) -> None:
        """Close the channel to a process; the process ends then, if it has not ended before."""
        if self._channels.pop(worker.channel.fileno(), None) is not None:
            self._poll.unregister(worker.channel)
            worker.channel.close()
        if worker in self._idle:
            self._idle.remove(worker)

    def _place(self, address: str) -> Place | None:
        """Place for a new connection, or None, which closes it; only the first refusal in a row is logged."""
        place = self._connections.take(address)
        if place is None:
            # Free the places of processes that have ended since.
            self._reap()
            place = self._connections.take(address)
        if place is None and not self._refusing:
            log.warning(
                "closed a connection from %s: %d others are not logged in yet, which is the limit (further ones are "
                "closed without a report until one of those logs in or ends)",
                address,
                self._connections.max_logging_in,
            )
        self._refusing = place is None
        return place

    def _reap(self) -> None:
        for pid, worker in list(self._workers.items()):
            with contextlib.suppress(ChildProcessError):
                found, status = os.waitpid(pid, os.WNOHANG)
                if not found:
                    continue
                if os.WIFSIGNALED(status):
                    # A stop signal is a normal end: _end_children or Ctrl-C sent it.
                    level = logging.INFO if os.WTERMSIG(status) in STOP_SIGNALS else logging.WARNING
                    log.log(level, "the process of a connection was killed by signal %d", os.WTERMSIG(status))
            del self._workers[pid]
            self._free_place(worker)
            self._let_go(worker)

    def _end_children(self) -> None:
        self._sock.close()
        for number in (signal.SIGTERM, signal.SIGKILL):
            for pid in self._workers:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)
            deadline = time.monotonic() + _CHILD_STOP_SECONDS
            while self._workers and time.monotonic() < deadline:
                self._reap()
                time.sleep(0.005)


def _has_gone(client: socket.socket) -> bool:
    """Return whether the client has closed already, as a port check does: it gets no process."""
    try:
        return not client.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except BlockingIOError:
        return False
    except OSError:
        return True


def _drain(fd: int) -> None:
    with contextlib.suppress(BlockingIOError):
        while os.read(fd, 4096):
            pass
