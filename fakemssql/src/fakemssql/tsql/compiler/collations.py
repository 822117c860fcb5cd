"""Collations of expressions: explicit before implicit before coercible-default ("Collation precedence")."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fakemssql.contract import SqlError
from fakemssql.tsql.compiler.scopes import Typed

_NONE = "?"
"""The label no-collation: that of a CASE over columns of different collations."""


def label(value: Typed) -> dict[str, Any]:
    """Return the fields of :class:`Typed` that say the collation of a value, for another one that has it too."""
    return {"binary": value.binary, "collation": value.collation, "explicit": value.explicit}


def mixed(values: Iterable[Typed]) -> dict[str, Any]:
    """Return the label of a value that is one of ``values``; it may be no-collation."""
    given = list(values)
    labelled = [value for value in given if value.explicit] or [value for value in given if value.collation]
    if not labelled:
        return {"binary": any(value.binary for value in given)}
    if len({value.collation.upper() for value in labelled}) > 1:
        return {"binary": any(value.binary for value in labelled), "collation": _NONE}
    return label(labelled[0])


def resolved(values: Iterable[Typed], operation: str) -> dict[str, Any]:
    """Return the label under which an operation compares or joins texts. Error 468 for no-collation."""
    given = list(values)
    found = mixed(given)
    if found.get("collation") == _NONE:
        names = list(dict.fromkeys(value.collation for value in given if value.collation))[:2]
        between = " and ".join(f'"{name}"' for name in names)
        text = f"Cannot resolve the collation conflict between {between} in the {operation} operation."
        raise SqlError(468, text, state=9)
    return found


def check_shown(columns: Iterable[Typed]) -> None:
    """Raise error 451 for an item of a select list that has no collation."""
    for number, column in enumerate(columns, 1):
        if column.collation == _NONE:
            raise SqlError(451, f"Cannot resolve collation conflict for column {number} in SELECT statement.")
