"""Application locks (sp_getapplock, sp_releaseapplock) by PostgreSQL's advisory locks of the session.

Those of a transaction are released when it ends, which this module does itself: PostgreSQL could not release its own
transaction-level ones earlier, as sp_releaseapplock does. A resource has two of them: all modes take the first,
Exclusive alone for itself; Update takes the second for itself. Intent modes are rounded up to the next stricter one.
"""

from __future__ import annotations

import hashlib

from psycopg import pq

from fakemssql.contract import Attention, ClientGone, SqlError
from fakemssql.tsql.names import fold
from fakemssql.tsql.pg import PgError, Request
from fakemssql.tsql.state import SessionState

_Part = tuple[str, bool]
"""What is added to a resource for the name of a lock of PostgreSQL's, and whether that is shared."""

_SHARED: list[_Part] = [("", True)]
_EXCLUSIVE: list[_Part] = [("", False)]
_MODES: dict[str, list[_Part]] = {
    "shared": _SHARED,
    "intentshared": _SHARED,
    "update": [("", True), ("\0update", False)],
    "exclusive": _EXCLUSIVE,
    "intentexclusive": _EXCLUSIVE,
}


class AppLocks:
    """The application locks that one session holds: (database, resource, owner) to the modes taken, in order."""

    def __init__(self, session: SessionState) -> None:
        self.session = session
        self.held: dict[tuple[str, str, str], list[list[_Part]]] = {}

    @staticmethod
    def _key(database: str, resource: str) -> int:
        digest = hashlib.sha256(f"{fold(database)}\0{resource}".encode("utf-8", "surrogatepass")).digest()
        return int.from_bytes(digest[:8], "big", signed=True)

    def get(self, resource: str, mode: str, owner: str, timeout: int | None) -> int:
        """Take a lock. 0 at once, 1 after a wait, -1 timeout, -3 deadlock victim; errors raise."""
        session = self.session
        owner = owner.lower()
        if owner == "transaction" and not session.transaction_count:
            raise SqlError(1222, "")
        parts = _MODES[mode.lower()]
        status, taken = 0, 0
        try:
            for suffix, shared in parts:
                found = self._take(self._key(session.database, resource + suffix), shared, timeout)
                status = found if found < 0 else max(status, found)
                if status < 0:
                    break
                taken += 1
        finally:
            if taken < len(parts) and session.pg.usable:
                self._unlock(session.database, resource, parts[:taken])
        if status >= 0:
            self.held.setdefault((fold(session.database), resource, owner), []).append(parts)
        return status

    def _take(self, key: int, shared: bool, timeout: int | None) -> int:
        """Take one of PostgreSQL's locks; the same numbers as of :meth:`get`."""
        session = self.session
        suffix = "_shared" if shared else ""
        if session.pg.query(f"SELECT pg_try_advisory_lock{suffix}($1::bigint)", key)[0][0] == "t":
            return 0
        if timeout == 0:
            return -1
        inside = session.pg.in_transaction
        wait = 0 if timeout is None or timeout < 0 else timeout
        steps = [Request("SAVEPOINT _a")] if inside else []
        steps.append(Request(f"SET {'LOCAL ' if inside else ''}lock_timeout = {wait}"))
        steps.append(Request(f"SELECT pg_advisory_lock{suffix}({key})"))
        try:
            session.pg.run(steps + ([Request("RELEASE SAVEPOINT _a")] if inside else []))
        except (PgError, Attention, ClientGone) as error:
            if session.pg.conn.transaction_status == pq.TransactionStatus.INERROR:
                session.pg.run([Request("ROLLBACK TO SAVEPOINT _a"), Request("RELEASE SAVEPOINT _a")])
            state = error.sqlstate if isinstance(error, PgError) else ""
            if state == "55P03":
                return -1
            if state == "40P01":
                return -3
            raise
        finally:
            if session.pg.usable:
                session.apply_lock_timeout()
        return 1

    def release(self, resource: str, owner: str) -> bool:
        """Release one lock of that name; False if it is not held."""
        entry = (fold(self.session.database), resource, owner.lower())
        modes = self.held.get(entry)
        if not modes:
            return False
        parts = modes.pop()
        if not modes:
            del self.held[entry]
        self._unlock(entry[0], resource, parts)
        return True

    def _unlock(self, database: str, resource: str, parts: list[_Part]) -> None:
        for suffix, shared in parts:
            key = self._key(database, resource + suffix)
            self.session.pg.execute(f"SELECT pg_advisory_unlock{'_shared' if shared else ''}({key})")

    def end_transaction(self) -> None:
        """Release what the transaction owned."""
        for entry in [entry for entry in self.held if entry[2] == "transaction"]:
            for parts in self.held.pop(entry):
                self._unlock(entry[0], entry[1], parts)

    def release_all(self) -> None:
        if self.held:
            self.held.clear()
            self.session.pg.execute("SELECT pg_advisory_unlock_all()")
