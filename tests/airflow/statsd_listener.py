"""A statsd server: Airflow's own statsd backend sends to it over UDP, as it would to any other."""

from __future__ import annotations

import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from statsd import StatsClient

from tests.airflow.versions import NoStatsLogger, SafeStatsdLogger, send_metrics_to


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


@contextmanager
def listening(monkeypatch: pytest.MonkeyPatch) -> Iterator[Listener]:
    """Airflow's metrics on, with statsd as their backend."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as received:
        received.bind(("127.0.0.1", 0))
        received.setblocking(False)
        client = StatsClient(*received.getsockname())
        monkeypatch.setenv("AIRFLOW__METRICS__STATSD_ON", "True")
        monkeypatch.setenv("AIRFLOW__METRICS__STATSD_INFLUXDB_ENABLED", "True")
        logger = SafeStatsdLogger(client, influxdb_tags_enabled=True)
        logger.statsd_influxdb_enabled = True  # Airflow 3.1 reads the setting
        send_metrics_to(lambda: logger)
        try:
            yield Listener(received)
        finally:
            send_metrics_to(NoStatsLogger)
            client.close()
