"""Parameters of statements that are told to the driver and to nobody else: one may be a body.

``DbApiHook`` logs the parameters that it knows of, and hands them to the collectors of hook lineage, which put them
into events.
"""

from __future__ import annotations

from typing import Any


class QuietCursor:
    """A cursor that has the parameters of its statement already: its ``execute`` takes the statement alone."""

    def __init__(self, cursor: Any, parameters: Any) -> None:
        self._cursor, self._parameters = cursor, parameters

    def execute(self, statement: str) -> Any:
        """Run the statement with its parameters."""
        return self._cursor.execute(statement, self._parameters)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cursor, name)


class QuietParameters(tuple[Any, ...]):
    """Parameters that a log shows the number of. To who asks whether there are any, as lineage does, there are none."""

    __slots__ = ()

    def __bool__(self) -> bool:
        return False

    def __repr__(self) -> str:
        return f"({len(self)} values)"


def quiet(parameters: Any) -> Any:
    """The parameters, quietly; None for none."""
    return None if parameters is None else QuietParameters(parameters)
