"""Session: one connection with its statements and transactions.

Only this module sees the driver's errors. Units of work are explicit T-SQL transactions on an autocommit connection, so
that COMMIT can go in the same round trip as the statement before it. READ COMMITTED and a lock timeout are always set
explicitly.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any, TypeVar
from weakref import WeakSet

from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from airflow_sqlqueue.errors import (
    ConnectionLostError,
    DataMovedError,
    DeadlockError,
    LockTimeoutError,
    ServerBusyError,
    SqlQueueError,
    StatementError,
    TransactionError,
)
from airflow_sqlqueue.options import seconds
from airflow_sqlqueue.server.connection import check_product, open_connection
from airflow_sqlqueue.server.cursors import PreparedCursors, declared_types
from airflow_sqlqueue.server.enlisted import EnlistedConnection
from airflow_sqlqueue.server.settings import MOST_LOCK_TIMEOUT, ConnectionSettings
from airflow_sqlqueue.server.sql import Fragment, Query, number, query
from airflow_sqlqueue.server.translation import safe_cause, translate

T = TypeVar("T")

_CHOSEN_AS_VICTIM = -3

DEFAULT_LOCK_TIMEOUT = 30.0
"""Seconds that a statement waits for a lock before it fails (error 1222)."""


class Session:
    """An open connection. Use it from one thread at a time, as a context manager.

    Raises :class:`ServerUnreachableError`, :class:`LoginFailedError`, :class:`DriverNotFoundError` or
    :class:`UnsupportedServerError` if it cannot be opened. ``lock_timeout`` and ``statement_timeout`` are in seconds; a
    statement timeout of 0 means no timeout. ``engine_edition`` is SQL Server's number of the product.
    """

    def __init__(
        self,
        settings: ConnectionSettings,
        *,
        lock_timeout: float = DEFAULT_LOCK_TIMEOUT,
        statement_timeout: int = 0,
    ) -> None:
        self.settings = settings
        self._process = os.getpid()
        self._statement_timeout = statement_timeout
        self._lock_timeout = self._lock_timeout_now = seconds("lock_timeout", lock_timeout, MOST_LOCK_TIMEOUT)
        self._has_low_priority = False
        _SESSIONS.add(self)
        self.open()

    def open(self) -> None:
        """Open the connection, or a new one in its place with the same settings; outside of a transaction."""
        self._connection = retrying(lambda: open_connection(self.settings))
        self._connection.timeout = self._statement_timeout
        self._cursors = PreparedCursors(self._connection)
        self._in_transaction = self._begun = self._chained = self._doomed = self._lost = False
        try:
            self.engine_edition = self._prepare()
            if self._has_low_priority:
                self.run(query("session.low_priority"))
        except BaseException:
            self.close()
            raise

    def _prepare(self) -> int:
        """Run SET for the session's options, and check the server's product in the same round trip."""
        where, settings, product = self.settings.server, self._settings(), query("session.product")
        try:
            edition, version = self.run(replace(settings, text=f"{settings.text}\n{product.text}"))[0]
        except StatementError:
            # A warehouse does not know all of the settings.
            edition, version = self.run(product)[0]
            check_product(edition, version, where)
            raise
        check_product(edition, version, where)
        return int(edition)

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; the server rolls back uncommitted work. A forked process leaves it to its parent."""
        if not self.is_inherited:
            with suppress(Exception):
                self._connection.close()

    @property
    def is_inherited(self) -> bool:
        """Whether this process is a fork of the one that opened the session, and must not touch the connection."""
        return self._process != os.getpid()

    @property
    def is_lost(self) -> bool:
        """Whether the connection was lost, so that no further statement runs on it."""
        return self._lost

    def run(self, statement: Query, *values: Any, sizes: Sequence[Any] | None = None) -> list[Any]:
        """Run a statement and return the rows of its last result set: triggers return the ones before it."""
        return (self.results(statement, *values, sizes=sizes) or [[]])[-1]

    def results(self, statement: Query, *values: Any, sizes: Sequence[Any] | None = None) -> list[list[Any]]:
        """Run a statement with its parameters and return the rows of each of its result sets.

        All result sets are read to their end first: an error may follow the rows, and then they must not be used. If
        the server has ended the open transaction, the statement does nothing: :class:`TransactionLostError`. A
        caller's own text without parameters is sent unchanged, because some statements must be alone in their batch
        (CREATE VIEW). ``sizes`` fixes the types of the parameters, as for ``Cursor.setinputsizes``, so that a repeated
        statement is not prepared again; a long text without a size is ``nvarchar(max)``.
        """
        self.check_alive()
        if self._lost:
            # The driver would try for its login timeout, at each statement, to restore the session.
            raise ConnectionLostError(f"Could not {statement.purpose}: the connection to the server was lost before.")
        if self._in_transaction and not self._begun and statement.ours and not values:
            self._begun = True
            text = f"{self._begin().text}\n{statement.text}"
        else:
            self.enlist()
            text = self.guarded(statement.text) if statement.ours or values else statement.text
            # A caller's SET ROWCOUNT would end an INSERT or DELETE of ours early, and SET TEXTSIZE cut a received body,
            # without an error.
            text = f"{query('session.unlimited').text}\n{text}" if statement.ours else text
        return self._execute(statement, text, values, sizes)

    def _execute(self, statement: Query, text: str, values: Sequence[Any], sizes: Sequence[Any] | None) -> list[Any]:
        try:
            cursor, prepared = self._cursors.cursor(text if values else "")
            if (types := declared_types(values, sizes or ())) is not None:
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
            translated = translate(error, statement.purpose, statement.own)
            self._lost = isinstance(translated, ConnectionLostError)
            raise translated from safe_cause(error)

    def value(self, statement: Query, *values: Any) -> Any:
        """Run a statement and return the first column of the first row, None without a row."""
        rows = self.run(statement, *values)
        return rows[0][0] if rows else None

    def sum_in_chunks(self, statement: Query, *values: Any) -> int:
        """Repeat a statement that counts the rows it changed, until it changes none, and return their number."""
        changed = 0
        while count := int(self.value(statement, *values)):
            changed += count
        return changed

    @property
    def in_transaction(self) -> bool:
        """Whether the session has an open transaction."""
        return self._in_transaction

    @contextmanager
    def lock_timeout(self, seconds: float) -> Iterator[None]:
        """Set another lock timeout for the block, also inside of another one; 0 means not to wait at all."""
        before = self._lock_timeout_now
        self._set_lock_timeout(seconds)
        with self._afterwards(lambda: self._set_lock_timeout(before)):
            yield

    def _set_lock_timeout(self, seconds: float) -> None:
        self.run(query("session.lock_timeout", milliseconds=_milliseconds(seconds)))
        self._lock_timeout_now = seconds

    def _settings(self) -> Query:
        return query("session.settings", milliseconds=_milliseconds(self._lock_timeout_now))

    def _begin(self) -> Query:
        begin = query("session.begin")
        return replace(begin, text=f"{self._settings().text}\n{begin.text}")

    @contextmanager
    def low_deadlock_priority(self) -> Iterator[None]:
        """Run the block with a low deadlock priority: the session is the victim of a deadlock with others."""
        self._has_low_priority = True
        self.run(query("session.low_priority"))
        with self._afterwards(self._restore_priority):
            yield

    def _restore_priority(self) -> None:
        self.run(query("session.normal_priority"))
        self._has_low_priority = False

    @contextmanager
    def _afterwards(self, undo: Callable[[], None]) -> Iterator[None]:
        """Undo a setting when the block ends. If the block raises, errors of ``undo`` are ignored.

        In a doomed transaction nothing is run: :meth:`roll_back` restores the settings.
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
        """Take an application lock of the open transaction, by a statement that returns the result of sp_getapplock.

        Raises :class:`LockTimeoutError` or :class:`DeadlockError` for a result below zero. The server has not rolled
        back anything then: the error makes the owner of the transaction do so.
        """
        self.check_lock(statement, self.value(statement, resource))

    def check_lock(self, statement: Query, answer: int) -> None:
        """Raise the errors of :meth:`take_lock` for a result of sp_getapplock."""
        if answer == _CHOSEN_AS_VICTIM:
            raise DeadlockError(f"Could not {statement.purpose}: it would have been a deadlock; run it again.")
        if answer < 0:
            raise LockTimeoutError(f"Could not {statement.purpose}: another holds it for too long; try again later.")

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Run the block in a transaction: commit when it ends, roll back when it raises.

        A block inside another one is part of the outer transaction: only the end of the outermost block commits. An
        error of a statement dooms the whole transaction, because the server has rolled it back or is about to. Code
        that catches the error cannot use this session until the outermost block ends, which raises
        :class:`TransactionError` unless another error is raised.
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
                commit = query("session.commit")
                self.run(replace(commit, text=f"{commit.text}\n{self._begin().text}") if self._chained else commit)
        except BaseException:
            self.roll_back()
            raise
        self.committed()

    def begin(self) -> None:
        """Begin a transaction that a statement of the caller commits; all other code uses :meth:`transaction`.

        BEGIN goes in the same round trip as the first statement if that statement is this package's own and has no
        parameters (docs/transport/transactions.md, "Transactions that end in silence"), else just before it.
        """
        if self._in_transaction:
            raise TransactionError("A transaction is open on this connection already: end it first.")
        self._in_transaction, self._chained, self._doomed = True, False, False

    def chain(self) -> None:
        """Let the COMMIT of the open :meth:`transaction` begin the next one, whose first statement may have parameters.

        Until that begins, the server has an open transaction without a lock. Other statements of the session end it.
        """
        self._chained = self._in_transaction

    def enlist(self) -> None:
        """Run BEGIN before a statement that cannot share its round trip; end a chained transaction that is not used.

        Raises as :meth:`check_alive`.
        """
        self.check_alive()
        if self._in_transaction and not self._begun:
            self._begun = True
            begin = self._begin()
            self._execute(begin, begin.text, (), None)
        elif self._begun and not self._in_transaction:
            self._begun = False
            self.run(query("session.rollback"))

    def committed(self) -> None:
        """Note that a statement of the caller has committed the transaction of :meth:`begin`."""
        self._begun = self._begun and self._chained
        self._in_transaction = self._chained = self._doomed = False

    def roll_back(self) -> None:
        """Roll back the open transaction. On a broken connection the server does this."""
        begun, self._in_transaction = self._begun, False
        self._begun = self._chained = self._doomed = False
        with suppress(SqlQueueError):
            if begun:
                self.run(query("session.rollback"))
            if self._lock_timeout_now != self._lock_timeout:
                self._set_lock_timeout(self._lock_timeout)
            if self._has_low_priority:
                self._restore_priority()

    def save(self) -> None:
        """Set the savepoint of the open transaction; it replaces an earlier one."""
        self.run(query("session.savepoint"))

    def roll_back_to_savepoint(self) -> None:
        """Undo the statements since :meth:`save`; the transaction continues."""
        self.run(query("session.roll_back_to_savepoint"))

    def doom(self) -> None:
        """Mark the open transaction as one that cannot be committed; without a transaction do nothing."""
        self._doomed = self._in_transaction

    def guarded(self, text: str) -> str:
        """Return a statement that first checks, in the same round trip, that the open transaction still exists.

        COMMIT is checked as well. Without its transaction a statement would be committed on its own
        (docs/transport/transactions.md, "Transactions that end in silence").
        """
        return f"{query('session.in_transaction').text}\n{text}" if self._in_transaction else text

    def check_alive(self) -> None:
        """Raise :class:`TransactionError` in a doomed transaction: a further statement would be committed alone.

        So it does in a fork of the process that opened the session: both would speak on one connection.
        """
        if self.is_inherited:
            raise TransactionError(
                "Another process began this transaction or connection: begin one in this process, in a call that is "
                "not inside of it, or fork before it."
            )
        if self._doomed:
            raise TransactionError("The transaction failed before and is rolled back: let its error end the block.")

    def enlisted_connection(self) -> EnlistedConnection:
        """Return the driver's connection for other code, which cannot commit or close it."""
        self.check_alive()
        return EnlistedConnection(self._connection, self)


def _milliseconds(seconds: float) -> Fragment:
    return number(int(max(0, min(seconds, MOST_LOCK_TIMEOUT)) * 1000))


_SESSIONS: WeakSet[Session] = WeakSet()


def _leave_to_parent() -> None:
    """Keep the handles of all sessions for ever: else the end of this forked process would log its parent's off."""
    for session in _SESSIONS:
        for handles in (getattr(session, "_connection", None), getattr(session, "_cursors", None)):
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(handles))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_to_parent)


_REPEATED = (DataMovedError, DeadlockError, LockTimeoutError, ServerBusyError)


def retrying(
    work: Callable[[], T], *, attempts: int = 5, only: tuple[type[SqlQueueError], ...] | type[SqlQueueError] = _REPEATED
) -> T:
    """Run a unit of work, and repeat it after a deadlock, a lock timeout and the like, with random, growing pauses.

    Only for work that was rolled back completely and has returned nothing to its caller. This function does not repeat
    work after a lost connection: the caller must open a new one.
    """
    retry = Retrying(
        retry=retry_if_exception_type(only),
        stop=stop_after_attempt(attempts),
        wait=wait_random_exponential(multiplier=0.05, max=2),
        reraise=True,
    )
    return retry(work)
