"""Rows that were taken out of a queue, on their way back: the parameters of the statement that inserts them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

from airflow_sqlqueue.row import COLUMN_HEADERS, NAMES, SENT_BITS, Row
from airflow_sqlqueue.server.settings import load_pyodbc
from airflow_sqlqueue.sql.columns import FLAGS

_FLAGGED = {name: not SENT_BITS[name] if name in SENT_BITS else None for name in FLAGS}
"""The values that Flags stand for."""


def parameters_of(rows: Sequence[Row], present: Collection[str]) -> tuple[list[Any], list[Any]]:
    """Values and types of the parameters, as ``sql.columns.restoration`` has them, for a table with these columns.

    Where ``recoverable`` is None, the row's table had no such column; one that has it gets the 1 that every sender
    writes.
    """
    values: list[Any] = []
    for row in rows:
        columns = dict(zip(NAMES, row, strict=True))
        values += (str(row.id), _flags(columns), _iso(row.expires), row.headers, row.body or b"")
        values += (columns[name] or "" for name in COLUMN_HEADERS if name in present)
    return values, _sizes(present) * len(rows)


def _flags(columns: Mapping[str, Any]) -> int:
    return sum(flag for name, flag in FLAGS.items() if columns[name] is _FLAGGED[name])


def _iso(expires: datetime | None) -> str:
    return "" if expires is None else expires.isoformat(timespec="microseconds")


def _sizes(present: Collection[str]) -> list[Any]:
    """As for a send. Texts are Unicode, because what a ``varchar`` column gave goes back through its code page."""
    pyodbc = load_pyodbc()
    text = (pyodbc.SQL_WVARCHAR, 0, 0)
    sizes = [(pyodbc.SQL_VARCHAR, 36, 0), (pyodbc.SQL_INTEGER, 0, 0), (pyodbc.SQL_VARCHAR, 26, 0)]
    return [*sizes, text, (pyodbc.SQL_VARBINARY, 0, 0), *(text for name in COLUMN_HEADERS if name in present)]
