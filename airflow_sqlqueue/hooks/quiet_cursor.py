"""A cursor that has the parameters of its statement already, so that nobody else needs to be told them."""

from __future__ import annotations

from typing import Any


class QuietCursor:
    """The driver's cursor, whose ``execute`` takes the statement alone and adds the parameters.

    ``DbApiHook.run`` logs the parameters that it knows of and hands them to the collectors of hook lineage, which put
    them into events; a parameter may be a body.
    """

    def __init__(self, cursor: Any, parameters: Any) -> None:
        self._cursor, self._parameters = cursor, parameters

    def execute(self, statement: str) -> Any:
        """Run the statement with its parameters."""
        return self._cursor.execute(statement, self._parameters)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cursor, name)
