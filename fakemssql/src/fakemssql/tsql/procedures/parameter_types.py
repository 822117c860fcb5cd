"""The types of undeclared parameters, or the error where they cannot be deduced.

Source: "sp_describe_undeclared_parameters (Transact-SQL)", "Parameter Selection Algorithm". A parameter has the type of
what it is compared with, assigned to, cast to or inserted into by VALUES. A parameter that is an item of a SELECT has
none: any type would do as well as any other, which is error 11506. Numbers and texts: "Database Engine events and
errors (11000 to 12999)".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
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


_ALIKE = {"ISNULL", "COALESCE", "NULLIF", "IIF"}
"""Functions whose arguments have one type in common."""

_FROM_SECOND = {"LEFT": INT, "RIGHT": INT, "SUBSTRING": INT}


class Guess:
    """Finds the types of undeclared variables by what stands beside them; raises :class:`SqlError` where none does."""

    def __init__(self, session: Session, frame: Frame, declared: dict[str, SqlType]) -> None:
        self.session, self.frame = session, frame
        self.declared = declared
        self.found: dict[str, SqlType] = {}

    def whole(self, statements: list[nodes.Statement]) -> None:
        """Visit a batch, whose own variables have types, wherever it declares them."""
        self._declare(statements)
        self.visit(statements, [])

    def _declare(self, node: Any) -> None:
        if isinstance(node, nodes.Declare):
            self.declared[node.name] = node.type
        for child in children(node):
            self._declare(child)

    def visit(self, node: Any, columns: list[Any], target: SqlType | None = None) -> None:
        """Walk a tree. ``columns`` are the tables in sight, ``target`` is the type that the value is to have."""
        if isinstance(node, nodes.Variable):
            self._note(node, target)
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
        """The undeclared variable on which the type of an expression depends, None where it has a type."""
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
        """Error 11503 where more than one of an expression's values has no type."""
        names = [found.name for value in values if (found := self._untyped(value)) is not None]
        if len(names) > 1:
            raise SqlError(
                11503,
                "The parameter type cannot be deduced because a single expression contains two untyped parameters, "
                f"'{names[0]}' and '{names[1]}'.",
            )

    def _beside(self, values: Sequence[Any], columns: list[Any], target: SqlType | None = None) -> None:
        """Visit values of which each has the type of the others."""
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

    def _visit_cast(self, node: nodes.Cast, columns: list[Any], _: SqlType | None) -> None:
        self.visit(node.value, columns, node.type)
        self.visit(node.style, columns, INT)

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

    def _visit_top(self, node: nodes.Top, columns: list[Any], _: SqlType | None) -> None:
        self.visit(node.value, columns, BIGINT)

    def _visit_query(self, node: nodes.Query, columns: list[Any], _: SqlType | None) -> None:
        self.visit([node.ctes, node.body, node.order], columns)
        self.visit([node.offset, node.fetch], columns, BIGINT)

    def _visit_list(self, node: Sequence[Any], columns: list[Any], target: SqlType | None) -> None:
        for child in node:
            self.visit(child, columns, target)

    def _visit_select(self, node: nodes.Select, columns: list[Any], _: SqlType | None) -> None:
        inner = [*tables_in(self.session, node.sources), *columns]
        for child in children(node):
            self.visit(child, inner)

    def _visit_selectitem(self, node: nodes.SelectItem, columns: list[Any], _: SqlType | None) -> None:
        self.visit(node.value, columns, self.declared.get(node.variable) if node.variable else None)

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

    def _visit_update(self, node: nodes.Update, columns: list[Any], _: SqlType | None) -> None:
        self._changing(node, columns)

    def _visit_delete(self, node: nodes.Delete, columns: list[Any], _: SqlType | None) -> None:
        self._changing(node, columns)

    def _changing(self, node: nodes.Update | nodes.Delete, columns: list[Any]) -> None:
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

    def _visit_declare(self, node: nodes.Declare, columns: list[Any], _: SqlType | None) -> None:
        self.visit(node.value, columns, node.type)

    def _visit_setvariable(self, node: nodes.SetVariable, columns: list[Any], _: SqlType | None) -> None:
        self.visit(node.value, columns, self.declared.get(node.name))

    def _visit_argument(self, node: nodes.Argument, columns: list[Any], _: SqlType | None) -> None:
        self.visit(node.value, columns, TEXT)

    # --- types -----------------------------------------------------------------------------------------------------

    def _type(self, node: Any, columns: list[Any]) -> SqlType:
        """The type of an expression that has one."""
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


_VISITS: dict[type, Callable[[Guess, Any, list[Any], SqlType | None], None]] = {
    list: Guess._visit_list,
    tuple: Guess._visit_list,
    nodes.Binary: Guess._visit_binary,
    nodes.In: Guess._visit_in,
    nodes.Between: Guess._visit_between,
    nodes.Like: Guess._visit_like,
    nodes.Cast: Guess._visit_cast,
    nodes.Case: Guess._visit_case,
    nodes.Function: Guess._visit_function,
    nodes.Top: Guess._visit_top,
    nodes.Query: Guess._visit_query,
    nodes.Select: Guess._visit_select,
    nodes.SelectItem: Guess._visit_selectitem,
    nodes.Insert: Guess._visit_insert,
    nodes.Update: Guess._visit_update,
    nodes.Delete: Guess._visit_delete,
    nodes.Assignment: Guess._visit_assignment,
    nodes.Merge: Guess._visit_merge,
    nodes.Declare: Guess._visit_declare,
    nodes.SetVariable: Guess._visit_setvariable,
    nodes.Argument: Guess._visit_argument,
}
"""The nodes of which a part tells the type of another; any other is visited part by part."""
