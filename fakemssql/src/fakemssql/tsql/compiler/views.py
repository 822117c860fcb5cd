"""Views in FROM."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace

from fakemssql.tsql.catalog.tables import TableInfo
from fakemssql.tsql.compiler.compilation import Compilation
from fakemssql.tsql.compiler.derived import derived
from fakemssql.tsql.compiler.trees import rewritten
from fakemssql.tsql.compiler.typed import Names
from fakemssql.tsql.parser import nodes
from fakemssql.tsql.parser.batches import parse


def view_source(
    c: Compilation, table: TableInfo, alias: str, names: Names, carry: bool, hints: list[nodes.Hint]
) -> str:
    """A view as the query that it is; hints are for the tables in it."""
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
