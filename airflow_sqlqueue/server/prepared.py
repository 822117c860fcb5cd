"""The driver's cursors, kept with the statements that the server has prepared for them."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyodbc

_KEPT = 4
"""Statements that are kept prepared: the few that a loop of transactions takes turns with."""


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
