"""How lineage names a server's databases and its queues."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from airflow_sqlqueue.assets import authority, create_asset

if TYPE_CHECKING:
    from airflow.providers.openlineage.sqlparser import DatabaseInfo
    from airflow.sdk import Asset

    from airflow_sqlqueue.client import QueueClient
    from airflow_sqlqueue.server.settings import ConnectionSettings


def queue_asset(client: QueueClient, queue_name: str | None, endpoint: str | None, extra: Mapping[str, Any]) -> Asset:
    """The asset of a queue, by its address or its endpoint."""
    table = client.resolve(client.resolver.address_of(queue_name, endpoint))
    return create_asset(
        host=client.settings.host,
        port=client.settings.port,
        instance=client.settings.instance,
        database=table.catalog,
        schema=table.schema,
        table=table.table,
        extra=dict(extra),
    )


def namespace_of(settings: ConnectionSettings) -> str:
    """OpenLineage's namespace of the tables of a server; a named instance is a part of it."""
    return f"mssql://{_server(settings)}"


def database_info(settings: ConnectionSettings) -> DatabaseInfo:
    """The database of a connection, as ``MsSqlHook`` names it."""
    from airflow.providers.openlineage.sqlparser import DatabaseInfo

    return DatabaseInfo(
        scheme="mssql",
        authority=_server(settings),
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


def _server(settings: ConnectionSettings) -> str:
    where = authority(settings.host, settings.port, settings.instance)
    return where if settings.instance is None else f"{where}/{settings.instance}"
