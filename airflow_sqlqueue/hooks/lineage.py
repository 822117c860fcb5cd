"""Lineage of the hook: its queues as Airflow collects them, and names of a server's databases in OpenLineage."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from airflow.providers.common.compat.lineage.hook import get_hook_lineage_collector

from airflow_sqlqueue.assets import authority, uri_of

if TYPE_CHECKING:
    from airflow.providers.openlineage.sqlparser import DatabaseInfo
    from airflow.sdk import BaseHook

    from airflow_sqlqueue.client.client import QueueClient
    from airflow_sqlqueue.server.settings import ConnectionSettings


def collect(hook: BaseHook, client: QueueClient, queue_name: str, *, is_output: bool) -> None:
    """Tell Airflow's collector of lineage, where it has readers, that a task's own code used a queue."""
    # The messages have moved: an error now would have the caller repeat that.
    with suppress(Exception):
        collector = get_hook_lineage_collector()  # type: ignore[no-untyped-call]
        add = collector.add_output_asset if is_output else collector.add_input_asset
        settings, table = client.settings, client.resolve(queue_name)
        names = (table.catalog, table.schema, table.table)
        add(hook, uri=uri_of(settings.host, settings.port, settings.instance, names))


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
