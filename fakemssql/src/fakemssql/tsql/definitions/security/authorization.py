"""Permissions for definitions, checked before they run.

Source: the section "Permissions" of each statement's page. Statements on logins, users, roles and permissions have
their own checks. For the administrator there is no check.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fakemssql.contract import SqlError
from fakemssql.tsql.catalog.tables import TableInfo
from fakemssql.tsql.definitions.definer import Definer
from fakemssql.tsql.parser import nodes
from fakemssql.tsql.parser.nodes import Name
from fakemssql.tsql.security import errors
from fakemssql.tsql.security.context import DATABASE, OBJECT, SCHEMA, SERVER


def authorize(d: Definer, node: nodes.Statement) -> None:
    """Raise SQL Server's error for a definition that the user may not run."""
    if d.session.security.powerful:
        return
    check = CHECKS.get(type(node))
    if check is not None:
        check(d, node)


# --- new objects -----------------------------------------------------------------------------------------------------


def _may_create(d: Definer, name: Name, permission: str) -> None:
    """Raise error 262 without the permission to create, 2760 without ALTER on the schema."""
    security = d.session.security
    database, schema, _ = d.catalog.split(name, d.session.database)
    security.require_database(database, permission)
    found = d.catalog.schema(database, schema)
    if found is None or not security.allowed(database, SCHEMA, found[0], "ALTER"):
        raise errors.no_schema(schema)


def _may_create_table(d: Definer, node: nodes.CreateTable) -> None:
    if node.name[-1].startswith("#"):
        return
    _may_create(d, node.name, "CREATE TABLE")
    _may_reference(d, node.constraints)


def _may_reference(d: Definer, constraints: list[nodes.Constraint]) -> None:
    for constraint in constraints:
        found = d.catalog.find(constraint.reference, d.session.database) if constraint.reference else None
        if found is not None:
            d.session.security.require(found, "REFERENCES")


def _may_create_view(d: Definer, node: nodes.CreateView) -> None:
    if not _changes(d, node.name, node.mode, "V"):
        _may_create(d, node.name, "CREATE VIEW")


def _may_create_module(d: Definer, node: nodes.CreateModule) -> None:
    if node.kind == "TRIGGER":
        table = d.catalog.find(node.table, d.session.database)
        if table is not None and not _alters(d, table):
            name = ".".join(node.table)
            raise SqlError(8197, f"The object '{name}' does not exist or is invalid for this operation.", state=4)
    elif not _changes(d, node.name, node.mode, "P"):
        _may_create(d, node.name, "CREATE PROCEDURE")


def _changes(d: Definer, name: Name, mode: str, kind: str) -> bool:
    """Return whether ALTER (or CREATE OR ALTER) finds an object of that kind; error 208 if the user may not alter
    it.
    """
    found = d.catalog.find(name, d.session.database) if mode != "create" else None
    if found is None or found.type != kind:
        return False
    if not _alters(d, found):
        raise SqlError(208, f"Invalid object name '{'.'.join(name)}'.", state=6)
    return True


def _may_create_synonym(d: Definer, node: nodes.CreateSynonym) -> None:
    _may_create(d, node.name, "CREATE SYNONYM")


def _may_create_database(d: Definer, _: nodes.CreateDatabase) -> None:
    d.session.security.require_database("master", "CREATE DATABASE")


def _may_create_schema(d: Definer, node: nodes.CreateSchema) -> None:
    """Check CREATE SCHEMA, which reports two errors: 262, then 2759."""
    try:
        d.session.security.require_database(d.session.database, "CREATE SCHEMA")
    except SqlError as error:
        d.session.info(error)
        raise SqlError(2759, "CREATE SCHEMA failed due to previous errors.", state=0) from None


# --- existing objects ------------------------------------------------------------------------------------------------


def _alters(d: Definer, table: TableInfo) -> bool:
    return table.local or d.session.security.allowed(table.database, OBJECT, table.object_id, "ALTER")


def _may_alter(d: Definer, name: Name, state: int) -> None:
    """Raise error 1088 for a table that the user may not alter; the statement itself reports a missing table."""
    table = d.catalog.find(name, d.session.database)
    if table is not None and not _alters(d, table):
        raise errors.no_object(".".join(name), state)


