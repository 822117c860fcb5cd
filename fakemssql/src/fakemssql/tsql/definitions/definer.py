"""The entry to data definition: one statement to the method that runs it."""

from __future__ import annotations

from fakemssql.tsql.definitions.removal import Removal
from fakemssql.tsql.definitions.renaming import Renaming
from fakemssql.tsql.definitions.security.grants import Grants
from fakemssql.tsql.definitions.tables import Tables
from fakemssql.tsql.definitions.views import Views
from fakemssql.tsql.parser import nodes


class Definer(Tables, Views, Removal, Renaming, Grants):
    """Runs DDL for one session. Every method is called inside a PostgreSQL transaction."""

    def execute(self, node: nodes.Statement) -> None:
        """Run one DDL statement, if the user may."""
        self.authorize(node)
        method = getattr(self, "_" + type(node).__name__.lower())
        method(node)
        self.changed()
