"""Running statements over rows: SELECT, SELECT INTO, INSERT and INSERT ... EXECUTE, UPDATE, DELETE, MERGE, TRUNCATE."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from fakemssql.contract import Parameter, ResponseWriter, ResultColumn, Rows, SqlError
from fakemssql.tsql.compiler.compiler import compilation
from fakemssql.tsql.datatypes.sqltypes import INT, oid
from fakemssql.tsql.definitions.security.authorization import may_truncate
from fakemssql.tsql.definitions.statements import define
from fakemssql.tsql.parser import nodes
from fakemssql.tsql.runtime.execution.interpreter import begin_implicitly, done, quiet, step
from fakemssql.tsql.runtime.execution.plans import environment, plan_of, run_planned
from fakemssql.tsql.runtime.frames import Code, Frame
from fakemssql.tsql.runtime.session.session import Session
from fakemssql.tsql.runtime.statements import triggers
from fakemssql.tsql.security import errors

Row = tuple[bytes | None, ...]


@dataclass
class Captured:
    """One result set."""

    columns: list[ResultColumn]
    rows: list[Row] = field(default_factory=list)


class Capture:
    """An output that keeps result sets; everything but rows and counts goes on to the client."""

    def __init__(self, client: ResponseWriter) -> None:
        self.client = client
        self.results: list[Captured] = []

    def columns(self, columns: Sequence[ResultColumn]) -> None:
        self.results.append(Captured(list(columns)))

    def rows(self, rows: Rows) -> None:
        result = self.results[-1]
        width = range(len(result.columns))
        result.rows += [tuple(rows.get_value(number, i) for i in width) for number in range(rows.ntuples)]

    def done(self, count: int | None) -> None:
        pass

    def message(self, error: SqlError) -> None:
        self.client.message(error)

    def database(self, new: str, old: str) -> None:
        self.client.database(new, old)

    def transaction(self, event: str, descriptor: int) -> None:
        self.client.transaction(event, descriptor)

    def return_value(self, parameter: Parameter) -> None:
        pass


def insert_results(session: Session, node: nodes.Insert, frame: Frame) -> int:
    """INSERT ... EXECUTE: the rows of every result set go into the table. The number of rows."""
    assert isinstance(node.source, nodes.Execute)
    if isinstance(frame.output, Capture) and session.inserting:
        raise SqlError(8164, "An INSERT EXEC statement cannot be nested.")
    capture = Capture(frame.output)
    session.inserting += 1
    try:
        step(session, node.source, replace(frame, output=capture))
    finally:
        session.inserting -= 1
    count = 0
    for result in capture.results:
        width = len(result.columns)
        size = max(1, 20000 // width)
        for start in range(0, len(result.rows), size):
            part = result.rows[start : start + size]
            names = [[f"@{row}_{i}" for i in range(width)] for row in range(len(part))]
            rows: list[list[nodes.Expr]] = [[nodes.Variable(name) for name in row] for row in names]
            insert = replace(node, source=nodes.Query(nodes.Values(rows)))
            box = Frame(Code([]), frame.output, tables=frame.tables)
            for row, values in zip(names, part, strict=True):
                for name, column, value in zip(row, result.columns, values, strict=True):
                    box.types[name], box.values[name] = column.type, value
            try:
                count += triggers.execute(session, insert, box)
            except SqlError as error:
                if error.number in (109, 110):
                    raise SqlError(
                        213, "Column name or number of supplied values does not match table definition."
                    ) from None
                raise
    return count


def rows(session: Session, node: nodes.Statement, frame: Frame) -> None:
    """SELECT and the statements that change rows."""
    begin_implicitly(session, node, frame)
    if isinstance(node, nodes.SelectStatement) and _into(session, node, frame):
        return
    if session.options.fmtonly:
        _shape(session, node, frame)
        return
    if isinstance(node, nodes.Insert) and isinstance(node.source, nodes.Execute):
        done(session, frame, insert_results(session, node, frame))
        return
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
    """SELECT ... INTO: make the table of the query's columns, then insert."""
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
