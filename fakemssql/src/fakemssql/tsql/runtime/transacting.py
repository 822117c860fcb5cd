"""What transactions need of the session that they are of."""

from __future__ import annotations

from typing import Protocol

from fakemssql.contract import ResponseWriter
from fakemssql.switches import Switches
from fakemssql.tsql.catalog.catalog import Catalog
from fakemssql.tsql.catalog.tables import TableInfo
from fakemssql.tsql.pg import Pg
from fakemssql.tsql.runtime.activity import ActiveSession, Activity
from fakemssql.tsql.runtime.applock import AppLocks


class TransactingSession(ActiveSession, Protocol):
    """The state and the parts of a session that a transaction's begin and end touch."""

    created_tables: list[str]
    dropped_tables: list[TableInfo]

    @property
    def pg(self) -> Pg: ...

    @property
    def catalog(self) -> Catalog: ...

    @property
    def switches(self) -> Switches: ...

    @property
    def activity(self) -> Activity: ...

    @property
    def applocks(self) -> AppLocks: ...

    @property
    def output(self) -> ResponseWriter | None: ...

    @property
    def trying(self) -> int: ...
