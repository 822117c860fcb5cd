"""Which function runs which definition. The entry is :func:`define`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fakemssql.tsql.definitions import databases, indexes, removal, tables, triggers, views
from fakemssql.tsql.definitions.definer import Definer
from fakemssql.tsql.definitions.security import grants, logins, principals
from fakemssql.tsql.definitions.security.authorization import authorize
from fakemssql.tsql.parser import nodes

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
    nodes.Drop: removal.drop,
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
    """Run one definition, if the user may."""
    authorize(d, node)
    DEFINITIONS[type(node)](d, node)
    d.changed()
