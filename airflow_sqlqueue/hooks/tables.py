"""The hook's methods on tables: create, drop, inspect."""

from __future__ import annotations

from airflow_sqlqueue.drain.ledger import ledger_definitions
from airflow_sqlqueue.hooks.base import QueueConnectionHook
from airflow_sqlqueue.inspection.findings import Finding
from airflow_sqlqueue.inspection.inspect import Inspection
from airflow_sqlqueue.inspection.inspect import fix as fix_table
from airflow_sqlqueue.inspection.inspect import inspect as inspect_table
from airflow_sqlqueue.queue.send_ledger import send_ledger_definition
from airflow_sqlqueue.tables.create import CreateResult, create, definitions_for
from airflow_sqlqueue.tables.discovery import list_tables, secondary_queues
from airflow_sqlqueue.tables.drop import drop_queue


class TableMethods(QueueConnectionHook):
    """What can be done with tables."""

    def create_queue(
        self,
        queue_name: str,
        *,
        layout: str = "modern",
        legacy_columns: bool = True,
        body_string: bool = False,
        delayed: bool = False,
        subscriptions: bool = False,
        ledger: bool = False,
        create_schema: bool = False,
    ) -> list[CreateResult]:
        """Create a queue if it is missing, and on request its table of delayed messages, the subscription table and the
        ledgers of drains and sends; the queue comes first in what is returned. What exists stays and is compared.

        See :func:`airflow_sqlqueue.tables.create.definitions_for` and :func:`airflow_sqlqueue.tables.create.create`.
        """
        definitions = definitions_for(
            self.resolver,
            queue_name,
            layout=layout,
            legacy_columns=legacy_columns,
            body_string=body_string,
            delayed=delayed,
            subscriptions=subscriptions,
        )
        if ledger:
            catalog = definitions[0].table.catalog
            definitions += ledger_definitions(catalog, self.ledger_schema)
            definitions.append(send_ledger_definition(catalog, self.ledger_schema))
        with self.enlisted_session() as session:
            return [create(session, definition, create_schema=create_schema) for definition in definitions]

    def drop_queue(self, queue_name: str, *, force: bool = False) -> int:
        """Drop a queue; return how many messages went with it. See :func:`airflow_sqlqueue.tables.drop.drop_queue`."""
        with self.queue(queue_name) as queue:
            return drop_queue(queue.session, queue.address, force=force)

    def inspect(self, queue_name: str) -> Inspection:
        """The queue's layout, and what is wrong with it. See :func:`airflow_sqlqueue.inspection.inspect.inspect`."""
        with self.queue(queue_name) as queue:
            return inspect_table(queue.session, queue.address)

    def inspect_all(self) -> list[Inspection]:
        """The same for every table of the transport in the connection's database, as far as the login may see them."""
        with self.enlisted_session() as session:
            tables = list_tables(session, self.queue_connection.settings.database)
            return [inspect_table(session, found.table) for found in tables]

    def fix(self, queue_name: str, code: str) -> Finding:
        """Run the statement of one finding of :meth:`inspect`. See :func:`airflow_sqlqueue.inspection.inspect.fix`."""
        with self.queue(queue_name) as queue:
            return fix_table(queue.session, queue.address, code)

    def with_secondary_queues(self, queue_name: str) -> list[str]:
        """The queue and its secondary queues, as canonical addresses: ``expand(queue_name=...)`` drains them all.

        See :func:`airflow_sqlqueue.tables.discovery.secondary_queues`.
        """
        with self.queue(queue_name) as queue:
            tables = list_tables(queue.session, queue.address.catalog)
            return [queue.address.canonical, *(t.canonical for t in secondary_queues(tables, queue.address))]
