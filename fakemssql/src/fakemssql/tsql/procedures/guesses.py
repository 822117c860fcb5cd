"""The types of undeclared parameters: each has the type of what it stands beside."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any

from fakemssql.contract import SqlError
from fakemssql.tsql.compiler.compiler import Compiler
from fakemssql.tsql.compiler.typed import Names
from fakemssql.tsql.datatypes.sqltypes import BIGINT, INT
from fakemssql.tsql.parser import nodes
from fakemssql.tsql.runtime.frames import Frame
from fakemssql.types import SqlType

if TYPE_CHECKING:
    from fakemssql.tsql.runtime.session import Session


class Guess:
    """Finds the types of undeclared variables by what stands beside them."""

    def __init__(self, session: Session, frame: Frame, declared: dict[str, SqlType]) -> None:
        self.session, self.frame = session, frame
        self.declared = declared
        self.found: dict[str, SqlType | None] = {}

    def note(self, node: Any, kind: SqlType | None) -> None:
        while isinstance(node, nodes.Unary) and node.op in ("-", "+"):
            node = node.value
        if not isinstance(node, nodes.Variable) or node.name in self.declared or node.name.startswith("@@"):
            return
        if self.found.get(node.name) is None:
            self.found[node.name] = kind

    def visit(self, node: Any, columns: list[Any]) -> None:
        """Walk a tree; ``columns`` are the tables in sight."""
        if isinstance(node, nodes.Insert):
            self._insert(node)
        elif isinstance(node, nodes.Update | nodes.Delete):
            columns = [*columns, *self._tables([*node.sources, nodes.TableSource(node.target, "", [])])]
        elif isinstance(node, nodes.Select):
            columns = [*self._tables(node.sources), *columns]
        elif isinstance(node, nodes.Merge):
            columns = [*self._tables([nodes.TableSource(node.target, node.alias, []), node.source]), *columns]
        if isinstance(node, nodes.Assignment) and node.column is not None:
            self.note(node.value, self._column(nodes.Column((node.column,)), columns))
        elif isinstance(node, nodes.Top):
            self.note(node.value, BIGINT)
        elif isinstance(node, nodes.Query):
            self.note(node.offset, BIGINT)
            self.note(node.fetch, BIGINT)
        elif isinstance(node, nodes.Binary) and node.op not in ("and", "or"):
            self.note(node.left, self._type(node.right, columns))
            self.note(node.right, self._type(node.left, columns))
        elif isinstance(node, nodes.In):
            for item in node.items or []:
                self.note(item, self._type(node.value, columns))
            self.note(node.value, self._type(node.items[0] if node.items else None, columns))
        elif isinstance(node, nodes.Between):
            for item in (node.low, node.high):
                self.note(item, self._type(node.value, columns))
        elif isinstance(node, nodes.Like):
            self.note(node.pattern, self._type(node.value, columns))
        elif isinstance(node, nodes.Cast):
            self.note(node.value, node.type)
        elif isinstance(node, nodes.Function):
            self._function(node, columns)
        elif isinstance(node, nodes.Variable):
            self.note(node, None)
        for child in self._children(node):
            self.visit(child, columns)

    @staticmethod
    def _children(node: Any) -> list[Any]:
        if is_dataclass(node) and not isinstance(node, type):
            return [getattr(node, field.name) for field in fields(node)]
        return list(node) if isinstance(node, list | tuple) else []

    def _function(self, node: nodes.Function, columns: list[Any]) -> None:
        name = node.name[-1].upper()
        if name == "DATEADD" and len(node.args) == 3:
            self.note(node.args[1], INT)
            self.note(node.args[2], SqlType("datetime"))
        elif name in ("ISNULL", "COALESCE", "NULLIF"):
            kinds = [kind for arg in node.args if (kind := self._type(arg, columns)) is not None]
            for arg in node.args:
                self.note(arg, kinds[0] if kinds else None)
        elif name in ("LEFT", "RIGHT", "SUBSTRING"):
            for arg in node.args[1:]:
                self.note(arg, INT)

    def _insert(self, node: nodes.Insert) -> None:
        table = (
            self.session.catalog.find(node.target, self.session.database)
            if not node.target[0].startswith("@")
            else None
        )
        if table is None or not isinstance(node.source, nodes.Query):
            return
        names = node.columns or [c.name for c in table.columns if c.computed is None and not c.identity]
        found = [table.column(name) for name in names]
        rows: list[list[Any]] = []
        if isinstance(node.source.body, nodes.Values):
            rows = list(node.source.body.rows)
        elif isinstance(node.source.body, nodes.Select):
            rows = [[item.value for item in node.source.body.items]]
        for row in rows:
            for value, column in zip(row, found, strict=False):
                if column is not None:
                    self._into(value, column.type)

    def _into(self, value: Any, kind: SqlType) -> None:
        self.note(value, kind)
        if isinstance(value, nodes.Case):
            for _, branch in value.whens:
                self.note(branch, kind)
            self.note(value.otherwise, kind)

    def _tables(self, sources: list[Any]) -> list[Any]:
        found = []
        for source in sources:
            if isinstance(source, nodes.Join):
                found += self._tables([source.left, source.right])
            elif isinstance(source, nodes.TableSource):
                table = (
                    self.session.catalog.find(source.name, self.session.database)
                    if not source.name[0].startswith("@")
                    else None
                )
                if table is not None:
                    found.append((source.alias or source.name[-1], table))
        return found

    def _column(self, node: nodes.Column, columns: list[Any]) -> SqlType | None:
        for alias, table in columns:
            if len(node.name) == 1 or alias.lower() == node.name[-2].lower():
                column = table.column(node.name[-1])
                if column is not None:
                    kind: SqlType = column.type
                    return kind
        return None

    def _type(self, node: Any, columns: list[Any]) -> SqlType | None:
        if isinstance(node, nodes.Column):
            return self._column(node, columns)
        if isinstance(node, nodes.Variable):
            return self.declared.get(node.name)
        if node is None or isinstance(node, nodes.Subquery):
            return None
        try:
            env = self.session.environment(self.frame)
            env.variables = self.declared
            return Compiler(env).scalar(node, Names()).type
        except SqlError:
            return None
