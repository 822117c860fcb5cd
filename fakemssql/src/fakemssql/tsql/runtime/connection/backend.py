"""Connection to PostgreSQL with its caches, which serves one session after another.

A new connection costs PostgreSQL and this process about 20 ms, a clean-up one round trip.
"""

from __future__ import annotations

import mmap
import os
import select
import struct
import time
from pathlib import Path

from psycopg import OperationalError, pq

from fakemssql.contract import Wait
from fakemssql.switches import Switches
from fakemssql.tsql.catalog.catalog import Catalog
from fakemssql.tsql.pg import Pg, PgError, Request, ServerGone
from fakemssql.tsql.runtime.connection.plan_cache import PlanCache
from fakemssql.tsql.runtime.connection.session_file import SessionFile

_MOMENT = struct.Struct("<Q")


class CatalogChanges:
    """Time of the last change of the catalog, in a file that the processes of all connections map.

    PostgreSQL's notifications come a moment after the commit of a change. A client that has its answer may use another
    connection before that, so the connection that made the change writes its time here before it answers.
    """

    def __init__(self, file: Path) -> None:
        file.parent.mkdir(exist_ok=True)
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            os.ftruncate(descriptor, _MOMENT.size)
            self._map = mmap.mmap(descriptor, _MOMENT.size)
        finally:
            os.close(descriptor)
        self._seen = self._map[:]

    def note(self) -> None:
        """Record a committed change for all connections."""
        self._map[:] = _MOMENT.pack(time.time_ns())

    def is_new(self) -> bool:
        """Return whether there was a change since the last call."""
        before, self._seen = self._seen, self._map[:]
        return self._seen != before


FOLDER = "fakemssql_sessions"
"""Folder in the data directory for files that connections share."""

_PLACE_SQL = """
SELECT pg_backend_pid(), current_setting('data_directory'), extract(epoch FROM backend_start)
FROM pg_stat_get_activity(pg_backend_pid())
"""

_CLEAN = (
    "CLOSE ALL",
    "RESET ALL",
    "SELECT pg_advisory_unlock_all()",
    "DISCARD TEMP",
    "DISCARD SEQUENCES",
    # Otherwise PostgreSQL counts the last reads and changes up to ten seconds after the end of the session.
    "SELECT pg_stat_force_next_flush()",
)
"""DISCARD ALL without two of its steps (prepared statements and LISTEN stay), then a report of what was counted."""

_FREE = (pq.TransactionStatus.IDLE, pq.TransactionStatus.INTRANS, pq.TransactionStatus.INERROR)


class Backend:
    """Connection that belongs to one session between :meth:`take` and :meth:`clean`."""

    def __init__(self, conninfo: str, wait: Wait) -> None:
        self.pg = Pg(conninfo, wait)
        self.catalog = Catalog(self.pg)
        self.plan_cache = PlanCache(self.catalog)
        self._switches = Switches()
        self.pg.execute("LISTEN mssql_catalog")
        pid, directory, started = self.pg.query(_PLACE_SQL)[0]
        self.pid, self.started = int(pid or 0), str(started)
        folder = Path(str(directory)) / FOLDER
        self.changes = CatalogChanges(folder / "changes")
        self.file = SessionFile(folder / str(self.pid))

    def take(self, wait: Wait, switches: Switches) -> bool:
        """Prepare the connection for a session and read changes of other sessions; False if it is broken."""
        self.pg.wait = wait
        try:
            # An empty round trip brings the notifications.
            self.pg.run([])
            self.refresh()
        except (OperationalError, ServerGone):
            return False
        if switches != self._switches:
            self.plan_cache.forget_all()
            self._switches = switches
        return True

    def refresh(self) -> None:
        """Read the catalog again if other sessions have changed it."""
        # Call both: each records the changes that it has seen.
        if self.changes.is_new() | self.pg.notified():
            self.catalog.forget()

    def note_changes(self) -> None:
        """Report committed changes of the catalog to the other connections."""
        if self.catalog.is_changed and not self.pg.in_transaction:
            self.catalog.is_changed = False
            self.changes.note()

    def clean(self) -> bool:
        """Roll back and remove the state of the session; False if the connection cannot be used again."""
        if self.pg.conn.status != pq.ConnStatus.OK or self.pg.conn.transaction_status not in _FREE:
            return False
        self.pg.wait = _wait
        try:
            if self.pg.in_transaction:
                self.catalog.forget()
                self.pg.execute("ROLLBACK")
            if self.catalog.temporary:
                self.catalog.temporary.clear()
                self.catalog.version += 1
            self.pg.run([Request(text) for text in _CLEAN])
        except (PgError, OperationalError, ServerGone):
            return False
        return self.pg.conn.status == pq.ConnStatus.OK and not self.pg.in_transaction

    def close(self) -> None:
        self.file.close()
        self.pg.close()


def _wait(fd: int) -> None:
    """Wait without a client, so that no cancel can come."""
    select.select([fd], [], [])
