"""AFTER triggers: they run in the statement that fires them and see its rows as ``inserted`` and ``deleted``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from fakemssql.contract import SqlError
from fakemssql.tsql.catalog.tables import TableInfo
from fakemssql.tsql.compiler.trees import rewritten, walk
from fakemssql.tsql.definitions.temporary import create as create_temporary
from fakemssql.tsql.names import fold
from fakemssql.tsql.parser import batches, nodes
from fakemssql.tsql.runtime.execution.interpreter import discard, run
from fakemssql.tsql.runtime.execution.plans import plan_of, run_planned
from fakemssql.tsql.runtime.frames import Code, Frame
from fakemssql.tsql.runtime.session.session import Session
from fakemssql.types import SqlType

Modification = nodes.Insert | nodes.Update | nodes.Delete
_TABLES = {"INSERT": ("inserted",), "UPDATE": ("inserted", "deleted"), "DELETE": ("deleted",)}
_Row = list[str | None]


def execute(session: Session, node: Modification, frame: Frame) -> int:
    """Run a statement that changes rows, and the triggers of its table; returns the number of changed rows."""
    event = type(node).__name__.upper()
    target = _target(session, node, frame)
    if target is not None and event in target.extra.get("instead_events", ()):
        if target.type == "U":
            plan_of(session, node, frame)  # raises error 334 and others before the refusal
        raise SqlError(40517, f"The INSTEAD OF {event} trigger of '{target.name}' is not supported by fakemssql.")
    table = plan_of(session, node, frame).table
    if table is None or event not in table.extra.get("trigger_events", ()):
        return run_planned(session, node, frame)
    if target is not None and target.type == "V":
        raise SqlError(
            40517,
            f"Changing a table with triggers through the view '{target.name}' is not supported by fakemssql.",
        )
    return _in_transaction(session, lambda: _fire(session, node, event, table, frame))


def _target(session: Session, node: Modification, frame: Frame) -> TableInfo | None:
    """Table or view that a statement names, directly or by an alias of FROM; None for other targets."""
    name = node.target
    if name[0].startswith("@"):
        return None
    if len(name) == 1:
        if any(fold(cte.name) == fold(name[0]) for cte in node.ctes) or fold(name[0]) in frame.tables:
            return None
        if not isinstance(node, nodes.Insert):
            for source in walk(node.sources):
                if isinstance(source, nodes.TableSource) and fold(source.alias) == fold(name[0]):
                    name = source.name
    return session.catalog.find(name, session.database)


def _table(session: Session, columns: list[tuple[str, SqlType]]) -> TableInfo:
    made: list[TableInfo] = []

    def create() -> None:
        definitions = [nodes.ColumnDefinition(name, kind, True) for name, kind in columns]
        made.append(create_temporary(session.definer, nodes.CreateTable(("@rows",), definitions, [], [])))

    session.transactions.define(create)
    return made[0]


def _in_transaction(session: Session, action: Callable[[], int]) -> int:
    """Run a statement with triggers in a transaction.

    Error 3609 if a trigger ends the transaction, 3616 if it leaves it uncommittable.
    """
    transactions = session.transactions
    own = session.transaction_count == 0
    if own:
        transactions.begin(None, None)
    try:
        count = action()
        if transactions.doomed:
            if not session.trying:
                transactions.rollback_all(None if own else session.output)
            raise SqlError(
                3616,
                "An error was raised during trigger execution. The batch has been aborted and the user transaction, if"
                " any, has been rolled back.",
            )
        if session.transaction_count == 0:
            raise SqlError(3609, "The transaction ended in the trigger. The batch has been aborted.")
    except BaseException:
        if own and session.transaction_count:
            transactions.rollback_all(None)
        raise
    if own:
        transactions.commit(None)
    return count


def _triggers(session: Session, table: TableInfo, event: str) -> list[_Row]:
    """Object id, name and text of the enabled AFTER triggers whose bodies have an effect."""
    return session.pg.query(
        "SELECT object_id, name, definition FROM mssql.objects"
        " WHERE parent_object_id = $1::int AND type = 'TR' AND disabled = 0 AND extra->'events' ? $2"
        " AND NOT extra ? 'instead' ORDER BY object_id",
        table.object_id,
        event,
    )


def _fire(session: Session, node: Modification, event: str, table: TableInfo, frame: Frame) -> int:
    """Run the statement, then its AFTER triggers."""
    columns = [(column.name, column.type) for column in table.columns]
    places = {name: _table(session, columns) for name in ("inserted", "deleted")}
    outputs = [
        nodes.Output([nodes.SelectItem(nodes.Column((name, c.name))) for c in table.columns], (f"@@{name}",))
        for name in _TABLES[event]
    ]
    changed = replace(node, outputs=[*node.outputs, *outputs])
    tables = {f"@@{name}": place for name, place in places.items()}
    count = run_planned(session, changed, replace(frame, tables={**frame.tables, **tables}))
    # RECURSIVE_TRIGGERS is OFF: a trigger does not fire itself.
    last = session.firing[-1] if session.firing else None
    rows = [row for row in _triggers(session, table, event) if row[0] != last]
    _run(session, node, table, frame, places, rows, count)
    return count


def _run(
    session: Session,
    node: Modification,
    table: TableInfo,
    frame: Frame,
    places: dict[str, TableInfo],
    rows: list[_Row],
    count: int,
) -> None:
    """Run the bodies of triggers over the rows in the tables ``places``, and then drop these tables."""
    updated = {fold(a.column) for a in node.assignments if a.column} if isinstance(node, nodes.Update) else set()
    every = isinstance(node, nodes.Insert)
    for identifier, name, definition in rows:
        module = batches.parse(str(definition))[0]
        assert isinstance(module, nodes.CreateModule)
        body = rewritten(module.body, lambda each: _updated(each, None if every else updated))
        inner = Frame(Code(body), frame.output, tables=dict(places), procedure=str(name), parent=frame)
        inner.kept = True
        session.rowcount = count
        database = session.database
        session.firing.append(identifier)
        session.database = table.database
        try:
            with session.own_options() as options, session.security.module(table.database, table.owner, table.schema):
                options.on.add("XACT_ABORT")
                run(session, inner)
        finally:
            session.firing.pop()
            session.database = database
        if session.transaction_count == 0:
            break
    discard(session, Frame(Code([]), frame.output, tables=places))


def _updated(node: object, columns: set[str] | None) -> nodes.Expr | None:
    """``UPDATE(column)`` as a condition that is true or false; None for another node."""
    if not isinstance(node, nodes.Updated):
        return None
    holds = columns is None or fold(node.column) in columns
    return nodes.Binary("=", nodes.Literal("int", 1), nodes.Literal("int", int(holds)))
