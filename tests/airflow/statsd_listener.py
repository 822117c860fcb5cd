"""A statsd server: Airflow's own statsd backend sends to it over UDP, as it would to any other."""

from __future__ import annotations

import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import pytest
from airflow.sdk._shared.observability.metrics.base_stats_logger import NoStatsLogger
from airflow.sdk._shared.observability.metrics.statsd_logger import SafeStatsdLogger
from airflow.sdk.observability import stats


class Listener:
    """Metrics sent so far: ``counters`` add up, ``gauges`` and ``timers`` have the last value.

    A name has its tags behind it, as InfluxDB takes them: ``sqlqueue.send.messages,conn_id=c,queue=q``.
    """

    def __init__(self, received: socket.socket) -> None:
        self._received = received
        self.lines: list[str] = []
        self.counters: Counter[str] = Counter()
        self.gauges: dict[str, float] = {}
        self.timers: dict[str, float] = {}

    def read(self) -> Listener:
        """Read all received datagrams: a send on this machine is delivered when the call returns."""
        while True:
            try:
                line = self._received.recv(65_536).decode()
            except BlockingIOError:
                return self
            self.lines.append(line)
            name, _, rest = line.rpartition(":")
            value, kind = rest.split("|")[:2]
            if kind == "c":
                self.counters[name] += int(value)
            else:
                {"g": self.gauges, "ms": self.timers}[kind][name] = float(value)

    def named(self, name: str) -> dict[str, float]:
        """The values of a metric by its tags."""
        self.read()
        values = {**self.counters, **self.gauges, **self.timers}
        return {tags: value for key, value in values.items() if (tags := key.removeprefix(f"sqlqueue.{name},")) != key}


class _Client:
    """Client like that of the package ``statsd``: statsd's text, in a datagram each."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._address = address
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)

    def incr(self, name: str, count: int = 1, rate: float = 1) -> None:
        self._send(f"{name}:{count}|c")

    def gauge(self, name: str, value: float, rate: float = 1, delta: bool = False) -> None:
        self._send(f"{name}:{value}|g")

    def timing(self, name: str, value: timedelta) -> None:
        self._send(f"{name}:{value.total_seconds() * 1000}|ms")

    def close(self) -> None:
        self._socket.close()

    def _send(self, line: str) -> None:
        self._socket.sendto(line.encode(), self._address)


@contextmanager
def listening(monkeypatch: pytest.MonkeyPatch) -> Iterator[Listener]:
    """Airflow's metrics on, with statsd as their backend."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as received:
        received.bind(("127.0.0.1", 0))
        received.setblocking(False)
        client = _Client(received.getsockname())
        monkeypatch.setenv("AIRFLOW__METRICS__STATSD_ON", "True")
        stats.initialize(
            factory=lambda: SafeStatsdLogger(client, influxdb_tags_enabled=True, statsd_influxdb_enabled=True),  # type: ignore[arg-type]
            export_legacy_names=True,
        )
        try:
            yield Listener(received)
        finally:
            stats.initialize(factory=NoStatsLogger, export_legacy_names=True)
            client.close()
