"""Names of a server's databases in OpenLineage."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_sqlqueue.assets import authority

if TYPE_CHECKING:
    from airflow.providers.openlineage.sqlparser import DatabaseInfo

    from airflow_sqlqueue.server.settings import ConnectionSettings


def namespace_of(settings: ConnectionSettings) -> str:
    """Return OpenLineage's namespace of the tables of a server; a named instance is a part of it."""
    return f"mssql://{_server(settings)}"


def database_info(settings: ConnectionSettings) -> DatabaseInfo:
    """Return the database of a connection, under the names of ``MsSqlHook``."""
    from airflow.providers.openlineage.sqlparser import DatabaseInfo

    return DatabaseInfo(
        scheme="mssql",
        authority=_server(settings),
        information_schema_columns=[
            *("table_schema", "table_name", "column_name", "ordinal_position", "data_type", "table_catalog"),
        ],
        database=settings.database,
        is_information_schema_cross_db=True,
    )


def _server(settings: ConnectionSettings) -> str:
    where = authority(settings.host, settings.port, settings.instance)
    return where if settings.instance is None else f"{where}/{settings.instance}"
