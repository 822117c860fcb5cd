"""Tables of the transport: create, drop, inspect, fix."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypedDict

from airflow_sqlqueue.client.connector import Manager
from airflow_sqlqueue.drain.ledger import ledger_definitions
from airflow_sqlqueue.drain.streams import StreamTable
from airflow_sqlqueue.messages.routing import ResolvedAddress
from airflow_sqlqueue.queue.copies import copy_definitions
from airflow_sqlqueue.queue.errors.archive import Archive
from airflow_sqlqueue.queue.inbox import Inbox
from airflow_sqlqueue.queue.inspection.findings import Finding
from airflow_sqlqueue.queue.inspection.inspect import Inspection, fix, inspect
from airflow_sqlqueue.queue.inspection.overview import HEADS, DatabaseOverview, QueueOverview
from airflow_sqlqueue.queue.outgoing import OutgoingTable
from airflow_sqlqueue.queue.send_ledger import SendLedger
from airflow_sqlqueue.queue.tables.create import (
    CreateResult,
    Definition,
    create_all,
    definitions_for,
    drop_queue,
    script,
)
from airflow_sqlqueue.queue.tables.discovery import find_secondary_queues, list_tables
from airflow_sqlqueue.server.session import Session

if TYPE_CHECKING:
    from typing_extensions import Unpack


class QueueTables(TypedDict, total=False):
    """Arguments of :meth:`TableManager.create`, all optional: the queue's layout, and the tables beside it.

    - ``layout``: ``modern`` unless given, ``clustered``, or a version of the transport, ``v1`` to ``v10``.
    - ``legacy_columns``: False leaves out CorrelationId, ReplyToAddress and Recoverable (version 7 and later).
    - ``body_string``: adds a computed column that shows the body as text.
    - ``delayed``: the queue's table of delayed messages as well.
    - ``subscriptions``: the subscription table as well.
    - ``ledger``: the ledgers of drains and sends, the inbox of consumers and the archive of failed messages as well.
    """

    layout: str
    legacy_columns: bool
    body_string: bool
    delayed: bool
    subscriptions: bool
    ledger: bool


class TableManager(Manager):
    """Tables of the transport on a server."""

    def create(
        self, queue_name: str, *, create_schema: bool = False, **tables: Unpack[QueueTables]
    ) -> list[CreateResult]:
        """Create a missing queue, and on request the tables beside it; see :class:`QueueTables`.

        The queue's result is the first. Existing tables stay, and their layout is compared. ``create_schema`` creates a
        missing schema. See :func:`airflow_sqlqueue.queue.tables.create.create_all`.
        """
        definitions = self._definitions(queue_name, **tables)
        with self._connector.enlisted_session() as session:
            return create_all(session, definitions, create_schema=create_schema)

    def script(self, queue_name: str, *, create_schema: bool = False, **tables: Unpack[QueueTables]) -> str:
        """Return the statements of :meth:`create` as a script for an administrator, safe to run twice; run nothing."""
        return script(self._definitions(queue_name, **tables), create_schema=create_schema)

    def _definitions(self, queue_name: str, *, ledger: bool = False, **options: Any) -> list[Definition]:
        definitions = definitions_for(self._connector.resolver, queue_name, **options)
        if ledger:
            catalog, schema = definitions[0].table.catalog, self._connector.settings.ledger_schema
            others = (SendLedger, OutgoingTable, StreamTable, Inbox, Archive)
            definitions += [
                *ledger_definitions(catalog, schema),
                *copy_definitions(catalog, schema),
                *(table.definition(catalog, schema) for table in others),
            ]
        return definitions

    def drop(self, queue_name: str, *, force: bool = False) -> int:
        """Drop a queue; return how many messages it held. See :func:`..queue.tables.create.drop_queue`.

        ``queue@NAME`` is a queue in the schema NAME here, never one of versions 1 and 2 on a machine of that name: a
        schema that is missing or mistyped must not drop the queue of the default schema.
        """
        table = self._connector.resolver.resolve(queue_name)
        with self._connector.enlisted_session() as session:
            return drop_queue(session, table, force=force)

    def inspect(self, queue_name: str) -> Inspection:
        """Inspect a table: its layout and its faults. See :func:`airflow_sqlqueue.queue.inspection.inspect.inspect`."""
        with self._named(queue_name) as (session, table):
            return inspect(session, table, self._connector.resolver.delayed_suffix)

    def inspect_all(self) -> list[Inspection]:
        """Inspect all tables of the transport in the connection's database that the login may see."""
        with self._connector.enlisted_session() as session:
            tables = list_tables(session, self._connector.settings.database)
            suffix = self._connector.resolver.delayed_suffix
            return [inspect(session, found.table, suffix) for found in tables]

    def overview(self) -> list[QueueOverview]:
        """Count the messages of all queues of the connection's database by its catalog, and look at their heads."""
        connector = self._connector
        overview = DatabaseOverview(connector.settings.database, delayed_suffix=connector.resolver.delayed_suffix)
        with connector.enlisted_session() as session:
            found = overview.read(session)
            for _ in range(0, len(found), HEADS):
                found = overview.read(session)
        return found

    def fix(self, queue_name: str, code: str) -> Finding:
        """Run the statement of one finding of :meth:`inspect`. See :func:`..queue.inspection.inspect.fix`."""
        with self._named(queue_name) as (session, table):
            return fix(session, table, code, self._connector.resolver.delayed_suffix)

    @contextmanager
    def _named(self, queue_name: str) -> Iterator[tuple[Session, ResolvedAddress]]:
        """Resolve an address to the object of that name: a synonym stays one, so that no drop goes through it."""
        table = self._connector.address(queue_name)
        with self._connector.enlisted_session() as session:
            yield session, table

    def with_secondary_queues(self, queue_name: str) -> list[str]:
        """List the addresses of the queue and its secondary queues: ``expand(queue_name=...)`` drains them all."""
        with self._connector.queue(queue_name) as queue:
            return [t.canonical for t in (queue.address, *find_secondary_queues(queue.session, queue.address))]
