"""The hook: one Airflow connection, and what can be done with the queues behind it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import quote_plus

from airflow.providers.common.sql.hooks.sql import DbApiHook
from airflow.sdk import conf
from airflow.sdk.log import mask_secret

from airflow_sqlqueue.address import without_machine
from airflow_sqlqueue.connection import load_pyodbc
from airflow_sqlqueue.create import Created, create, definitions_for
from airflow_sqlqueue.discovery import find_queue, list_tables, secondary_queues
from airflow_sqlqueue.doctor.examine import Examination, examine
from airflow_sqlqueue.drain.ledger import Ledger, ledger_definitions
from airflow_sqlqueue.drop import drop_queue
from airflow_sqlqueue.errors import SqlQueueError
from airflow_sqlqueue.hooks.settings import QueueConnection, read_connection
from airflow_sqlqueue.message import Message, ReceivedMessage
from airflow_sqlqueue.queue import Depth, Purged, QueueTable
from airflow_sqlqueue.routing import AddressResolver, ResolvedAddress
from airflow_sqlqueue.session import Session, open_connection
from airflow_sqlqueue.sql import query

if TYPE_CHECKING:
    import uuid
    from os import PathLike

    import pyodbc
    from airflow.providers.openlineage.sqlparser import DatabaseInfo
    from airflow.sdk import Connection, ObjectStoragePath

    from airflow_sqlqueue.drain.drain import DrainResult, Progress
    from airflow_sqlqueue.drain.manifest import Batch
    from airflow_sqlqueue.drain.options import DrainOptions


class SqlQueueHook(DbApiHook):
    """Queue tables of SQL Server through one Airflow connection of type ``sqlqueue``, ``mssql`` or ``odbc``.

    It is a ``DbApiHook``, so SQL operators and sensors work with the connection as well; the queue methods do not use
    that side, because it logs parameters. A queue is named by its address: ``audit``, ``audit@[schema]@[catalog]``.
    Arguments win over the connection's extra; mappings are merged, key by key.

    :param sqlqueue_conn_id: the Airflow connection.
    :param database: the database, instead of the connection's schema.
    :param driver: the name of an ODBC driver or the path of its library; None picks one.
    :param lock_timeout: seconds a statement waits for a lock.
    :param default_schema: the schema of queues whose address names none; ``dbo`` unless set.
    :param default_catalog: the database of queues whose address names none; the connection's unless set.
    :param queue_schemas: the schema of a queue, by its table name.
    :param queue_catalogs: the database of a queue, by its table name.
    :param endpoint_schemas: the schema of an endpoint's queue, by the endpoint's name.
    :param endpoint_catalogs: the database of an endpoint's queue, by the endpoint's name.
    :param ledger_schema: the schema of the drain's ledger; ``sqlqueue`` unless set.
    :param log_sql: whether ``run`` and its like log statements and parameters. Off: a parameter may be a body.
    """

    conn_name_attr = "sqlqueue_conn_id"
    default_conn_name = "sqlqueue_default"
    conn_type = "sqlqueue"
    hook_name = "SQL Server queue"
    supports_autocommit = True
    supports_executemany = True
    _placeholder = "?"

    def __init__(
        self,
        sqlqueue_conn_id: str = default_conn_name,
        *,
        database: str | None = None,
        driver: str | None = None,
        lock_timeout: float | None = None,
        default_schema: str | None = None,
        default_catalog: str | None = None,
        queue_schemas: Mapping[str, str] | None = None,
        queue_catalogs: Mapping[str, str] | None = None,
        endpoint_schemas: Mapping[str, str] | None = None,
        endpoint_catalogs: Mapping[str, str] | None = None,
        ledger_schema: str | None = None,
        log_sql: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(sqlqueue_conn_id, log_sql=log_sql, **kwargs)
        self.schema = database
        self._driver = driver
        self._overrides = {
            "lock_timeout": lock_timeout,
            "default_schema": default_schema,
            "default_catalog": default_catalog,
            "queue_schemas": queue_schemas,
            "queue_catalogs": queue_catalogs,
            "endpoint_schemas": endpoint_schemas,
            "endpoint_catalogs": endpoint_catalogs,
            "ledger_schema": ledger_schema,
        }

    @cached_property
    def queue_connection(self) -> QueueConnection:
        """The connection as the core reads it. Raises ConfigurationError for what cannot be used."""
        read = read_connection(
            self.connection,
            database=self.schema,
            driver=self._driver,
            allow_driver_in_extra=conf.getboolean("sqlqueue", "allow_driver_in_extra", fallback=False),
            overrides=self._overrides,
        )
        # Airflow does not mask what is shorter, and warns of it.
        mask_secret({name: value for name, value in read.settings.keywords.items() if len(value) >= 5})
        for form in {form for secret in read.secrets for form in _written_forms(secret)}:
            mask_secret(form)
        return read

    def session(self) -> Session:
        """A new session of the core; close it, or use it as a context manager. Raises as Session does."""
        read = self.queue_connection
        return Session(read.settings, lock_timeout=read.lock_timeout)

    @property
    def resolver(self) -> AddressResolver:
        """The routing settings."""
        return self.queue_connection.resolver

    @property
    def ledger_schema(self) -> str:
        """The schema of the drain's ledger, in the queue's database."""
        return self.queue_connection.ledger_schema

    def resolve(self, queue_name: str) -> ResolvedAddress:
        """The table that an address means. Raises AddressError."""
        return self.resolver.resolve(queue_name)

    def find_queue(self, queue_name: str) -> ResolvedAddress:
        """The table that an address means on this server: ``queue@MACHINE`` of versions 1 and 2 is told from a schema.

        See :func:`airflow_sqlqueue.discovery.find_queue`; only such an address takes a connection.
        """
        if without_machine(queue_name) is None:
            return self.resolve(queue_name)
        with self.session() as session:
            return find_queue(session, self.resolver, queue_name)

    @contextmanager
    def queue(self, queue_name: str) -> Iterator[QueueTable]:
        """A queue in a session of its own: ``with hook.queue("audit") as queue, queue.session.transaction(): ...``."""
        self.resolve(queue_name)
        with self.session() as session:
            yield QueueTable(session, find_queue(session, self.resolver, queue_name))

    def send(self, queue_name: str, messages: Iterable[Message]) -> int:
        """Send messages in one transaction and return how many; at least once, if the caller repeats a failed call."""
        with self.queue(queue_name) as queue, queue.session.transaction():
            return queue.send(messages)

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
    ) -> list[Created]:
        """Create a queue if it is missing, and on request its table of delayed messages, the subscription table and the
        drain's ledger; the queue comes first in what is returned. What exists is left as it is and compared.

        See :func:`airflow_sqlqueue.create.definitions_for` and :func:`airflow_sqlqueue.create.create`.
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
        with self.session() as session:
            created = [create(session, definition, create_schema=create_schema) for definition in definitions]
            if ledger:
                for definition in ledger_definitions(created[0].table.catalog, self.ledger_schema):
                    created.append(create(session, definition, create_schema=True))
        return created

    def drop_queue(self, queue_name: str, *, force: bool = False) -> int:
        """Drop a queue and return how many messages went with it. See :func:`airflow_sqlqueue.drop.drop_queue`."""
        with self.queue(queue_name) as queue:
            return drop_queue(queue.session, queue.address, force=force)

    def inspect(self, queue_name: str) -> Examination:
        """The queue's layout, and what is wrong with it. See :func:`airflow_sqlqueue.doctor.examine`."""
        with self.queue(queue_name) as queue:
            return examine(queue.session, queue.address)

    def inspect_all(self) -> list[Examination]:
        """The same for every table of the transport in the connection's database, as far as the login may see them."""
        with self.session() as session:
            tables = list_tables(session, self.queue_connection.settings.database)
            return [examine(session, found.table) for found in tables]

    def with_secondary_queues(self, queue_name: str) -> list[str]:
        """The queue and its secondary queues, as canonical addresses: ``expand(queue_name=...)`` drains them all.

        See :func:`airflow_sqlqueue.discovery.secondary_queues`.
        """
        with self.queue(queue_name) as queue:
            tables = list_tables(queue.session, queue.address.catalog)
            return [queue.address.canonical, *(t.canonical for t in secondary_queues(tables, queue.address))]

    def depth(self, queue_name: str, *, at_most: int | None = None) -> Depth:
        """Count the messages that nobody has locked, or look at the first ``at_most`` rows only."""
        with self.queue(queue_name) as queue:
            return queue.depth(at_most=at_most)

    def peek(self, queue_name: str, at_most: int = 10) -> list[ReceivedMessage]:
        """Look at the head of the queue; nothing is removed."""
        with self.queue(queue_name) as queue:
            return queue.peek(at_most)

    def receive(self, queue_name: str, at_most: int = 1) -> list[ReceivedMessage]:
        """Take messages out of the queue. At most once: they are gone when this returns, whatever comes after.

        Use :meth:`drain`, or :meth:`queue` with a transaction, where none may be lost.
        """
        with self.queue(queue_name) as queue:
            return queue.receive(at_most)

    def purge_expired(
        self,
        queue_name: str,
        *,
        chunk: int = 1_000,
        max_messages: int | None = None,
        max_seconds: float | None = None,
        dry_run: bool = False,
    ) -> Purged:
        """Delete expired messages. See :meth:`airflow_sqlqueue.queue.QueueTable.purge_expired`."""
        with self.queue(queue_name) as queue:
            return queue.purge_expired(chunk=chunk, max_messages=max_messages, max_seconds=max_seconds, dry_run=dry_run)

    def drain(
        self,
        queue_name: str,
        staging: str | PathLike[str] | ObjectStoragePath,
        *,
        batch_id: uuid.UUID | None = None,
        origin: str = "",
        options: DrainOptions | None = None,
        on_progress: Callable[[Progress], None] | None = None,
    ) -> DrainResult:
        """Drain a queue into a sealed batch of Parquet files under ``staging``: exactly once, from queue to files.

        The same ``batch_id`` resumes an open batch and returns a sealed one. See
        :class:`airflow_sqlqueue.drain.drain.Drain`.
        """
        from airflow_sqlqueue.drain.drain import Drain
        from airflow_sqlqueue.drain.files import StagingFolder

        return Drain(
            self.session,
            self.find_queue(queue_name),
            StagingFolder.of(staging),
            batch_id=batch_id,
            origin=origin,
            options=options,
            ledger_schema=self.ledger_schema,
            on_progress=on_progress,
        ).run()

    def batch(self, batch_id: uuid.UUID, queue_name: str | None = None) -> Batch:
        """The manifest of a sealed batch, from the ledger of the queue's database (the connection's unless named)."""
        catalog = self.find_queue(queue_name).catalog if queue_name else self.queue_connection.settings.database
        with self._ledger(catalog) as ledger:
            return ledger.manifest(batch_id)

    def mark_consumed(self, batch: Batch) -> None:
        """Mark a sealed batch consumed: it was read for good. Idempotent; raises BatchError for any other state."""
        # The routing may have changed since the drain: the manifest's own address says where the ledger stands.
        with self._ledger(AddressResolver().resolve(batch.queue).catalog) as ledger:
            ledger.consume(batch)

    @contextmanager
    def _ledger(self, catalog: str) -> Iterator[Ledger]:
        with self.session() as session:
            yield Ledger(session, catalog, self.ledger_schema)

    # What a DbApiHook must say of its database; its set_autocommit and get_autocommit suit pyodbc as they are.

    def get_conn(self) -> pyodbc.Connection:
        """A pyodbc connection without autocommit, as ``DbApiHook`` expects. Raises as :meth:`session` does."""
        connection = open_connection(self.queue_connection.settings)
        connection.autocommit = False
        return connection

    def test_connection(self) -> tuple[bool, str]:  # type: ignore[override] # the base class has no annotation
        """Reach the server, and say in one sentence how it went."""
        try:
            with self.session() as session:
                session.run(query("session.ping"))
        except SqlQueueError as error:
            return False, str(error)
        settings = self.queue_connection.settings
        return True, f"SQL Server at {settings.host}:{settings.port} answers, database {settings.database!r}."

    def get_uri(self) -> str:
        """The SQLAlchemy URL. It holds the password."""
        return f"mssql+pyodbc:///?odbc_connect={quote_plus(self.queue_connection.settings.odbc_connection_string())}"

    @property
    def dialect_name(self) -> str:
        return "mssql"

    @staticmethod
    def _serialize_cell(cell: Any, conn: Any = None) -> Any:
        """The cell as it is: the base class would make text of bytes and GUIDs."""
        return cell

    def _make_common_data_structure(self, result: Any) -> Any:
        """Tuples, which XCom takes, for pyodbc's rows, which it does not."""
        row = load_pyodbc().Row
        if isinstance(result, list):
            return [tuple(item) if isinstance(item, row) else item for item in result]
        return tuple(result) if isinstance(result, row) else result

    def get_openlineage_database_info(self, connection: Connection) -> DatabaseInfo:
        """How OpenLineage names what the SQL operators touch: as MsSqlHook has it."""
        from airflow.providers.openlineage.sqlparser import DatabaseInfo

        settings = self.queue_connection.settings
        return DatabaseInfo(
            scheme=self.get_openlineage_database_dialect(connection),
            authority=f"{settings.host}:{settings.port}",
            information_schema_columns=[
                "table_schema",
                "table_name",
                "column_name",
                "ordinal_position",
                "data_type",
                "table_catalog",
            ],
            database=settings.database,
            is_information_schema_cross_db=True,
        )

    def get_openlineage_database_dialect(self, connection: Connection) -> str:
        return "mssql"

    def get_openlineage_default_schema(self) -> str | None:
        """The login's default schema, which unqualified names in plain SQL mean."""
        row = self.get_first("SELECT SCHEMA_NAME();")
        return str(row[0]) if row else None


def _written_forms(secret: str) -> set[str]:
    """How a password stands by itself, in a connection string of ODBC or .NET, and in a URL."""
    braced = secret.replace("}", "}}")
    doubled = (secret.replace('"', '""'), secret.replace("'", "''"))
    return {secret, braced, quote_plus(braced), quote_plus(secret), *doubled}
