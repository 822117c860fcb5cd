"""Compilation of one statement: its environment, parameters, locks and names.

A table has a function for each type of node. These functions are in lower modules; they call each other through the
:class:`Compilation` that they take.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from fakemssql.tsql.catalog.tables import TableInfo
from fakemssql.tsql.compiler.environment import Environment
from fakemssql.tsql.compiler.scopes import Names, Typed, with_ctes
from fakemssql.tsql.datatypes.sqltypes import oid
from fakemssql.tsql.parser import nodes
from fakemssql.tsql.parser.lexer import syntax_error
from fakemssql.types import SqlType


@dataclass(slots=True)
class Compiled:
    """Query as PostgreSQL text with columns ``c1 ... cn``; with ``carry`` also ``_ctid`` of the rows of ``table``."""

    sql: str
    columns: list[Typed]
    table: TableInfo | None = None
    pieces: list[str] = field(
        default_factory=list
    )  # its select list, if PostgreSQL cannot prune it because of row locks
    locked: bool = False  # whether it locks rows itself, not in an inner query


ScalarFunction = Callable[["Compilation", Any, Names], Typed]
PredicateFunction = Callable[["Compilation", Any, Names], str]
SourceFunction = Callable[["Compilation", Any, Names, "str | None"], str]
BodyFunction = Callable[["Compilation", Any, nodes.Query, "Names | None", bool], Compiled]


@dataclass(frozen=True, slots=True)
class NodeTables:
    """Functions by type of node: for values, conditions, items of FROM, and bodies of queries."""

    scalars: Mapping[type, ScalarFunction]
    predicates: Mapping[type, PredicateFunction]
    sources: Mapping[type, SourceFunction]
    bodies: Mapping[type, BodyFunction]


class Compilation:
    """Compilation of one statement or one expression."""

    def __init__(self, env: Environment, tables: NodeTables) -> None:
        self.env, self._tables = env, tables
        self.parameters: list[str] = []
        self.oids: list[int] = []
        self.kinds: list[SqlType] = []
        self._serial = 0
        self.statement = "select"
        self.table_locks: list[tuple[str, bool]] = []
        self.has_transient_locks = False
        self.has_held_locks = False
        self.reads_dirty = False  # whether it reads a table under NOLOCK
        self.optional_sources = 0  # above 0 on the outer side of a join, where PostgreSQL locks no rows
        self.depth = 0
        self.unread_target = ""  # the folded alias of a target whose rows are changed without being read
        self.prunable_columns: list[tuple[str, str]] = []  # a column of a derived table, and its SQL
        self.recursive_ctes: dict[
            str, tuple[str, list[Typed]]
        ] = {}  # CTEs inside their own recursive part: name and columns

    def fresh(self, prefix: str = "t") -> str:
        """Return a new name for the statement."""
        self._serial += 1
        return f"{prefix}{self._serial}"

    def parameter(self, name: str, kind: SqlType) -> str:
        """Return the ``$n`` of a variable or of a value that the session provides."""
        if name not in self.parameters:
            self.parameters.append(name)
            self.oids.append(oid(kind))
            self.kinds.append(kind)
        return f"${self.parameters.index(name) + 1}"

    def declared(self, variable: str) -> SqlType:
        """Return the type of a variable of the batch; error 137 if it is not declared."""
        kind = self.env.variables.get(variable)
        if kind is None:
            raise syntax_error(137, f'Must declare the scalar variable "{variable}".', state=2)
        return kind

    def scalar(self, node: nodes.Expr, names: Names) -> Typed:
        """Compile an expression that has a value."""
        function = self._tables.scalars[type(node)]
        if names.group_expressions and names.grouped and not names.in_aggregate and not isinstance(node, nodes.Column):
            # First compare the whole expression with the GROUP BY list, before its columns one by one.
            grouped, names.grouped = names.grouped, None
            try:
                whole = function(self, node, names)
            finally:
                names.grouped = grouped
            if whole.sql in grouped:
                return whole.with_(sql=f"any_value({whole.sql})") if grouped[whole.sql] else whole
        return function(self, node, names)

    def predicate(self, node: nodes.Expr, names: Names) -> str:
        """Compile a search condition to a PostgreSQL boolean."""
        return self._tables.predicates[type(node)](self, node, names)

    def source(self, node: nodes.Source, names: Names, carry: str | None = None) -> str:
        """Compile an item of FROM; its scopes are added to ``names``.

        ``carry`` is the folded alias (or "" for any) of the source whose rows the statement changes.
        """
        return self._tables.sources[type(node)](self, node, names, carry)

    def query(self, query: nodes.Query, parent: Names | None, carry: bool = False) -> Compiled:
        """Compile a query expression with its CTEs."""
        self.depth += 1
        if self.depth > 60:
            raise syntax_error(191, "Some part of your SQL statement is nested too deeply.")
        parent = with_ctes(query.ctes, parent)
        result = self._tables.bodies[type(query.body)](self, query.body, query, parent, carry)
        self.depth -= 1
        return result

    def branch(self, body: Any, parent: Names | None) -> Compiled:
        """Compile one operand of a set operation."""
        self.depth += 1
        try:
            return self._tables.bodies[type(body)](self, body, nodes.Query(body), parent, False)
        finally:
            self.depth -= 1
