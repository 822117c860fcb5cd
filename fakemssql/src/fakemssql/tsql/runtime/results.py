"""Results that are kept here instead of going to the client: INSERT ... EXECUTE."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from fakemssql.contract import Parameter, ResponseWriter, ResultColumn, Rows, SqlError
from fakemssql.tsql.parser import nodes
from fakemssql.tsql.runtime import triggers
from fakemssql.tsql.runtime.frames import Code, Frame
from fakemssql.tsql.runtime.interpreter import step
from fakemssql.tsql.runtime.session import Session

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
