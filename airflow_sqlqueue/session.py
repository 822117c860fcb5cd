"""One connection: statements, transactions, and the only place that sees the driver's errors.

Units of work are explicit T-SQL transactions on an autocommit connection, so that a COMMIT can stand in the same round
trip as the statement before it. READ COMMITTED is set explicitly, a lock timeout always.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from airflow_sqlqueue.errors import (
    DataMovedError,
    DeadlockError,
    LockTimeoutError,
    ServerBusyError,
    SqlQueueError,
    StatementError,
    TransactionError,
)
from airflow_sqlqueue.server.connection import check_product, open_connection
from airflow_sqlqueue.server.cursors import PreparedCursors, declared
from airflow_sqlqueue.server.enlisted import EnlistedConnection
from airflow_sqlqueue.server.settings import ConnectionSettings, load_pyodbc
from airflow_sqlqueue.server.translation import quiet, translate
from airflow_sqlqueue.sql import Query, number, query

T = TypeVar("T")

_CHOSEN_AS_VICTIM = -3

DEFAULT_LOCK_TIMEOUT = 30.0
"""Seconds a statement waits for a lock before it is given up (error 1222)."""


class Session:
    """An open connection. Use it from one thread at a time, as a context manager.

    Raises :class:`ServerUnreachableError`, :class:`LoginFailedError`, :class:`DriverNotFoundError` or
    :class:`UnsupportedServerError` when it cannot be opened. ``lock_timeout`` and ``statement_timeout`` are in seconds;
    a statement timeout of 0 means none. ``engine_edition`` is SQL Server's number of the product.
    """

    def __init__(
        self,
        settings: ConnectionSettings,
        *,
        lock_timeout: float = DEFAULT_LOCK_TIMEOUT,
        statement_timeout: int = 0,
    ) -> None:
        self.settings = settings
        self._statement_timeout = statement_timeout
        self._lock_timeout = self._lock_timeout_now = lock_timeout
        self._yields = False
        self.open()

    def open(self) -> None:
        """Open the connection, or another one in its place, with the settings that it had; outside of a transaction."""
        self._connection = retrying(lambda: open_connection(self.settings))
        self._connection.timeout = self._statement_timeout
        self._is_freetds = "tdsodbc" in self._connection.getinfo(load_pyodbc().SQL_DRIVER_NAME).lower()
        self._cursors = PreparedCursors(self._connection)
        self._in_transaction = self._begun = self._doomed = False
        try:
            self.engine_edition = self._prepare()
            self._set_lock_timeout(self._lock_timeout_now)
            if self._yields:
                self.run(query("session.yield_to_others"))
        except BaseException:
            self.close()
            raise

    def _prepare(self) -> int:
        """Make the settings. What server it is comes in the same round trip."""
        where = self.settings.server
        try:
            edition, version = self.run(query("session.settings"))[0]
        except StatementError:
            edition, version = self.run(query("session.product"))[0]
            check_product(edition, version, where)
            raise
        check_product(edition, version, where)
        return int(edition)

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; what is not committed is rolled back by the server."""
        with suppress(Exception):
            self._connection.close()

    def run(self, statement: Query, *values: Any, sizes: Sequence[Any] | None = None) -> list[Any]:
        """The rows of the last of a statement's :meth:`results`: those before are of triggers that it set off."""
        return (self.results(statement, *values, sizes=sizes) or [[]])[-1]

    def results(self, statement: Query, *values: Any, sizes: Sequence[Any] | None = None) -> list[list[Any]]:
        """Run a statement with its parameters and return the rows of each of its result sets.

        All are read to their end first: an error may follow the rows, and then they must not be used. Inside a
        transaction nothing is done where the server has ended it: :class:`TransactionLostError`. A text of the caller's
        own without parameters is sent as it is, because some may only stand alone (CREATE VIEW). ``sizes`` fixes the
        parameters' types, as ``Cursor.setinputsizes`` takes them, so that a statement that runs again is not prepared
        again; a long text that has none is ``nvarchar(max)``. FreeTDS knows no type without a length, and needs none.
        """
        self.check_alive()
        if self._in_transaction and not self._begun and statement.ours and not values:
            self._begun = True
            text = f"{query('session.begin').text}\n{statement.text}"
        else:
            self.enlist()
            text = self.guarded(statement.text) if statement.ours or values else statement.text
        return self._execute(statement, text, values, sizes)

    def _execute(self, statement: Query, text: str, values: Sequence[Any], sizes: Sequence[Any] | None) -> list[Any]:
        try:
            cursor, prepared = self._cursors.cursor(text if values else "")
            if not self._is_freetds and (types := declared(values, sizes or ())) is not None:
                cursor.setinputsizes(types)
            cursor.execute(prepared, values) if values else cursor.execute(text)
            found: list[list[Any]] = []
            while True:
                if cursor.description is not None:
                    found.append(cursor.fetchall())
                if not cursor.nextset():
                    return found
        except Exception as error:
            self._cursors.discard()
            self.doom()
            raise translate(error, statement.purpose) from quiet(error)

    def value(self, statement: Query, *values: Any) -> Any:
        """The first column of the first row, None where there is no row."""
        rows = self.run(statement, *values)
        return rows[0][0] if rows else None

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction of this session is open."""
        return self._in_transaction

    @contextmanager
    def lock_timeout(self, seconds: float) -> Iterator[None]:
        """Another lock timeout for a few statements; 0 means not to wait at all."""
        self._set_lock_timeout(seconds)
        with self._afterwards(lambda: self._set_lock_timeout(self._lock_timeout)):
            yield

    def _set_lock_timeout(self, seconds: float) -> None:
        self.run(query("session.lock_timeout", milliseconds=number(max(0, int(seconds * 1000)))))
        self._lock_timeout_now = seconds

    @contextmanager
    def yielding(self) -> Iterator[None]:
        """Be the victim of a deadlock with whoever has a normal priority, in this block alone."""
        self._yields = True
        self.run(query("session.yield_to_others"))
        with self._afterwards(self._yield_no_more):
            yield

    def _yield_no_more(self) -> None:
        self.run(query("session.yield_no_more"))
        self._yields = False

    @contextmanager
    def _afterwards(self, undo: Callable[[], None]) -> Iterator[None]:
        """Undo a setting when the block ends; but its own error is the one to be raised, as of a connection that broke.

        In a doomed transaction nothing is run: its end sees to it.
        """
        try:
            yield
        except BaseException:
            if not self._doomed:
                with suppress(SqlQueueError):
                    undo()
            raise
        if not self._doomed:
            undo()

    def take_lock(self, statement: Query, resource: str) -> None:
        """Take an application lock of the open transaction, by a statement that returns the answer of sp_getapplock.

        Raises :class:`LockTimeoutError` or :class:`DeadlockError` for an answer below zero. The server has rolled
        nothing back then: the error has the owner of the transaction do so.
        """
        answer = int(self.value(statement, resource))
        if answer == _CHOSEN_AS_VICTIM:
            raise DeadlockError(f"Could not {statement.purpose}: it would have been a deadlock; run it again.")
        if answer < 0:
            raise LockTimeoutError(f"Could not {statement.purpose}: another holds it for too long; try again later.")

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """A transaction: committed when the block ends, rolled back when it raises.

        Inside another one it is part of that: nothing is committed before the outermost ends. An error of a statement
        dooms the whole transaction, as the server has rolled it back or is about to: code that catches the error can do
        no more on this session until the outermost block ends, which raises :class:`TransactionError` if nothing else
        did.
        """
        if self._in_transaction:
            try:
                yield
            except BaseException:
                self.doom()
                raise
            return
        self.begin()
        try:
            yield
            self.check_alive()
            if self._begun:
                self.run(query("session.commit"))
        except BaseException:
            self.roll_back()
            raise
        self.committed()

    def begin(self) -> None:
        """Begin a transaction that a statement of the caller commits; all other code uses :meth:`transaction`.

        BEGIN goes in the same round trip as the first statement, where that is one of this package's without parameters
        (docs/transport/transactions.md, "Transactions that end in silence"), else just before it.
        """
        if self._in_transaction:
            raise TransactionError("A transaction is open on this connection already: end it first.")
        self._in_transaction, self._begun, self._doomed = True, False, False

    def enlist(self) -> None:
        """Have BEGIN run before a statement that it cannot go with. Raises as :meth:`check_alive`."""
        self.check_alive()
        if self._in_transaction and not self._begun:
            self._begun = True
            begin = query("session.begin")
            self._execute(begin, begin.text, (), None)

    def committed(self) -> None:
        """Note that a statement has committed the transaction of :meth:`begin`."""
        self._in_transaction = self._begun = self._doomed = False

    def roll_back(self) -> None:
        """Roll back what is open. On a broken connection the server has done it, or will."""
        begun, self._in_transaction = self._begun, False
        self._begun = self._doomed = False
        with suppress(SqlQueueError):
            if begun:
                self.run(query("session.rollback"))
            if self._lock_timeout_now != self._lock_timeout:
                self._set_lock_timeout(self._lock_timeout)
            if self._yields:
                self._yield_no_more()

    def save(self) -> None:
        """Set the savepoint of the transaction that is open; a later one takes its place."""
        self.run(query("session.savepoint"))

    def roll_back_to_savepoint(self) -> None:
        """Undo what was done since :meth:`save`; the transaction goes on."""
        self.run(query("session.roll_back_to_savepoint"))

    def doom(self) -> None:
        """Note that the open transaction cannot be committed any more; without one this means nothing."""
        self._doomed = self._in_transaction

    def guarded(self, text: str) -> str:
        """A statement that inside a transaction begins by making sure of it, in the same round trip.

        COMMIT is one of them. Without its transaction a statement would be committed on its own
        (docs/transport/transactions.md, "Transactions that end in silence").
        """
        return f"{query('session.in_transaction').text}\n{text}" if self._in_transaction else text

    def check_alive(self) -> None:
        """Refuse to go on in a doomed transaction: what follows would be committed on its own."""
        if self._doomed:
            raise TransactionError("The transaction failed before and is rolled back: let its error end the block.")

    def enlisted_connection(self) -> EnlistedConnection:
        """The driver's connection for statements of others, who can neither commit nor close it."""
        return EnlistedConnection(self._connection, self)


_REPEATED = (DataMovedError, DeadlockError, LockTimeoutError, ServerBusyError)


def retrying(
    work: Callable[[], T], *, attempts: int = 5, only: tuple[type[SqlQueueError], ...] | type[SqlQueueError] = _REPEATED
) -> T:
    """Run a unit of work again after a deadlock, a lock timeout and the like, with a random, growing pause.

    Only for work that rolled back whole and handed nothing out. A lost connection is not retried here: the caller must
    open another one.
    """
    retry = Retrying(
        retry=retry_if_exception_type(only),
        stop=stop_after_attempt(attempts),
        wait=wait_random_exponential(multiplier=0.05, max=2),
        reraise=True,
    )
    return retry(work)
