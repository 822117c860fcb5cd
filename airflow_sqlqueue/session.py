"""One connection: statements, transactions, and the only place that sees the driver's errors.

Units of work are explicit T-SQL transactions on an autocommit connection, so that a COMMIT can stand in the same round
trip as the statement before it. READ COMMITTED is set explicitly, a lock timeout always.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeVar

from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from airflow_sqlqueue.connection import ConnectionSettings, load_pyodbc
from airflow_sqlqueue.errors import (
    ConfigurationError,
    ConnectionLostError,
    DeadlockError,
    DriverNotFoundError,
    LockTimeoutError,
    LoginFailedError,
    QueueNotFoundError,
    ServerUnreachableError,
    SqlQueueError,
    StatementError,
)
from airflow_sqlqueue.permissions import permission_denied
from airflow_sqlqueue.sql import Fragment, Query, query

if TYPE_CHECKING:
    import pyodbc

T = TypeVar("T")

DEFAULT_LOCK_TIMEOUT = 30.0
"""Seconds a statement waits for a lock before it is given up (error 1222)."""

_KNOCK_SECONDS = 2.0
_LOST = {"08S01", "08003", "08007", "01002"}
_LOGIN = {18456, 18452, 18470, 18486, 18487, 18488, 4060, 4064}
_QUOTES_VALUES = {220, 241, 242, 244, 245, 248, 2601, 2627, 2628, 8114, 8115, 8152, 13609, 50000}


class Session:
    """An open connection. Use it from one thread at a time, as a context manager.

    Raises :class:`ServerUnreachableError`, :class:`LoginFailedError` or :class:`DriverNotFoundError` when it cannot be
    opened. ``lock_timeout`` and ``statement_timeout`` are in seconds; a statement timeout of 0 means none.
    """

    def __init__(
        self,
        settings: ConnectionSettings,
        *,
        lock_timeout: float = DEFAULT_LOCK_TIMEOUT,
        statement_timeout: int = 0,
    ) -> None:
        self.settings = settings
        self._connection = open_connection(settings)
        self._connection.timeout = statement_timeout
        self._is_freetds = "tdsodbc" in self._connection.getinfo(load_pyodbc().SQL_DRIVER_NAME).lower()
        self._cursor: pyodbc.Cursor | None = None
        self._cursor_text = ""
        self._in_transaction = False
        self._lock_timeout = lock_timeout
        try:
            self.run(query("session.settings"))
            self._set_lock_timeout(lock_timeout)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; what is not committed is rolled back by the server."""
        with suppress(Exception):
            self._connection.close()

    def run(self, statement: Query, *values: Any, sizes: Sequence[Any] | None = None) -> list[Any]:
        """Run a statement with its parameters and return the rows of its last result set.

        Every result set is read to its end before anything is returned: an error may follow the rows, and then they
        must not be used. Result sets before the last are not the statement's own but of triggers that it set off.
        ``sizes`` fixes the parameters' types, as ``Cursor.setinputsizes`` takes them; FreeTDS has no types without a
        length and goes by the values.
        """
        try:
            cursor = self._prepared(statement.text)
            if sizes is not None and not self._is_freetds:
                cursor.setinputsizes(sizes)
            cursor.execute(statement.text, values) if values else cursor.execute(statement.text)
            rows: list[Any] = []
            while True:
                if cursor.description is not None:
                    rows = cursor.fetchall()
                if not cursor.nextset():
                    return rows
        except Exception as error:
            self._cursor = None
            raise translate(error, statement.purpose) from quiet(error)

    def _prepared(self, text: str) -> pyodbc.Cursor:
        """A cursor for the text: the last one where it is the same again, which the server has prepared."""
        if self._cursor is None or self._cursor_text != text:
            self._cursor, self._cursor_text = self._connection.cursor(), text
        return self._cursor

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
        try:
            yield
        finally:
            self._set_lock_timeout(self._lock_timeout)

    def _set_lock_timeout(self, seconds: float) -> None:
        self.run(query("session.lock_timeout", milliseconds=Fragment(str(max(0, int(seconds * 1000))))))

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """A transaction: committed when the block ends, rolled back when it raises."""
        self.begin()
        try:
            yield
            self.run(query("session.commit"))
        except BaseException:
            self.roll_back()
            raise
        self._in_transaction = False

    def begin(self) -> None:
        """Begin a transaction that a statement of the caller commits; :meth:`transaction` is for everybody else."""
        if self._in_transaction:
            raise ConfigurationError("A transaction is open on this connection already: end it first.")
        self.run(query("session.begin"))
        self._in_transaction = True

    def committed(self) -> None:
        """Note that a statement has committed the transaction of :meth:`begin`."""
        self._in_transaction = False

    def roll_back(self) -> None:
        """Roll back what is open. On a broken connection the server has done it, or will."""
        self._in_transaction = False
        with suppress(SqlQueueError):
            self.run(query("session.rollback"))


