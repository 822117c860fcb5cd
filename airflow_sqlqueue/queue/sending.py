"""Parameters of the INSERT statements that send messages or put rows back, in pieces of bounded size."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any, Protocol, TypeVar

from airflow_sqlqueue.errors import MessageError
from airflow_sqlqueue.messages.message import MAX_CHARACTERS, Headers, Message, encode_headers, escape_non_ascii
from airflow_sqlqueue.messages.row import COLUMN_HEADERS, NAMES, SENT_BITS, Row
from airflow_sqlqueue.options.budget import MIB
from airflow_sqlqueue.server.settings import load_pyodbc
from airflow_sqlqueue.server.sql.columns import FLAGS, NEVER
from airflow_sqlqueue.untrusted import row_text

ROWS = (256, 64, 16, 4, 1)
"""Rows of a statement. A few fixed sizes give the server few different statements. A row has up to six parameters, and
a statement takes 2,100."""

BYTES = 4 * MIB
"""Bytes of bodies at which a statement is sent, whatever the number of its rows."""

_MILLISECOND = timedelta(milliseconds=1)
_LONGEST, _LONG_AGO = timedelta(days=2_900_000), timedelta(days=36_500)
"""Bounds of a lifetime for DATEADD: the column takes the years 1753 to 9999, and another year is error 517. The longest
interval of .NET, which means "never" there, is longer."""

_FLAGGED = {name: not SENT_BITS[name] if name in SENT_BITS else None for name in FLAGS}
"""Values that the flags mean."""


class _WithBody(Protocol):
    @property
    def body(self) -> bytes | None: ...


T = TypeVar("T", bound=_WithBody)


def chunks(messages: Iterable[T]) -> Iterator[list[T]]:
    """Cut a stream of messages into the pieces that one statement carries."""
    waiting: list[T] = []
    size = 0
    for message in messages:
        waiting.append(message)
        size += len(message.body or b"")
        if len(waiting) == ROWS[0] or size >= BYTES:
            yield from _of_fixed_sizes(waiting)
            waiting, size = [], 0
    yield from _of_fixed_sizes(waiting)


def _of_fixed_sizes(messages: list[T]) -> Iterator[list[T]]:
    start = 0
    for rows in ROWS:
        while len(messages) - start >= rows:
            yield messages[start : start + rows]
            start += rows


def sent_parameters(
    messages: Sequence[Message], types: Mapping[str, str]
) -> tuple[frozenset[str], list[Any], list[Any]]:
    """Return the columns that a piece of :func:`chunks` fills, and the values and types of the INSERT's parameters.

    ``types`` are the base types of the table's columns. The order is that of ``server.sql.columns.insertion``. A column
    that is empty in all messages takes no parameters, because a bulk send spends its time on their number.
    """
    columns = {
        column: [column_text(message.header(name)) for message in messages]
        for column, name in COLUMN_HEADERS.items()
        if column in types
    }
    columns = {column: texts for column, texts in columns.items() if any(texts)}
    given = set(columns)
    if any(message.id is not None for message in messages):
        given.add("Id")
    if any(message.time_to_be_received is not None for message in messages):
        given.add("Expires")
    values: list[Any] = []
    for position, message in enumerate(messages):
        if "Id" in given:
            values.append(str(message.id or uuid.uuid4()))
        if "Expires" in given:
            values.append(_life(message.time_to_be_received))
        values += (headers_text(message.headers, types["Headers"]), message.body)
        values += (texts[position] for texts in columns.values())
    return frozenset(given), values, _sizes(given) * len(messages)


def _life(interval: timedelta | None) -> int:
    """Return a lifetime in milliseconds; one that ends after the year 9999, which no column can hold, is endless."""
    if interval is None or interval > _LONGEST:
        return NEVER
    return max(interval, -_LONG_AGO) // _MILLISECOND


def headers_text(headers: Headers | str, column_type: str) -> str:
    """Return the text for the Headers column: in ASCII for varchar, which replaces characters beyond its code page.

    Raises :class:`MessageError` for too long headers: they may also be the cut beginning of longer ones.
    """
    text = row_text(headers) if isinstance(headers, str) else encode_headers(headers)
    if len(text) > MAX_CHARACTERS:
        raise MessageError(f"The headers have more than {MAX_CHARACTERS:,} characters: shorten them.")
    return escape_non_ascii(text) if column_type == "varchar" else text


def column_text(value: str | None) -> str:
    """Return a header's value for a legacy varchar(255) column, empty where the column would cut or change it."""
    return value if value and len(value) <= 255 and value.isascii() else ""


def _sizes(given: set[str]) -> list[Any]:
    """Return parameter types that are the same for all rows: else the server gets a different statement for each."""
    pyodbc = load_pyodbc()
    sizes: list[Any] = [(pyodbc.SQL_VARCHAR, 36, 0)] if "Id" in given else []
    if "Expires" in given:
        sizes.append((pyodbc.SQL_BIGINT, 0, 0))
    sizes += [(pyodbc.SQL_WVARCHAR, 0, 0), (pyodbc.SQL_VARBINARY, 0, 0)]
    return sizes + [(pyodbc.SQL_VARCHAR, 255, 0) for column in COLUMN_HEADERS if column in given]


def numbered_sizes(rows: int) -> list[Any]:
    """Return parameter types as :func:`sent_parameters`, for rows in the form of ``server.sql.columns.numbered``."""
    pyodbc = load_pyodbc()
    texts = [(pyodbc.SQL_VARCHAR, 255, 0)] * len(COLUMN_HEADERS)
    return [(pyodbc.SQL_BIGINT, 0, 0), (pyodbc.SQL_WVARCHAR, 0, 0), *texts] * rows


def restored_parameters(rows: Sequence[Row], present: Collection[str]) -> tuple[list[Any], list[Any]]:
    """Return values and types of the parameters of ``server.sql.columns.restoration``, for a table with these columns.

    A row whose ``recoverable`` is None comes from a table without that column; in a table with it the value becomes 1,
    as every sender writes it.
    """
    pyodbc = load_pyodbc()
    # Unicode: the server converts the text of a varchar column back into the column's code page.
    text = (pyodbc.SQL_WVARCHAR, 0, 0)
    sizes = [(pyodbc.SQL_VARCHAR, 36, 0), (pyodbc.SQL_INTEGER, 0, 0), (pyodbc.SQL_VARCHAR, 26, 0)]
    sizes += [text, (pyodbc.SQL_VARBINARY, 0, 0), *(text for name in COLUMN_HEADERS if name in present)]
    values: list[Any] = []
    for row in rows:
        columns = dict(zip(NAMES, row, strict=True))
        flags = sum(flag for name, flag in FLAGS.items() if columns[name] is _FLAGGED[name])
        expires = "" if row.expires is None else row.expires.isoformat(timespec="microseconds")
        values += (str(row.id), flags, expires, row.headers, row.body or b"")
        values += (columns[name] or "" for name in COLUMN_HEADERS if name in present)
    return values, sizes * len(rows)
