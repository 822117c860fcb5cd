# ruff: noqa: S608 - names go through names.quoted, values through names.literal or as parameters
"""Common table expressions in FROM, recursive ones too."""

from __future__ import annotations

from typing import Any

from fakemssql.contract import SqlError
from fakemssql.tsql.compiler.compilation import Compilation, Compiled
from fakemssql.tsql.compiler.convert import convert
from fakemssql.tsql.compiler.derived import derived, optional
from fakemssql.tsql.compiler.trees import mentions
from fakemssql.tsql.compiler.typed import Names, Scope, Typed
from fakemssql.tsql.datatypes.sqltypes import INT
from fakemssql.tsql.names import fold
from fakemssql.tsql.parser import nodes


def cte_source(
    c: Compilation, cte: tuple[nodes.Cte, Names | None], node: nodes.TableSource, names: Names, carry: str | None
) -> str:
    """A common table expression in FROM."""
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
    with optional(c, True):
        return _repeated(c, cte, body, outer, alias, names)


def _repeated(
    c: Compilation, cte: nodes.Cte, body: nodes.SetOperation, outer: Names | None, alias: str, names: Names
) -> str:
    anchor = c.branch(body.left, outer)
    columns = [
        column.with_(name=(cte.columns[i] if cte.columns else column.name), origin="")
        for i, column in enumerate(anchor.columns)
    ]
    pg = c.fresh("r")
    inside = [column.with_(sql=f"{pg}.c{i}") for i, column in enumerate(columns, 1)]
    level = Names(parent=outer, ctes={fold(cte.name): None})
    body_right = _recursive_part(c, body.right, level, fold(cte.name), (pg, inside))
    casts = ", ".join(
        f"{_recast(value, i, target)} AS c{i}"
        for i, (value, target) in enumerate(zip(body_right.columns, columns, strict=True), 1)
    )
    names_list = ", ".join(f"c{i}" for i in range(1, len(columns) + 1))
    union = f"({anchor.sql}) UNION ALL SELECT {casts} FROM ({body_right.sql}) AS s"
    sql = f"WITH RECURSIVE {pg}({names_list}) AS ({union}) SELECT * FROM {pg}"
    return derived(c, Compiled(sql, columns), alias, [], names)


def _recast(value: Typed, position: int, target: Typed) -> str:
    return convert(value.with_(sql=f"s.c{position}"), target.type or INT, "cast").sql


def _recursive_part(c: Compilation, body: Any, level: Names, folded: str, found: tuple[str, list[Typed]]) -> Compiled:
    """The operand that names its own CTE: there it is ``found``, PostgreSQL's name and columns of the rows so far."""
    outer = c.repeated
    c.repeated = {**outer, folded: found}
    try:
        return c.branch(body, level)
    finally:
        c.repeated = outer


def repeated_source(c: Compilation, found: tuple[str, list[Typed]], node: nodes.TableSource, names: Names) -> str:
    """The CTE in its own recursive part."""
    pg, inside = found
    alias = c.fresh("t")
    columns = [column.with_(sql=f"{alias}.c{i}") for i, column in enumerate(inside, 1)]
    names.scopes.append(Scope(fold(node.alias or node.name[0]), columns, exposed=node.name))
    return f"{pg} AS {alias}"
