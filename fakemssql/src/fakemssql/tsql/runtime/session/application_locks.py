"""Application locks (sp_getapplock, sp_releaseapplock) by PostgreSQL's advisory locks of the session.

This module releases the locks of a transaction when it ends: PostgreSQL could not release its own transaction-level
locks earlier, as sp_releaseapplock does.
"""

from __future__ import annotations

import hashlib

from psycopg import pq

from fakemssql.contract import Attention, ClientGone
from fakemssql.tsql.names import fold
from fakemssql.tsql.pg import PgError, Request
from fakemssql.tsql.state import SessionState


class AppLocks:
    """The application locks of one session: for each database, resource and owner, whether each lock is shared."""

    def __init__(self, session: SessionState) -> None:
        self.session = session
        self.held: dict[tuple[str, str, str], list[bool]] = {}

    @staticmethod
    def _key(database: str, resource: str) -> int:
        digest = hashlib.sha256(f"{fold(database)}\0{resource}".encode("utf-8", "surrogatepass")).digest()
        return int.from_bytes(digest[:8], "big", signed=True)

    def get(self, resource: str, shared: bool, owner: str, timeout: int) -> int:
        """Take a lock: 0 at once, 1 after a wait, -1 after the timeout (ms, -1: none), -3 for a deadlock victim."""
        session = self.session
        key, suffix = self._key(session.database, resource), "_shared" if shared else ""
        status = 0
        if session.pg.query(f"SELECT pg_try_advisory_lock{suffix}($1::bigint)", key)[0][0] != "t":
            status = -1 if timeout == 0 else self._wait(f"SELECT pg_advisory_lock{suffix}({key})", max(timeout, 0))
        if status >= 0:
            self.held.setdefault((fold(session.database), resource, owner), []).append(shared)
        return status

    def _wait(self, statement: str, timeout: int) -> int:
        session = self.session
        inside = session.pg.in_transaction
        steps = ["SAVEPOINT _a"] if inside else []
        steps += [f"SET {'LOCAL ' if inside else ''}lock_timeout = {timeout}", statement]
        steps += ["RELEASE SAVEPOINT _a"] if inside else []
        try:
            session.pg.run([Request(step) for step in steps])
        except (PgError, Attention, ClientGone) as error:
            if session.pg.conn.transaction_status == pq.TransactionStatus.INERROR:
                session.pg.run([Request("ROLLBACK TO SAVEPOINT _a"), Request("RELEASE SAVEPOINT _a")])
            state = error.sqlstate if isinstance(error, PgError) else ""
            if state not in ("55P03", "40P01"):
                raise
            return -1 if state == "55P03" else -3
        finally:
            if session.pg.usable:
                session.apply_lock_timeout()
        return 1

    def release(self, resource: str, owner: str) -> bool:
        """Release one lock of that name; False if it is not held."""
        entry = (fold(self.session.database), resource, owner)
        held = self.held.get(entry)
        if not held:
            return False
        self._unlock(entry, held.pop())
        if not held:
            del self.held[entry]
        return True

    def _unlock(self, entry: tuple[str, str, str], shared: bool) -> None:
        self.session.pg.execute(f"SELECT pg_advisory_unlock{'_shared' if shared else ''}({self._key(*entry[:2])})")

    def end_transaction(self) -> None:
        """Release the locks that the transaction owned."""
        for entry in [entry for entry in self.held if entry[2] == "transaction"]:
            for shared in self.held.pop(entry):
                self._unlock(entry, shared)

    def release_all(self) -> None:
        if self.held:
            self.held.clear()
            self.session.pg.execute("SELECT pg_advisory_unlock_all()")
