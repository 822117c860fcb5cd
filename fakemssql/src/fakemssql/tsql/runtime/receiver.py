"""What becomes of the rows of a statement: sent to the client, or assigned to variables."""

from __future__ import annotations

from typing import Any

from fakemssql.contract import ResultColumn
from fakemssql.tsql.compiler.plan import Plan
from fakemssql.tsql.datatypes.sqltypes import INT
from fakemssql.tsql.runtime.frames import Frame


class Receiver:
    """Takes the rows of a plan to the output or into variables."""

    def __init__(self, plan: Plan, frame: Frame) -> None:
        self.plan, self.frame, self.started, self.count = plan, frame, False, 0

    def __call__(self, result: Any) -> None:
        plan, frame = self.plan, self.frame
        self.count += result.ntuples
        if plan.assign:
            last = result.ntuples - 1
            if last >= 0:
                for index, (name, _) in enumerate(plan.assign):
                    frame.values[name] = result.get_value(last, index)
            return
        if plan.columns is None:
            return
        if not self.started:
            self.started = True
            frame.output.columns(
                [
                    ResultColumn(column.name, column.type or INT, result.ftype(index), column.nullable, column.identity)
                    for index, column in enumerate(plan.columns)
                ]
            )
        if result.ntuples:
            frame.output.rows(result)

    def finish(self, result: Any) -> None:
        if self.plan.columns is not None and not self.started:
            self(result)
