# ruff: noqa: S608 - names go through names.quoted, values through names.literal or as parameters
"""Procedures and triggers: their texts, and the events with triggers in the row of the table."""

from __future__ import annotations

import json

from fakemssql.contract import SqlError
from fakemssql.tsql.catalog.tables import TableInfo
from fakemssql.tsql.compiler.trees import walk
from fakemssql.tsql.definitions.definer import Definer
from fakemssql.tsql.definitions.metadata import add_object
from fakemssql.tsql.names import fold
from fakemssql.tsql.parser import nodes
from fakemssql.tsql.security import errors


def create_module(d: Definer, node: nodes.CreateModule) -> None:
    _check_variables(node)
    table, name = None, node.name
    if node.kind == "TRIGGER":
        table = _triggered(d, node)
        name = (*name[:-2], table.schema, name[-1])
    place = d.place(name)
    code = "TR" if node.kind == "TRIGGER" else "P"
    rows = d.pg.query(
        "SELECT object_id, type FROM mssql.objects WHERE database_id = $1::int AND schema_id = $2::int AND folded = $3",
        place.database_id,
        place.schema_id,
        fold(place.name),
    )
    known = rows[0][0] if rows and rows[0][1] == code and node.mode != "create" else None
    if known is None and node.mode == "alter":
        raise SqlError(208, f"Invalid object name '{'.'.join(node.name)}'.", state=6)
    if known is None:
        d.check_new(place)
    parent, extra = "0", dict[str, object]()
    if table is not None:
        parent = str(table.object_id)
        idle = all(isinstance(s, nodes.SetOption | nodes.Return | nodes.Declare) for s in node.body or [])
        # A body without effect is not run; the trigger still restricts OUTPUT.
        extra |= {"events": [] if idle and not node.instead else node.events, "declared": node.events}
        if node.instead:
            _check_alone(d, table, node, known)
            extra["instead"] = True
    text = node.text.replace("ALTER", "CREATE", 1) if node.mode == "alter" else node.text
    if known is None:
        add_object(d, place, code, parent=parent, definition=text, extra=extra)
    else:
        # The object keeps its id and permissions; ALTER TRIGGER enables it.
        d.pg.query(
            "UPDATE mssql.objects SET definition = $2, parent_object_id = $3::int, extra = $4::jsonb, disabled ="
            " 0, modified = mssql.utcnow_dt() WHERE object_id = $1::int",
            known,
            text,
            parent,
            json.dumps(extra),
        )
    refresh_triggers(d)


def _check_variables(node: nodes.CreateModule) -> None:
    """Raise error 137 for a variable that is not declared in a module."""
    found = list(walk([node.parameters, node.body or []]))
    declared = {each.name for each in found if isinstance(each, nodes.Declare)}
    used = (each.name for each in found if isinstance(each, nodes.Variable | nodes.SetVariable))
    assigned = (each.variable for each in found if isinstance(each, nodes.SelectItem) and each.variable is not None)
    for name in (*used, *assigned):
        if name not in declared and not name.startswith("@@"):
            raise SqlError(137, f'Must declare the scalar variable "{name}".', severity=15, state=2)


def _triggered(d: Definer, node: nodes.CreateModule) -> TableInfo:
    """Return the table or view of a trigger, whose schema is the trigger's; errors 2103 and 8197."""
    if node.table[-1].startswith("#"):
        raise SqlError(40517, "A trigger on a temporary table is not supported by fakemssql.")
    table = d.catalog.named(node.table, d.session.database)
    if table is None or not (table.type == "U" or (table.type == "V" and node.instead)):
        raise SqlError(
            8197,
            f"The object '{'.'.join(node.table)}' does not exist or is invalid for this operation.",
            state=4,
        )
    if len(node.name) > 1 and node.name[-2] and fold(node.name[-2]) != fold(table.schema):
        raise SqlError(
            2103,
            f"Cannot create trigger '{'.'.join(node.name)}' because its schema is different from the schema of the"
            " target table or view.",
        )
    return table


def _check_alone(d: Definer, table: TableInfo, node: nodes.CreateModule, itself: str | None) -> None:
    """Raise error 2111 if the table has another INSTEAD OF trigger for an event."""
    for event in node.events:
        taken = d.pg.query(
            "SELECT 1 FROM mssql.objects WHERE parent_object_id = $1::int AND type = 'TR' AND extra ? 'instead'"
            " AND extra->'declared' ? $2 AND object_id <> COALESCE($3::int, 0)",
            table.object_id,
            event,
            itself,
        )
        if taken:
            raise SqlError(
                2111,
                f"Cannot create trigger '{node.name[-1]}' on table '{table.schema}.{table.name}' because an INSTEAD"
                f" OF {event} trigger already exists on this object.",
            )


def refresh_triggers(d: Definer) -> None:
    """Update, in the rows of tables, the events that have enabled triggers to run, AFTER or INSTEAD OF."""
    events = (
        "COALESCE((SELECT jsonb_agg(DISTINCT e) FROM mssql.objects t, jsonb_array_elements(t.extra->'events') e"
        " WHERE t.parent_object_id = o.object_id AND t.type = 'TR' AND t.disabled = 0"
        " AND (t.extra ? 'instead') = {}), '[]')"
    )
    d.run(
        "UPDATE mssql.objects o SET extra = o.extra || jsonb_build_object('trigger_events',"
        f" {events.format('false')}, 'instead_events', {events.format('true')}) WHERE o.type IN ('U', 'V')"
        " AND (o.extra ? 'trigger_events' OR EXISTS (SELECT 1 FROM mssql.objects t"
        " WHERE t.parent_object_id = o.object_id AND t.type = 'TR'))"
    )


def change_trigger_state(d: Definer, node: nodes.TriggerState) -> None:
    table = d.catalog.named(node.table, d.session.database)
    if table is None or table.type not in ("U", "V"):
        raise errors.no_object(".".join(node.table), 22)
    set_triggers(d, table, node.name, node.enabled)


def set_triggers(d: Definer, table: TableInfo, name: str, enabled: bool) -> None:
    rows = d.pg.query(
        "UPDATE mssql.objects SET disabled = $3::smallint WHERE parent_object_id"
        " = $1::int AND type = 'TR' AND ($2 = '' OR folded = $2)"
        " RETURNING 1",
        table.object_id,
        fold(name),
        0 if enabled else 1,
    )
    if not rows and name:
        raise SqlError(
            4920, f"ALTER TABLE failed because trigger '{name}' on table '{table.name}' does not exist.", state=0
        )
    refresh_triggers(d)
