"""Environment of a statement: the session's values that its meaning depends on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from fakemssql.tsql.catalog.catalog import Catalog
from fakemssql.tsql.catalog.tables import TableInfo
from fakemssql.tsql.datatypes.sqltypes import INT
from fakemssql.tsql.security.context import SecurityContext
from fakemssql.types import SqlType

SYSTEM_VARIABLES = {
    **dict.fromkeys(
        [
            "@@rowcount",
            "@@error",
            "@@trancount",
            "@@options",
            "@@lock_timeout",
            "@@max_connections",
            "@@nestlevel",
            "@@procid",
            "@@fetch_status",
            "@@microsoftversion",
            "@@textsize",
            "@@cpu_busy",
            "@@connections",
            "@@cursor_rows",
            "@@timeticks",
        ],
        INT,
    ),
    **dict.fromkeys(["@@spid", "@@langid"], SqlType("smallint")),
    "@@identity": SqlType("numeric", precision=38, scale=0),
    "@@version": SqlType("nvarchar", length=300),
    **dict.fromkeys(["@@servername", "@@servicename", "@@language"], SqlType("nvarchar", length=128)),
    **dict.fromkeys(["@@datefirst", "@@max_precision"], SqlType("tinyint")),
    "@@dbts": SqlType("varbinary", length=8),
}


@dataclass
class Environment:
    """Environment of a statement: catalog, variables, isolation level, user and switches."""

    catalog: Catalog
    database: str
    variables: dict[str, SqlType] = field(default_factory=dict)
    tables: dict[str, TableInfo] = field(default_factory=dict)
    isolation: str = "READ COMMITTED"
    in_transaction: bool = False
    identity_insert: str = ""
    errors: bool = False
    security: SecurityContext | None = None  # None: a definition, for no particular user
    properties: Mapping[str, str | int | None] = field(
        default_factory=dict
    )  # values of SERVERPROPERTY that tests have set
    page_locks: bool = False  # see fakemssql.switches.Switches
    quoted_identifier: bool = True  # ON, or in a module, which keeps the option of its CREATE

    def require(self, table: TableInfo, permission: str) -> None:
        """Require a permission on an object. Error 229 if the user does not have it."""
        if self.security is not None:
            self.security.require(table, permission)
