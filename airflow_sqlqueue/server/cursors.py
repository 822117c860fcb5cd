"""Cursors that keep their prepared statements, and the types that parameters are declared with."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from airflow_sqlqueue.server.settings import load_pyodbc

if TYPE_CHECKING:
    import pyodbc

_KEPT = 4
"""Statements that are kept prepared: the few that a loop of transactions takes turns with."""

_LONGEST = 4_000
"""Bytes of UTF-16 of the longest text that pyodbc binds as ``nvarchar``."""


class PreparedCursors:
    """The cursors of one connection, by the text that each has run; the ones used last are kept."""

    def __init__(self, connection: pyodbc.Connection) -> None:
        self._connection = connection
        self._cursors: dict[str, tuple[pyodbc.Cursor, str]] = {}

    def cursor(self, text: str) -> tuple[pyodbc.Cursor, str]:
        """The cursor of a text that has run before, which the server has prepared, or a new one.

        The text is the one that the cursor has run: to the driver an equal one in another string is another text, which
        it has prepared again.
        """
        kept = self._cursors.pop(text, None)
        if kept is None:
            if len(self._cursors) >= _KEPT:
                self._cursors.pop(next(iter(self._cursors)))[0].close()
            kept = self._connection.cursor(), text
        self._cursors[text] = kept
        return kept

    def discard(self) -> None:
        """Close them at once: an exception keeps one alive, and while it has results the connection is busy."""
        for cursor, _ in self._cursors.values():
            with suppress(Exception):
                cursor.close()
        self._cursors.clear()


def declared(values: Sequence[Any], sizes: Sequence[Any] = ()) -> list[Any] | None:
    """``sizes``, as ``Cursor.setinputsizes`` takes them, with ``nvarchar(max)`` for each long text that has none.

    None where that leaves nothing to say. A longer text is ``ntext`` to pyodbc, which hardly any function takes (error
    402), and no parameter may be where the database has a collation of supplementary characters or UTF-8 (error 4189).
    A driver from version 18 on is asked for better in the connection string (LongAsMax); older ones do not know it.
    """
    longest = (load_pyodbc().SQL_WVARCHAR, 0, 0)
    types = [
        size if size is not None else longest if _is_long(value) else None
        for value, size in zip_longest(values, sizes[: len(values)])
    ]
    return types if any(size is not None for size in types) else None


def _is_long(value: Any) -> bool:
    if not isinstance(value, str) or 2 * len(value) <= _LONGEST // 2:
        return False
    return 2 * len(value) > _LONGEST or len(value.encode("utf-16-le", "surrogatepass")) > _LONGEST
