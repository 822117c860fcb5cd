"""Base class of the hook for plain SQL: a ``DbApiHook``, which Airflow's SQL operators and sensors use."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote_plus

from airflow.providers.common.sql.hooks.sql import DbApiHook

from airflow_sqlqueue.errors import SqlQueueError
from airflow_sqlqueue.hooks.lineage import database_info
from airflow_sqlqueue.server.connection import open_connection
from airflow_sqlqueue.server.settings import load_pyodbc
from airflow_sqlqueue.server.transactions import transaction_of_statements

if TYPE_CHECKING:
    import pyodbc
    from airflow.providers.openlineage.sqlparser import DatabaseInfo
    from airflow.sdk import Connection

    from airflow_sqlqueue.client.client import QueueClient


class UnloggedCursor:
    """Cursor that holds the parameters of its statement: its ``execute`` takes the statement alone."""

    def __init__(self, cursor: Any, parameters: Any) -> None:
        self._cursor, self._parameters = cursor, parameters

    def execute(self, statement: str) -> Any:
        """Run the statement with its parameters."""
        return self._cursor.execute(statement, self._parameters)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cursor, name)


class UnloggedParameters(tuple[Any, ...]):
    """Parameters whose values never reach a log, since one may be a body; falsy, so that lineage leaves them out.

    ``DbApiHook`` logs its parameters, and hands them to the collectors of hook lineage, which put them into events. A
    log shows the number of these parameters alone.
    """

    __slots__ = ()

    def __bool__(self) -> bool:
        return False

    def __repr__(self) -> str:
        return f"({len(self)} values)"


class UnloggedMapping(dict[Any, Any]):
    """As :class:`UnloggedParameters`, with names, which pyodbc refuses and polars takes as options."""

    __slots__ = ()

    def __bool__(self) -> bool:
        return False

    def __repr__(self) -> str:
        return f"({len(self)} values)"


def unlogged(parameters: Any) -> Any:
    """Return parameters as :class:`UnloggedParameters`, or as :class:`UnloggedMapping`; None for None."""
    if parameters is None:
        return None
    return UnloggedMapping(parameters) if isinstance(parameters, Mapping) else UnloggedParameters(parameters)


class PlainSqlHook(DbApiHook):
    """Hook for plain SQL through a client's connections; its parameters are in no log and no lineage.

    ``set_autocommit`` and ``get_autocommit`` of the base class suit pyodbc as they are.
    """

    supports_autocommit = True
    supports_executemany = True
    _placeholder = "?"

    @property
    @abstractmethod
    def client(self) -> QueueClient:
        """Client of the connection's server."""

    def get_conn(self) -> pyodbc.Connection:
        """Return a pyodbc connection without autocommit, as ``DbApiHook`` expects. Raises as a session.

        Inside a :meth:`transaction` it is the transaction's: its commit does nothing, its rollback dooms the
        transaction. Raises :class:`~airflow_sqlqueue.errors.TransactionError` in one of another server or database.
        """
        current = transaction_of_statements(self.client.settings)
        if current is not None:
            return cast("pyodbc.Connection", current.receiving.enlisted_connection())
        return open_connection(self.client.settings, autocommit=False)

    def test_connection(self) -> tuple[bool, str]:  # type: ignore[override] # the base class has no annotation
        """Reach the server; return whether that worked, and a sentence about it."""
        try:
            self.client.ping()
        except SqlQueueError as error:
            return False, str(error)
        settings = self.client.settings
        return True, f"SQL Server at {settings.server} answers, database {settings.database!r}."

    def get_uri(self) -> str:
        """Return the SQLAlchemy URL. It holds the password."""
        return f"mssql+pyodbc:///?odbc_connect={quote_plus(self.client.settings.odbc_connection_string())}"

    def get_sqlalchemy_engine(self, engine_kwargs: dict[str, Any] | None = None) -> Any:
        """Return an engine of SQLAlchemy. A login by access token needs a creator: no URL can hold the token."""
        settings, options = self.client.settings, dict(engine_kwargs or {})
        if settings.by_token:
            options.setdefault("creator", lambda: open_connection(settings, autocommit=False))
        return super().get_sqlalchemy_engine(options)

    @property
    def dialect_name(self) -> str:
        return "mssql"

    def _run_command(self, cur: Any, sql_statement: str, parameters: Any) -> None:
        """Run a statement of ``run``, without its parameters in logs and lineage."""
        super()._run_command(UnloggedCursor(cur, parameters) if parameters else cur, sql_statement, None)

    def get_df(self, sql: Any, parameters: Any = None, **kwargs: Any) -> Any:
        """Return the rows as a DataFrame, without the parameters in lineage."""
        return super().get_df(sql, unlogged(parameters), **kwargs)

    def get_df_by_chunks(self, sql: Any, parameters: Any = None, **kwargs: Any) -> Any:
        """Return the rows as DataFrames, without the parameters in lineage."""
        return super().get_df_by_chunks(sql, unlogged(parameters), **kwargs)

    @classmethod
    def _serialize_cells(cls, row: Any, conn: Any = None) -> tuple[Any, ...]:
        """Return the cells of :meth:`insert_rows` unchanged.

        The base class would turn bytes and GUIDs into text, and log the cells of a failed insert.
        """
        return UnloggedParameters(row)

    def _make_common_data_structure(self, result: Any) -> Any:
        """Turn pyodbc's rows into tuples, which XCom can store."""
        row = load_pyodbc().Row
        if isinstance(result, list):
            return [tuple(item) if isinstance(item, row) else item for item in result]
        return tuple(result) if isinstance(result, row) else result

    def get_openlineage_database_info(self, connection: Connection) -> DatabaseInfo:
        """Return the database of SQL operators for OpenLineage, under the names of ``MsSqlHook``."""
        return database_info(self.client.settings)

    def get_openlineage_database_dialect(self, connection: Connection) -> str:
        return "mssql"

    def get_openlineage_default_schema(self) -> str | None:
        """Return the login's default schema: unqualified names in plain SQL are in it."""
        row = self.get_first("SELECT SCHEMA_NAME();")
        return str(row[0]) if row else None
