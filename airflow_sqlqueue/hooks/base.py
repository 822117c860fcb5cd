"""What every part of the hook stands on: an Airflow connection, sessions, and the DbApiHook side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote_plus

from airflow.providers.common.sql.hooks.sql import DbApiHook
from airflow.sdk import conf
from airflow.sdk.log import mask_secret

from airflow_sqlqueue.address import without_machine
from airflow_sqlqueue.errors import SqlQueueError
from airflow_sqlqueue.hooks.connection import QueueConnection, read_connection
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.routing import AddressResolver, ResolvedAddress
from airflow_sqlqueue.server.connection import open_connection
from airflow_sqlqueue.server.settings import load_pyodbc
from airflow_sqlqueue.session import Session
from airflow_sqlqueue.sql import Query, query
from airflow_sqlqueue.tables.discovery import find_queue
from airflow_sqlqueue.transactions import SENDS_ATOMIC_WITH_RECEIVE, Transaction, current_transaction, transaction

if TYPE_CHECKING:
    import pyodbc
    from airflow.providers.openlineage.sqlparser import DatabaseInfo
    from airflow.sdk import Connection


class QueueConnectionHook(DbApiHook):
    """A hook that can open sessions and knows what addresses mean; its subclasses say what to do with them."""

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
        """A new session of the core; close it, or use it as a context manager. Raises as Session does.

        It is never part of a :meth:`transaction`.
        """
        read = self.queue_connection
        return Session(read.settings, lock_timeout=read.lock_timeout)

    @contextmanager
    def enlisted_session(self, *, sending: bool = False) -> Iterator[Session]:
        """The session of the :meth:`transaction` under way, where there is one, else one of its own.

        ``sending`` asks for the one that sends, which is another in the mode ``receive_only``.
        """
        current = current_transaction(self.queue_connection.settings)
        if current is not None:
            yield current.sending if sending else current.receiving
            return
        with self.session() as session:
            yield session

    @contextmanager
    def transaction(self, mode: str = SENDS_ATOMIC_WITH_RECEIVE) -> Iterator[Transaction]:
        """A transaction that every call of this hook, and of others with the same server and login, is part of.

        ``with hook.transaction(): hook.send("billing", map(bill, hook.receive("orders", 100)))``: what is received,
        sent and run, with :meth:`run_sql` or the hook's ``run`` and ``get_records``, commits together when the block
        ends and is rolled back together when it raises; received messages are visible again then. Other databases of
        the server are part of it. An error inside dooms it: nothing more can be done before the block ends.

        ``mode`` is ``sends_atomic_with_receive``, ``receive_only`` (sends commit at once: at least once) or ``none``
        (everything commits at once, received messages can be lost): :func:`airflow_sqlqueue.transactions.transaction`.
        Raises :class:`TransactionError` where another server or login would be needed.
        """
        with transaction(self.queue_connection.settings, self.session, mode) as begun:
            yield begun

    def run_sql(self, sql: str, *parameters: Any) -> list[Any]:
        """Run a statement of your own, in the :meth:`transaction` under way, and return the rows of its last result.

        Unlike ``run`` it logs nothing of the statement, and raises this package's errors.
        """
        with self.enlisted_session() as session:
            return session.run(Query("own", "run the statement", sql), *parameters)

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

        See :func:`airflow_sqlqueue.tables.discovery.find_queue`; only such an address takes a connection.
        """
        if without_machine(queue_name) is None:
            return self.resolve(queue_name)
        with self.enlisted_session() as session:
            return find_queue(session, self.resolver, queue_name)

    @contextmanager
    def queue(self, queue_name: str, *, sending: bool = False) -> Iterator[QueueTable]:
        """A queue in a session of its own, or in that of the :meth:`transaction` under way.

        ``sending`` as for :meth:`enlisted_session`.
        """
        self.resolve(queue_name)
        with self.enlisted_session(sending=sending) as session:
            yield QueueTable(session, find_queue(session, self.resolver, queue_name))

    # What a DbApiHook must say of its database; its set_autocommit and get_autocommit suit pyodbc as they are.

    def get_conn(self) -> pyodbc.Connection:
        """A pyodbc connection without autocommit, as ``DbApiHook`` expects. Raises as :meth:`session` does.

        Inside a :meth:`transaction` it is lent from there: its commit does nothing, its rollback dooms the transaction.
        """
        current = current_transaction(self.queue_connection.settings)
        if current is not None:
            return cast("pyodbc.Connection", current.receiving.enlisted_connection())
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
