"""Result sets of system procedures, from a PostgreSQL query or from Python values."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from fakemssql.contract import ResultColumn
from fakemssql.tsql.datatypes.codec import encode
from fakemssql.tsql.datatypes.sqltypes import SYSNAME, nvarchar, oid, storage
from fakemssql.tsql.pg import Request
from fakemssql.tsql.runtime.frames import Frame
from fakemssql.tsql.runtime.session.session import Session
from fakemssql.types import SqlType

Columns = Sequence[tuple[str, SqlType]]
_COLUMN = re.compile(r"(\w+) (\w+)(?:\((\d+|max)\))?")


def columns_of(text: str) -> Columns:
    """Names and types of the columns of a result set, as its page declares them: ``name sysname, size int``."""
    return [
        (name, SYSNAME if kind == "sysname" else SqlType(kind, int(length.replace("max", "-1")) if length else None))
        for name, kind, length in _COLUMN.findall(text)
    ]


def send_query(session: Session, frame: Frame, columns: Columns, sql: str, *texts: Any) -> None:
    """Send the rows of a PostgreSQL query over text parameters."""
    values = [None if text is None else encode(nvarchar(4000), str(text)) for text in texts]
    session.transactions.start()
    _send(session, frame, columns, Request(sql, values, [25] * len(values)))


def send_rows(session: Session, frame: Frame, columns: Columns, rows: Sequence[dict[str, Any]]) -> None:
    """Send rows of Python values by the names of their columns; a missing value is NULL, a missing bit is 0."""
    # PostgreSQL makes the result, from a VALUES list of parameters.
    values = [encode(kind, row.get(name, 0 if kind.name == "bit" else None)) for row in rows for name, kind in columns]
    numbers = iter(range(1, len(values) + 1))
    if rows:
        sql = "VALUES " + ", ".join(f"({', '.join(f'${next(numbers)}' for _ in columns)})" for _ in rows)
    else:
        sql = "SELECT " + ", ".join(f"NULL::{storage(kind)}" for _, kind in columns) + " WHERE false"
    _send(session, frame, columns, Request(sql, values, [oid(kind) for _, kind in columns] * len(rows)))


def _send(session: Session, frame: Frame, columns: Columns, request: Request) -> None:
    result = session.transactions.run([request])
    frame.output.columns([ResultColumn(name, kind, result.ftype(i)) for i, (name, kind) in enumerate(columns)])
    if result.ntuples:
        frame.output.rows(result)
    session.rowcount = result.ntuples
    frame.output.done(None if session.options.nocount else result.ntuples)
