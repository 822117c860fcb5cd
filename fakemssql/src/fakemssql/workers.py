"""Worker processes; each serves one connection at a time.

The listener hands a client's socket over by a pair of Unix sockets. The process answers with one byte when it has
served the client. Its end of the pair closes when it ends, and it ends when the listener's end closes.
"""

from __future__ import annotations

import logging
import os
import platform
import resource
import signal
import socket
import struct
from collections.abc import Iterable
from dataclasses import dataclass, field

from fakemssql import killing
from fakemssql.connections import Connections, Place
from fakemssql.tds.connection import Front, serve
from fakemssql.tds.request_loop import describe

log = logging.getLogger(__name__)

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

_SERVED = b"."
_PLACE = struct.Struct("<II")
MAX_CLIENTS = 200
"""Limit of clients that one process serves, because PostgreSQL's process for it fills its caches with each of them."""
_KEPT_BYTES = 256 * 1024**2
"""Limit of memory: a process that has used more is not kept, because it would not give the memory back."""


@dataclass
class Worker:
    """Process as the listener knows it. ``place`` is None while it waits for a client."""

    pid: int
    channel: socket.socket = field(repr=False)
    place: Place | None

    def hand_over(self, client: socket.socket, place: Place) -> bool:
        """Hand a client over to the process; False if the process has died."""
        try:
            socket.send_fds(self.channel, [_PLACE.pack(place.index, place.address)], [client.fileno()])
        except OSError:
            return False
        self.place = place
        return True

    def has_served(self) -> bool:
        """Return whether the process has served its client, False if it has ended; called when its channel is
        readable.
        """
        try:
            return self.channel.recv(1) == _SERVED
        except OSError:
            return False


def start(client: socket.socket, place: Place, front: Front, connections: Connections, closed: Iterable[int]) -> Worker:
    """Fork a process that serves ``client``. Raises :class:`OSError`.

    ``closed`` are the listener's own descriptors, which the new process closes.
    """
    ours, theirs = socket.socketpair()
    try:
        pid = os.fork()
        if pid == 0:
            _child(client, place, front, connections, theirs, (ours.fileno(), *closed))
    except OSError:
        ours.close()
        raise
    finally:
        theirs.close()
    return Worker(pid, ours, place)


def _child(
    client: socket.socket,
    place: Place,
    front: Front,
    connections: Connections,
    channel: socket.socket,
    closed: Iterable[int],
) -> None:
    """Serve clients and end the process; never returns, because the parent's exit code must not run in a child."""
    code = 1
    try:
        signal.set_wakeup_fd(-1)
        for number in (*STOP_SIGNALS, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        killing.heed()
        for fd in closed:
            os.close(fd)
        serve(client, front, place)
        served = 1
        while served < MAX_CLIENTS and (following := _following(channel, connections)) is not None:
            serve(following[0], front, following[1])
            served += 1
        front.close()
        code = 0
    except Exception as error:
        log.error("connection ended: %s", describe(error))
    finally:
        os._exit(code)


def _following(channel: socket.socket, connections: Connections) -> tuple[socket.socket, Place] | None:
    """Wait for the next client; None if this process should end or the listener has ended."""
    unit = 1 if platform.system() == "Darwin" else 1024
    if resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit > _KEPT_BYTES:
        return None
    try:
        channel.sendall(_SERVED)
        data, descriptors, _, _ = socket.recv_fds(channel, _PLACE.size, 1)
    except OSError:
        return None
    if not descriptors:
        return None
    return socket.socket(fileno=descriptors[0]), Place(connections, *_PLACE.unpack(data))
