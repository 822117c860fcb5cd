"""Transactions that several calls share, in the modes of the transport.

Source: docs/transport/transactions.md, "Transaction modes".
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from contextvars import ContextVar
from functools import cached_property

from airflow_sqlqueue.errors import ConfigurationError, TransactionError
from airflow_sqlqueue.server.session import Session
from airflow_sqlqueue.server.settings import ConnectionSettings

SENDS_ATOMIC_WITH_RECEIVE = "sends_atomic_with_receive"
RECEIVE_ONLY = "receive_only"
NONE = "none"
MODES = (SENDS_ATOMIC_WITH_RECEIVE, RECEIVE_ONLY, NONE)


Connect = Callable[[], AbstractContextManager[Session]]
"""A function that gives a session for a block: a new one that the block's end closes, or one that stays open."""


class Transaction:
    """An open transaction on a server. Its sessions are open during the block of :func:`transaction`.

    ``receiving`` is the session that receives messages and runs statements. ``sending`` is the same session, or in the
    mode ``receive_only`` another one, which commits every send on its own.
    """

    def __init__(
        self, settings: ConnectionSettings, mode: str, receiving: Session, connect: Connect, stack: ExitStack
    ) -> None:
        self.settings, self.mode, self.receiving = settings, mode, receiving
        self._connect, self._stack = connect, stack
        self._thread = threading.get_ident()
        self.is_over = False
        """Whether its block has ended. A context that was copied inside it, as of a task of asyncio, outlives it."""

    @cached_property
    def sending(self) -> Session:
        """Session for sends."""
        return self._stack.enter_context(self._connect()) if self.mode == RECEIVE_ONLY else self.receiving

    def check_thread(self) -> None:
        """Raise :class:`TransactionError` in another thread: two threads on one connection can crash the driver."""
        if threading.get_ident() != self._thread:
            raise TransactionError(
                "The transaction under way is that of another thread, whose context this one has, as with "
                "asyncio.to_thread: make the call in that thread, or start a threading.Thread for calls that are not "
                "part of it."
            )


_current: ContextVar[Transaction | None] = ContextVar("sqlqueue_transaction", default=None)


@contextmanager
def transaction(
    settings: ConnectionSettings, connect: Connect, mode: str = SENDS_ATOMIC_WITH_RECEIVE
) -> Iterator[Transaction]:
    """Begin a transaction that :func:`current_transaction` finds, in this thread or task, until the block ends.

    - ``sends_atomic_with_receive``: receives, sends and statements commit together when the block ends, and roll back
      together when it raises. Rolled-back messages are visible again.
    - ``receive_only``: sends are committed at once, on a connection of their own. A rollback returns the received
      messages to the queue but does not undo the sends: the next try sends again (at least once).
    - ``none``: everything is committed at once. A received message is lost if its handling fails (at most once).

    Inside another transaction on the same server the block joins that one. Raises :class:`TransactionError` if the
    other transaction is on another server or of another login: two connections cannot commit together.
    """
    if mode not in MODES:
        raise ConfigurationError(f"There is no transaction mode {mode!r}: choose one of {', '.join(MODES)}.")
    outer = current_transaction(settings)
    if outer is not None:
        if outer.mode != mode:
            raise TransactionError(f"A transaction with the mode {outer.mode} is open: join it with the same mode.")
        with outer.receiving.transaction() if mode != NONE else nullcontext():
            yield outer
        return
    with connect() as receiving, receiving.transaction() if mode != NONE else nullcontext(), ExitStack() as stack:
        begun = Transaction(settings, mode, receiving, connect, stack)
        token = _current.set(begun)
        try:
            yield begun
        finally:
            begun.is_over = True
            _current.reset(token)


def current_transaction(settings: ConnectionSettings) -> Transaction | None:
    """Return the open transaction or None. Raises :class:`TransactionError` if it is on another server or has
    another ledger schema, or if it began in another thread, or in a process before this fork.
    """
    current = _current.get()
    if current is None or current.is_over:
        return None
    if current.receiving.is_inherited:
        current.receiving.check_alive()
    current.check_thread()
    if current.settings is settings:
        return current
    # Databases may differ: a transaction can span the databases of a server.
    server, login = current.settings.server.lower(), current.settings.login
    if (server, login) != (settings.server.lower(), settings.login):
        raise TransactionError(
            f"A transaction on {server} as {current.settings.user!r} is open, and one "
            f"on {settings.server} as {settings.user!r} cannot commit together with it: end it first, "
            "or use the same connection."
        )
    # A session knows one schema of this package's own tables.
    if current.settings.ledger_schema != settings.ledger_schema:
        raise TransactionError(
            f"A transaction with the ledger schema {current.settings.ledger_schema!r} is open, and one with "
            f"{settings.ledger_schema!r} cannot commit together with it: end it first, or use the same connection."
        )
    return current


def transaction_of_statements(settings: ConnectionSettings) -> Transaction | None:
    """Return the open transaction as :func:`current_transaction`, for statements of the caller's own.

    Raises :class:`TransactionError` also if it began in another database, in which ``dbo.Orders`` is another table.
    """
    current = current_transaction(settings)
    if current is not None and current.settings.database.lower() != settings.database.lower():
        raise TransactionError(
            f"A transaction of the database {current.settings.database!r} is open, and a statement of your own for "
            f"{settings.database!r} would run there: run it through that connection, with the database in the names of "
            "its tables, or end the transaction first."
        )
    return current
