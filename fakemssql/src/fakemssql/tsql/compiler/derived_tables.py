# ruff: noqa: S608 - names go through names.quoted, values through names.literal or as parameters
"""Derived tables in FROM: queries, views and common table expressions under an alias."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import Any

from fakemssql.contract import SqlError
from fakemssql.tsql.catalog.tables import TableInfo
from fakemssql.tsql.compiler.compilation import Compilation, Compiled
from fakemssql.tsql.compiler.convert import convert
from fakemssql.tsql.compiler.scopes import Names, Scope, Typed
from fakemssql.tsql.compiler.trees import mentions, rewritten
from fakemssql.tsql.datatypes.sqltypes import INT
from fakemssql.tsql.names import fold
from fakemssql.tsql.parser import nodes
from fakemssql.tsql.parser.batches import parse


@contextmanager
def optional(c: Compilation, optional: bool) -> Iterator[None]:
    """Mark the sources that are compiled inside as optional: the join may have no row of theirs."""
    c.optional_sources += optional
    try:
        yield
    finally:
        c.optional_sources -= optional


def derived(c: Compilation, compiled: Compiled, alias: str, columns: list[str], names: Names) -> str:
    """Return a compiled query as an item of FROM; its columns are added to ``names``."""
    if columns and len(columns) != len(compiled.columns):
        more = "fewer" if len(columns) > len(compiled.columns) else "more"
        raise SqlError(
            8158 if more == "more" else 8159, f"'{alias}' has {more} columns than were specified in the column list."
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
    scope = Scope(fold(alias), outputs, compiled.table, (alias,))
    scope.ctid = f"{pg_alias}._ctid" if compiled.table is not None else ""
    names.scopes.append(scope)
    for i, piece in enumerate(compiled.pieces, 1):
        if "(" in piece:
            c.prunable_columns.append((f"{pg_alias}.c{i}", piece))
    return f"({compiled.sql}) AS {pg_alias}"


def view_source(
    c: Compilation, table: TableInfo, alias: str, names: Names, carry: bool, hints: list[nodes.Hint]
) -> str:
    """Compile a view as its query; hints apply to the tables in it."""
    view = parse(table.definition)[0]
    assert isinstance(view, nodes.CreateView)
    passed = [hint for hint in hints if hint.name not in ("NOEXPAND", "INDEX", "FORCESEEK", "FORCESCAN")]

    def hinted(node: object) -> nodes.TableSource | None:
        if passed and isinstance(node, nodes.TableSource):
            return replace(node, hints=[*node.hints, *passed])
        return None

    query = rewritten(view.query, hinted)
    outer = c.env
    c.env = replace(outer, database=table.database, variables={}, tables={})
    security = outer.security
    module = security.module(table.database, table.owner, table.schema) if security is not None else nullcontext()
    try:
        with module:
            compiled = c.query(query, None, carry)
    finally:
        c.env = outer
    return derived(c, compiled, alias, view.columns, names)


def cte_source(
    c: Compilation, cte: tuple[nodes.Cte, Names | None], node: nodes.TableSource, names: Names, carry: str | None
) -> str:
    """Compile a common table expression in FROM."""
    definition, outer = cte
    folded = fold(definition.name)
    alias = node.alias or node.name[-1]
    if mentions(definition.query, folded):
        return _recursive(c, definition, outer, alias, names)
    wanted = carry is not None and carry in ("", fold(alias))
    compiled = c.query(definition.query, outer, wanted)
    return derived(c, compiled, alias, definition.columns, names)


def _recursive(c: Compilation, cte: nodes.Cte, outer: Names | None, alias: str, names: Names) -> str:
    body = cte.query.body
    if not isinstance(body, nodes.SetOperation) or body.op != "union all":
        raise SqlError(
            252, f"Recursive common table expression '{cte.name}' does not contain a top-level UNION ALL operator."
        )
    pg = c.fresh("r")
    with optional(c, True):
        anchor = c.branch(body.left, outer)
        columns = [
            column.with_(name=(cte.columns[i] if cte.columns else column.name), origin="")
            for i, column in enumerate(anchor.columns)
        ]
        inside = [column.with_(sql=f"{pg}.c{i}") for i, column in enumerate(columns, 1)]
        level = Names(parent=outer, ctes={fold(cte.name): None})
        body_right = _recursive_part(c, body.right, level, fold(cte.name), (pg, inside))
    casts = ", ".join(
        f"{convert(value.with_(sql=f's.c{i}'), target.type or INT, 'cast').sql} AS c{i}"
        for i, (value, target) in enumerate(zip(body_right.columns, columns, strict=True), 1)
    )
    names_list = ", ".join(f"c{i}" for i in range(1, len(columns) + 1))
    union = f"({anchor.sql}) UNION ALL SELECT {casts} FROM ({body_right.sql}) AS s"
    sql = f"WITH RECURSIVE {pg}({names_list}) AS ({union}) SELECT * FROM {pg}"
    return derived(c, Compiled(sql, columns), alias, [], names)


def _recursive_part(c: Compilation, body: Any, level: Names, folded: str, found: tuple[str, list[Typed]]) -> Compiled:
    """Compile the recursive operand of a CTE; ``found`` is PostgreSQL's name and columns of the rows so far."""
    outer = c.recursive_ctes
    c.recursive_ctes = {**outer, folded: found}
    try:
        return c.branch(body, level)
    finally:
        c.recursive_ctes = outer


def repeated_source(c: Compilation, found: tuple[str, list[Typed]], node: nodes.TableSource, names: Names) -> str:
    """Compile a CTE inside its own recursive part."""
    pg, inside = found
    alias = c.fresh("t")
    columns = [column.with_(sql=f"{alias}.c{i}") for i, column in enumerate(inside, 1)]
    names.scopes.append(Scope(fold(node.alias or node.name[0]), columns, exposed=node.name))
    return f"{pg} AS {alias}"
