"""The port of a named instance, as the SQL Server Browser of its host tells it.

Microsoft's driver asks by itself on Windows alone. One question and one answer, over UDP: docs/concepts/connections.md,
"Named instances". The answer decides nothing but the port: it comes from the network, unauthenticated.
"""

from __future__ import annotations

import re
import socket

from airflow_sqlqueue.errors import ServerUnreachableError, UnknownHostError

PORT = 1434
"""Of the browser, by its protocol."""

_TRIES, _SECONDS = 3, 1.0
_LONGEST = 1024 + 3
"""Bytes of an answer for one instance."""

_ASK, _ANSWER = b"\x04", 5


def port_of(host: str, instance: str) -> int:
    """The TCP port on which the instance listens. Raises :class:`ServerUnreachableError`, also as :func:`unknown_host`
    does."""
    question = _ASK + instance.encode("utf-8") + b"\0"
    for _ in range(_TRIES):
        for family, kind, protocol, _, address in _addresses(host):
            try:
                with socket.socket(family, kind, protocol) as asking:
                    asking.settimeout(_SECONDS)
                    # Of a connected socket only the answers of that address arrive.
                    asking.connect(address)
                    asking.send(question)
                    port = _read(asking.recv(_LONGEST), instance)
            except OSError:
                continue
            if port is not None:
                return port
    raise ServerUnreachableError(
        f"The SQL Server Browser of {host} does not tell the port of the instance {instance!r}: check that both run "
        f"and that UDP port {PORT} is open, or give the instance's own port, as host,port."
    )


def unknown_host(error: socket.gaierror, host: str) -> ServerUnreachableError:
    """Our error for a name without an address; a name server that does not answer just now is no reason to doubt it."""
    if error.errno == socket.EAI_AGAIN:
        return ServerUnreachableError(f"The name server does not say where {host} is: check the network.")
    return UnknownHostError(f"The host {host} is not known: check its name.")


def _addresses(host: str) -> list[tuple[int, int, int, str, tuple[str, int]]]:
    try:
        return socket.getaddrinfo(host, PORT, type=socket.SOCK_DGRAM)  # type: ignore[return-value]
    except socket.gaierror as error:
        raise unknown_host(error, host) from error


def _read(answer: bytes, instance: str) -> int | None:
    r"""The port in ``ServerName;H;InstanceName;I;...;tcp;1433;;``, None where the answer is another or is malformed."""
    if len(answer) < 3 or answer[0] != _ANSWER or int.from_bytes(answer[1:3], "little") != len(answer) - 3:
        return None
    words = answer[3:].decode("utf-8", "replace").split(";;")[0].split(";")
    told = {key.lower(): value for key, value in zip(words[::2], words[1::2], strict=False)}
    if told.get("instancename", "").lower() != instance.lower():
        return None
    port = told.get("tcp", "")
    return int(port) if re.fullmatch("[0-9]{1,5}", port) and 0 < int(port) < 65536 else None
