# ruff: noqa: S608 - names go through names.quoted, values through names.literal or as parameters
"""DROP of every kind of object."""

from __future__ import annotations

from fakemssql.contract import SqlError
from fakemssql.tsql.definitions import temporary
from fakemssql.tsql.definitions.databases import drop_database, drop_schema
from fakemssql.tsql.definitions.definer import Definer
from fakemssql.tsql.definitions.indexes import drop_named_index
from fakemssql.tsql.definitions.triggers import refresh_triggers
from fakemssql.tsql.names import quoted
from fakemssql.tsql.parser import nodes
from fakemssql.tsql.parser.nodes import Name
from fakemssql.tsql.security import errors

_CODES = {
    "TABLE": "U",
    "VIEW": "V",
    "PROCEDURE": "P",
    "SYNONYM": "SN",
    "TRIGGER": "TR",
    "FUNCTION": "FN",
}


def drop(d: Definer, node: nodes.Drop) -> None:
    for name in node.names:
        if node.kind == "INDEX":
            drop_named_index(d, node, name)
        elif node.kind == "SCHEMA":
            drop_schema(d, name[-1], node.if_exists)
        elif node.kind == "DATABASE":
            drop_database(d, name[-1], node.if_exists)
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
        refresh_triggers(d)
