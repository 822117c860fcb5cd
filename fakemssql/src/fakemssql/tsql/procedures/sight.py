"""The tables in sight of an expression, and the types of their columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fakemssql.tsql.datatypes.sqltypes import nvarchar
from fakemssql.tsql.parser import nodes
from fakemssql.tsql.runtime.session import Session
from fakemssql.types import SqlType

TEXT = nvarchar(4000)
"""For what the server deduces and fakemssql does not: the type of an expression over a derived table, say."""


def target_types(session: Session, name: nodes.Name, names: Sequence[str]) -> list[SqlType]:
    """The types of the columns that VALUES fill."""
    table = None if name[0].startswith("@") else session.catalog.find(name, session.database)
    if table is None:
        return []
    names = names or [c.name for c in table.columns if c.computed is None and not c.identity]
    return [TEXT if (column := table.column(each)) is None else column.type for each in names]


def tables_in(session: Session, sources: list[Any]) -> list[Any]:
    found = []
    for source in sources:
        if isinstance(source, nodes.Join):
            found += tables_in(session, [source.left, source.right])
        elif isinstance(source, nodes.TableSource):
            table = session.catalog.find(source.name, session.database) if not source.name[0].startswith("@") else None
            if table is not None:
                found.append((source.alias or source.name[-1], table))
    return found


def column_type(node: nodes.Column, columns: list[Any]) -> SqlType | None:
    for alias, table in columns:
        if len(node.name) == 1 or alias.lower() == node.name[-2].lower():
            column = table.column(node.name[-1])
            if column is not None:
                kind: SqlType = column.type
                return kind
    return None
