"""Application locks (sp_getapplock, sp_releaseapplock) by PostgreSQL's advisory locks of the session.

Those of a transaction are released when it ends, which this module does itself: PostgreSQL could not release its own
transaction-level ones earlier, as sp_releaseapplock does. Intent modes are rounded up to the next stricter one.
"""

from __future__ import annotations

import hashlib
from typing import Protocol

from fakemssql.contract import SqlError
from fakemssql.tsql.names import fold
from fakemssql.tsql.pg import Pg, PgError, Request
from fakemssql.tsql.runtime.activity import ActiveSession

_MODES = {"shared": True, "intentshared": True, "update": False, "exclusive": False, "intentexclusive": False}


class LockingSession(ActiveSession, Protocol):
    """What application locks need of the session that holds them."""

    @property
    def pg(self) -> Pg: ...


class AppLocks:
    """The application locks that one session holds: (database, resource, owner) to the modes taken, in order."""

    def __init__(self, session: LockingSession) -> None:
        self.session = session
        self.held: dict[tuple[str, str, str], list[bool]] = {}

    @staticmethod
    def _key(database: str, resource: str) -> int:
        digest = hashlib.sha256(f"{fold(database)}\0{resource}".encode("utf-8", "surrogatepass")).digest()
        return int.from_bytes(digest[:8], "big", signed=True)

    def get(self, resource: str, mode: str, owner: str, timeout: int | None) -> int:
        """Take a lock. 0 at once, 1 after a wait, -1 timeout, -3 deadlock victim; errors raise."""
        session = self.session
        shared = _MODES[mode.lower()]
        owner = owner.lower()
        if owner == "transaction" and not session.transactions.count:
            raise SqlError(1222, "")
        key = self._key(session.database, resource)
        suffix = "_shared" if shared else ""
        tried = session.pg.query(f"SELECT pg_try_advisory_lock{suffix}($1::bigint)", key)
        status = 0
        if tried[0][0] != "t":
            wait = timeout
            if wait == 0:
                return -1
            status = 1
            inside = session.pg.in_transaction
            steps = [Request("SAVEPOINT _a")] if inside else []
            steps.append(
                Request(f"SET {'LOCAL ' if inside else ''}lock_timeout = {0 if wait is None or wait < 0 else wait}")
            )
            steps.append(Request(f"SELECT pg_advisory_lock{suffix}({key})"))
            try:
                session.pg.run(steps + ([Request("RELEASE SAVEPOINT _a")] if inside else []))
            except PgError as error:
                if inside:
                    session.pg.run([Request("ROLLBACK TO SAVEPOINT _a"), Request("RELEASE SAVEPOINT _a")])
                if error.sqlstate == "55P03":
                    return -1
                if error.sqlstate == "40P01":
                    return -3
                raise
            finally:
                level = session.options.lock_timeout
                if session.pg.conn.transaction_status in (0, 2):
                    session.pg.execute(f"SET lock_timeout = {0 if level < 0 else max(level, 1)}")
        self.held.setdefault((fold(session.database), resource, owner), []).append(shared)
        return status

    def release(self, resource: str, owner: str) -> bool:
        """Release one lock of that name; False if it is not held."""
        entry = (fold(self.session.database), resource, owner.lower())
        modes = self.held.get(entry)
        if not modes:
            return False
        shared = modes.pop()
        if not modes:
            del self.held[entry]
        self._unlock(entry, shared)
        return True

    def _unlock(self, entry: tuple[str, str, str], shared: bool) -> None:
        key = self._key(entry[0], entry[1])
        self.session.pg.execute(f"SELECT pg_advisory_unlock{'_shared' if shared else ''}({key})")

    def end_transaction(self) -> None:
        """Release what the transaction owned."""
        for entry in [entry for entry in self.held if entry[2] == "transaction"]:
            for shared in self.held.pop(entry):
                self._unlock(entry, shared)

    def release_all(self) -> None:
        if self.held:
            self.held.clear()
            self.session.pg.execute("SELECT pg_advisory_unlock_all()")
