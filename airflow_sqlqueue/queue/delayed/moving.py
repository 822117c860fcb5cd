"""Moving of rows from a table of delayed messages into a queue with any columns, triggers and constraints."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial

from airflow_sqlqueue.errors import StatementError
from airflow_sqlqueue.messages.message import Headers
from airflow_sqlqueue.messages.row import COLUMN_HEADERS
from airflow_sqlqueue.queue.delayed.table import DelayedMessage, DelayedTable
from airflow_sqlqueue.queue.queue_table import QueueTable
from airflow_sqlqueue.queue.sending import column_text, headers_text, numbered_sizes
from airflow_sqlqueue.queue.tables.layout import Layout
from airflow_sqlqueue.server.sql import Query, identifier
from airflow_sqlqueue.server.sql.columns import delayed_move

_ROWS = (128, 32, 8, 1)
"""Numbers of rows in a statement. A few fixed sizes, so that the server gets few texts; well under 2,100 parameters."""

_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True)
class DueMessage:
    """A due message: its readable headers, ``values``, and ``headers`` for the queue, None for those of the row."""

    message: DelayedMessage
    headers: Headers | None = field(repr=False)
    values: Mapping[str, str | None] = field(repr=False)


def move_rows(delayed: DelayedTable, queue: QueueTable, due: Sequence[DueMessage]) -> None:
    """Move messages that the session's transaction has locked, sorted by Due and RowVersion."""
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
    kind = layout.types["Headers"]
    # A varchar column replaces characters outside its code page by question marks.
    is_kept = kind != "varchar" or delayed.layout.types["Headers"] == "varchar"
    values = [
        value
        for due in piece
        for value in (
            due.message.row_version,
            "" if due.headers is None and is_kept else headers_text(_headers(due), kind),
            *(column_text(due.values.get(name)) for name in COLUMN_HEADERS.values()),
        )
    ]
    # The driver cuts digits of a time that is more precise than Python's.
    span = [piece[0].message.moment, piece[-1].message.moment + _MICROSECOND]
    inserted, deleted = delayed.session.run(statement, *values, *span, *span, sizes=numbered_sizes(len(piece)))[0]
    return inserted, deleted


def _headers(due: DueMessage) -> Headers | str:
    return due.message.headers if due.headers is None else due.headers


def _statement(delayed: DelayedTable, queue: QueueTable, rows: int, present: Collection[str]) -> Query:
    moment = delayed.moment_fragment()
    names = {"queue": identifier(queue.address), "since": moment, "until": moment}
    return delayed.query("delayed.move", **names, **delayed_move(present, rows)).naming("the queue", queue.address)