def _may_alter_table(d: Definer, node: nodes.AlterTable) -> None:
    _may_alter(d, node.name, 13)
    _may_reference(d, node.constraints)


def _may_alter_named(
    d: Definer, node: nodes.IndexDefinition | nodes.AlterIndex | nodes.UpdateStatistics | nodes.TriggerState
) -> None:
    """Check ALTER on the table of the statement."""
    _may_alter(d, node.table, _STATES[type(node)])


_STATES = {nodes.IndexDefinition: 12, nodes.AlterIndex: 9, nodes.UpdateStatistics: 12, nodes.TriggerState: 13}


def _may_alter_database(d: Definer, node: nodes.AlterDatabase) -> None:
    name = node.name or d.session.database
    if not d.session.security.entrant(name) or not d.session.security.allowed(name, DATABASE, 0, "ALTER"):
        raise errors.unalterable_database(name)


def may_truncate(d: Definer, table: TableInfo) -> None:
    """Raise error 1088 for TRUNCATE TABLE without ALTER on the table."""
    if not d.session.security.powerful and not _alters(d, table):
        raise errors.no_object(table.name, 7)


# --- DROP ------------------------------------------------------------------------------------------------------------


def _may_drop(d: Definer, node: nodes.Drop) -> None:
    for name in node.names:
        if node.kind == "INDEX":
            table = d.catalog.find(node.table, d.session.database)
            if table is not None and not _alters(d, table):
                raise errors.not_dropped("index", ".".join((*node.table, name[-1])), 14, 7)
        elif node.kind == "SCHEMA":
            _may_drop_schema(d, name[-1])
        elif node.kind == "DATABASE":
            _may_drop_database(d, name[-1])
        else:
            _may_drop_object(d, node.kind, name)


def _may_drop_object(d: Definer, kind: str, name: Name) -> None:
    """Check CONTROL on the object or ALTER on its schema; for a trigger, ALTER on its table."""
    rows = [] if name[-1].startswith("#") else d.located(name)
    if not rows:
        return
    security, database = d.session.security, d.catalog.split(name, d.session.database)[0]
    number, schema, parent = (int(rows[0][i] or 0) for i in (0, 4, 5))
    if kind == "TRIGGER":
        allowed = security.allowed(database, OBJECT, parent, "ALTER")
    else:
        allowed = security.allowed(database, SCHEMA, schema, "ALTER") or security.allowed(
            database, OBJECT, number, "CONTROL"
        )
    if not allowed:
        raise errors.not_dropped(kind.lower(), ".".join(name), 14, 20)


def _may_drop_schema(d: Definer, name: str) -> None:
    security, database = d.session.security, d.session.database
    found = d.catalog.schema(database, name)
    if found is None or security.allowed(database, SCHEMA, found[0], "CONTROL"):
        return
    if not security.allowed(database, DATABASE, 0, "ALTER ANY SCHEMA"):
        raise errors.missing("schema", name, "drop")


def _may_drop_database(d: Definer, name: str) -> None:
    security = d.session.security
    if d.catalog.database(name) is None or security.allowed("master", SERVER, 0, "ALTER ANY DATABASE"):
        return
    if security.entrant(name) is None or not security.allowed(name, DATABASE, 0, "CONTROL"):
        raise errors.not_dropped("database", name, 14, 2)


def may_rename(d: Definer, name: Name) -> None:
    """Raise error 15247 for sp_rename without ALTER on the table."""
    if d.session.security.powerful:
        return
    table = d.catalog.find(name[:-1], d.session.database)
    if table is not None and not _alters(d, table):
        raise errors.not_allowed()


CHECKS: dict[type, Callable[[Definer, Any], None]] = {
    nodes.CreateTable: _may_create_table,
    nodes.AlterTable: _may_alter_table,
    nodes.CreateView: _may_create_view,
    nodes.CreateSynonym: _may_create_synonym,
    nodes.CreateModule: _may_create_module,
    nodes.CreateSchema: _may_create_schema,
    nodes.CreateDatabase: _may_create_database,
    nodes.AlterDatabase: _may_alter_database,
    nodes.Drop: _may_drop,
    **dict.fromkeys(_STATES, _may_alter_named),
}
"""Checks of the definitions, by the type of the statement."""
