"""Client of one server, with a manager for each kind of object on the server."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

from airflow_sqlqueue.client.batch_manager import BatchManager
from airflow_sqlqueue.client.connector import Connector
from airflow_sqlqueue.client.delayed import DelayedQueue
from airflow_sqlqueue.client.errors import ErrorManager
from airflow_sqlqueue.client.own_tables import CopyManager, QuarantineManager, StreamManager
from airflow_sqlqueue.client.queues import Queue
from airflow_sqlqueue.client.subscriptions import SubscriptionManager
from airflow_sqlqueue.client.tables import TableManager
from airflow_sqlqueue.messages.envelope import Envelope, reply
from airflow_sqlqueue.messages.envelope.causation import outgoing
from airflow_sqlqueue.messages.envelope.tracing import REPLY
from airflow_sqlqueue.messages.message import ReceivedMessage
from airflow_sqlqueue.messages.routing import AddressResolver, ResolvedAddress
from airflow_sqlqueue.options import check_type
from airflow_sqlqueue.server.connection_string import ConnectionString, is_connection_string
from airflow_sqlqueue.server.session import DEFAULT_LOCK_TIMEOUT, Session
from airflow_sqlqueue.server.settings import LEDGER_SCHEMA, ConnectionSettings
from airflow_sqlqueue.server.sql import Query, query
from airflow_sqlqueue.server.transactions import (
    SENDS_ATOMIC_WITH_RECEIVE,
    Transaction,
    transaction,
    transaction_of_statements,
)


class QueueClient:
    """Client of one server: every operation on its queue tables.

    ``client.queue("audit").send(...)``, ``client.batches.requeue(...)``, ``client.errors.return_to_source(...)``: each
    call opens a connection and closes it, or takes part in the :meth:`transaction` under way. A client holds no
    connection of its own, so it needs no closing and threads may share it. Queues are named by their transport
    address: ``audit``, ``audit@[schema]``, ``audit@[schema]@[catalog]``.

    :param settings: the server and the login; :meth:`from_url` reads them from a URL.
    :param resolver: the routing settings; by default an address without a schema means ``dbo``, one without a catalog
        means the connection's database, and headers may name queues of that database only.
    :param lock_timeout: seconds a statement waits for a lock.
    """

    def __init__(
        self,
        settings: ConnectionSettings,
        resolver: AddressResolver | None = None,
        *,
        lock_timeout: float = DEFAULT_LOCK_TIMEOUT,
    ) -> None:
        check_type("settings", ConnectionSettings.__name__, settings)
        resolver = resolver or AddressResolver(default_catalog=settings.database)
        self._connector = Connector(settings, resolver, lock_timeout)

    @classmethod
    def from_url(
        cls,
        url: str,
        *,
        ledger_schema: str = LEDGER_SCHEMA,
        lock_timeout: float = DEFAULT_LOCK_TIMEOUT,
        allowed_catalogs: Collection[str] | None = None,
        allowed_schemas: Collection[str] | None = None,
    ) -> QueueClient:
        """Make a client for ``mssql://user:password@host:port/database?Encrypt=yes``, or a .NET connection string.

        The ``Queue Schema`` of a connection string (versions 1 and 2 of the transport) becomes the default schema.
        ``ledger_schema`` is the schema of this package's own tables, as the drain's ledger, in the queues' databases.
        Headers of messages may name ``allowed_catalogs`` and ``allowed_schemas``
        (:class:`~airflow_sqlqueue.messages.routing.AddressResolver`). Raises
        :class:`~airflow_sqlqueue.errors.ConfigurationError`.
        """
        check_type("url", str.__name__, url)
        schema = None
        if is_connection_string(url):
            read = ConnectionString.parse(url)
            settings, schema = read.settings(), read.queue_schema
        else:
            settings = ConnectionSettings.from_url(url)
        settings = replace(settings, ledger_schema=ledger_schema)
        resolver = AddressResolver(
            schema, settings.database, allowed_catalogs=allowed_catalogs, allowed_schemas=allowed_schemas
        )
        return cls(settings, resolver, lock_timeout=lock_timeout)

    @property
    def settings(self) -> ConnectionSettings:
        """Server and login."""
        return self._connector.settings

    @property
    def resolver(self) -> AddressResolver:
        """Routing settings."""
        return self._connector.resolver

    @property
    def lock_timeout(self) -> float:
        """Seconds a statement waits for a lock."""
        return self._connector.lock_timeout

    def queue(self, queue_name: str | None = None, *, endpoint: str | None = None) -> Queue:
        """Return a queue, by its address or its endpoint, to send, receive, peek, count, purge and drain.

        The endpoint settings also resolve the name of an endpoint. Raises AddressError.
        """
        return Queue(self._connector, self.resolver.address_of(queue_name, endpoint))

    def reply(self, received: ReceivedMessage | Envelope, body: Any = None, *, endpoint: str, **options: Any) -> str:
        """Reply to a message, in the :meth:`transaction` under way, and return the address of the reply.

        The arguments are those of :func:`airflow_sqlqueue.reply`, which makes the reply and sends nothing. The sender
        of the message chose the address, so it has to be an allowed one (``allowed_catalogs``, ``allowed_schemas``):
        raises :class:`~airflow_sqlqueue.errors.AddressError` for another, also behind a synonym, and
        :class:`~airflow_sqlqueue.errors.MessageError` for a message that cannot be replied to. Delivery as for
        :meth:`.client.queues.Queue.send`.
        """
        address, message = reply(received, body, endpoint=endpoint, **options)
        with self._connector.queue(address, sending=True) as table, table.session.transaction():
            table.require_allowed(self.resolver)
            with outgoing([message], table.address.canonical, span=REPLY) as linked:
                table.send(linked)
            return table.address.canonical

    def delayed(self, queue_name: str | None = None, *, endpoint: str | None = None) -> DelayedQueue:
        """Return the delayed messages of a queue, in its table ``<queue>.Delayed``. Raises AddressError."""
        return DelayedQueue(self._connector, self.resolver.address_of(queue_name, endpoint))

    def subscriptions_in(self, address: str | None) -> SubscriptionManager:
        """Return the subscriptions in the table at an address; None: :attr:`subscriptions`. Raises AddressError."""
        return SubscriptionManager(self._connector, self.resolver.subscription_table if address is None else address)

    @property
    def subscriptions(self) -> SubscriptionManager:
        """Subscriptions to events, in the resolver's ``subscription_table``, and publishing."""
        return self.subscriptions_in(None)

    @property
    def batches(self) -> BatchManager:
        """Drained batches: list, mark consumed, requeue, sweep."""
        return BatchManager(self._connector)

    @property
    def copies(self) -> CopyManager:
        """Copies of new messages: list their watermarks, and reset one."""
        return CopyManager(self._connector)

    @property
    def streams(self) -> StreamManager:
        """Streams of Spark's queries: list them, and release one that no query resumes."""
        return StreamManager(self._connector)

    @property
    def quarantine(self) -> QuarantineManager:
        """Quarantine: messages that drains set aside, because no file can hold them."""
        return QuarantineManager(self._connector)

    @property
    def errors(self) -> ErrorManager:
        """Failed messages: group, show, return to their source queue, edit."""
        return ErrorManager(self._connector)

    @property
    def tables(self) -> TableManager:
        """Tables of the transport: create, drop, inspect, fix."""
        return TableManager(self._connector)

    def session(self) -> Session:
        """Open a session for statements and transactions of your own; close it. It is in no :meth:`transaction`."""
        return self._connector.session()

    def enlisted_session(self, *, sending: bool = False) -> AbstractContextManager[Session]:
        """Lend the session of the :meth:`transaction` under way, else a new one for the block.

        ``sending`` asks for the session that sends, which is another one in the mode ``receive_only``. Raises
        :class:`~airflow_sqlqueue.errors.TransactionError` in a transaction of another server or database.
        """
        transaction_of_statements(self.settings)
        return self._connector.enlisted_session(sending=sending)

    def transaction(self, mode: str = SENDS_ATOMIC_WITH_RECEIVE) -> AbstractContextManager[Transaction]:
        """Begin a transaction; calls of clients with the same server, login and ledger schema enlist in it.

        ``with client.transaction(): billing.send(map(bill, orders.receive(100)))``: receives, sends and statements
        (:meth:`run_sql`) commit together at the end of the block. They roll back together when the block raises:
        received messages are then visible again. The transaction covers all databases of the server. An error inside
        dooms it: until the end of the block every further call fails.

        ``mode`` is ``sends_atomic_with_receive``, ``receive_only`` (sends commit at once: at least once) or ``none``
        (everything commits at once, received messages can be lost):
        :func:`airflow_sqlqueue.server.transactions.transaction`. Raises
        :class:`~airflow_sqlqueue.errors.TransactionError` where another server or login would be needed.
        """
        return transaction(self.settings, self._connector.session, mode)

    def run_sql(self, sql: str, *parameters: Any) -> list[Any]:
        """Run a statement of your own, in the :meth:`transaction` under way, and return the rows of its last result.

        Raises :class:`~airflow_sqlqueue.errors.TransactionError` in a transaction of a client of another database:
        names without a database would mean that one.

        Write EXEC before a procedure's name: in a statement with parameters it is not the first word that is sent.
        """
        with self.enlisted_session() as session:
            return session.run(Query("own", "run the statement", sql), *parameters)

    def ping(self, *, what: str | None = None) -> None:
        """Reach the server and log in. Raises as :meth:`session`.

        Long work names itself in ``what``, for the log: the call then waits for a server that is away.
        """
        with self._connector.enlisted_session(what=what) as session:
            session.run(query("session.ping"))

    def resolve(self, queue_name: str) -> ResolvedAddress:
        """Resolve an address to its table, by the routing settings alone. Raises AddressError."""
        return self.resolver.resolve(queue_name)

    def find(self, queue_name: str) -> ResolvedAddress:
        """Return the identity of the table at an address: its names as the server's catalog spells them.

        A synonym's is its base table, that of a missing table the address itself. ``queue@MACHINE`` of versions 1 and 2
        is understood: see :func:`airflow_sqlqueue.queue.tables.discovery.find_queue`.
        """
        return self._connector.find(queue_name)
