"""How OpenLineage names a server's databases."""

from __future__ import annotations

from airflow.providers.openlineage.sqlparser import DatabaseInfo

from airflow_sqlqueue.server.settings import ConnectionSettings


def database_info(settings: ConnectionSettings) -> DatabaseInfo:
    """The database of a connection, as ``MsSqlHook`` names it."""
    return DatabaseInfo(
        scheme="mssql",
        authority=settings.server,
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
