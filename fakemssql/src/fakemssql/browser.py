"""Stand-in for the SQL Server Browser, which answers with the ports of named instances over UDP.

The protocol is MC-SQLR, as Microsoft documents it. The stand-in answers the requests that clients send: for one
instance by its name (0x04), and for all instances (0x02, 0x03).
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Mapping

from fakemssql.contract import SERVER_VERSION

PORT = 1434
"""UDP port of the browser, fixed by the protocol."""

_ALL, _ALL_UNICAST, _ONE = 2, 3, 4
_ANSWER = 5
_LONGEST_QUESTION = 64


class Browser:
    """Answers requests for the ports of instances, in a thread of its own, until its block ends.

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
            # shutdown() wakes the thread; close() alone does not.
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join()

    def _serve(self) -> None:
        while True:
            try:
                question, client = self._socket.recvfrom(_LONGEST_QUESTION)
                # A socket that was shut down gives no data and no address.
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
        version = ".".join(map(str, SERVER_VERSION))
        text = "".join(
            f"ServerName;FAKEMSSQL;InstanceName;{name};IsClustered;No;Version;{version};tcp;{port};;"
            for name, port in found
        )
        data = text.encode("utf-8")
        return bytes([_ANSWER]) + len(data).to_bytes(2, "little") + data if data else b""
