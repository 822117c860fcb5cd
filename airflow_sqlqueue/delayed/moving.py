"""Moving rows of a table of delayed messages into a queue, whatever columns, triggers and constraints it has."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any

from airflow_sqlqueue.delayed.table import DelayedMessage, DelayedTable
from airflow_sqlqueue.errors import NotAQueueError, StatementError
from airflow_sqlqueue.message import HeaderNames, Headers
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.queue.sending import headers_text
from airflow_sqlqueue.server.settings import load_pyodbc
from airflow_sqlqueue.sql import Fragment, Query, identifier
from airflow_sqlqueue.tables.layout import Layout

_ROWS = (128, 32, 8, 1)
"""Rows of a statement. A few fixed sizes, so that the server sees few texts; well under 2,100 parameters."""

_MICROSECOND = timedelta(microseconds=1)

_LEGACY = {
    "CorrelationId": "NULLIF(m.[CorrelationId], '')",
    "ReplyToAddress": "NULLIF(m.[ReplyToAddress], '')",
    "Recoverable": "1",
}


@dataclass(frozen=True)
class DueMessage:
    """A message that is due: ``headers`` as the queue is to get them, ``values`` as they can be read."""

    message: DelayedMessage
    headers: Headers | str
    values: Mapping[str, str | None]


def check_takes(queue: QueueTable) -> None:
    """Raise what a queue raises that is none, or into which nothing can be inserted."""
    if unfilled := queue.layout.unfilled_columns:
        raise NotAQueueError(
            f"Nothing can be sent to {queue.address.canonical}: its column {unfilled[0]!r} takes no NULL and has no "
            "default; give it one."
        )


def move_rows(delayed: DelayedTable, queue: QueueTable, due: Sequence[DueMessage]) -> None:
    """Move messages, sorted by Due and RowVersion, which the session's transaction has locked."""
    start = 0
    for rows in _ROWS:
        while len(due) - start >= rows:
            counts = queue.run_for_layout(partial(_move_piece, delayed, queue, due[start : start + rows]))
            if counts != (rows, rows):
                raise StatementError(
                    f"Could not move {rows} messages of {delayed.address.canonical}: {counts[0]} were inserted and "
                    f"{counts[1]} deleted; see that the table's RowVersions are unique."
                )
            start += rows


def _move_piece(
    delayed: DelayedTable, queue: QueueTable, piece: Sequence[DueMessage], layout: Layout
) -> tuple[int, int]:
    statement = _statement(delayed, queue, len(piece), layout.types)
    values = [
        value
        for due in piece
        for value in (
            due.message.row_version,
            headers_text(due.headers, layout.types["Headers"]),
            _column_text(due.values.get(HeaderNames.CORRELATION_ID)),
            _column_text(due.values.get(HeaderNames.REPLY_TO_ADDRESS)),
        )
    ]
    # Where the column has more digits than Python, the driver has cut some off.
    span = [piece[0].message.moment, piece[-1].message.moment + _MICROSECOND]
    inserted, deleted = delayed.session.run(statement, *values, *span, *span, sizes=_sizes(len(piece)))[0]
    return inserted, deleted


def _statement(delayed: DelayedTable, queue: QueueTable, rows: int, present: Collection[str]) -> Query:
    legacy = {name: value for name, value in _LEGACY.items() if name in present}
    moment = delayed.moment_fragment()
    found = delayed.query(
        "move",
        queue=identifier(queue.address),
        rows=Fragment(", ".join(["(?, ?, ?, ?)"] * rows)),
        columns=Fragment(", ".join(f"[{name}]" for name in ("Id", "Expires", "Headers", "Body", *legacy))),
        values=Fragment(", ".join(("NEWID()", "NULL", "m.[Headers]", "d.[Body]", *legacy.values()))),
        since=moment,
        until=moment,
    )
    return Query(found.name, found.purpose.replace("the queue", f"the queue {queue.address.canonical}"), found.text)


def _sizes(rows: int) -> list[Any]:
    """Parameter types that do not change from row to row: else the driver prepares every statement again."""
    pyodbc = load_pyodbc()
    text = (pyodbc.SQL_VARCHAR, 255, 0)
    return [(pyodbc.SQL_BIGINT, 0, 0), (pyodbc.SQL_WVARCHAR, 0, 0), text, text] * rows


def _column_text(value: str | None) -> str:
    """A header's value for a legacy varchar(255) column, empty where it would be cut or changed."""
    return value if value and len(value) <= 255 and value.isascii() else ""
