"""Cursors, and results that are kept here instead of going to the client (INSERT ... EXECUTE).

A cursor is the result of its query when it was opened, as a STATIC one is: rows that change later stay as they were.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from fakemssql.contract import Column, Output, Parameter, Rows, SqlError
from fakemssql.tsql.datatypes.codec import decode
from fakemssql.tsql.datatypes.sqltypes import INT
from fakemssql.tsql.names import fold
from fakemssql.tsql.parser import nodes
from fakemssql.tsql.runtime import triggers
from fakemssql.tsql.runtime.frames import Code, Frame
from fakemssql.types import SqlType

if TYPE_CHECKING:
    from fakemssql.tsql.runtime.session import Session

Row = tuple[bytes | None, ...]


@dataclass
class Page:
    """Kept rows in the form in which an output takes them."""

    values: list[Row]

    @property
    def ntuples(self) -> int:
        return len(self.values)

    def get_value(self, row_number: int, column_number: int) -> bytes | None:
        return self.values[row_number][column_number]


@dataclass
class Captured:
    """One result set."""

    columns: list[Column]
    rows: list[Row] = field(default_factory=list)


class Capture:
    """An output that keeps result sets; everything but rows and counts goes on to the client."""

    def __init__(self, client: Output) -> None:
        self.client = client
        self.results: list[Captured] = []

    def columns(self, columns: Sequence[Column]) -> None:
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


@dataclass
class Cursor:
    """A declared cursor; ``result`` is None while it is closed."""

    query: nodes.SelectStatement
    frame: Frame
    scroll: bool
    result: Captured | None = None
    position: int = 0  # of the current row, counted from 1


def _find(session: Session, frame: Frame, name: str) -> tuple[dict[str, Cursor], Cursor]:
    for place in (frame.cursors, session.cursors):
        if fold(name) in place:
            return place, place[fold(name)]
    if name.startswith("@"):
        raise SqlError(16950, f"The variable '{name}' does not currently have a cursor allocated to it.", state=2)
    raise SqlError(16916, f"A cursor with the name '{name}' does not exist.")


def declare(session: Session, node: nodes.DeclareCursor, frame: Frame) -> None:
    place = frame.cursors if node.local or node.name.startswith("@") else session.cursors
    if fold(node.name) in place and not node.name.startswith("@"):
        raise SqlError(16915, f"A cursor with the name '{node.name}' already exists.")
    # The query sees its variables as they are now.
    place[fold(node.name)] = Cursor(node.query, replace(frame, values=dict(frame.values)), node.scroll)


def run(session: Session, node: nodes.CursorAction, frame: Frame) -> None:
    """OPEN, CLOSE, DEALLOCATE."""
    place, cursor = _find(session, frame, node.name)
    if node.action == "deallocate":
        del place[fold(node.name)]
    elif node.action == "close":
        if cursor.result is None:
            raise SqlError(16917, "Cursor is not open.")
        cursor.result = None
    else:
        if cursor.result is not None:
            raise SqlError(16905, "The cursor is already open.")
        capture = Capture(frame.output)
        session.execute(cursor.query, replace(cursor.frame, output=capture))
        cursor.result, cursor.position = capture.results[0], 0
        session.cursor_rows = len(cursor.result.rows)


def fetch(session: Session, node: nodes.Fetch, frame: Frame) -> int:
    """Move a cursor; its row goes to variables or to the client. The number of rows fetched."""
    cursor = _find(session, frame, node.name)[1]
    result = cursor.result
    if result is None:
        raise SqlError(16917, "Cursor is not open.")
    if node.direction != "NEXT" and not cursor.scroll:
        raise SqlError(
            16911, f"fetch: The fetch type {node.direction.lower()} cannot be used with forward only cursors."
        )
    rows = len(result.rows)
    number = 0
    if node.number is not None:
        number = decode(INT, session.evaluate(node.number, INT, frame)[1]) or 0
    position = {
        "NEXT": cursor.position + 1,
        "PRIOR": cursor.position - 1,
        "FIRST": 1,
        "LAST": rows,
        "ABSOLUTE": number if number >= 0 else rows + 1 + number,
        "RELATIVE": cursor.position + number,
    }[node.direction]
    cursor.position = max(0, min(position, rows + 1))
    found = result.rows[cursor.position - 1 : cursor.position] if 1 <= cursor.position <= rows else []
    if node.into and len(node.into) != len(result.columns):
        raise SqlError(
            16924,
            "Cursorfetch: The number of variables declared in the INTO list must match that of selected columns.",
        )
    if node.into:
        for row in found:
            for name, column, value in zip(node.into, result.columns, row, strict=True):
                kind = frame.types.get(name)
                if kind is None:
                    raise SqlError(137, f'Must declare the scalar variable "{name}".', severity=15)
                frame.values[name] = converted(session, column.type, value, kind, frame)
    else:
        frame.output.columns(result.columns)
        frame.output.rows(Page(found))
    session.fetch_status = 0 if found else -1
    return len(found)


def converted(session: Session, given: SqlType, value: bytes | None, kind: SqlType, frame: Frame) -> bytes | None:
    """A value of the type ``given`` as an assignment to the type ``kind`` has it."""
    if value is None or given == kind:
        return value
    box = Frame(Code([]), frame.output, {"@v": given}, {"@v": value})
    return session.evaluate(nodes.Variable("@v"), kind, box)[1]


def insert_results(session: Session, node: nodes.Insert, frame: Frame) -> int:
    """INSERT ... EXECUTE: the rows of every result set go into the table. The number of rows."""
    assert isinstance(node.source, nodes.Execute)
    if isinstance(frame.output, Capture) and session.inserting:
        raise SqlError(8164, "An INSERT EXEC statement cannot be nested.")
    capture = Capture(frame.output)
    session.inserting += 1
    try:
        session.interpreter.step(node.source, replace(frame, output=capture))
    finally:
        session.inserting -= 1
    count = 0
    for result in capture.results:
        width = len(result.columns)
        step = max(1, 20000 // width)
        for start in range(0, len(result.rows), step):
            part = result.rows[start : start + step]
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
