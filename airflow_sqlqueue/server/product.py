"""Which servers this package works on: SQL Server 2016 and later, and what Azure and Fabric make of the same engine."""

from __future__ import annotations

from airflow_sqlqueue.errors import UnsupportedServerError

_WAREHOUSES = {
    6: "a dedicated SQL pool of Azure Synapse Analytics",
    11: "a warehouse or SQL analytics endpoint of Microsoft Fabric, or a serverless pool of Azure Synapse Analytics",
}
_WITH_VERSIONS = {1, 2, 3, 4}
"""Editions of SQL Server proper. Azure SQL Database calls itself version 12, and is newer than all of them."""

_OLDEST = 13
"""SQL Server 2016: the catalog has had temporal tables and encrypted columns since, which reading a layout asks for."""

_INSTEAD = "use SQL Server 2016 or later, Azure SQL Database, Azure SQL Managed Instance or SQL database in Fabric"


def check_product(edition: int, version: str, where: str) -> None:
    """Raise :class:`UnsupportedServerError` for a server without what queue tables need.

    ``edition`` and ``version`` are its properties EngineEdition and ProductVersion. Source: "SERVERPROPERTY
    (Transact-SQL)"; docs/concepts/connections.md, "SQL Server versions".
    """
    if edition in _WAREHOUSES:
        raise UnsupportedServerError(
            f"The server at {where} is {_WAREHOUSES[edition]}, which has no queue tables: {_INSTEAD}."
        )
    major = version.partition(".")[0]
    if edition in _WITH_VERSIONS and major.isdecimal() and int(major) < _OLDEST:
        raise UnsupportedServerError(
            f"The server at {where} has version {version}, before SQL Server 2016: {_INSTEAD}."
        )
