# ruff: noqa: S608 - names go through names.quoted, values through names.literal or as parameters
"""Compiling query expressions: FROM, joins, grouping, TOP, set operations, row locks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any

from airflow_sqlqueue.localdb.contract import SqlError
from airflow_sqlqueue.localdb.tsql.catalog.catalog import TableInfo
from airflow_sqlqueue.localdb.tsql.compiler.convert import convert
from airflow_sqlqueue.localdb.tsql.compiler.expressions import Expressions
from airflow_sqlqueue.localdb.tsql.compiler.functions.aggregates import AGGREGATES, order_sql
from airflow_sqlqueue.localdb.tsql.compiler.locks import Locking, locking
from airflow_sqlqueue.localdb.tsql.compiler.typed import Names, Scope, Typed
from airflow_sqlqueue.localdb.tsql.datatypes import sqltypes
from airflow_sqlqueue.localdb.tsql.datatypes.sqltypes import BIGINT, INT, is_text, wider
from airflow_sqlqueue.localdb.tsql.names import fold, quoted
from airflow_sqlqueue.localdb.tsql.parser import nodes
from airflow_sqlqueue.localdb.types import SqlType


@dataclass(slots=True)
class Compiled:
    """A query as PostgreSQL text with output columns ``c1 ... cn``; with ``carry``, ``_ctid`` of rows of ``table``."""

    sql: str
    columns: list[Typed]
    table: TableInfo | None = None
    pieces: list[str] = field(default_factory=list)  # its select list, where row locks keep PostgreSQL from pruning it


@dataclass(slots=True)
class RowLock:
    alias: str
    how: Locking
    sql: str  # the table with its alias, as it stands in FROM
    scope: Scope


def has_aggregate(node: Any) -> bool:
    """Whether an expression contains an aggregate of its own query level."""
    if isinstance(node, nodes.Function) and node.over is None and node.name[-1].upper() in AGGREGATES:
        return True
    if isinstance(node, nodes.Query | nodes.Subquery | nodes.Exists):
        return False
    if is_dataclass(node) and not isinstance(node, type):
        return any(has_aggregate(getattr(node, field.name)) for field in fields(node))
    if isinstance(node, list | tuple):
        return any(has_aggregate(item) for item in node)
    return False


def walk(node: Any) -> Iterator[Any]:
    """The nodes of a syntax tree, outer ones first."""
    if is_dataclass(node) and not isinstance(node, type):
        yield node
        for each in fields(node):
            yield from walk(getattr(node, each.name))
    elif isinstance(node, list | tuple):
        for item in node:
            yield from walk(item)


def rewritten(node: Any, change: Callable[[Any], Any]) -> Any:
    """A copy of a syntax tree in which ``change`` replaced the nodes for which it does not return None."""
    if is_dataclass(node) and not isinstance(node, type):
        changed = change(node)
        if changed is not None:
            return changed
        if isinstance(node, SqlType):
            return node
        return replace(node, **{each.name: rewritten(getattr(node, each.name), change) for each in fields(node)})
    if isinstance(node, list):
        return [rewritten(item, change) for item in node]
    if isinstance(node, tuple):
        return tuple(rewritten(item, change) for item in node)
    return node


def mentions(node: Any, folded: str) -> bool:
    """Whether a query names ``folded`` as a table source (a recursive CTE)."""
    if isinstance(node, nodes.TableSource):
        return len(node.name) == 1 and fold(node.name[0]) == folded
    if is_dataclass(node) and not isinstance(node, type):
        return any(mentions(getattr(node, field.name), folded) for field in fields(node))
    if isinstance(node, list | tuple):
        return any(mentions(item, folded) for item in node)
    return False


class Queries(Expressions):
    """Query compiler."""

    statement = "select"

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self.table_locks: list[tuple[str, bool]] = []
        self.transient = False
        self.held = False
        self.depth = 0
        self.prunable: list[tuple[str, str]] = []  # a column of a derived table, and how it is computed

    # --- entry points ----------------------------------------------------------------------------------------------

    def subquery(self, query: nodes.Query, names: Names) -> tuple[str, list[Typed]]:
        compiled = self.compile_query(query, names)
        return compiled.sql, compiled.columns

    def compile_query(
        self, query: nodes.Query, parent: Names | None, carry: bool = False, target: bool = False
    ) -> Compiled:
        """Compile a query expression with its CTEs."""
        if query.for_clause:
            raise SqlError(40517, "FOR JSON is not supported by the local server.")
        self.depth += 1
        if self.depth > 60:
            raise SqlError(191, "Some part of your SQL statement is nested too deeply.", severity=15)
        parent = self.with_ctes(query.ctes, parent)
        body = query.body
        if isinstance(body, nodes.Query):
            if not (query.order or query.offset is not None):
                result = self.compile_query(body, parent, carry, target)
            else:
                result = self._ordered(self.compile_query(body, parent), query, parent)
        elif isinstance(body, nodes.Select):
            result = self._select(body, query, parent, carry, target)
        else:
            if carry:
                raise SqlError(4405, "The derived table is not updatable because it contains a set operation.")
            compiled = self._values(body, parent) if isinstance(body, nodes.Values) else self._set(body, parent)
            result = self._ordered(compiled, query, parent)
        self.depth -= 1
        return result

    def with_ctes(self, ctes: list[nodes.Cte], parent: Names | None) -> Names | None:
        """A level of names on which the CTEs are known."""
        for cte in ctes:
            folded = fold(cte.name)
            level = Names(parent=parent, ctes={folded: (cte, parent)})
            parent = level
        return parent

    def _ordered(self, compiled: Compiled, query: nodes.Query, parent: Names | None) -> Compiled:
        """ORDER BY and OFFSET over a finished query, by its output columns."""
        if not query.order and query.offset is None:
            return compiled
        alias = self.fresh("o")
        columns = [column.with_(sql=f"{alias}.c{i}") for i, column in enumerate(compiled.columns, 1)]
        names = Names([Scope("", columns)], parent)
        order = self._order(query.order, columns, columns, names, distinct=True)
        sql = f"SELECT * FROM ({compiled.sql}) AS {alias}{order}{self._offset(query, names)}"
        return Compiled(sql, compiled.columns)

    def _order(
        self,
        items: list[nodes.OrderItem],
        outputs: list[Typed],
        values: list[Typed],
        names: Names,
        distinct: bool = False,
    ) -> str:
        if not items:
            return ""
        parts = []
        for item in items:
            node = item.value
            value: Typed | None = None
            if isinstance(node, nodes.Literal) and node.kind == "int":
                if not 1 <= node.value <= len(values):
                    raise SqlError(
                        108,
                        f"The ORDER BY position number {node.value} is out of"
                        " range of the number of items in the select list.",
                    )
                value = values[node.value - 1]
            elif isinstance(node, nodes.Column) and (len(node.name) == 1 or distinct):
                found = [i for i, out in enumerate(outputs) if out.name and fold(out.name) == fold(node.name[-1])]
                if found:
                    value = values[found[0]]
            if value is None:
                value = self.scalar(node, names)
                if (
                    distinct
                    and value.sql not in {v.sql for v in values}
                    and not any(value.sql == v.sql for v in values)
                ):
                    if names.scopes and not names.scopes[0].alias:
                        pass
                    else:
                        raise SqlError(
                            145,
                            "ORDER BY items must appear in the select list if SELECT DISTINCT is specified.",
                            severity=15,
                        )
            parts.append(self.order_key(value) + (" DESC NULLS LAST" if item.descending else " ASC NULLS FIRST"))
        return " ORDER BY " + ", ".join(parts)

    def _offset(self, query: nodes.Query, names: Names) -> str:
        text = ""
        if query.offset is not None:
            text += f" OFFSET {self.count(query.offset, names)}"
        if query.fetch is not None:
            text += f" LIMIT {self.count(query.fetch, names)}"
        return text

    def count(self, node: nodes.Expr, names: Names) -> str:
        """A number of rows for TOP, OFFSET and FETCH; NULL and negative numbers are errors."""
        value = self.scalar(node, names)
        if isinstance(value.constant, int) and value.constant >= 0:
            return str(value.constant)
        if value.type is not None and not sqltypes.is_number(value.type):
            raise SqlError(
                1060, "The number of rows provided for a TOP or FETCH clauses row count parameter must be an integer."
            )
        return f"mssql.top({convert(value, BIGINT, 'cast').sql})"

    # --- FROM ------------------------------------------------------------------------------------------------------

    def source(self, node: nodes.Source, names: Names, locks: list[RowLock], carry: str | None = None) -> str:
        """The PostgreSQL text of a FROM item; its scopes are added to ``names``.

        ``carry`` is the folded alias (or "" for any) of the source whose rows the statement changes.
        """
        if isinstance(node, nodes.Join):
            left = self.source(node.left, names, locks, carry)
            if node.kind.endswith("_apply"):
                lateral = Names([], names, names.ctes)
                right = self.source(node.right, lateral, locks)
                names.scopes += lateral.scopes
                return f"({left} {'CROSS' if node.kind == 'cross_apply' else 'LEFT'} JOIN LATERAL {right}" + (
                    ")" if node.kind == "cross_apply" else " ON true)"
                )
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
            from airflow_sqlqueue.localdb.tsql.compiler.functions.tables import table_function

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

    def lookup(self, name: nodes.Name, line: int = 0) -> TableInfo:
        """The table a name stands for; error 208 if there is none."""
        if len(name) == 1 and name[0].startswith("@"):
            table = self.env.tables.get(name[0])
            if table is None:
                raise SqlError(1087, f'Must declare the table variable "{name[0]}".', severity=15, state=2)
            return table
        found = self.env.catalog.find(name, self.env.database)
        if found is None or found.type not in ("U", "V", "S", "TT"):
            raise SqlError(208, f"Invalid object name '{'.'.join(name)}'.", line=line)
        return found

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
        if table.type == "V":
            return self._view(table, alias, names, target)
        pg_alias = self.fresh("t")
        scope = self.table_scope(table, alias, pg_alias, exposed_name)
        names.scopes.append(scope)
        if table.type == "S":
            where = f" WHERE _db = {table.extra['database_id']}" if table.database_filter else ""
            return f"(SELECT * FROM {table.pg}{where}) AS {pg_alias}"
        scope.ctid = f"{pg_alias}.ctid"
        how = locking(hints, table, self.env.isolation, self.env.in_transaction, self.statement == "select", target)
        sql = f"{table.pg} AS {pg_alias}"
        if how.table_mode:
            self.table_locks.append((f"LOCK TABLE {table.pg} IN {how.table_mode} MODE", how.table_transient))
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
            if column.computed is not None:
                from airflow_sqlqueue.localdb.tsql.parser.batches import Batch
                from airflow_sqlqueue.localdb.tsql.parser.lexer import tokenize

                node = Batch(column.computed, tokenize(column.computed)).expression()
                value = self.scalar(node, Names([scope]))
                value = convert(value, column.type)
                scope.columns.insert(position, Typed(value.sql, column.type, column.nullable, name=column.name))
        return scope

    def _view(self, table: TableInfo, alias: str, names: Names, carry: bool) -> str:
        from airflow_sqlqueue.localdb.tsql.parser.batches import parse

        view = parse(table.definition)[0]
        assert isinstance(view, nodes.CreateView)
        outer = self.env
        self.env = replace(outer, database=table.database, variables={}, tables={})
        try:
            compiled = self.compile_query(view.query, None, carry, carry)
        finally:
            self.env = outer
        return self._derived(compiled, alias, view.columns, names)

    # --- SELECT ----------------------------------------------------------------------------------------------------

    def _expand(self, select: nodes.Select, names: Names) -> list[Typed]:
        """The select list with stars expanded; names as SQL Server shows them."""
        items: list[Typed] = []
        for item in select.items:
            node = item.value
            if isinstance(node, nodes.Star):
                scopes = [s for s in names.scopes if not node.qualifier or self._qualifies(node.qualifier, s)]
                if not scopes:
                    if not node.qualifier:
                        raise SqlError(263, "Must specify table to select from.")
                    raise SqlError(
                        107,
                        f"The column prefix '{'.'.join(node.qualifier)}' does not"
                        " match with a table name or alias name used in the query.",
                        severity=15,
                    )
                for scope in scopes:
                    for column in scope.columns:
                        if names.grouped is not None:
                            column = self._grouped(column, names, nodes.Column((column.name,)))
                        items.append(column)
                continue
            value = self.scalar(node, names)
            name = item.alias
            if name is None:
                name = value.name if isinstance(node, nodes.Column) else ""
                if isinstance(node, nodes.Column):
                    name = value.name
            items.append(value.with_(name=name))
        return items

    def _select(
        self, select: nodes.Select, query: nodes.Query, parent: Names | None, carry: bool, target: bool
    ) -> Compiled:
        names = Names([], parent)
        locks: list[RowLock] = []
        from_sql = ", ".join(self.source(node, names, locks, "" if carry else None) for node in select.sources)
        scope = names.scopes[0] if carry and names.scopes else None
        if carry and (
            len(names.scopes) != 1 or scope is None or scope.table is None or select.group or select.distinct
        ):
            raise SqlError(
                4405,
                "The common table expression, derived table or view is not updatable because the modification"
                " affects multiple base tables or it is grouped.",
            )
        where = self.predicate(select.where, names) if select.where is not None else ""
        aggregated = (
            bool(select.group)
            or select.having is not None
            or has_aggregate([i.value for i in select.items])
            or any(has_aggregate(item.value) for item in query.order)
        )
        group = ""
        if aggregated:
            group = self._group(select, names)
        items = self._expand(select, names)
        having = f" HAVING {self.predicate(select.having, names)}" if select.having is not None else ""
        outputs = list(items)
        order = self._order(query.order, outputs, items, names, select.distinct)
        limit, ties = self._limit(select, query, names)
        if query.order and not limit and query.offset is None and self.depth > 1 and not select.top:
            raise SqlError(
                1033,
                "The ORDER BY clause is invalid in views, inline functions, derived tables, subqueries, and common"
                " table expressions, unless TOP, OFFSET or FOR XML is also specified.",
                severity=15,
            )
        if locks and (
            aggregated or select.distinct or names.windows or ties or len({lock.how.strength for lock in locks}) > 4
        ):
            from_sql, where = self._lock_inside(locks, from_sql, where, names, select, order, limit)
            locks = []
        if select.top is not None and select.top.percent:
            return self._percent(select, items, from_sql, where, group + having, order, names)
        columns = [f"{self._output(value)} AS c{i}" for i, value in enumerate(items, 1)]
        if carry and scope is not None:
            columns.append(f"{scope.ctid} AS _ctid")
        text = f"SELECT {', '.join(columns)}"
        if from_sql:
            text += f" FROM {from_sql}"
        if where:
            text += f" WHERE {where}"
        text += group + having
        if select.distinct:
            text = self._distinct(text, items, query, order, names)
            text += limit
        else:
            text += order + self._offset(query, names) + limit
        for lock in locks:
            text += f" FOR {lock.how.strength} OF {lock.alias}{lock.how.wait}"
        result = [value.with_(sql=f"c{i}") for i, value in enumerate(items, 1)]
        pieces = columns[: len(items)] if locks and not select.distinct else []
        return Compiled(text, result, scope.table if carry and scope is not None else None, pieces)

    @staticmethod
    def _output(value: Typed) -> str:
        return "NULL::int4" if value.type is None else value.sql

    def _group(self, select: nodes.Select, names: Names) -> str:
        keys: dict[str, bool] = {}
        parts = []
        for node in select.group:
            value = self.scalar(node, names)
            if isinstance(node, nodes.Literal):
                raise SqlError(
                    164,
                    "Each GROUP BY expression must contain at least one column that is not an outer reference.",
                    severity=15,
                )
            text = value.type is not None and is_text(value.type)
            keys[value.sql] = text
            parts.append(self.order_key(value))
            if not isinstance(node, nodes.Column):
                names.group_expressions = True
        names.grouped = keys
        return " GROUP BY " + ", ".join(parts) if parts else ""

    def _limit(self, select: nodes.Select, query: nodes.Query, names: Names) -> tuple[str, bool]:
        if select.top is None or select.top.percent:
            return "", False
        if query.offset is not None:
            raise SqlError(10741, "A TOP can not be used in the same query or sub-query as a OFFSET.", severity=15)
        count = self.count(select.top.value, Names([], names.parent))
        if select.top.ties:
            if not query.order:
                raise SqlError(
                    1062,
                    "The TOP N WITH TIES clause is not allowed without a corresponding ORDER BY clause.",
                    severity=15,
                )
            return f" FETCH FIRST ({count}) ROWS WITH TIES", True
        return f" LIMIT {count}", False

    def _distinct(self, text: str, items: list[Typed], query: nodes.Query, order: str, names: Names) -> str:
        alias = self.fresh("d")
        keys = [self.order_key(v.with_(sql=f"{alias}.c{i}")) for i, v in enumerate(items, 1)]
        inner = f"SELECT DISTINCT ON ({', '.join(keys)}) * FROM ({text}) AS {alias}"
        if not order and query.offset is None:
            return inner
        outer = self.fresh("o")
        outputs = [v.with_(sql=f"{outer}.c{i}") for i, v in enumerate(items, 1)]
        parts = []
        for item in query.order:
            index = None
            node = item.value
            if isinstance(node, nodes.Literal) and node.kind == "int":
                index = node.value - 1
            else:
                if isinstance(node, nodes.Column) and len(node.name) == 1:
                    index = next(
                        (i for i, v in enumerate(items) if v.name and fold(v.name) == fold(node.name[0])), None
                    )
                if index is None:
                    value = self.scalar(node, names)
                    index = next((i for i, v in enumerate(items) if v.sql == value.sql), None)
            if index is None:
                raise SqlError(
                    145, "ORDER BY items must appear in the select list if SELECT DISTINCT is specified.", severity=15
                )
            parts.append(
                self.order_key(outputs[index]) + (" DESC NULLS LAST" if item.descending else " ASC NULLS FIRST")
            )
        clause = " ORDER BY " + ", ".join(parts) if parts else ""
        return f"SELECT * FROM ({inner}) AS {outer}{clause}{self._offset(query, names)}"

    def _percent(
        self, select: nodes.Select, items: list[Typed], from_sql: str, where: str, tail: str, order: str, names: Names
    ) -> Compiled:
        assert select.top is not None
        if select.top.ties or select.distinct:
            raise SqlError(40517, "TOP PERCENT WITH TIES or DISTINCT is not supported by the local server.")
        share = convert(self.scalar(select.top.value, Names([], names.parent)), sqltypes.FLOAT).sql
        columns = ", ".join(f"{self._output(value)} AS c{i}" for i, value in enumerate(items, 1))
        alias = self.fresh("p")
        inner = f"SELECT {columns}, row_number() OVER ({order.strip()}) AS _n, count(*) OVER () AS _all"
        inner += (f" FROM {from_sql}" if from_sql else "") + (f" WHERE {where}" if where else "") + tail
        outputs = ", ".join(f"{alias}.c{i}" for i in range(1, len(items) + 1))
        sql = f"SELECT {outputs} FROM ({inner}) AS {alias} WHERE _n <= ceil(_all * ({share}) / 100.0) ORDER BY _n"
        return Compiled(sql, [value.with_(sql=f"c{i}") for i, value in enumerate(items, 1)])

    def _lock_inside(
        self,
        locks: list[RowLock],
        from_sql: str,
        where: str,
        names: Names,
        select: nodes.Select,
        order: str,
        limit: str,
    ) -> tuple[str, str]:
        """PostgreSQL locks no rows beside aggregates, DISTINCT and windows: lock them in an inner query."""
        if len(names.scopes) == 1 and len(locks) == 1:
            lock = locks[0]
            inner = f"SELECT {lock.alias}.*, {lock.alias}.ctid AS _ctid FROM {from_sql}"
            if where:
                inner += f" WHERE {where}"
            if limit and names.windows and self._running(names, select, order, lock.scope):
                # The window runs along the order in which TOP takes rows: rows beyond it change no result.
                inner += order + limit
            inner += f" FOR {lock.how.strength} OF {lock.alias}{lock.how.wait}"
            lock.scope.ctid = f"{lock.alias}._ctid"
            return f"({inner}) AS {lock.alias}", ""
        for lock in locks:
            inner = f"(SELECT *, ctid AS _ctid FROM {lock.sql} FOR {lock.how.strength}{lock.how.wait}) AS {lock.alias}"
            from_sql = from_sql.replace(lock.sql, inner, 1)
            lock.scope.ctid = f"{lock.alias}._ctid"
        return from_sql, where

    @staticmethod
    def _running(names: Names, select: nodes.Select, order: str, scope: Scope) -> bool:
        if select.distinct or select.group or not order:
            return False
        wanted = order.removeprefix(" ORDER BY ")
        unique = any(column.identity and column.sql in wanted for column in scope.columns)
        for partitioned, window_order, frame in names.windows:
            running = frame in ("ROWS UNBOUNDED PRECEDING", "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW") or (
                unique
                and frame in ("", "RANGE UNBOUNDED PRECEDING", "RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW")
            )
            if partitioned or window_order != wanted or not running:
                return False
        return True

    # --- set operations --------------------------------------------------------------------------------------------

    def _branch(self, body: Any, parent: Names | None) -> Compiled:
        self.depth += 1
        try:
            if isinstance(body, nodes.SetOperation):
                return self._set(body, parent)
            if isinstance(body, nodes.Query):
                return self.compile_query(body, parent)
            if isinstance(body, nodes.Values):
                return self._values(body, parent)
            return self._select(body, nodes.Query(body), parent, False, False)
        finally:
            self.depth -= 1

    def _set(self, body: nodes.SetOperation, parent: Names | None) -> Compiled:
        left, right = self._branch(body.left, parent), self._branch(body.right, parent)
        if len(left.columns) != len(right.columns):
            raise SqlError(
                205,
                "All queries combined using a UNION, INTERSECT or EXCEPT operator must have an equal number of"
                " expressions in their target lists.",
            )
        columns = []
        for a, b in zip(left.columns, right.columns, strict=True):
            kind = wider(a.type or b.type or INT, b.type or a.type or INT)
            columns.append(
                a.with_(type=kind, nullable=a.nullable or b.nullable, origin="", identity=False, constant=None)
            )
        first, second = self._cast(left, columns), self._cast(right, columns)
        op = body.op.upper()
        texts = any(column.type is not None and is_text(column.type) for column in columns)
        if body.op == "union" and texts:
            alias = self.fresh("d")
            keys = ", ".join(self.order_key(c.with_(sql=f"{alias}.c{i}")) for i, c in enumerate(columns, 1))
            sql = f"SELECT DISTINCT ON ({keys}) * FROM (({first}) UNION ALL ({second})) AS {alias}"
        elif body.op in ("except", "intersect") and texts:
            one, two = self.fresh("d"), self.fresh("e")
            match = " AND ".join(
                f"{self.order_key(c.with_(sql=f'{one}.c{i}'))} IS NOT"
                f" DISTINCT FROM {self.order_key(c.with_(sql=f'{two}.c{i}'))}"
                for i, c in enumerate(columns, 1)
            )
            keys = ", ".join(self.order_key(c.with_(sql=f"{one}.c{i}")) for i, c in enumerate(columns, 1))
            negated = "NOT " if body.op == "except" else ""
            found = f"{negated}EXISTS (SELECT 1 FROM ({second}) AS {two} WHERE {match})"
            sql = f"SELECT DISTINCT ON ({keys}) * FROM ({first}) AS {one} WHERE {found}"
        else:
            sql = f"({first}) {op} ({second})"
        return Compiled(sql, columns)

    def _cast(self, compiled: Compiled, columns: list[Typed]) -> str:
        if all(value.type == column.type for value, column in zip(compiled.columns, columns, strict=True)):
            return compiled.sql
        alias = self.fresh("u")
        parts: list[str] = []
        for i, (value, column) in enumerate(zip(compiled.columns, columns, strict=True), 1):
            assert column.type is not None
            source = value.with_(sql=f"{alias}.c{i}", constant=None)
            parts.append(f"{convert(source, column.type).sql} AS c{i}")
        return f"SELECT {', '.join(parts)} FROM ({compiled.sql}) AS {alias}"

    def _values(self, body: nodes.Values, parent: Names | None) -> Compiled:
        names = Names([], parent)
        rows = [[self.scalar(node, names) for node in row] for row in body.rows]
        if len({len(row) for row in rows}) != 1:
            raise SqlError(10709, "The number of columns for each row in a table value constructor must be the same.")
        columns = []
        for position in range(len(rows[0])):
            kind = self.common([row[position] for row in rows])
            columns.append(Typed(f"c{position + 1}", kind, any(row[position].nullable for row in rows)))
        texts = [
            "("
            + ", ".join(convert(value, column.type or INT).sql for value, column in zip(row, columns, strict=True))
            + ")"
            for row in rows
        ]
        names_list = ", ".join(f"c{i}" for i in range(1, len(columns) + 1))
        return Compiled(f"SELECT * FROM (VALUES {', '.join(texts)}) AS {self.fresh('v')}({names_list})", columns)

    def order_sql(self, items: list[nodes.OrderItem], names: Names) -> str:
        return order_sql(self, items, names)
