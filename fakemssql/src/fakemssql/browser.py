"""A stand-in for the SQL Server Browser, which tells the ports of named instances over UDP.

The protocol is the one that Microsoft documents as MC-SQLR, of which it answers what clients ask: one instance by its
name (0x04), or all of them (0x02, 0x03).
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Mapping

PORT = 1434
"""Of the browser, by the protocol."""

_ALL, _ALL_UNICAST, _ONE = 2, 3, 4
_ANSWER = 5
_LONGEST_QUESTION = 64


class Browser:
    """Answers for instances, by name, with their ports, until its block ends; each question in a thread.

    :param instances: the TCP port of each instance.
    :param host: the address to listen on.
    """

    def __init__(self, instances: Mapping[str, int], host: str = "127.0.0.1") -> None:
        self._instances = {name.lower(): (name, port) for name, port in instances.items()}
        self._socket = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_DGRAM)
        try:
            self._socket.bind((host, PORT))
        except OSError:
            self._socket.close()
            raise
        self._thread = threading.Thread(target=self._serve, name="browser", daemon=True)

    def __enter__(self) -> Browser:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            # Wakes the thread, which close() alone does not.
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join()

    def _serve(self) -> None:
        while True:
            try:
                question, client = self._socket.recvfrom(_LONGEST_QUESTION)
                # A shut down socket gives nothing, of nobody.
                if not client:
                    return
                if answer := self._answer(question):
                    self._socket.sendto(answer, client)
            except OSError:
                return

    def _answer(self, question: bytes) -> bytes:
        if question[:1] in (bytes([_ALL]), bytes([_ALL_UNICAST])):
            found = list(self._instances.values())
        elif question[:1] == bytes([_ONE]):
            name = question[1:].split(b"\0")[0].decode("utf-8", "replace").lower()
            found = [self._instances[name]] if name in self._instances else []
        else:
            found = []
        text = "".join(
            f"ServerName;FAKEMSSQL;InstanceName;{name};IsClustered;No;Version;16.0.1000.6;tcp;{port};;"
            for name, port in found
        )
        data = text.encode("utf-8")
        return bytes([_ANSWER]) + len(data).to_bytes(2, "little") + data if data else b""
