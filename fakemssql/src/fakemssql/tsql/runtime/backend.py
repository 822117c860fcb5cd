"""A connection to PostgreSQL, with what was learnt on it, that serves one session after another.

Making one costs PostgreSQL and this process some 20 ms, cleaning one a round trip.
"""

from __future__ import annotations

import select

from psycopg import OperationalError, pq

from fakemssql.contract import Wait
from fakemssql.switches import Switches
from fakemssql.tsql.catalog.catalog import Catalog
from fakemssql.tsql.pg import Pg, PgError, Request
from fakemssql.tsql.runtime.codes import Codes

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
)
"""What DISCARD ALL does, but for what stays: prepared statements, and that it listens for changes of the catalog."""

_FREE = (pq.TransactionStatus.IDLE, pq.TransactionStatus.INTRANS, pq.TransactionStatus.INERROR)


class Backend:
    """Between :meth:`take` and :meth:`clean` it belongs to one session."""

    def __init__(self, conninfo: str, wait: Wait) -> None:
        self.pg = Pg(conninfo, wait)
        self.catalog = Catalog(self.pg)
        self.codes = Codes(self.pg)
        self._switches = Switches()
        self.pg.execute("LISTEN mssql_catalog")
        pid, directory, started = self.pg.query(_PLACE_SQL)[0]
        self.pid, self.directory, self.started = int(pid or 0), str(directory), str(started)

    def take(self, wait: Wait, switches: Switches) -> bool:
        """Make it ready for a session, which then knows what others have changed; False where it is of no more use."""
        self.pg.wait = wait
        try:
            # An empty round trip brings the notifications.
            self.pg.run([])
            if self.pg.notified():
                self.catalog.forget()
        except OperationalError:
            return False
        if switches != self._switches:
            self.codes.forget_all()
            self._switches = switches
        return True

    def clean(self) -> bool:
        """Roll back and forget what the session did; False where the connection is of no more use."""
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
        except (PgError, OperationalError):
            return False
        return self.pg.conn.status == pq.ConnStatus.OK and not self.pg.in_transaction

    def close(self) -> None:
        self.pg.close()


def _wait(fd: int) -> None:
    """Nobody is there who could cancel."""
    select.select([fd], [], [])
