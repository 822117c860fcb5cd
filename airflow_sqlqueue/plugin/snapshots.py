"""Snapshots of the queues of each connection, with their history, in the memory of one API process, for all users.

A request takes a snapshot, one at a time for each connection, and other requests share it for some seconds. The routes
check rights before. Each process of the API server has its own snapshots.
"""

from __future__ import annotations

import threading
import time
from array import array
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timezone

from airflow_sqlqueue.client.client import QueueClient
from airflow_sqlqueue.errors import LockTimeoutError, SqlQueueError
from airflow_sqlqueue.messages.routing import ResolvedAddress
from airflow_sqlqueue.operators import metrics
from airflow_sqlqueue.plugin import servers
from airflow_sqlqueue.plugin.addresses import catalogs_of
from airflow_sqlqueue.plugin.servers import SESSIONS
from airflow_sqlqueue.queue.inspection.overview import DatabaseOverview, QueueOverview
from airflow_sqlqueue.versions.airflow import ServerStats

FRESH_SECONDS = 5.0
"""Age up to which a snapshot serves other requests too."""

POINTS = 288
POINT_SECONDS = 60.0
"""Seconds between two points: 288 points cover almost five hours."""

MAX_WATCHED = servers.MAX_CONNECTIONS
MAX_HISTORIES = 5_000
"""Queues with a history, of all connections: 23 MB at 16 bytes per point."""


@dataclass
class History:
    """Depth of one queue over time, as two columns of numbers."""

    times: array[int] = field(default_factory=lambda: array("q"))
    counts: array[int] = field(default_factory=lambda: array("q"))

    def add(self, moment: float, count: int) -> None:
        """Add a point, unless the last one is less than a minute old."""
        if self.times and moment - self.times[-1] < POINT_SECONDS:
            return
        self.times.append(int(moment))
        self.counts.append(count)
        del self.times[:-POINTS], self.counts[:-POINTS]

    def points(self) -> list[tuple[int, int]]:
        """Points as pairs of time and count, the oldest first."""
        return list(zip(self.times, self.counts, strict=True))


@dataclass(frozen=True)
class WatchedQueue:
    """Queue in a snapshot; its rates are messages per second since the snapshot before."""

    overview: QueueOverview
    rate_in: float | None
    rate_out: float | None
    history: list[tuple[int, int]]


@dataclass(frozen=True)
class Snapshot:
    """Snapshot of a connection's queues. ``problem`` gives the reason if some, or all, are missing."""

    at: datetime
    problem: str | None
    queues: tuple[WatchedQueue, ...]


class _Watched:
    """State of one connection; another host, database or login under the same id begins a new state."""

    def __init__(self, key: object, client: QueueClient) -> None:
        self.key = key
        self.mutex = threading.Lock()
        self.waiting = threading.BoundedSemaphore(servers.REQUESTS_PER_CONNECTION)
        self.snapshot: Snapshot | None = None
        self.taken = 0.0
        self.counts: dict[ResolvedAddress, tuple[float, int, int | None]] = {}
        self.histories: dict[ResolvedAddress, History] = {}
        self.databases = [
            DatabaseOverview(catalog, delayed_suffix=client.resolver.delayed_suffix) for catalog in catalogs_of(client)
        ]


