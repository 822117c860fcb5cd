"""Running DECLARE and SET."""

from __future__ import annotations

from fakemssql.contract import SqlError
from fakemssql.tsql.parser import nodes
from fakemssql.tsql.runtime import settings
from fakemssql.tsql.runtime.frames import Frame
from fakemssql.tsql.runtime.steps import Steps


class Variables(Steps):
    """Runs what concerns variables and options."""

    def _run_declare(self, node: nodes.Declare, frame: Frame) -> None:
        if node.name in frame.tables:
            raise SqlError(134, f"The variable name '{node.name}' has already been declared.", severity=15)
        frame.types[node.name] = node.type
        frame.values.setdefault(node.name, None)
        if node.value is not None:
            frame.values[node.name] = self.session.evaluate(node.value, node.type, frame)[1]
            self.quiet(1)

    def _run_declaretable(self, node: nodes.DeclareTable, frame: Frame) -> None:
        session = self.session
        if node.name in frame.tables:
            return
        session.transactions.define(lambda: frame.tables.__setitem__(node.name, session.temporary.create(node.table)))

    def _run_setvariable(self, node: nodes.SetVariable, frame: Frame) -> None:
        kind = frame.types.get(node.name)
        if kind is None:
            raise SqlError(137, f'Must declare the scalar variable "{node.name}".', severity=15, state=1)
        value = node.value
        if node.op != "=":
            cached = getattr(node, "_combined", None)
            if cached is None:
                cached = nodes.Binary(node.op[0], nodes.Variable(node.name), value)
                node._combined = cached  # type: ignore[attr-defined]
            value = cached
        frame.values[node.name] = self.session.evaluate(value, kind, frame)[1]
        self.quiet(1)

    def _run_setoption(self, node: nodes.SetOption, frame: Frame) -> None:
        settings.set_option(self.session, node, frame)
        self.quiet()
