"""The driver's connection, lent to code that knows nothing of our transactions.

Such code commits, rolls back and closes what it is given. Lent, it can do the first and the last only in vain, and a
rollback or an error dooms the transaction that it has joined.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from airflow_sqlqueue.errors import TransactionError

if TYPE_CHECKING:
    import pyodbc


class EnlistedConnection:
    """A pyodbc connection whose transaction belongs to other code; other attributes are the connection's own."""

    def __init__(self, connection: pyodbc.Connection, doom: Callable[[], None], check: Callable[[], None]) -> None:
        self._connection, self._doom, self._check = connection, doom, check

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def __enter__(self) -> EnlistedConnection:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is not None:
            self._doom()

    @property
    def autocommit(self) -> bool:
        return False

    @autocommit.setter
    def autocommit(self, value: bool) -> None:
        if value:
            raise TransactionError("Inside a transaction nothing is committed on its own: leave autocommit off.")

    def cursor(self) -> EnlistedCursor:
        self._check()
        return EnlistedCursor(self._connection.cursor(), self._doom, self._check)

    def execute(self, sql: str, *parameters: Any) -> EnlistedCursor:
        return self.cursor().execute(sql, *parameters)

    def commit(self) -> None:
        """Nothing: the transaction's owner commits."""

    def rollback(self) -> None:
        """The owner rolls back when the block ends."""
        self._doom()

    def close(self) -> None:
        """Nothing: the owner closes."""


class EnlistedCursor:
    """A pyodbc cursor whose errors doom the transaction."""

    def __init__(self, cursor: pyodbc.Cursor, doom: Callable[[], None], check: Callable[[], None]) -> None:
        self._cursor, self._doom, self._check = cursor, doom, check

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cursor, name)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._cursor)

    def __enter__(self) -> EnlistedCursor:
        return self

    def __exit__(self, *_: object) -> None:
        self._cursor.close()

    def execute(self, sql: str, *parameters: Any) -> EnlistedCursor:
        self._guarded(self._cursor.execute, sql, *parameters)
        return self

    def executemany(self, sql: str, parameters: Any) -> None:
        self._guarded(self._cursor.executemany, sql, parameters)

    def nextset(self) -> bool:
        return bool(self._guarded(self._cursor.nextset))

    def fetchone(self) -> Any:
        return self._guarded(self._cursor.fetchone)

    def fetchmany(self, *size: int) -> list[Any]:
        return list(self._guarded(self._cursor.fetchmany, *size))

    def fetchall(self) -> list[Any]:
        return list(self._guarded(self._cursor.fetchall))

    def commit(self) -> None:
        """Nothing: the transaction's owner commits."""

    def rollback(self) -> None:
        """The owner rolls back when the block ends."""
        self._doom()

    def _guarded(self, call: Callable[..., Any], *arguments: Any) -> Any:
        self._check()
        try:
            return call(*arguments)
        except BaseException:
            self._doom()
            raise
