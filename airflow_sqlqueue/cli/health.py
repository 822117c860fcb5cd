"""Health port of a consumer: liveness, readiness and metrics over HTTP, for a supervisor and Prometheus."""

from __future__ import annotations

import logging
import socket
import threading
import time
from contextlib import suppress
from dataclasses import fields
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from types import TracebackType
from typing import Any, ClassVar

from airflow_sqlqueue.endpoint.options import ConsumeResult
from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.messages.routing import ResolvedAddress
from airflow_sqlqueue.options import option_of, plain
from airflow_sqlqueue.untrusted import metric_labels

log = logging.getLogger(__name__)

AT_ONCE = 8
"""Requests at a time; for a further one the oldest is closed unanswered."""

REQUEST_SECONDS = 5.0
"""Seconds after which a request is closed, however slowly it arrives."""

_COUNTERS = {each.name: plain(option_of(each).meaning) for each in fields(ConsumeResult) if each.metadata}
"""Counters by name, each with its text."""


class Health:
    """State of a consumer, for its health port. It is ready while its server answers and it is not stopping."""

    def __init__(self, queue: ResolvedAddress) -> None:
        self._labels = {"catalog": queue.catalog, "schema": queue.schema, "queue": queue.table}
        self._result = ConsumeResult()
        self._has_contact = False
        self.stopping = False

    @property
    def ready(self) -> bool:
        """Whether messages are being handled, or would be."""
        return self._has_contact and not self.stopping

    @property
    def counts(self) -> dict[str, int]:
        """Counts of :class:`.ConsumeResult` so far."""
        return {**{name: getattr(self._result, name) for name in _COUNTERS}, "messages": self._result.messages}

    def note_counts(self, done: ConsumeResult) -> None:
        """Note the counts, which go on counting."""
        self._result = done

    def note_contact(self, reached: bool) -> None:
        """Note whether the server has answered, or is waited for."""
        self._has_contact = reached

    def exposition(self) -> str:
        """Return the metrics in Prometheus's text format."""
        labels = metric_labels(self._labels)
        lines = [
            "# HELP sqlqueue_consume_ready 1 while the server answers and the consumer is not stopping, else 0.",
            "# TYPE sqlqueue_consume_ready gauge",
            f"sqlqueue_consume_ready{{{labels}}} {self.ready:d}",
        ]
        for name, text in _COUNTERS.items():
            metric = f"sqlqueue_consume_{name}_total"
            lines += [
                f"# HELP {metric} {text}",
                f"# TYPE {metric} counter",
                f"{metric}{{{labels}}} {self.counts[name]}",
            ]
        return "\n".join([*lines, ""])


class _Request(BaseHTTPRequestHandler):
    """Request of a supervisor. Only GET is answered, and each connection has one request."""

    server: HealthServer
    timeout = REQUEST_SECONDS
    server_version, sys_version = "sqlqueue", ""
    _TEXT: ClassVar[str] = "text/plain; charset=utf-8"

    def do_GET(self) -> None:
        health, path = self.server.health, self.path.partition("?")[0]
        if path == "/health/live":
            self._answer(200, "live\n")
        elif path == "/health/ready":
            self._answer(*((200, "ready\n") if health.ready else (503, "not ready\n")))
        elif path == "/metrics":
            self._answer(200, health.exposition(), "text/plain; version=0.0.4; charset=utf-8")
        else:
            self._answer(404, "not found\n")

    def _answer(self, status: int, text: str, kind: str = _TEXT) -> None:
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name of the overridden parameter
        # Supervisors ask every few seconds, and the text has what the other side has sent.
        log.debug("A request at the health port")


class HealthServer(ThreadingHTTPServer):
    """Server of the health port, in threads of its own during the block."""

    def __init__(self, health: Health, host: str, port: int) -> None:
        self.health = health
        self._requests: dict[socket.socket, tuple[float, str]] = {}
        self._lock = threading.Lock()
        try:
            self.address_family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
            super().__init__((host, port), _Request)
        except (OSError, UnicodeError) as error:
            # No name of a host is written like this: Python has no error of the system for it.
            reason = getattr(error, "strerror", None) or "unknown address"
            raise ConfigurationError(f"The health port {port} of {host!r} cannot be used: {reason}.") from error

    @property
    def url(self) -> str:
        """URL of the server, with the port that it listens on."""
        host, port = self.server_address[:2]
        return f"http://[{host!s}]:{port}" if ":" in str(host) else f"http://{host!s}:{port}"

    def __enter__(self) -> HealthServer:
        threading.Thread(target=self.serve_forever, name="health", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.shutdown()
        self.server_close()

    def server_bind(self) -> None:
        # HTTPServer looks up the host's name, for which a name server may take long.
        TCPServer.server_bind(self)
        self.server_name, self.server_port = "sqlqueue", self.server_address[1]

    def verify_request(self, request: Any, client_address: Any) -> bool:
        """Accept a request. Of too many the oldest unfinished one is closed: of its own address, if that has half."""
        with self._lock:
            if len(self._requests) >= AT_ONCE:
                same = [each for each, (_, host) in self._requests.items() if host == client_address[0]]
                oldest = (same if len(same) >= AT_ONCE // 2 else list(self._requests))[0]
                del self._requests[oldest]
                self._close(oldest)
            self._requests[request] = time.monotonic() + REQUEST_SECONDS, client_address[0]
            return True

    def service_actions(self) -> None:
        """Close requests that take too long; the server calls this about twice a second."""
        with self._lock:
            late = [request for request, (until, _) in self._requests.items() if until < time.monotonic()]
        for request in late:
            self._close(request)

    @staticmethod
    def _close(request: socket.socket) -> None:
        with suppress(OSError):
            request.shutdown(socket.SHUT_RDWR)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._requests.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        log.debug("A request at the health port failed", exc_info=True)
