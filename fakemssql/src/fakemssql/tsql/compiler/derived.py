"""Derived tables in FROM: queries, views and common table expressions under an alias."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from fakemssql.contract import SqlError
from fakemssql.tsql.compiler.compilation import Compilation, Compiled
from fakemssql.tsql.compiler.typed import Names, Scope
from fakemssql.tsql.names import fold


@contextmanager
def optional(c: Compilation, optional: bool) -> Iterator[None]:
    """Sources of which a row may be missing, on the outer side of a join."""
    c.unlockable += optional
    try:
        yield
    finally:
        c.unlockable -= optional


def derived(c: Compilation, compiled: Compiled, alias: str, columns: list[str], names: Names) -> str:
    """A compiled query under an alias; its columns are added to ``names``."""
    if columns and len(columns) != len(compiled.columns):
        more = "fewer" if len(columns) > len(compiled.columns) else "more"
        raise SqlError(
            8158 if more == "more" else 8159,
            f"'{alias}' has {more} columns than were specified in the column list.",
        )
    pg_alias = c.fresh("t")
    outputs = []
    seen: set[str] = set()
    for i, column in enumerate(compiled.columns, 1):
        name = columns[i - 1] if columns else column.name
        if not name:
            raise SqlError(8155, f"No column name was specified for column {i} of '{alias}'.")
        if fold(name) in seen:
            raise SqlError(8156, f"The column '{name}' was specified multiple times for '{alias}'.")
        seen.add(fold(name))
        outputs.append(column.with_(sql=f"{pg_alias}.c{i}", name=name, constant=None, identity=False))
    scope = Scope(fold(alias), outputs, compiled.table, pg_alias, (alias,))
    scope.ctid = f"{pg_alias}._ctid" if compiled.table is not None else ""
    names.scopes.append(scope)
    for i, piece in enumerate(compiled.pieces, 1):
        if "(" in piece:
            c.prunable.append((f"{pg_alias}.c{i}", piece))
    return f"({compiled.sql}) AS {pg_alias}"
