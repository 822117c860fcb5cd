"""Deduction of the types of undeclared parameters, with the errors if that is not possible.

Source: "sp_describe_undeclared_parameters (Transact-SQL)", "Parameter Selection Algorithm". A parameter has the type of
the value that it is compared with, the type of a cast, or the type of the column or variable that it is assigned to or
inserted into by VALUES. A parameter that is an item of a SELECT could have any type: error 11506. Numbers and texts:
"Database Engine events and errors (11000 to 12999)".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from fakemssql.contract import SqlError
from fakemssql.tsql.compiler.compiler import compilation
from fakemssql.tsql.compiler.scopes import Names
from fakemssql.tsql.compiler.trees import children
from fakemssql.tsql.datatypes.sqltypes import BIGINT, INT, nvarchar
from fakemssql.tsql.parser import nodes
from fakemssql.tsql.runtime.execution.plans import environment
from fakemssql.tsql.runtime.frames import Frame
from fakemssql.tsql.runtime.session.session import Session
from fakemssql.types import SqlType

TEXT = nvarchar(4000)
"""Type for cases that SQL Server deduces and fakemssql does not, such as expressions over a derived table."""


def target_types(session: Session, name: nodes.Name, names: Sequence[str]) -> list[SqlType]:
    """Return the types of the columns that VALUES fill."""
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


_ALIKE = {"ISNULL", "COALESCE", "NULLIF", "IIF"}
"""Functions whose arguments have a common type."""

_FROM_SECOND = {"LEFT": INT, "RIGHT": INT, "SUBSTRING": INT}


class ParameterTypes:
    """Types of undeclared variables from the expressions around them; :class:`SqlError` if they cannot be deduced."""

    def __init__(self, session: Session, frame: Frame, declared: dict[str, SqlType]) -> None:
        self.session, self.frame = session, frame
        self.declared = declared
        self.found: dict[str, SqlType] = {}

    def deduce(self, statements: list[nodes.Statement]) -> None:
        """Visit a batch. Variables that it declares anywhere have their declared types."""
        self._declare(statements)
        self.visit(statements, [])

    def _declare(self, node: Any) -> None:
        if isinstance(node, nodes.Declare):
            self.declared[node.name] = node.type
        for child in children(node):
            self._declare(child)

    def visit(self, node: Any, columns: list[Any], target: SqlType | None = None) -> None:
        """Visit a node. ``columns`` are the visible tables, ``target`` is the type that the context expects."""
        if isinstance(node, nodes.Variable):
            self._note(node, target)
            return
        if type(node) in _PARTS:
            for part, kind in _PARTS[type(node)](self.declared, node):
                self.visit(part, columns, kind)
            return
        visit = _VISITS.get(type(node))
        if visit is not None:
            visit(self, node, columns, target)
            return
        for child in children(node):
            self.visit(child, columns, target if isinstance(node, nodes.Unary | nodes.Collate) else None)

    # --- parameters ------------------------------------------------------------------------------------------------

    def _undeclared(self, node: Any) -> bool:
        return isinstance(node, nodes.Variable) and node.name not in self.declared and not node.name.startswith("@@")

    def _untyped(self, node: Any) -> nodes.Variable | None:
        """Undeclared variable on which the type of an expression depends; None if the expression has a type."""
        if isinstance(node, nodes.Variable):
            return node if self._undeclared(node) else None
        own_type = isinstance(node, nodes.Cast | nodes.Subquery | nodes.Query)
        if own_type or (isinstance(node, nodes.Function) and len(node.name) > 1):
            return None
        return next((found for child in children(node) if (found := self._untyped(child)) is not None), None)

    def _note(self, node: nodes.Variable, target: SqlType | None) -> None:
        if not self._undeclared(node):
            return
        name = node.name
        if name in self.found:
            raise SqlError(
                11508, f"The undeclared parameter '{name}' is used more than once in the batch being analyzed."
            )
        if target is None:
            raise SqlError(
                11506,
                f"The parameter type for '{name}' cannot be uniquely deduced; two possibilities are 'sql_variant' and "
                "'xml'.",
            )
        self.found[name] = target

    def _alone(self, values: Iterable[Any]) -> None:
        """Raise error 11503 if more than one value of an expression has no type."""
        names = [found.name for value in values if (found := self._untyped(value)) is not None]
        if len(names) > 1:
            raise SqlError(
                11503,
                "The parameter type cannot be deduced because a single expression contains two untyped parameters, "
                f"'{names[0]}' and '{names[1]}'.",
            )

    def _beside(self, values: Sequence[Any], columns: list[Any], target: SqlType | None = None) -> None:
        """Visit values that have a common type."""
        self._alone(values)
        kinds = [self._type(value, columns) for value in values if value is not None and not self._untyped(value)]
        for value in values:
            self.visit(value, columns, kinds[0] if kinds else target)

    # --- expressions -----------------------------------------------------------------------------------------------

    def _visit_binary(self, node: nodes.Binary, columns: list[Any], target: SqlType | None) -> None:
        if node.op in ("and", "or"):
            self.visit(node.left, columns)
            self.visit(node.right, columns)
        else:
            self._beside([node.left, node.right], columns, target)

    def _visit_in(self, node: nodes.In, columns: list[Any], _: SqlType | None) -> None:
        items = node.items or []
        for item in items:
            self._alone([node.value, item])
        kind = self._type(node.value, columns)
        for item in items:
            self.visit(item, columns, kind)
        self.visit(node.value, columns, self._type(items[0], columns) if items else TEXT)
        self.visit(node.query, columns)

    def _visit_between(self, node: nodes.Between, columns: list[Any], _: SqlType | None) -> None:
        self._alone([node.value, node.low])
        self._alone([node.value, node.high])
        for item in (node.low, node.high):
            self.visit(item, columns, self._type(node.value, columns))
        self.visit(node.value, columns, self._type(node.low, columns))

    def _visit_like(self, node: nodes.Like, columns: list[Any], _: SqlType | None) -> None:
        self._beside([node.value, node.pattern], columns)
        self.visit(node.escape, columns, TEXT)

    def _visit_case(self, node: nodes.Case, columns: list[Any], target: SqlType | None) -> None:
        for condition, _ in node.whens:
            if node.operand is None:
                self.visit(condition, columns)
            else:
                self._alone([node.operand, condition])
                self.visit(condition, columns, self._type(node.operand, columns))
        if node.operand is not None:
            self.visit(node.operand, columns, self._type(node.whens[0][0], columns))
        self._beside([*(value for _, value in node.whens), node.otherwise], columns, target)

    def _visit_function(self, node: nodes.Function, columns: list[Any], target: SqlType | None) -> None:
        name = node.name[-1].upper()
        self.visit(node.over, columns)
        if name in _ALIKE and len(node.name) == 1:
            first = 1 if name == "IIF" else 0
            self.visit(node.args[:first], columns, INT)
            self._beside(node.args[first:], columns, target)
            return
        if len(node.name) == 1:
            self._alone(node.args)
        for position, arg in enumerate(node.args):
            kind = TEXT
            if name == "DATEADD":
                kind = INT if position == 1 else SqlType("datetime")
            elif position and name in _FROM_SECOND:
                kind = _FROM_SECOND[name]
            self.visit(arg, columns, kind)

    # --- queries and statements ------------------------------------------------------------------------------------

    def _visit_list(self, node: Sequence[Any], columns: list[Any], target: SqlType | None) -> None:
        for child in node:
            self.visit(child, columns, target)

    def _visit_select(self, node: nodes.Select, columns: list[Any], _: SqlType | None) -> None:
        inner = [*tables_in(self.session, node.sources), *columns]
        for child in children(node):
            self.visit(child, inner)

    def _visit_insert(self, node: nodes.Insert, columns: list[Any], _: SqlType | None) -> None:
        self.visit([node.ctes, node.outputs], columns)
        body = node.source.body if isinstance(node.source, nodes.Query) else None
        if isinstance(body, nodes.Values):
            kinds = target_types(self.session, node.target, node.columns)
            for row in body.rows:
                self._values(row, kinds, columns)
        else:
            self.visit(node.source, columns)

    def _values(self, row: Sequence[Any], kinds: Sequence[SqlType], columns: list[Any]) -> None:
        for position, value in enumerate(row):
            self.visit(value, columns, kinds[position] if position < len(kinds) else TEXT)

    def _visit_change(self, node: nodes.Update | nodes.Delete, columns: list[Any], _: SqlType | None) -> None:
        inner = [*columns, *tables_in(self.session, [*node.sources, nodes.TableSource(node.target, "", [])])]
        for child in children(node):
            self.visit(child, inner)

    def _visit_assignment(self, node: nodes.Assignment, columns: list[Any], _: SqlType | None) -> None:
        kind = self.declared.get(node.variable) if node.variable else None
        if node.column is not None:
            kind = column_type(nodes.Column((node.column,)), columns)
        self.visit(node.value, columns, kind or TEXT)

    def _visit_merge(self, node: nodes.Merge, columns: list[Any], _: SqlType | None) -> None:
        inner = [*tables_in(self.session, [nodes.TableSource(node.target, node.alias, []), node.source]), *columns]
        self.visit([node.ctes, node.source, node.on, node.outputs], inner)
        for action in node.actions:
            self.visit([action.condition, action.assignments], inner)
            self._values(action.values or [], target_types(self.session, node.target, action.columns), inner)

    # --- types -----------------------------------------------------------------------------------------------------

    def _type(self, node: Any, columns: list[Any]) -> SqlType:
        """Return the type of an expression that does not depend on an undeclared variable."""
        if isinstance(node, nodes.Column):
            return column_type(node, columns) or TEXT
        if isinstance(node, nodes.Variable):
            return self.declared.get(node.name, TEXT)
        if node is None or isinstance(node, nodes.Subquery):
            return TEXT
        try:
            env = environment(self.session, self.frame)
            env.variables = self.declared
            return compilation(env).scalar(node, Names()).type or INT
        except SqlError:
            return TEXT


_PARTS: dict[type, Callable[[Mapping[str, SqlType], Any], Sequence[tuple[Any, SqlType | None]]]] = {
    nodes.Argument: lambda declared, node: [(node.value, TEXT)],
    nodes.Cast: lambda declared, node: [(node.value, node.type), (node.style, INT)],
    nodes.Declare: lambda declared, node: [(node.value, node.type)],
    nodes.Query: lambda declared, node: [
        *((part, None) for part in (node.ctes, node.body, node.order)),
        *((part, BIGINT) for part in (node.offset, node.fetch)),
    ],
    nodes.SelectItem: lambda declared, node: [(node.value, declared.get(node.variable) if node.variable else None)],
    nodes.SetVariable: lambda declared, node: [(node.value, declared.get(node.name))],
    nodes.Top: lambda declared, node: [(node.value, BIGINT)],
}
"""Nodes that fix the types of their parts: the parts, each with its type."""

_VISITS: dict[type, Callable[[ParameterTypes, Any, list[Any], SqlType | None], None]] = {
    list: ParameterTypes._visit_list,
    tuple: ParameterTypes._visit_list,
    nodes.Binary: ParameterTypes._visit_binary,
    nodes.In: ParameterTypes._visit_in,
    nodes.Between: ParameterTypes._visit_between,
    nodes.Like: ParameterTypes._visit_like,
    nodes.Case: ParameterTypes._visit_case,
    nodes.Function: ParameterTypes._visit_function,
    nodes.Select: ParameterTypes._visit_select,
    nodes.Insert: ParameterTypes._visit_insert,
    nodes.Update: ParameterTypes._visit_change,
    nodes.Delete: ParameterTypes._visit_change,
    nodes.Assignment: ParameterTypes._visit_assignment,
    nodes.Merge: ParameterTypes._visit_merge,
}
"""Nodes with rules of their own; the parts of all others are visited one by one."""
