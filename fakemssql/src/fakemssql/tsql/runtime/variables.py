"""Running DECLARE and SET for variables."""

from __future__ import annotations

from fakemssql.contract import SqlError
from fakemssql.tsql.parser import nodes
from fakemssql.tsql.runtime.frames import Frame
from fakemssql.tsql.runtime.interpreter import quiet
from fakemssql.tsql.runtime.plans import evaluate
from fakemssql.tsql.runtime.session import Session


def declare(session: Session, node: nodes.Declare, frame: Frame) -> None:
    if node.name in frame.tables:
        raise SqlError(134, f"The variable name '{node.name}' has already been declared.", severity=15)
    frame.types[node.name] = node.type
    frame.values.setdefault(node.name, None)
    if node.value is not None:
        frame.values[node.name] = evaluate(session, node.value, node.type, frame)[1]
        quiet(session, 1)


def declare_table(session: Session, node: nodes.DeclareTable, frame: Frame) -> None:
    if node.name in frame.tables:
        return
    session.transactions.define(lambda: frame.tables.__setitem__(node.name, session.temporary.create(node.table)))


def set_variable(session: Session, node: nodes.SetVariable, frame: Frame) -> None:
    kind = frame.types.get(node.name)
    if kind is None:
        raise SqlError(137, f'Must declare the scalar variable "{node.name}".', severity=15, state=1)
    value = node.value
    if node.op != "=":
        cached = frame.code.combined.get(id(node))
        if cached is None:
            cached = nodes.Binary(node.op[0], nodes.Variable(node.name), value)
            frame.code.combined[id(node)] = cached
        value = cached
    frame.values[node.name] = evaluate(session, value, kind, frame)[1]
    quiet(session, 1)
