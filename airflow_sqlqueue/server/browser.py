"""Port of a named instance, from the SQL Server Browser of its host.

Microsoft's driver asks the Browser on Windows only. The protocol is one question and one answer over UDP:
docs/concepts/connections.md, "Named instances". The answer is unauthenticated, so only the port is taken from it.
"""

from __future__ import annotations

import re
import socket

from airflow_sqlqueue.errors import ServerUnreachableError, UnknownHostError

PORT = 1434
"""UDP port of the Browser."""

_TRIES, _SECONDS = 3, 1.0
_LONGEST = 1024 + 3
"""The most bytes of an answer for one instance."""

_ASK, _ANSWER = b"\x04", 5


def port_of(host: str, instance: str) -> int:
    """Return the TCP port on which the instance listens. Raises :class:`ServerUnreachableError`."""
    question = _ASK + instance.encode("utf-8") + b"\0"
    for _ in range(_TRIES):
        for family, kind, protocol, _, address in _addresses(host):
            try:
                with socket.socket(family, kind, protocol) as asking:
                    asking.settimeout(_SECONDS)
                    # A connected socket receives only answers from that address.
                    asking.connect(address)
                    asking.send(question)
                    port = _read(asking.recv(_LONGEST), instance)
            except OSError:
                continue
            if port is not None:
                return port
    raise ServerUnreachableError(
        f"The SQL Server Browser of {host} does not give the port of the instance {instance!r}: check that both run "
        f"and that UDP port {PORT} is open, or give the instance's own port, as host,port."
    )


def unknown_host(error: socket.gaierror | UnicodeError, host: str) -> ServerUnreachableError:
    """Return our error for a host without an address: an unknown name, or a name server that does not answer now.

    A UnicodeError is Python's, for a name that no host can have, as ``db..example``.
    """
    if isinstance(error, socket.gaierror) and error.errno == socket.EAI_AGAIN:
        return ServerUnreachableError(f"The name server does not say where {host} is: check the network.")
    return UnknownHostError(f"The host {host} is not known: check its name.")


def _addresses(host: str) -> list[tuple[int, int, int, str, tuple[str, int]]]:
    try:
        return socket.getaddrinfo(host, PORT, type=socket.SOCK_DGRAM)  # type: ignore[return-value]
    except (socket.gaierror, UnicodeError) as error:
        raise unknown_host(error, host) from error


def _read(answer: bytes, instance: str) -> int | None:
    r"""Return the port from ``ServerName;H;InstanceName;I;...;tcp;1433;;``, None for another or malformed answer."""
    if len(answer) < 3 or answer[0] != _ANSWER or int.from_bytes(answer[1:3], "little") != len(answer) - 3:
        return None
    words = answer[3:].decode("utf-8", "replace").split(";;")[0].split(";")
    values = {key.lower(): value for key, value in zip(words[::2], words[1::2], strict=False)}
    if values.get("instancename", "").lower() != instance.lower():
        return None
    port = values.get("tcp", "")
    return int(port) if re.fullmatch("[0-9]{1,5}", port) and 0 < int(port) < 65536 else None
