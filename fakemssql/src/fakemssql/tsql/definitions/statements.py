# ruff: noqa: S608 - names go through names.quoted, values are numbers of objects
"""Table of the definitions, with the function that runs each, and DROP. The entry is :func:`define`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fakemssql.contract import SqlError
from fakemssql.tsql.definitions import databases, indexes, tables, temporary, triggers, views
from fakemssql.tsql.definitions.definer import Definer
from fakemssql.tsql.definitions.security import grants, logins, principals
from fakemssql.tsql.definitions.security.authorization import authorize
from fakemssql.tsql.names import quoted
from fakemssql.tsql.parser import nodes
from fakemssql.tsql.parser.nodes import Name
from fakemssql.tsql.security import errors

_CODES = {"TABLE": "U", "VIEW": "V", "PROCEDURE": "P", "SYNONYM": "SN", "TRIGGER": "TR", "FUNCTION": "FN"}


def drop(d: Definer, node: nodes.Drop) -> None:
    for name in node.names:
        if node.kind == "INDEX":
            indexes.drop_named_index(d, node, name)
        elif node.kind == "SCHEMA":
            databases.drop_schema(d, name[-1], node.if_exists)
        elif node.kind == "DATABASE":
            databases.drop_database(d, name[-1], node.if_exists)
        else:
            _drop_object(d, node.kind, name, node.if_exists)


def _drop_object(d: Definer, kind: str, name: Name, exists: bool) -> None:
    if kind == "TABLE" and name[-1].startswith("#"):
        temporary.drop(d, name, exists)
        return
    rows = d.located(name)
    if not rows or rows[0][3] != _CODES[kind]:
        if exists and not rows:
            return
        if rows and rows[0][3] != _CODES[kind]:
            raise SqlError(
                3705,
                f"Cannot use DROP {kind} with '{'.'.join(name)}' because '{'.'.join(name)}' is another kind of object.",
            )
        raise errors.not_dropped(kind.lower(), ".".join(name), state=5)
    identifier, pg, schema_pg, *_ = rows[0]
    if kind == "TABLE":
        referencing = d.value(
            "SELECT count(*) FROM mssql.objects WHERE type = 'F' AND"
            f" extra->>'target' = '{identifier}' AND parent_object_id <> {identifier}"
        )
        if referencing != "0":
            raise SqlError(
                3726,
                f"Could not drop object '{'.'.join(name)}' because it is referenced by a FOREIGN KEY constraint.",
            )
        d.session.keep_identities()
        d.run(f"DROP TABLE {quoted(str(schema_pg))}.{quoted(str(pg))}")
    d.run(f"DELETE FROM mssql.objects WHERE object_id = {identifier} OR parent_object_id = {identifier}")
    if kind == "TRIGGER":
        triggers.refresh_triggers(d)


DEFINITIONS: dict[type, Callable[[Definer, Any], None]] = {
    nodes.CreateTable: tables.create_table,
    nodes.AlterTable: tables.alter_table,
    nodes.IndexDefinition: indexes.create_index,
    nodes.AlterIndex: indexes.alter_index,
    nodes.UpdateStatistics: indexes.update_statistics,
    nodes.CreateView: views.create_view,
    nodes.CreateSynonym: views.create_synonym,
    nodes.CreateModule: triggers.create_module,
    nodes.TriggerState: triggers.change_trigger_state,
    nodes.CreateSchema: databases.define_schema,
    nodes.CreateDatabase: databases.define_database,
    nodes.AlterDatabase: databases.alter_database,
    nodes.Drop: drop,
    nodes.CreateLogin: logins.create_login,
    nodes.AlterLogin: logins.alter_login,
    nodes.CreateUser: principals.create_user,
    nodes.AlterUser: principals.alter_user,
    nodes.CreateRole: principals.create_role,
    nodes.AlterRole: principals.alter_role,
    nodes.DropPrincipal: principals.drop_principal,
    nodes.Permission: grants.change_permissions,
}


def define(d: Definer, node: nodes.Statement) -> None:
    """Run a definition after the check of its permissions."""
    authorize(d, node)
    DEFINITIONS[type(node)](d, node)
    d.changed()
