"""Transactions: T-SQL's nesting count over PostgreSQL's transactions and savepoints.

A transaction begins in PostgreSQL with its first statement. Under XACT_ABORT OFF each statement runs in a savepoint,
made and released in the same round trip, so that an error undoes only its own statement, as on SQL Server.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable

from psycopg import pq
from psycopg.pq.abc import PGresult

from fakemssql.contract import Attention, ClientGone, ResponseWriter, SqlError
from fakemssql.tsql.catalog.tables import TableInfo
from fakemssql.tsql.options import Options
from fakemssql.tsql.pg import PgError, Request, ServerGone
from fakemssql.tsql.runtime.connection.activity import Activity
from fakemssql.tsql.runtime.errors import DEADLOCK, no_way_back, translate, uncommittable
from fakemssql.tsql.runtime.session.application_locks import AppLocks
from fakemssql.tsql.state import SessionState

# PostgreSQL's level for SNAPSHOT. The levels by locks are READ COMMITTED, with the locks of compiler/locks.py.
_LEVELS = {"SNAPSHOT": "REPEATABLE READ"}
_LONGEST_NAME = 32
_descriptors = itertools.count(1)


class Transactions:
    """Transaction state of one session."""

    def __init__(self, session: SessionState, activity: Activity, applocks: AppLocks) -> None:
        self.session, self.activity, self.applocks = session, activity, applocks
        self.doomed = False
        self.name: str | None = None
        self.savepoints: list[tuple[str, dict[str, TableInfo]]] = []  # with the temporary tables of the time
        self.tables: dict[str, TableInfo] = {}  # the temporary tables before the transaction
        self.pending: list[str] = []
        self.snapshot = False  # whether PostgreSQL's transaction began at SNAPSHOT
        self._requests = 0

    # --- running ---------------------------------------------------------------------------------------------------

    def begin_sql(self) -> str:
        return f"BEGIN ISOLATION LEVEL {_LEVELS.get(self.session.options.isolation, 'READ COMMITTED')}"

    def isolate(self, level: str) -> None:
        """Set the isolation level; error 3951 for SNAPSHOT in a transaction that began at another level."""
        unbegun = bool(self.pending) and self.pending[0].startswith("BEGIN")
        if level == "SNAPSHOT" and self.session.transaction_count and not unbegun and not self.snapshot:
            raise SqlError(
                3951,
                f"Transaction failed in database '{self.session.database}' because the statement was run under snapshot"
                " isolation but the transaction did not start in snapshot isolation. You cannot change the isolation"
                " level of the transaction to snapshot after the transaction has started unless the transaction was"
                " originally started under snapshot isolation level.",
            )
        self.session.options.isolation = level
        if unbegun:
            self.pending[0] = self.begin_sql()
            self.snapshot = level == "SNAPSHOT"

    def run(self, requests: list[Request], transient: bool = False, output: bool = False) -> PGresult:
        """Run the requests of one statement and return the last result. On an error the statement is undone.

        ``output``: the statement changes rows and sends them to the client, which may cancel it until all are sent.
        """
        inside = self.session.transaction_count > 0 and not self.doomed
        guarded = inside and (transient or not self.session.options.xact_abort)
        before: list[Request] = []
        after: list[Request] = []
        if inside:
            before += [Request(text) for text in self.pending]
            self.pending = []
            if guarded:
                before.append(Request("SAVEPOINT _s"))
                if transient:
                    after.append(Request("ROLLBACK TO SAVEPOINT _s"))
                after.append(Request("RELEASE SAVEPOINT _s"))
        elif len(requests) > 1 or transient or output or self.session.options.isolation in _LEVELS:
            before.append(Request(self.begin_sql()))
            after.append(Request("ROLLBACK" if transient else "COMMIT"))
        pg, together = self.session.pg, [] if output else after
        try:
            results = pg.run([*before, *requests, *together])
            if output:
                pg.check()
                together = after
                if after:
                    pg.run(after)
        except PgError as error:
            self._undo(inside, guarded, error.sqlstate in DEADLOCK)
            raise
        except (Attention, ClientGone):
            with self.session.pg.undisturbed():
                self._undo(inside, guarded, False, cut_off=together is not after)
            raise
        return results[len(before) + len(requests) - 1]

    def _undo(self, inside: bool, guarded: bool, everything: bool, cut_off: bool = False) -> None:
        """Undo a statement. ``cut_off``: PostgreSQL may have run it to its end, but not the requests after it."""
        pg = self.session.pg
        if pg.conn.status != pq.ConnStatus.OK:
            raise ServerGone
        if pg.conn.transaction_status not in (pq.TransactionStatus.INERROR, pq.TransactionStatus.INTRANS):
            return
        failed = cut_off or pg.conn.transaction_status == pq.TransactionStatus.INERROR
        if not inside:
            pg.execute("ROLLBACK")
        elif everything or (failed and not guarded):
            self.rollback_all(self.session.output, keep_count=self.session.trying > 0)
        elif failed:
            pg.run([Request("ROLLBACK TO SAVEPOINT _s"), Request("RELEASE SAVEPOINT _s")])

    # --- statements ------------------------------------------------------------------------------------------------

    def begin(self, name: str | None, output: ResponseWriter | None) -> None:
        if self.session.transaction_count == 0:
            self.pending = [self.begin_sql()]
            self.snapshot = self.session.options.isolation == "SNAPSHOT"
            self.session.transaction_descriptor = next(_descriptors)
            self.session.transaction_began = time.time()
            self.name = name[:_LONGEST_NAME] if name is not None else None
            self.savepoints = []
            self.tables = dict(self.session.catalog.temporary)
            if output is not None:
                output.transaction("begin", self.session.transaction_descriptor)
        self.session.transaction_count += 1
        self.activity.update(self.session)

    def check_usable(self) -> None:
        """Raise error 3930 if the transaction is uncommittable."""
        if self.doomed:
            raise uncommittable()

    def commit(self, output: ResponseWriter | None) -> None:
        if self.session.transaction_count == 0:
            raise SqlError(3902, "The COMMIT TRANSACTION request has no corresponding BEGIN TRANSACTION.")
        self.check_usable()
        if self.session.transaction_count > 1:
            self.session.transaction_count -= 1
            self.activity.update(self.session)
            return
        descriptor = self.session.transaction_descriptor
        if self.pending:
            self.pending = []
        else:
            try:
                self.session.pg.execute("COMMIT")
            except PgError as error:
                self._over("rollback", output)
                raise translate(self.session.pg, error) from None
        self.session.transaction_count = 0
        self.session.transaction_descriptor = 0
        self.activity.update(self.session)
        self.applocks.end_transaction()
        if output is not None:
            output.transaction("commit", descriptor)

    def rollback(self, name: str | None, output: ResponseWriter | None) -> None:
        if self.session.transaction_count == 0:
            raise SqlError(3903, "The ROLLBACK TRANSACTION request has no corresponding BEGIN TRANSACTION.")
        name = name[:_LONGEST_NAME] if name is not None else None
        saved = [position for position, (each, _) in enumerate(self.savepoints) if each == name]
        if saved:
            if self.doomed:
                raise no_way_back()
            self._flush()
            self.session.pg.execute(f"ROLLBACK TO SAVEPOINT u{saved[-1]}")
            self.session.apply_lock_timeout()
            del self.savepoints[saved[-1] + 1 :]
            self._restore(self.savepoints[-1][1])
            return
        if name is not None and name != self.name:
            raise SqlError(6401, f"Cannot roll back {name}. No transaction or savepoint of that name was found.")
        self.rollback_all(output)

    def save(self, name: str) -> None:
        if self.session.transaction_count == 0:
            raise SqlError(628, "Cannot issue SAVE TRANSACTION when there is no active transaction.")
        if self.doomed:
            raise no_way_back()
        self.pending.append(f"SAVEPOINT u{len(self.savepoints)}")
        self.savepoints.append((name[:_LONGEST_NAME], dict(self.session.catalog.temporary)))

    def _restore(self, tables: dict[str, TableInfo]) -> None:
        """Find temporary tables by their names as before what was rolled back."""
        self.session.catalog.temporary.clear()
        self.session.catalog.temporary.update(tables)
        self.session.catalog.forget()

    def forget(self, tables: list[TableInfo]) -> None:
        """No rollback brings these temporary tables back: the procedure that made them has ended."""
        gone = {table.pg for table in tables}
        for kept in (self.tables, *(saved for _, saved in self.savepoints)):
            for name in [name for name, table in kept.items() if table.pg in gone]:
                del kept[name]

    def start(self) -> None:
        """Begin the transaction in PostgreSQL if it has only begun here."""
        if self.session.transaction_count and not self.doomed:
            self._flush()

    def _flush(self) -> None:
        if self.pending:
            self.session.pg.run([Request(text) for text in self.pending])
            self.pending = []

    def rollback_all(self, output: ResponseWriter | None, keep_count: bool = False) -> None:
        """Roll PostgreSQL's transaction back. ``keep_count``: for a CATCH it is open and uncommittable."""
        if self.pending and not self.session.pg.in_transaction:
            self.pending = []
        if self.session.pg.in_transaction:
            self.session.pg.execute("ROLLBACK")
            self.session.apply_lock_timeout()
        self.pending = []
        self._restore(self.tables)
        if keep_count:
            self.doomed = True
        else:
            self._over("rollback", output)

    def _over(self, event: str, output: ResponseWriter | None) -> None:
        descriptor, self.session.transaction_descriptor = self.session.transaction_descriptor, 0
        self.session.transaction_count, self.doomed, self.savepoints = 0, False, []
        self.activity.update(self.session)
        self.applocks.end_transaction()
        if output is not None and descriptor:
            output.transaction(event, descriptor)

    def doom(self, output: ResponseWriter | None) -> None:
        """End the transaction after an error: in a TRY it becomes uncommittable, elsewhere it is rolled back."""
        if self.session.transaction_count and not self.doomed:
            self.rollback_all(output, keep_count=self.session.trying > 0)

    def end_of_batch(self, output: ResponseWriter) -> None:
        """Roll back an uncommittable transaction at the end of the batch, with error 3998."""
        if self.doomed:
            output.message(
                SqlError(
                    3998,
                    "Uncommittable transaction is detected at the end of the batch. The transaction is rolled back.",
                )
            )
            self._over("rollback", output)
            output.done(None)

    def end_failed(self, output: ResponseWriter) -> None:
        """Roll back what a fault has left: PostgreSQL refuses every statement of a failed transaction."""
        if self.session.pg.conn.transaction_status == pq.TransactionStatus.INERROR:
            self.rollback_all(output)

    def lose(self, output: ResponseWriter) -> None:
        """Roll back without an error, before the request that :class:`~fakemssql.switches.Switches` name."""
        if self.session.transaction_count:
            self._requests += 1
            if self._requests == self.session.switches.lose_transaction_at:
                self.rollback_all(output)

    def check_balance(self, before: int, options: Options) -> None:
        """Raise error 266 if a procedure, or a text with parameters, ends with another @@TRANCOUNT than it began with.

        There is no error if it ends under XACT_ABORT ON, one of its ``options`` (known from practice, not documented),
        nor for a transaction that IMPLICIT_TRANSACTIONS began.
        """
        begun = options.implicit and self.session.transaction_count > before
        if self.session.transaction_count == before or self.doomed or begun or options.xact_abort:
            return
        raise SqlError(
            266,
            "Transaction count after EXECUTE indicates a mismatching number of BEGIN and COMMIT statements. Previous "
            f"count = {before}, current count = {self.session.transaction_count}.",
            state=2,
        )

    def state(self) -> int:
        """Return the value of XACT_STATE()."""
        return -1 if self.doomed else 1 if self.session.transaction_count else 0

    def define(self, action: Callable[[], object]) -> None:
        """Run DDL in a transaction of its own, or in a savepoint of the current transaction."""
        session = self.session
        inside = self.session.transaction_count > 0 and not self.doomed
        self.check_usable()
        if inside:
            self._flush()
            session.pg.execute("SAVEPOINT _d")
        else:
            session.pg.execute("BEGIN")
        try:
            action()
        except BaseException as error:
            session.catalog.forget()
            if session.pg.conn.status == pq.ConnStatus.OK and session.pg.in_transaction:
                if not inside:
                    session.pg.execute("ROLLBACK")
                elif isinstance(error, PgError) and error.sqlstate in DEADLOCK:
                    self.rollback_all(session.output, keep_count=session.trying > 0)
                else:
                    session.pg.run([Request("ROLLBACK TO SAVEPOINT _d"), Request("RELEASE SAVEPOINT _d")])
            if isinstance(error, PgError):
                raise translate(session.pg, error, "ALTER TABLE") from None
            raise
        session.pg.execute("RELEASE SAVEPOINT _d" if inside else "COMMIT")
        session.catalog.forget()
