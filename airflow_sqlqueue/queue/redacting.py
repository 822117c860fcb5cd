"""Redaction of rows in one of this package's tables, in the transaction that has put them there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from airflow_sqlqueue.messages.row import COLUMN_HEADERS, NAMES
from airflow_sqlqueue.queue.browsing import NO_ID
from airflow_sqlqueue.queue.tables.own import OwnTable
from airflow_sqlqueue.server.sql.columns import KEPT, NULLED, redaction
from airflow_sqlqueue.untrusted import row_text

_PLACES = {name: NAMES.index(name) for name in ("Id", "RowVersion", *COLUMN_HEADERS, "Headers", "Body")}
_ROWS_PER_STATEMENT = 100
"""Rows of one statement: it may have 2,100 parameters."""


class RedactedRow(NamedTuple):
    """Row before and after its redaction. ``keeps_body``: the table's body stays, whatever the rows have."""

    old: Sequence[Any]
    new: Sequence[Any]
    keeps_body: bool = False


def redact_rows(table: OwnTable, owner: str, owned_by: tuple[str, str], rows: Sequence[RedactedRow]) -> int:
    """Redact rows of a table whose ``BatchId`` and ``owner`` are ``owned_by``; return how many were found."""
    found = 0
    for start in range(0, len(rows), _ROWS_PER_STATEMENT):
        piece = list(rows[start : start + _ROWS_PER_STATEMENT])
        size = next(size for size in (1, 16, _ROWS_PER_STATEMENT) if size >= len(piece))
        piece += piece[-1:] * (size - len(piece))
        statement = table.query("message_table.redact", **redaction(owner, len(piece)))
        values = [value for row in piece for value in _parameters(row)]
        found += int(table.session.value(statement, *values, *owned_by))
    return found


def _parameters(row: RedactedRow) -> Iterator[Any]:
    old, new = row.old, row.new
    flags, values = 0, []
    for name in KEPT:
        place = _PLACES[name]
        value = new[place]
        if (value is old[place] and name != "Body") or (name == "Body" and row.keeps_body):
            flags |= KEPT[name]
        elif value is None:
            flags |= NULLED[name]
        empty: Any = b"" if name == "Body" else ""
        is_sent = value is not None and not flags & (KEPT[name] | NULLED[name])
        values.append((value if name == "Body" else row_text(value)) if is_sent else empty)
    ids = (str(each[_PLACES["Id"]] or NO_ID) for each in (old, new))
    return iter((old[_PLACES["RowVersion"]], *ids, flags, *values))