class Snapshots:
    """Snapshot cache of one process."""

    def __init__(self, on_snapshot: Callable[[str, Snapshot], None] | None = None) -> None:
        self._on_snapshot = on_snapshot or (lambda conn_id, snapshot: None)
        self._mutex = threading.Lock()
        self._watched: OrderedDict[str, _Watched] = OrderedDict()

    def get(self, conn_id: str, client: QueueClient) -> Snapshot:
        """Return the last snapshot, or a new one if that is too old; 503 if too many requests wait for the first."""
        watched = self._watch(conn_id, client)
        if watched.snapshot is not None and (self._is_fresh(watched) or watched.mutex.locked()):
            return watched.snapshot
        if not watched.waiting.acquire(blocking=False):
            raise servers.too_many_requests()
        try:
            with watched.mutex:
                if watched.snapshot is None or not self._is_fresh(watched):
                    watched.snapshot = self._take(conn_id, client, watched)
                    watched.taken = time.monotonic()
                    self._on_snapshot(conn_id, watched.snapshot)
                return watched.snapshot
        finally:
            watched.waiting.release()

    def last(self, conn_id: str) -> Snapshot | None:
        """Return the last snapshot, of any age; None before the first."""
        with self._mutex:
            watched = self._watched.get(conn_id)
        return None if watched is None else watched.snapshot

    @staticmethod
    def _is_fresh(watched: _Watched) -> bool:
        return time.monotonic() - watched.taken < FRESH_SECONDS

    def _watch(self, conn_id: str, client: QueueClient) -> _Watched:
        settings = client.settings
        key = (settings.server, settings.database, settings.login, settings.ledger_schema, client.resolver)
        with self._mutex:
            watched = self._watched.get(conn_id)
            if watched is None or watched.key != key:
                watched = self._watched[conn_id] = _Watched(key, client)
            self._watched.move_to_end(conn_id)
            while len(self._watched) > MAX_WATCHED:
                self._watched.popitem(last=False)
            return watched

    def _take(self, conn_id: str, client: QueueClient, watched: _Watched) -> Snapshot:
        problems: list[str] = []
        found: list[QueueOverview] = []
        kept: list[WatchedQueue] = []
        try:
            with SESSIONS.session(conn_id, client) as session:
                for database in watched.databases:
                    try:
                        found += database.read(session)
                    except LockTimeoutError as error:
                        # An uncommitted CREATE or ALTER of any table locks the catalog.
                        problems.append(
                            f"{error} The page shows the queues of {database.catalog} from the last snapshot."
                        )
                        last = watched.snapshot.queues if watched.snapshot else ()
                        kept += [each for each in last if each.overview.table.catalog == database.catalog]
                    except SqlQueueError as error:
                        problems.append(str(error))
        except SqlQueueError as error:
            problems.append(str(error))
        now = time.time()
        queues = (*(self._watched_queue(watched, each, now) for each in found), *kept)
        if not problems:
            # A queue that was dropped loses its history.
            there = {each.table for each in found}
            for table in watched.counts.keys() - there:
                watched.counts.pop(table), watched.histories.pop(table, None)
        return Snapshot(datetime.fromtimestamp(now, timezone.utc), " ".join(problems) or None, queues)

    def _watched_queue(self, watched: _Watched, each: QueueOverview, now: float) -> WatchedQueue:
        rate_in, rate_out = _rates(watched.counts.get(each.table), now, each)
        watched.counts[each.table] = now, each.rows, each.inserted
        history = watched.histories.get(each.table)
        if history is None:
            history = History()
            if self._histories() < MAX_HISTORIES:
                watched.histories[each.table] = history
        history.add(now, each.rows)
        return WatchedQueue(each, rate_in, rate_out, history.points())

    def _histories(self) -> int:
        with self._mutex:
            return sum(len(each.histories) for each in self._watched.values())


def _rates(
    before: tuple[float, int, int | None] | None, now: float, each: QueueOverview
) -> tuple[float | None, float | None]:
    """Return the rows in and out per second; None after the identity was reseeded, which makes its difference wrong."""
    if before is None or each.inserted is None or before[2] is None:
        return None, None
    seconds, added = now - before[0], each.inserted - before[2]
    if seconds <= 0 or added < 0:
        return None, None
    removed = max(0, added - (each.rows - before[1]))
    return round(added / seconds, 3), round(removed / seconds, 3)


def send_gauges(conn_id: str, queues: Iterable[QueueOverview]) -> None:
    """Send the backlog gauges of every queue, as operators do for theirs, if Airflow sends its metrics anywhere."""
    if metrics.are_on():
        metrics.send(lambda: _gauges(conn_id, queues))


def _gauges(conn_id: str, queues: Iterable[QueueOverview]) -> None:
    for each in queues:
        if each.kind == "queue":
            tags = {"conn_id": metrics.tag(conn_id), "queue": metrics.tag(metrics.name_of(each.table))}
            ServerStats.gauge(f"{metrics.PREFIX}backlog.messages", each.rows, tags=tags)
            if (oldest := each.oldest) is not None:
                age = max(0.0, time.time() - oldest.timestamp())
                ServerStats.gauge(f"{metrics.PREFIX}backlog.oldest_seconds", age, tags=tags)


SNAPSHOTS = Snapshots(on_snapshot=lambda conn_id, taken: send_gauges(conn_id, [each.overview for each in taken.queues]))
