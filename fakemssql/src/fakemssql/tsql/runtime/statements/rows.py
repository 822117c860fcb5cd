"""Statements over rows: SELECT, SELECT INTO, INSERT, UPDATE, DELETE, MERGE and TRUNCATE."""

from __future__ import annotations

from fakemssql.contract import ResultColumn, SqlError
from fakemssql.tsql.compiler.compiler import compilation
from fakemssql.tsql.datatypes.sqltypes import INT, oid
from fakemssql.tsql.definitions.security.authorization import may_truncate
from fakemssql.tsql.definitions.statements import define
from fakemssql.tsql.parser import nodes
from fakemssql.tsql.runtime.execution.interpreter import begin_implicitly, done, quiet
from fakemssql.tsql.runtime.execution.plans import environment, plan_of, run_planned
from fakemssql.tsql.runtime.frames import Frame
from fakemssql.tsql.runtime.session.session import Session
from fakemssql.tsql.runtime.statements import triggers
from fakemssql.tsql.security import errors


def rows(session: Session, node: nodes.Statement, frame: Frame) -> None:
    """Run SELECT, or a statement that changes rows."""
    begin_implicitly(session, node, frame)
    if isinstance(node, nodes.SelectStatement) and _into(session, node, frame):
        return
    if session.options.fmtonly:
        _shape(session, node, frame)
        return
    if isinstance(node, nodes.Insert) and isinstance(node.source, nodes.Execute):
        raise SqlError(40517, "INSERT ... EXECUTE is not supported by fakemssql.")
    if isinstance(node, nodes.Insert | nodes.Update | nodes.Delete):
        done(session, frame, triggers.execute(session, node, frame))
        return
    count = run_planned(session, node, frame)
    plan = plan_of(session, node, frame) if isinstance(node, nodes.SelectStatement) else None
    if plan is not None and plan.assign:
        quiet(session, count)
    else:
        done(session, frame, count)


def _shape(session: Session, node: nodes.Statement, frame: Frame) -> None:
    plan = plan_of(session, node, frame)
    if plan.columns is not None:
        frame.output.columns(
            [ResultColumn(c.name, c.type or INT, oid(c.type or INT), c.nullable, c.identity) for c in plan.columns]
        )
    done(session, frame, 0)


def _into(session: Session, node: nodes.SelectStatement, frame: Frame) -> bool:
    """Run SELECT ... INTO: make a table with the query's columns, then insert. False for another SELECT."""
    body = node.query.body
    while isinstance(body, nodes.SetOperation):
        body = body.left
    if not isinstance(body, nodes.Select) or body.into is None:
        return False
    name, body.into = body.into, None
    try:
        compiler = compilation(environment(session, frame))
        columns = compiler.query(node.query, None).columns
        definitions = []
        for i, column in enumerate(columns, 1):
            if not column.name:
                raise SqlError(
                    1038,
                    "An object or column name is missing or empty. For SELECT"
                    f" INTO statements, verify each column has a name (column {i}).",
                    severity=15,
                )
            identity = (1, 1) if column.identity and column.origin else None
            definitions.append(nodes.ColumnDefinition(column.name, column.type or INT, column.nullable, identity))
        create = nodes.CreateTable(name, definitions, [], [])
        session.transactions.define(lambda: define(session.definer, create))
        old = session.identity_insert
        table = session.catalog.find(name, session.database)
        assert table is not None
        session.identity_insert = (table.pg, table.name)
        insert = nodes.Insert(name, [d.name for d in definitions], [], node.query, [], [], line=node.line)
        try:
            count = run_planned(session, insert, frame)
        except SqlError:
            drop = nodes.Drop("TABLE", [name], True)
            if not session.transactions.doomed:
                session.transactions.define(lambda: define(session.definer, drop))
            raise
        finally:
            session.identity_insert = old
        done(session, frame, count)
    finally:
        body.into = name
    return True


def truncate(session: Session, node: nodes.Truncate, frame: Frame) -> None:
    begin_implicitly(session, node, frame)

    def action() -> None:
        table = session.catalog.named(node.target, session.database)
        if table is not None and table.type != "U":
            raise SqlError(4708, f"Could not truncate object '{'.'.join(node.target)}' because it is not a table.")
        if table is None:
            raise errors.no_object(node.target[-1], 1, 4701)
        may_truncate(session.definer, table)
        try:
            session.pg.execute(f"TRUNCATE {table.pg} RESTART IDENTITY")
        except Exception as error:
            if getattr(error, "sqlstate", "") == "0A000":
                raise SqlError(
                    4712,
                    f"Cannot truncate table '{table.name}' because it is being referenced by a FOREIGN KEY constraint.",
                ) from None
            raise

    session.transactions.define(action)
    done(session, frame, None)
