# ruff: noqa: S608 - names go through names.quoted, values through names.literal or as parameters
"""Compiling FROM: tables with their locks, views, derived tables, common table expressions, joins."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

from fakemssql.contract import SqlError
from fakemssql.tsql.catalog.tables import TableInfo
from fakemssql.tsql.compiler.convert import convert
from fakemssql.tsql.compiler.expressions import Expressions
from fakemssql.tsql.compiler.functions.tables import table_function
from fakemssql.tsql.compiler.locks import Locking, Reading, is_dirty, locking
from fakemssql.tsql.compiler.trees import mentions, rewritten
from fakemssql.tsql.compiler.typed import Names, Scope, Typed
from fakemssql.tsql.datatypes.sqltypes import INT
from fakemssql.tsql.names import fold, quoted
from fakemssql.tsql.parser import nodes
from fakemssql.tsql.parser.batches import Batch, parse
from fakemssql.tsql.parser.lexer import tokenize
from fakemssql.tsql.security.visibility import system_rows


@dataclass(slots=True)
class Compiled:
    """A query as PostgreSQL text with output columns ``c1 ... cn``; with ``carry``, ``_ctid`` of rows of ``table``."""

    sql: str
    columns: list[Typed]
    table: TableInfo | None = None
    pieces: list[str] = field(default_factory=list)  # its select list, where row locks keep PostgreSQL from pruning it
    locked: bool = False  # it locks rows itself, not in a query below it


@dataclass(slots=True)
class RowLock:
    alias: str
    how: Locking
    sql: str  # the table with its alias, as it stands in FROM
    scope: Scope


class Sources(Expressions):
    """Adds what can stand in FROM to expressions."""

    statement = "select"

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self.table_locks: list[tuple[str, bool]] = []
        self.transient = False
        self.held = False
        self.dirty = False  # whether it reads a table under NOLOCK
        self.unlockable = 0  # above 0: PostgreSQL locks no rows where the sources stand that are being compiled
        self.depth = 0
        self.unread = ""  # the folded alias of a target whose rows are changed without being read
        self.prunable: list[tuple[str, str]] = []  # a column of a derived table, and how it is computed

    def compile_query(
        self, query: nodes.Query, parent: Names | None, carry: bool = False, target: bool = False
    ) -> Compiled:
        raise NotImplementedError

    def _branch(self, body: Any, parent: Names | None) -> Compiled:
        raise NotImplementedError

    def subquery(self, query: nodes.Query, names: Names) -> tuple[str, list[Typed]]:
        compiled = self.compile_query(query, names)
        return compiled.sql, compiled.columns

    def source(self, node: nodes.Source, names: Names, locks: list[RowLock], carry: str | None = None) -> str:
        """The PostgreSQL text of a FROM item; its scopes are added to ``names``.

        ``carry`` is the folded alias (or "" for any) of the source whose rows the statement changes.
        """
        if isinstance(node, nodes.Join):
            with self._optional(node.kind in ("right", "full")):
                left = self.source(node.left, names, locks, carry)
            if node.kind.endswith("_apply"):
                lateral = Names([], names, names.ctes)
                right = self.source(node.right, lateral, locks).removeprefix("LATERAL ")
                names.scopes += lateral.scopes
                return f"({left} {'CROSS' if node.kind == 'cross_apply' else 'LEFT'} JOIN LATERAL {right}" + (
                    ")" if node.kind == "cross_apply" else " ON true)"
                )
            with self._optional(node.kind in ("left", "full")):
                right = self.source(node.right, names, locks, carry)
            if node.kind == "cross":
                return f"({left} CROSS JOIN {right})"
            assert node.on is not None
            on = self.predicate(node.on, names)
            return f"({left} {node.kind.upper()} JOIN {right} ON {on})"
        if isinstance(node, nodes.QuerySource):
            wanted = carry is not None and carry in ("", fold(node.alias))
            inner_names = Names([], names.parent, names.ctes)
            compiled = self.compile_query(node.query, inner_names, wanted, wanted)
            return self._derived(compiled, node.alias, node.columns, names)
        if isinstance(node, nodes.VariableSource):
            table = self.env.tables.get(node.name)
            if table is None:
                raise SqlError(1087, f'Must declare the table variable "{node.name}".', severity=15, state=2)
            return self._table(table, node.alias, (), [], names, locks, carry)
        if isinstance(node, nodes.FunctionSource):
            return table_function(self, node, names)
        assert isinstance(node, nodes.TableSource)
        if len(node.name) == 1:
            cte = names.cte(fold(node.name[0]))
            if cte is not None:
                return self._cte(cte, node, names, carry)
        table = self.lookup(node.name, node.line)
        return self._table(
            table, node.alias or node.name[-1], node.name if not node.alias else (), node.hints, names, locks, carry
        )

    @contextmanager
    def _optional(self, optional: bool) -> Iterator[None]:
        """Sources of which a row may be missing, on the outer side of a join."""
        self.unlockable += optional
        try:
            yield
        finally:
            self.unlockable -= optional

    def reading(self, table: TableInfo, target: bool = False) -> Reading:
        """What decides which locks a source takes besides its hints.

        Without a hint locks are taken by queries alone: in a statement that changes rows they would last as long as its
        own. Nor are they on the outer side of a join, where PostgreSQL takes none.
        """
        return Reading(
            self.env.isolation,
            self.env.in_transaction,
            versioned=self.env.catalog.versioned(table.database),
            snapshots=self.env.isolation != "SNAPSHOT" or self.env.catalog.snapshots(table.database),
            pages=self.env.page_locks,
            target=target,
            bare=self.statement == "select" and not self.unlockable,
        )

    def lookup(self, name: nodes.Name, line: int = 0) -> TableInfo:
        """The table a name stands for; error 208 if there is none."""
        if len(name) == 1 and name[0].startswith("@"):
            table = self.env.tables.get(name[0])
            if table is None:
                raise SqlError(1087, f'Must declare the table variable "{name[0]}".', severity=15, state=2)
            return table
        if len(name) == 1 and fold(name[0]) in ("inserted", "deleted") and fold(name[0]) in self.env.tables:
            return self.env.tables[fold(name[0])]
        if len(name) > 2 and name[-3] and self.env.security is not None:
            self.env.security.enter(name[-3])
        found = self.env.catalog.find(name, self.env.database)
        if found is None or found.type not in ("U", "V", "S", "TT"):
            synonym = self.env.catalog.named(name, self.env.database)
            if synonym is not None and synonym.type == "SN":
                raise SqlError(5313, f"Synonym '{'.'.join(name)}' refers to an invalid object.", line=line)
            raise SqlError(208, f"Invalid object name '{'.'.join(name)}'.", line=line)
        closed = next((index.name for index in found.indexes if index.type == 1 and index.disabled), None)
        if closed is not None:
            raise SqlError(
                8655,
                f"The query processor is unable to produce a plan because the index '{closed}' on table or view"
                f" '{found.name}' is disabled.",
            )
        return found

    def hinted(self, name: nodes.Name, names: Names) -> TableInfo | None:
        """The table that hints on a name are for; None for a common table expression."""
        if len(name) == 1 and names.cte(fold(name[0])) is not None:
            return None
        return self.lookup(name)

    def _cte(
        self, cte: tuple[nodes.Cte, Names | None], node: nodes.TableSource, names: Names, carry: str | None
    ) -> str:
        definition, outer = cte
        folded = fold(definition.name)
        alias = node.alias or node.name[-1]
        if mentions(definition.query, folded):
            return self._recursive(definition, outer, alias, names)
        wanted = carry is not None and carry in ("", fold(alias))
        compiled = self.compile_query(definition.query, outer, wanted, wanted)
        return self._derived(compiled, alias, definition.columns, names)

    def _recursive(self, cte: nodes.Cte, outer: Names | None, alias: str, names: Names) -> str:
        body = cte.query.body
        if not isinstance(body, nodes.SetOperation) or body.op != "union all":
            raise SqlError(
                252, f"Recursive common table expression '{cte.name}' does not contain a top-level UNION ALL operator."
            )
        with self._optional(True):
            return self._repeated(cte, body, outer, alias, names)

    def _repeated(self, cte: nodes.Cte, body: nodes.SetOperation, outer: Names | None, alias: str, names: Names) -> str:
        anchor = self._branch(body.left, outer)
        columns = [
            column.with_(name=(cte.columns[i] if cte.columns else column.name), origin="")
            for i, column in enumerate(anchor.columns)
        ]
        pg = self.fresh("r")
        table = TableInfo(cte.name, "", "", pg, [], "R")
        inside = [column.with_(sql=f"{pg}.c{i}") for i, column in enumerate(columns, 1)]
        level = Names(parent=outer, ctes={fold(cte.name): None})
        self.recursive = {**getattr(self, "recursive", {}), fold(cte.name): (table, inside)}
        body_right = self._branch_with(body.right, level, fold(cte.name), pg, inside)
        casts = ", ".join(
            f"{self._recast(value, i, target)} AS c{i}"
            for i, (value, target) in enumerate(zip(body_right.columns, columns, strict=True), 1)
        )
        names_list = ", ".join(f"c{i}" for i in range(1, len(columns) + 1))
        union = f"({anchor.sql}) UNION ALL SELECT {casts} FROM ({body_right.sql}) AS s"
        sql = f"WITH RECURSIVE {pg}({names_list}) AS ({union}) SELECT * FROM {pg}"
        return self._derived(Compiled(sql, columns), alias, [], names)

    @staticmethod
    def _recast(value: Typed, position: int, target: Typed) -> str:
        return convert(value.with_(sql=f"s.c{position}"), target.type or INT, "cast").sql

    def _branch_with(self, body: Any, level: Names, folded: str, pg: str, inside: list[Typed]) -> Compiled:
        compiler = self
        original = compiler.source

        def source(node: nodes.Source, names: Names, locks: list[RowLock], carry: str | None = None) -> str:
            if isinstance(node, nodes.TableSource) and len(node.name) == 1 and fold(node.name[0]) == folded:
                alias = compiler.fresh("t")
                columns = [column.with_(sql=f"{alias}.c{i}") for i, column in enumerate(inside, 1)]
                names.scopes.append(Scope(fold(node.alias or node.name[0]), columns, exposed=node.name))
                return f"{pg} AS {alias}"
            return original(node, names, locks, carry)

        compiler.source = source  # type: ignore[method-assign]
        try:
            return self._branch(body, level)
        finally:
            compiler.source = original  # type: ignore[method-assign]

    def _derived(self, compiled: Compiled, alias: str, columns: list[str], names: Names) -> str:
        if columns and len(columns) != len(compiled.columns):
            more = "fewer" if len(columns) > len(compiled.columns) else "more"
            raise SqlError(
                8158 if more == "more" else 8159,
                f"'{alias}' has {more} columns than were specified in the column list.",
            )
        pg_alias = self.fresh("t")
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
        scope = Scope(fold(alias), outputs, compiled.table, pg_alias, (alias,))
        scope.ctid = f"{pg_alias}._ctid" if compiled.table is not None else ""
        names.scopes.append(scope)
        for i, piece in enumerate(compiled.pieces, 1):
            if "(" in piece:
                self.prunable.append((f"{pg_alias}.c{i}", piece))
        return f"({compiled.sql}) AS {pg_alias}"

    def _table(
        self,
        table: TableInfo,
        alias: str,
        exposed: tuple[str, ...],
        hints: list[nodes.Hint],
        names: Names,
        locks: list[RowLock],
        carry: str | None,
    ) -> str:
        folded = fold(alias)
        exposed_name = exposed or (alias,)
        if any(
            scope.alias == folded and [fold(p) for p in scope.exposed] == [fold(p) for p in exposed_name]
            for scope in names.scopes
        ):
            raise SqlError(
                1013,
                f'The objects "{alias}" and "{alias}" in the FROM clause have the'
                " same exposed names. Use correlation names to distinguish them.",
            )
        target = carry is not None and carry in ("", folded)
        if target:
            self.env.require(table, self.statement.upper())
        if not target or folded != self.unread:
            self.env.require(table, "SELECT")
        if table.type == "V":
            return self._view(table, alias, names, target, hints)
        pg_alias = self.fresh("t")
        scope = self.table_scope(table, alias, pg_alias, exposed_name)
        names.scopes.append(scope)
        if table.type == "S":
            if self.env.security is not None:
                return f"{system_rows(self.env.security, table)} AS {pg_alias}"
            where = f" WHERE _db = {table.extra['database_id']}" if table.database_filter else ""
            return f"(SELECT * FROM {table.pg}{where}) AS {pg_alias}"
        scope.ctid = f"{pg_alias}.ctid"
        how = locking(hints, table, self.reading(table, target))
        self.dirty = self.dirty or (not table.local and is_dirty(hints, self.env.isolation))
        sql = f"{table.pg} AS {pg_alias}"
        if how.table_mode:
            self.table_locks.append((how.table_sql(table.pg), how.table_transient))
            if not how.table_transient:
                self.held = True
        if how.strength and not table.local:
            locks.append(RowLock(pg_alias, how, sql, scope))
            if how.transient:
                self.transient = True
            else:
                self.held = True
        return sql

    def table_scope(self, table: TableInfo, alias: str, pg_alias: str, exposed: tuple[str, ...] = ()) -> Scope:
        """The scope of a base table under a PostgreSQL alias."""
        scope = Scope(fold(alias), [], table, pg_alias, exposed or (alias,))
        for column in table.columns:
            if column.computed is None:
                origin = quoted(column.pg)
                scope.columns.append(
                    Typed(
                        f"{pg_alias}.{origin}",
                        column.type,
                        column.nullable,
                        column.identity,
                        column.binary,
                        name=column.name,
                        origin=origin,
                    )
                )
        for position, column in enumerate(table.columns):
            if column.computed:
                node = Batch(column.computed, tokenize(column.computed)).expression()
                value = self.scalar(node, Names([scope]))
                value = convert(value, column.type)
                scope.columns.insert(position, Typed(value.sql, column.type, column.nullable, name=column.name))
        return scope

    def _view(self, table: TableInfo, alias: str, names: Names, carry: bool, hints: list[nodes.Hint]) -> str:
        """A view as the query that it is; hints are for the tables in it."""
        view = parse(table.definition)[0]
        assert isinstance(view, nodes.CreateView)
        passed = [hint for hint in hints if hint.name not in ("NOEXPAND", "INDEX", "FORCESEEK", "FORCESCAN")]

        def hinted(node: object) -> nodes.TableSource | None:
            if passed and isinstance(node, nodes.TableSource):
                return replace(node, hints=[*node.hints, *passed])
            return None

        query = rewritten(view.query, hinted)
        outer = self.env
        self.env = replace(outer, database=table.database, variables={}, tables={})
        security = outer.security
        module = security.module(table.database, table.owner, table.schema) if security is not None else nullcontext()
        try:
            with module:
                compiled = self.compile_query(query, None, carry, carry)
        finally:
            self.env = outer
        return self._derived(compiled, alias, view.columns, names)
