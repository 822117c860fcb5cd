# ruff: noqa: S608 - names go through names.quoted
"""What an INSTEAD OF trigger sees: the rows that its statement would have changed, read and not changed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from fakemssql.contract import SqlError
from fakemssql.tsql.catalog.tables import TableInfo
from fakemssql.tsql.compiler.trees import walk
from fakemssql.tsql.names import fold, literal, quoted
from fakemssql.tsql.parser import nodes
from fakemssql.tsql.runtime.frames import Frame
from fakemssql.types import SqlType

if TYPE_CHECKING:
    from fakemssql.tsql.runtime.session import Session

Modification = nodes.Insert | nodes.Update | nodes.Delete


def target(session: Session, node: Modification, frame: Frame) -> TableInfo | None:
    """The table or view that a statement names, by an alias of its FROM clause maybe; None for anything else."""
    name = node.target
    if name[0].startswith("@"):
        return None
    if len(name) == 1:
        if any(fold(cte.name) == fold(name[0]) for cte in node.ctes) or fold(name[0]) in frame.tables:
            return None
        if not isinstance(node, nodes.Insert):
            for source in walk(node.sources):
                if isinstance(source, nodes.TableSource) and fold(source.alias) == fold(name[0]):
                    name = source.name
    return session.catalog.find(name, session.database)


def row_tables(session: Session, table: TableInfo) -> dict[str, TableInfo]:
    """Empty ``inserted`` and ``deleted`` for rows of ``table``."""
    columns = [(column.name, column.type) for column in table.columns]
    return {name: _table(session, columns) for name in ("inserted", "deleted")}


def _table(session: Session, columns: list[tuple[str, SqlType]]) -> TableInfo:
    made: list[TableInfo] = []

    def create() -> None:
        definitions = [nodes.ColumnDefinition(name, kind, True) for name, kind in columns]
        made.append(session.temporary.create(nodes.CreateTable(("@rows",), definitions, [], [])))

    session.transactions.define(create)
    return made[0]


def collect(session: Session, node: Modification, table: TableInfo, frame: Frame, places: dict[str, TableInfo]) -> int:
    """Put the rows that ``node`` would change into ``places``; their number."""
    tables = {f"@@{name}": place for name, place in places.items()}
    inner = replace(frame, tables={**frame.tables, **tables})
    if isinstance(node, nodes.Insert):
        _copy_defaults(session, table, places["inserted"])
        columns = node.columns or [c.name for c in table.columns if c.computed is None and not c.identity]
        return session.execute(replace(node, target=("@@inserted",), hints=[], columns=columns), inner)
    sources, alias = _sources(node)
    old: list[nodes.Expr] = [nodes.Column((alias, column.name)) for column in table.columns]
    if isinstance(node, nodes.Delete):
        return session.execute(_insert("@@deleted", table, _select(node, sources, old)), inner)
    kinds = [(column.name, column.type) for column in table.columns]
    pairs = [(f"{side}{i}", kind) for side in "di" for i, (_, kind) in enumerate(kinds)]
    both = _table(session, pairs)
    inner.tables["@@both"] = both
    # Old and new values are read together: they are of the same moment.
    into = nodes.Insert(
        ("@@both",),
        [name for name, _ in pairs],
        [],
        _select(node, sources, [*old, *_new(node, table, alias)]),
        [],
        node.ctes,
    )
    count = session.execute(into, inner)
    for side, name in (("d", "@@deleted"), ("i", "@@inserted")):
        items = [nodes.SelectItem(nodes.Column((f"{side}{i}",))) for i in range(len(kinds))]
        rows = nodes.Query(nodes.Select(items, sources=[nodes.VariableSource("@@both", "@@both")]))
        session.execute(_insert(name, table, rows), inner)
    session.pg.execute(f"DROP TABLE {both.pg}")
    return count


def _sources(node: nodes.Update | nodes.Delete) -> tuple[list[nodes.Source], str]:
    """The FROM clause with the target in it, and the name that the target has there."""
    for source in walk(node.sources):
        if isinstance(source, nodes.TableSource):
            shown = source.alias or source.name[-1]
            if fold(shown) == fold(node.target[-1]) or fold(source.name[-1]) == fold(node.target[-1]):
                return node.sources, shown
    own = nodes.TableSource(node.target, "", node.hints, node.line)
    return [own, *node.sources], node.target[-1]


def _select(node: nodes.Update | nodes.Delete, sources: list[nodes.Source], values: list[nodes.Expr]) -> nodes.Query:
    items = [nodes.SelectItem(value, f"c{i}") for i, value in enumerate(values)]
    return nodes.Query(nodes.Select(items, top=node.top, sources=sources, where=node.where), node.ctes)


def _insert(name: str, table: TableInfo, rows: nodes.Query) -> nodes.Insert:
    return nodes.Insert((name,), [column.name for column in table.columns], [], rows, [], [])


def _new(node: nodes.Update, table: TableInfo, alias: str) -> list[nodes.Expr]:
    """The values that an UPDATE would give to each column."""
    changed: dict[str, nodes.Expr] = {}
    for item in node.assignments:
        if item.variable is not None or (isinstance(item.value, nodes.Literal) and item.value.kind == "default"):
            raise SqlError(
                40517,
                "Assigning a variable or DEFAULT in an UPDATE with an INSTEAD OF trigger is not supported by the local"
                " server.",
            )
        name = item.column or ""
        if table.column(name) is None:
            raise SqlError(207, f"Invalid column name '{name}'.")
        value = item.value
        if item.op != "=":
            value = nodes.Binary(item.op[0], nodes.Column((alias, name)), value)
        changed[fold(name)] = value
    return [changed.get(column.folded) or nodes.Column((alias, column.name)) for column in table.columns]


def _copy_defaults(session: Session, table: TableInfo, place: TableInfo) -> None:
    """Columns that an INSERT leaves out have their defaults in ``inserted``; an identity is 0 there."""
    rows = session.pg.query(
        "SELECT a.attname, CASE WHEN a.attidentity <> '' THEN '0' ELSE pg_get_expr(d.adbin, d.adrelid) END"
        " FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum"
        f" WHERE a.attrelid = to_regclass({literal(table.pg)}) AND (d.adbin IS NOT NULL OR a.attidentity <> '')"
    )
    for column, default in rows:
        session.pg.execute(f"ALTER TABLE {place.pg} ALTER COLUMN {quoted(str(column))} SET DEFAULT {default}")
