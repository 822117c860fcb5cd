"""FORCESEEK: check whether an index can serve the seek.

The hint chooses no plan, because PostgreSQL does that. If SQL Server would find no plan, its error 8622 is raised.
Conditions are checked one by one, so a few conditions pass that SQL Server could not seek by.

Source: "Table hints (Transact-SQL)".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from fakemssql.contract import SqlError
from fakemssql.tsql.catalog.tables import TableInfo
from fakemssql.tsql.compiler.trees import walk
from fakemssql.tsql.names import fold
from fakemssql.tsql.parser import nodes

_COMPARISONS = frozenset(("=", "<", ">", "<=", ">=", "<>", "!=", "!<", "!>"))


def check_seeks(
    sources: list[nodes.Source], where: nodes.Expr | None, table_of: Callable[[nodes.Name], TableInfo | None]
) -> None:
    """Raise error 8622 for a table with FORCESEEK if no condition compares the first key of an index."""
    found = list(_tables(sources))
    if not any(hint.name == "FORCESEEK" for source in found for hint in source.hints):
        return
    compared = {fold(name) for name in _compared([where, sources])}
    for source in found:
        if not any(hint.name == "FORCESEEK" for hint in source.hints):
            continue
        table = table_of(source.name)
        if table is None or table.type != "U" or table.local:
            continue
        named = {fold(arg) for hint in source.hints for arg in hint.args}
        if not any(
            index.first in compared
            for index in table.indexes
            if not index.disabled and (not named or named & {fold(index.name), str(index.index_id)})
        ):
            raise SqlError(
                8622,
                "Query processor could not produce a query plan because of the hints defined in this query. Resubmit"
                " the query without specifying any hints and without using SET FORCEPLAN.",
            )


def _tables(sources: list[nodes.Source]) -> Iterator[nodes.TableSource]:
    for source in sources:
        if isinstance(source, nodes.Join):
            yield from _tables([source.left, source.right])
        elif isinstance(source, nodes.TableSource):
            yield source


def _compared(node: object) -> Iterator[str]:
    """Yield the names of columns that are alone on a side of a comparison."""
    for each in walk(node):
        sides: list[nodes.Expr] = []
        if isinstance(each, nodes.Binary) and each.op in _COMPARISONS:
            sides = [each.left, each.right]
        elif isinstance(each, nodes.In | nodes.Like | nodes.Between | nodes.IsNull):
            sides = [each.value]
        for side in sides:
            if isinstance(side, nodes.Column):
                yield side.name[-1]
