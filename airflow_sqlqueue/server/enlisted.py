"""The driver's connection for other code, enlisted in a transaction of this package.

Other code commits, rolls back and closes its connection. On an enlisted connection commit and close have no effect, and
a rollback or an error dooms the transaction.

A statement with a parameter None first checks that its transaction still exists: preparing such a statement may end the
transaction, and the statement would then be committed on its own (docs/transport/transactions.md, "Transactions that
end in silence").
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

from airflow_sqlqueue.errors import TransactionError
from airflow_sqlqueue.server.settings import load_pyodbc
from airflow_sqlqueue.server.translation import safe_cause, transaction_lost


class Owner(Protocol):
    """The owner of the transaction: a session."""

    def doom(self) -> None:
        """Mark the transaction as one that cannot be committed."""

    def enlist(self) -> None:
        """Run BEGIN unless it has run. Raises :class:`TransactionError` in a doomed transaction."""

    def guarded(self, text: str) -> str:
        """Return a statement that first checks that the transaction still exists."""


class _Enlisted:
    """An object of pyodbc in a transaction of its owner, for the thread that got it.

    Attributes not defined here are the object's own.
    """

    def __init__(self, wrapped: Any, owner: Owner) -> None:
        self._wrapped, self._owner, self._thread = wrapped, owner, threading.get_ident()

    def _check_thread(self) -> None:
        if threading.get_ident() != self._thread:
            raise TransactionError(
                "This connection is part of a transaction of another thread, as one that was kept from another "
                "message: get the connection in each call."
            )

    def __getattr__(self, name: str) -> Any:
        return getattr(self._wrapped, name)

    def commit(self) -> None:
        """Do nothing: the transaction's owner commits."""

    def rollback(self) -> None:
        """Doom the transaction: the owner rolls back when the block ends."""
        self._check_thread()
        self._owner.doom()


class EnlistedConnection(_Enlisted):
    """A pyodbc connection in a transaction of its owner."""

    def __enter__(self) -> EnlistedConnection:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is not None:
            self.rollback()

    @property
    def autocommit(self) -> bool:
        return False

    @autocommit.setter
    def autocommit(self, value: bool) -> None:
        if value:
            raise TransactionError("Inside a transaction nothing is committed on its own: leave autocommit off.")

    def cursor(self) -> EnlistedCursor:
        self._check_thread()
        self._owner.enlist()
        return EnlistedCursor(self._wrapped.cursor(), self._owner)

    def execute(self, sql: str, *parameters: Any) -> EnlistedCursor:
        return self.cursor().execute(sql, *parameters)

    def close(self) -> None:
        """Do nothing: the owner closes the connection."""


class EnlistedCursor(_Enlisted):
    """A pyodbc cursor whose errors doom the transaction."""

    def __iter__(self) -> Iterator[Any]:
        self._check_thread()
        return iter(self._wrapped)

    def __enter__(self) -> EnlistedCursor:
        return self

    def __exit__(self, *_: object) -> None:
        self._wrapped.close()

    def execute(self, sql: str, *parameters: Any) -> EnlistedCursor:
        self._guarded(self._wrapped.execute, self._text(sql) if _has_none(parameters) else sql, *parameters)
        return self

    def executemany(self, sql: str, parameters: Any) -> None:
        self._guarded(self._wrapped.executemany, self._text(sql), parameters)

    def nextset(self) -> bool:
        return bool(self._guarded(self._wrapped.nextset))

    def fetchone(self) -> Any:
        return self._guarded(self._wrapped.fetchone)

    def fetchmany(self, *size: int) -> list[Any]:
        return list(self._guarded(self._wrapped.fetchmany, *size))

    def fetchall(self) -> list[Any]:
        return list(self._guarded(self._wrapped.fetchall))

    def _text(self, sql: str) -> str:
        # ODBC's form of a procedure call must be alone. Its parameters have the types of the procedure's.
        return sql if sql.lstrip().startswith("{") else self._owner.guarded(sql)

    def _guarded(self, call: Callable[..., Any], *arguments: Any) -> Any:
        self._check_thread()
        self._owner.enlist()
        try:
            return call(*arguments)
        except BaseException as error:
            self._owner.doom()
            if isinstance(error, Exception) and (lost := transaction_lost(error, "run the statement")):
                raise lost from safe_cause(error)
            raise


def _has_none(parameters: Sequence[Any]) -> bool:
    """Return whether one of the parameters is None; pyodbc takes them one by one or as a sequence."""
    if len(parameters) == 1 and isinstance(parameters[0], (list, tuple, load_pyodbc().Row)):
        parameters = parameters[0]
    return any(value is None for value in parameters)
