"""Connector of the client's managers to one server: connections, transactions, addresses, ledgers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from airflow_sqlqueue.drain.ledger import Ledger
from airflow_sqlqueue.drain.locks import BatchLocks
from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.messages.routing import AddressResolver, ResolvedAddress
from airflow_sqlqueue.options import seconds
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.queue.send_ledger import SendLedger
from airflow_sqlqueue.queue.tables.create import require_database
from airflow_sqlqueue.queue.tables.discovery import find_address, find_queue, queue_of_machine
from airflow_sqlqueue.server.reconnecting import Reconnecting
from airflow_sqlqueue.server.session import DEFAULT_LOCK_TIMEOUT, Session
from airflow_sqlqueue.server.settings import MOST_LOCK_TIMEOUT, ConnectionSettings
from airflow_sqlqueue.server.transactions import current_transaction
from airflow_sqlqueue.untrusted import quoted

if TYPE_CHECKING:
    from os import PathLike

    from airflow_sqlqueue.drain.storage.folder import StagingFolder

    Staging = str | PathLike[str] | StagingFolder

T = TypeVar("T")


def folder_of(staging: Staging | None) -> StagingFolder | None:
    """Staging folder of a location, None for None. Raises as :meth:`.StagingFolder.of`."""
    if staging is None:
        return None
    # It loads fsspec and Arrow, which take longer than most calls of a client.
    from airflow_sqlqueue.drain.storage.folder import StagingFolder

    return StagingFolder.of(staging)


@dataclass(frozen=True)
class Connector:
    """Server and login, and the routing settings. ``lock_timeout`` is in seconds."""

    settings: ConnectionSettings
    resolver: AddressResolver = field(repr=False)
    lock_timeout: float = DEFAULT_LOCK_TIMEOUT

    def __post_init__(self) -> None:
        seconds("lock_timeout", self.lock_timeout, MOST_LOCK_TIMEOUT)

    def session(self) -> Session:
        """Open a session outside of any transaction. Raises as :class:`~airflow_sqlqueue.server.session.Session`."""
        return Session(self.settings, lock_timeout=self.lock_timeout)

    @contextmanager
    def enlisted_session(self, *, sending: bool = False, what: str | None = None) -> Iterator[Session]:
        """Lend the session of the transaction under way, else a new one for the block.

        ``sending`` asks for the session that sends, which is another one in the mode ``receive_only``. A long call
        names itself in ``what``, for the log (``Purging the queue audit``): it then waits for a server that is away.
        """
        current = current_transaction(self.settings)
        if current is not None:
            yield current.sending if sending else current.receiving
            return
        if what is None:
            with self.session() as session:
                yield session
            return
        with closing(Reconnecting(self.session, what)) as connection:
            yield connection.open()

    def repeated(self, what: str, work: Callable[[Session], T]) -> T:
        """Run work, again as a whole where its connection was lost, and return its result.

        In a transaction under way the work runs once. ``what`` names it in the log.
        """
        current = current_transaction(self.settings)
        if current is not None:
            return work(current.receiving)
        with closing(Reconnecting(self.session, what)) as connection:
            return connection.run(work)

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction on this server is under way."""
        return current_transaction(self.settings) is not None

    def check_schema(self, queue_name: str) -> None:
        """Raise :class:`ConfigurationError` for an address that :meth:`address` takes for one with a machine's name.

        For calls that delete messages: a mistyped schema must not cost those of the default schema's queue.
        """
        if self.resolver.without_machine(queue_name) is None:
            return
        with self.enlisted_session() as session:
            if queue_of_machine(session, self.resolver, queue_name) is not None:
                raise ConfigurationError(
                    f"There is no schema for the queue {quoted(queue_name)}: correct the address, because this call "
                    "deletes messages."
                )

    def address(self, queue_name: str) -> ResolvedAddress:
        """Resolve an address, as it is spelled, to its table. Raises :class:`AddressError`.

        Only ``queue@MACHINE`` of versions 1 and 2 takes a connection: see :func:`.tables.discovery.find_address`.
        """
        found = self.resolver.resolve(queue_name)
        if self.resolver.without_machine(queue_name) is None:
            return found
        with self.enlisted_session() as session:
            return find_address(session, self.resolver, queue_name)

    def find(self, queue_name: str) -> ResolvedAddress:
        """Return the identity of the table at an address, by :func:`.tables.discovery.find_queue`."""
        self.resolver.resolve(queue_name)
        with self.enlisted_session() as session:
            return self.find_in(session, queue_name)

    def find_in(self, session: Session, queue_name: str) -> ResolvedAddress:
        """Find a table as :meth:`find`, through an open session."""
        return find_queue(session, self.resolver, queue_name)

    @contextmanager
    def queue(self, queue_name: str, *, sending: bool = False, what: str | None = None) -> Iterator[QueueTable]:
        """Open a queue in an :meth:`enlisted_session`."""
        # An address that cannot be used raises its error before a connection is made.
        self.resolver.resolve(queue_name)
        with self.enlisted_session(sending=sending, what=what) as session:
            yield QueueTable(session, self.find_in(session, queue_name))

    def send_ledger(self, session: Session, catalog: str) -> SendLedger:
        """Return the send ledger of a queue's database; create it where it is missing."""
        ledger = SendLedger(session, catalog)
        ledger.create()
        return ledger

    @contextmanager
    def ledger(self, queue_name: str | None = None, session: Session | None = None) -> Iterator[Ledger]:
        """Open the ledger of the queue's database, or the connection's, in ``session`` or an enlisted session."""
        with self.ledger_of(queue_name, session) as (ledger, _):
            yield ledger

    @contextmanager
    def ledger_of(self, queue_name: str | None, session: Session | None = None) -> Iterator[tuple[Ledger, str | None]]:
        """Open the ledger as :meth:`ledger`, with the canonical address of the identity of a named queue.

        Raises :class:`~airflow_sqlqueue.errors.QueueNotFoundError` where the queue's database does not exist.
        """
        with nullcontext(session) if session else self.enlisted_session() as opened:
            queue = None if queue_name is None else self.find_in(opened, queue_name)
            catalog = self.settings.database if queue is None else queue.catalog
            if catalog != self.settings.database:
                # A ledger that is missing has no batches, so work on those of a mistyped database would seem done.
                require_database(opened, catalog)
            yield Ledger(opened, catalog), None if queue is None else queue.canonical

    def locks(self, queue_name: str | None = None) -> BatchLocks:
        """Return locks on batches in the ledger of the queue's database, or of the connection's."""
        catalog = self.settings.database if queue_name is None else self.find(queue_name).catalog
        return BatchLocks(self.session, catalog)


class Manager:
    """Base class of the client's managers."""

    def __init__(self, connector: Connector) -> None:
        self._connector = connector