def retrying(work: Callable[[], T], *, attempts: int = 5) -> T:
    """Run a unit of work again after a deadlock or a lock timeout, with a random, growing pause.

    Only for work that rolled back whole and handed nothing out. A lost connection is not retried here: the caller must
    open another one.
    """
    retry = Retrying(
        retry=retry_if_exception_type((DeadlockError, LockTimeoutError)),
        stop=stop_after_attempt(attempts),
        wait=wait_random_exponential(multiplier=0.05, max=2),
        reraise=True,
    )
    return retry(work)


def open_connection(settings: ConnectionSettings) -> pyodbc.Connection:
    """A connection of the driver's, with autocommit; raises what :class:`Session` raises."""
    pyodbc = load_pyodbc()
    text = settings.odbc_connection_string()
    _knock(settings)
    try:
        return pyodbc.connect(text, autocommit=True, timeout=settings.login_timeout)
    except pyodbc.Error as error:
        where = f"{settings.host}:{settings.port}"
        state, number = _state_and_number(error)
        if number in _LOGIN or state == "28000":
            raise LoginFailedError(
                f"The server at {where} refused the login {settings.user!r} for the database {settings.database!r}: "
                "check the login, the password and that the database exists."
            ) from quiet(error)
        if state in {"01000", "IM002", "IM003", "IM004"}:
            raise DriverNotFoundError(
                f"The ODBC driver {settings.driver or 'for SQL Server'!r} cannot be loaded: "
                "name an installed one, or run \"pip install 'airflow-sqlqueue[driver]'\"."
            ) from quiet(error)
        if "certificate" in str(error).lower() or "ssl" in str(error).lower():
            raise ServerUnreachableError(
                f"No trusted encrypted connection to {where}: install the server's certificate, or set "
                "TrustServerCertificate=yes (or Encrypt=no) in the connection if you may."
            ) from quiet(error)
        raise _unreachable(settings) from quiet(error)


def _knock(settings: ConnectionSettings) -> None:
    """See that the port is open: on a refused connection the driver tries on until its login timeout is over."""
    try:
        socket.create_connection((settings.host, settings.port), timeout=_KNOCK_SECONDS).close()
    except (ConnectionRefusedError, socket.gaierror) as error:
        raise _unreachable(settings) from error
    except OSError:
        pass  # Slow, or one of several addresses is down: the driver knows better.


def _unreachable(settings: ConnectionSettings) -> ServerUnreachableError:
    return ServerUnreachableError(
        f"No SQL Server answers at {settings.host}:{settings.port}: check the host, the port and that the server runs."
    )


def translate(error: Exception, purpose: str) -> SqlQueueError:
    """Our error for one of the driver's; ``purpose`` completes "Could not ..."."""
    if isinstance(error, SqlQueueError):
        return error
    state, number = _state_and_number(error)
    if number == 1205:
        return DeadlockError(f"Could not {purpose}: the server chose it to break a deadlock; run it again.")
    if number == 1222:
        return LockTimeoutError(f"Could not {purpose}: others hold the locks for too long; try again later.")
    if number == 208:
        return QueueNotFoundError(
            f"Could not {purpose}: the table does not exist or the login has no permission on it; create it, check the "
            "address, or have the permission granted."
        )
    if denied := permission_denied(purpose, number, _text(error)):
        return denied
    if state in {"HYT00", "HYT01"}:
        return LockTimeoutError(f"Could not {purpose}: the statement ran into its timeout; try again later.")
    if state in _LOST:
        return ConnectionLostError(f"Could not {purpose}: the connection to the server was lost; run it again.")
    if number is not None:
        return StatementError(f"Could not {purpose}: SQL Server answered with error {number}.", number)
    return StatementError(f"Could not {purpose}: the driver failed with state {state or 'unknown'}.")


_NUMBER = re.compile(r"\((\d+)\) \(SQL\w+\)")


def _state_and_number(error: Exception) -> tuple[str | None, int | None]:
    """The SQLSTATE and SQL Server's error number, as pyodbc packs them into its two arguments."""
    state = str(error.args[0]) if error.args else None
    numbers = [int(found) for found in _NUMBER.findall(str(error.args[1]))] if len(error.args) > 1 else []
    return state, next((number for number in numbers if number), None)


def _text(error: Exception) -> str:
    """What the server says in the first of the errors that pyodbc packs into one."""
    return re.split(r" \(\d+\) \(SQL\w+\)", str(error.args[1]))[0] if len(error.args) > 1 else ""


def quiet(error: Exception) -> BaseException:
    """The cause to keep. Errors that quote values from a row are reduced to their number: a value may be a secret."""
    state, number = _state_and_number(error)
    if number in _QUOTES_VALUES:
        return RuntimeError(f"SQL Server error {number}, SQLSTATE {state}; its text quotes values.")
    return error
