"""Rows that were taken out of a queue, on their way back: the parameters of the statement that inserts them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

from airflow_sqlqueue.row import Row
from airflow_sqlqueue.server.settings import load_pyodbc
from airflow_sqlqueue.sql.columns import (
    ADDRESSED,
    NOT_RECOVERABLE,
    NULL_BODY,
    NULL_CORRELATION_ID,
    NULL_REPLY_TO_ADDRESS,
)


def parameters_of(rows: Sequence[Row], present: Collection[str]) -> tuple[list[Any], list[Any]]:
    """Values and types of the parameters, as ``sql.columns.restoration`` has them, for a table with these columns.

    Where ``recoverable`` is None, the row's table had no such column; one that has it gets the 1 that every sender
    writes.
    """
    values: list[Any] = []
    for row in rows:
        addressed = {"CorrelationId": row.correlation_id, "ReplyToAddress": row.reply_to_address}
        values += (str(row.id), _flags(row), _iso(row.expires), row.headers, row.body or b"")
        values += (addressed[name] or "" for name in ADDRESSED if name in present)
    return values, _sizes(present) * len(rows)


def _flags(row: Row) -> int:
    flags = {
        NULL_CORRELATION_ID: row.correlation_id is None,
        NULL_REPLY_TO_ADDRESS: row.reply_to_address is None,
        NULL_BODY: row.body is None,
        NOT_RECOVERABLE: row.recoverable is False,
    }
    return sum(flag for flag, holds in flags.items() if holds)


def _iso(expires: datetime | None) -> str:
    return "" if expires is None else expires.isoformat(timespec="microseconds")


def _sizes(present: Collection[str]) -> list[Any]:
    """As for a send. Texts are Unicode, because what a ``varchar`` column gave goes back through its code page."""
    pyodbc = load_pyodbc()
    text = (pyodbc.SQL_WVARCHAR, 0, 0)
    sizes = [(pyodbc.SQL_VARCHAR, 36, 0), (pyodbc.SQL_INTEGER, 0, 0), (pyodbc.SQL_VARCHAR, 26, 0)]
    return [*sizes, text, (pyodbc.SQL_VARBINARY, 0, 0), *(text for name in ADDRESSED if name in present)]
