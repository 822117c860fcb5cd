"""AFTER triggers: their bodies run in the statement that fires them, which sees ``inserted`` and ``deleted``."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from airflow_sqlqueue.localdb.contract import SqlError
from airflow_sqlqueue.localdb.tsql.catalog.tables import TableInfo
from airflow_sqlqueue.localdb.tsql.compiler.trees import rewritten
from airflow_sqlqueue.localdb.tsql.names import fold
from airflow_sqlqueue.localdb.tsql.parser import batches, nodes
from airflow_sqlqueue.localdb.tsql.runtime.frames import Code, Frame

if TYPE_CHECKING:
    from airflow_sqlqueue.localdb.tsql.runtime.session import Session

Modification = nodes.Insert | nodes.Update | nodes.Delete
_TABLES = {"INSERT": ("inserted",), "UPDATE": ("inserted", "deleted"), "DELETE": ("deleted",)}


def execute(session: Session, node: Modification, frame: Frame) -> int:
    """Run a statement that changes rows, then the triggers of its table. The number of rows it changed."""
    event = type(node).__name__.upper()
    table = session.plan(node, frame).table
    if table is None or event not in table.extra.get("trigger_events", ()):
        return session.execute(node, frame)
    transactions, output = session.transactions, frame.output
    own = transactions.count == 0
    if own:
        transactions.begin(None, None)
    try:
        count = _fire(session, node, event, table, frame)
        if transactions.count == 0:
            raise SqlError(3609, "The transaction ended in the trigger. The batch has been aborted.")
    except BaseException:
        if own and transactions.count:
            transactions.rollback_all(None)
        raise
    if own:
        transactions.commit(None)
    assert frame.output is output
    return count


def _fire(session: Session, node: Modification, event: str, table: TableInfo, frame: Frame) -> int:
    places: dict[str, TableInfo] = {}

    def create() -> None:
        columns = [nodes.ColumnDefinition(c.name, c.type, True) for c in table.columns]
        for name in ("inserted", "deleted"):
            places[name] = session.temporary.create(nodes.CreateTable((f"@{name}",), columns, [], []))

    transactions = session.transactions
    transactions.define(create)
    outputs = [
        nodes.Output([nodes.SelectItem(nodes.Column((name, c.name))) for c in table.columns], (f"@@{name}",))
        for name in _TABLES[event]
    ]
    changed = replace(node, outputs=[*node.outputs, *outputs])
    tables = {f"@@{name}": place for name, place in places.items()}
    count = session.execute(changed, replace(frame, tables={**frame.tables, **tables}))
    rows = session.pg.query(
        "SELECT object_id, name, definition FROM mssql.objects WHERE parent_object_id = $1::int AND type = 'TR'"
        " AND disabled = 0 AND extra->'events' ? $2 ORDER BY object_id",
        table.object_id,
        event,
    )
    updated = {fold(a.column) for a in node.assignments if a.column} if isinstance(node, nodes.Update) else set()
    every = isinstance(node, nodes.Insert)
    abort = session.options.xact_abort
    for identifier, name, definition in rows:
        if session.firing and session.firing[-1] == identifier:
            continue  # RECURSIVE_TRIGGERS is OFF
        module = batches.parse(str(definition))[0]
        assert isinstance(module, nodes.CreateModule)
        body = rewritten(module.body, lambda each: _updated(each, None if every else updated))
        inner = Frame(Code(body), frame.output, tables=dict(places), procedure=str(name), parent=frame)
        inner.kept = True
        session.rowcount = count
        database, nocount = session.database, session.options.nocount
        session.firing.append(identifier)
        session.options.on.add("XACT_ABORT")
        session.database = table.database
        try:
            session.interpreter.run(inner)
        finally:
            session.firing.pop()
            session.database = database
            (session.options.on.add if nocount else session.options.on.discard)("NOCOUNT")
            if not abort:
                session.options.on.discard("XACT_ABORT")
        if transactions.count == 0:
            break
    session.temporary.discard(Frame(Code([]), frame.output, tables=places))
    return count


def _updated(node: object, columns: set[str] | None) -> nodes.Expr | None:
    """``UPDATE(column)`` as a condition that holds or not."""
    if not isinstance(node, nodes.Updated):
        return None
    holds = columns is None or fold(node.column) in columns
    return nodes.Binary("=", nodes.Literal("int", 1), nodes.Literal("int", int(holds)))
