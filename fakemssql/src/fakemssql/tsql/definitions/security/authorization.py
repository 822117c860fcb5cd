"""Whether the user may run a definition, before it runs.

Source: the section "Permissions" of each statement's page. Statements on logins, users, roles and permissions check for
themselves. Nothing here runs for a member of sysadmin.
"""

from __future__ import annotations

from fakemssql.contract import SqlError
from fakemssql.tsql.catalog.tables import TableInfo
from fakemssql.tsql.definitions.objects import Objects
from fakemssql.tsql.parser import nodes
from fakemssql.tsql.parser.nodes import Name
from fakemssql.tsql.security import errors
from fakemssql.tsql.security.context import DATABASE, OBJECT, SCHEMA, SERVER


class Authorization(Objects):
    """Checks definitions; each method is named after its statement."""

    def authorize(self, node: nodes.Statement) -> None:
        """Raises SQL Server's error for a definition that the user may not run."""
        if self.session.security.powerful:
            return
        check = getattr(self, "_may_" + type(node).__name__.lower(), None)
        if check is not None:
            check(node)

    # --- what is new -----------------------------------------------------------------------------------------------

    def _may_create(self, name: Name, permission: str) -> None:
        """Error 262 without the permission to create, 2760 without ALTER on the schema."""
        security = self.session.security
        database, schema, _ = self.catalog.split(name, self.session.database)
        security.require_database(database, permission)
        found = self.catalog.schema(database, schema)
        if found is None or not security.allowed(database, SCHEMA, found[0], "ALTER"):
            raise errors.no_schema(schema)

    def _may_createtable(self, node: nodes.CreateTable) -> None:
        if node.name[-1].startswith("#"):
            return
        self._may_create(node.name, "CREATE TABLE")
        self._may_reference(node.constraints)

    def _may_reference(self, constraints: list[nodes.Constraint]) -> None:
        for constraint in constraints:
            found = self.catalog.find(constraint.reference, self.session.database) if constraint.reference else None
            if found is not None:
                self.session.security.require(found, "REFERENCES")

    def _may_createview(self, node: nodes.CreateView) -> None:
        if not self._changes(node.name, node.mode, "V"):
            self._may_create(node.name, "CREATE VIEW")

    def _may_createmodule(self, node: nodes.CreateModule) -> None:
        if node.kind == "TRIGGER":
            table = self.catalog.find(node.table, self.session.database)
            if table is not None and not self._alters(table):
                name = ".".join(node.table)
                raise SqlError(8197, f"The object '{name}' does not exist or is invalid for this operation.", state=4)
        elif not self._changes(node.name, node.mode, "P"):
            self._may_create(node.name, "CREATE PROCEDURE")

    def _changes(self, name: Name, mode: str, kind: str) -> bool:
        """Whether ALTER (or CREATE OR ALTER) meets an object of that kind; error 208 if the user may not alter it."""
        found = self.catalog.find(name, self.session.database) if mode != "create" else None
        if found is None or found.type != kind:
            return False
        if not self._alters(found):
            raise SqlError(208, f"Invalid object name '{'.'.join(name)}'.", state=6)
        return True

    def _may_createsynonym(self, node: nodes.CreateSynonym) -> None:
        self._may_create(node.name, "CREATE SYNONYM")

    def _may_createschema(self, node: nodes.CreateSchema) -> None:
        """SQL Server tells of the permission, then that the statement failed."""
        try:
            self.session.security.require_database(self.session.database, "CREATE SCHEMA")
        except SqlError as error:
            self.session.info(error)
            raise SqlError(2759, "CREATE SCHEMA failed due to previous errors.", state=0) from None

    def _may_createdatabase(self, node: nodes.CreateDatabase) -> None:
        self.session.security.require_database("master", "CREATE DATABASE")

    # --- what is there ---------------------------------------------------------------------------------------------

    def _alters(self, table: TableInfo) -> bool:
        return table.local or self.session.security.allowed(table.database, OBJECT, table.object_id, "ALTER")

    def _may_alter(self, name: Name, state: int) -> None:
        """Error 1088 for a table that the user may not alter; what is missing, the statement itself finds."""
        table = self.catalog.find(name, self.session.database)
        if table is not None and not self._alters(table):
            raise errors.no_object(".".join(name), state)

    def _may_altertable(self, node: nodes.AlterTable) -> None:
        self._may_alter(node.name, 13)
        self._may_reference(node.constraints)

    def _may_indexdefinition(self, node: nodes.IndexDefinition) -> None:
        self._may_alter(node.table, 12)

    def _may_alterindex(self, node: nodes.AlterIndex) -> None:
        self._may_alter(node.table, 9)

    def _may_updatestatistics(self, node: nodes.UpdateStatistics) -> None:
        self._may_alter(node.table, 12)

    def _may_triggerstate(self, node: nodes.TriggerState) -> None:
        self._may_alter(node.table, 13)

    def _may_alterdatabase(self, node: nodes.AlterDatabase) -> None:
        name = node.name or self.session.database
        if not self.session.security.entrant(name) or not self.session.security.allowed(name, DATABASE, 0, "ALTER"):
            raise SqlError(
                5011,
                f"User does not have permission to alter database '{name}', the database"
                " does not exist, or the database is not in a state that allows access checks.",
                severity=14,
                state=5,
            )

    def truncates(self, table: TableInfo) -> None:
        """TRUNCATE TABLE needs ALTER: error 1088."""
        if not self.session.security.powerful and not self._alters(table):
            raise errors.no_object(table.name, 7)

    # --- DROP ------------------------------------------------------------------------------------------------------

    def _may_drop(self, node: nodes.Drop) -> None:
        for name in node.names:
            if node.kind == "INDEX":
                table = self.catalog.find(node.table, self.session.database)
                if table is not None and not self._alters(table):
                    raise _undroppable("index", ".".join((*node.table, name[-1])), 7)
            elif node.kind == "SCHEMA":
                self._may_drop_schema(name[-1])
            elif node.kind == "DATABASE":
                self._may_drop_database(name[-1])
            else:
                self._may_drop_object(node.kind, name)

    def _may_drop_object(self, kind: str, name: Name) -> None:
        """CONTROL on the object or ALTER on its schema; ALTER on the table for a trigger."""
        rows = [] if name[-1].startswith("#") else self.located(name)
        if not rows:
            return
        security, database = self.session.security, self.catalog.split(name, self.session.database)[0]
        number, schema, parent = (int(rows[0][i] or 0) for i in (0, 4, 5))
        if kind == "TRIGGER":
            allowed = security.allowed(database, OBJECT, parent, "ALTER")
        else:
            allowed = security.allowed(database, SCHEMA, schema, "ALTER") or security.allowed(
                database, OBJECT, number, "CONTROL"
            )
        if not allowed:
            raise _undroppable(kind.lower(), ".".join(name), 20)

    def _may_drop_schema(self, name: str) -> None:
        security, database = self.session.security, self.session.database
        found = self.catalog.schema(database, name)
        if found is None or security.allowed(database, SCHEMA, found[0], "CONTROL"):
            return
        if not security.allowed(database, DATABASE, 0, "ALTER ANY SCHEMA"):
            raise errors.missing("schema", name, "drop")

    def _may_drop_database(self, name: str) -> None:
        security = self.session.security
        if self.catalog.database(name) is None or security.allowed("master", SERVER, 0, "ALTER ANY DATABASE"):
            return
        if security.entrant(name) is None or not security.allowed(name, DATABASE, 0, "CONTROL"):
            raise _undroppable("database", name, 2)

    def renames(self, name: Name, kind: str) -> None:
        """sp_rename needs ALTER on the table: error 15247."""
        if self.session.security.powerful:
            return
        table = self.catalog.find(name if kind == "OBJECT" else name[:-1], self.session.database)
        if table is not None and not self._alters(table):
            raise errors.not_allowed()


def _undroppable(what: str, name: str, state: int) -> SqlError:
    return SqlError(
        3701,
        f"Cannot drop the {what} '{name}', because it does not exist or you do not have permission.",
        severity=14,
        state=state,
    )
