"""Cursors with their prepared statements, and the declared types of parameters."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from airflow_sqlqueue.server.settings import load_pyodbc

if TYPE_CHECKING:
    import pyodbc

_KEPT = 4
"""The most prepared statements to keep: a loop of transactions alternates between a few."""

_LONGEST = 4_000
"""The most bytes, in UTF-16, of a text that pyodbc binds as ``nvarchar``."""


class PreparedCursors:
    """Cursors of one connection, by the text that each has run; only the ones used last are kept."""

    def __init__(self, connection: pyodbc.Connection) -> None:
        self._connection = connection
        self._cursors: dict[str, tuple[pyodbc.Cursor, str]] = {}

    def cursor(self, text: str) -> tuple[pyodbc.Cursor, str]:
        """Return the cursor of a text that has run before, which is prepared on the server, or a new cursor.

        The text in the result is the string that the cursor has run: the driver prepares an equal text in another
        string object again.
        """
        kept = self._cursors.pop(text, None)
        if kept is None:
            if len(self._cursors) >= _KEPT:
                self._cursors.pop(next(iter(self._cursors)))[0].close()
            kept = self._connection.cursor(), text
        self._cursors[text] = kept
        return kept

    def discard(self) -> None:
        """Close the cursors at once: an exception keeps a cursor alive, and its results keep the connection busy."""
        for cursor, _ in self._cursors.values():
            with suppress(Exception):
                cursor.close()
        self._cursors.clear()


def declared_types(values: Sequence[Any], sizes: Sequence[Any] = ()) -> list[Any] | None:
    """Return ``sizes`` for ``Cursor.setinputsizes``, with ``nvarchar(max)`` for each long text without a size.

    The result is None if no parameter has a size. For pyodbc a longer text is ``ntext``, which hardly any function
    accepts (error 402) and which no parameter may have in a database with a collation of supplementary characters or
    UTF-8 (error 4189). LongAsMax in the connection string prevents this in the driver from version 18 on; older drivers
    do not know it.
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
