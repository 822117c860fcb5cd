# ruff: noqa: S608 - names go through names.quoted, values through names.literal or as parameters
"""Compiling INSERT, UPDATE, DELETE and MERGE with OUTPUT clauses.

A statement that changes rows found by a CTE, a join, TOP or READPAST becomes ``WITH m AS MATERIALIZED (SELECT ctid ...
FOR UPDATE) DELETE ... USING m``: the rows are chosen and locked first, in their order, and then changed by their place.
"""

from __future__ import annotations

import re

from airflow_sqlqueue.localdb.contract import SqlError
from airflow_sqlqueue.localdb.tsql.catalog.catalog import ColumnInfo, TableInfo
from airflow_sqlqueue.localdb.tsql.compiler.convert import convert
from airflow_sqlqueue.localdb.tsql.compiler.locks import check_hints, locking
from airflow_sqlqueue.localdb.tsql.compiler.plan import Plan
from airflow_sqlqueue.localdb.tsql.compiler.queries import Queries
from airflow_sqlqueue.localdb.tsql.compiler.sources import RowLock
from airflow_sqlqueue.localdb.tsql.compiler.trees import has_aggregate, rewritten, walk
from airflow_sqlqueue.localdb.tsql.compiler.typed import Names, Scope, Typed
from airflow_sqlqueue.localdb.tsql.names import fold, quoted
from airflow_sqlqueue.localdb.tsql.parser import nodes
from airflow_sqlqueue.localdb.types import SqlType


class Compiler(Queries):
    """Compiles one statement to a :class:`Plan`."""

    def compile(self, statement: nodes.Statement) -> Plan:
        """Compile a SELECT or a statement that changes rows."""
        if isinstance(statement, nodes.SelectStatement):
            return self.select(statement.query)
        if isinstance(statement, nodes.Insert):
            return self.insert(statement)
        if isinstance(statement, nodes.Update):
            return self.update(statement)
        if isinstance(statement, nodes.Delete):
            return self.delete(statement)
        assert isinstance(statement, nodes.Merge)
        return self.merge(statement)

    def finish(self, sql: str, **options: object) -> Plan:
        plan = Plan(sql if "\x01" in sql else self.pruned(sql), self.parameters, self.oids, self.kinds)
        for key, value in options.items():
            setattr(plan, key, value)
        plan.before = list(dict.fromkeys(text for text, _ in self.table_locks))
        transient_tables = all(transient for _, transient in self.table_locks)
        plan.transient = (
            (self.transient or bool(self.table_locks and transient_tables)) and not self.held and not plan.writes
        )
        if plan.columns is not None and any(
            column.type is not None and column.type.length == -1 for column in plan.columns
        ):
            plan.chunk = 32
        return plan

    def pruned(self, sql: str) -> str:
        """``sql`` without computed columns of locking subqueries that nothing reads (a BodyString over every body)."""
        for column, piece in self.prunable:
            if not re.search(rf"\b{re.escape(column)}\b", sql):
                sql = sql.replace(piece, "NULL::int4 AS " + piece.rsplit(" AS ", 1)[1], 1)
        return sql

    # --- SELECT ----------------------------------------------------------------------------------------------------

    def select(self, query: nodes.Query) -> Plan:
        body = query.body
        if isinstance(body, nodes.Select) and any(item.variable for item in body.items):
            if not all(item.variable for item in body.items):
                raise SqlError(
                    141,
                    "A SELECT statement that assigns a value to a variable must not be combined with data-retrieval"
                    " operations.",
                    severity=15,
                )
            return self._assigning(query, body)
        compiled = self.compile_query(query, None)
        return self.finish(compiled.sql, columns=compiled.columns, selects=True)

    def _assigning(self, query: nodes.Query, body: nodes.Select) -> Plan:
        assign, items = [], []
        known: dict[str, nodes.Expr] = {}
        for item in body.items:
            assert item.variable is not None
            kind = self.env.variables.get(item.variable)
            if kind is None:
                raise SqlError(137, f'Must declare the scalar variable "{item.variable}".', severity=15, state=2)
            value = item.value
            if item.op != "=":
                value = nodes.Binary(item.op[0], nodes.Variable(item.variable), value)
            # Assigned from left to right: what stands left has its new value already.
            value = rewritten(value, lambda n: known.get(n.name) if isinstance(n, nodes.Variable) else None)
            known[item.variable] = nodes.Cast(value, kind)
            assign.append((item.variable, kind))
            items.append(nodes.SelectItem(value))
        if body.sources and not body.group and not body.distinct and not has_aggregate(items):
            found = {n.name for n in walk(items) if isinstance(n, nodes.Variable)}
            if found.intersection(known):
                return self._accumulating(query, body, items, dict(assign))
        saved = body.items
        body.items = items
        try:
            compiled = self.compile_query(query, None)
        finally:
            body.items = saved
        alias = self.fresh("a")
        parts = [
            convert(value.with_(sql=f"{alias}.c{i}", constant=None), kind, "assign").sql
            for i, (value, (_, kind)) in enumerate(zip(compiled.columns, assign, strict=True), 1)
        ]
        sql = f"SELECT {', '.join(parts)} FROM ({compiled.sql}) AS {alias}"
        return self.finish(sql, assign=assign, selects=True)

    def _accumulating(
        self, query: nodes.Query, body: nodes.Select, items: list[nodes.SelectItem], kinds: dict[str, SqlType]
    ) -> Plan:
        """``SELECT @s = @s + x FROM t``: row after row, each with the values that the row before it left."""
        if any(isinstance(n, nodes.Query) for n in walk(items)):
            raise SqlError(40517, "Accumulating a subquery in a variable is not supported by the local server.")
        columns: list[nodes.Column] = []
        for node in walk(items):
            if isinstance(node, nodes.Column) and node not in columns:
                columns.append(node)
        saved = body.items
        body.items = [nodes.SelectItem(column) for column in columns] or [nodes.SelectItem(nodes.Literal("int", 1))]
        try:
            compiled = self.compile_query(query, None)
        finally:
            body.items = saved
        rows, fold_ = self.fresh("a"), self.fresh("f")
        scope = Scope(
            "_rows",
            [
                value.with_(sql=f"{rows}.c{i}", name=f"c{i}", constant=None, origin="")
                for i, value in enumerate(compiled.columns, 1)
            ],
        )
        state = Scope("_state", [Typed(f"{fold_}.v{i}", kinds[n], name=n) for i, n in enumerate(kinds, 1)])

        def place(node: object) -> nodes.Expr | None:
            if isinstance(node, nodes.Column):
                return nodes.Column(("_rows", f"c{columns.index(node) + 1}"))
            if isinstance(node, nodes.Variable) and node.name in kinds:
                return nodes.Column(("_state", node.name))
            return None

        names = Names([scope, state])
        last = dict(zip([item.variable for item in saved], items, strict=True))
        first, then = [], []
        for name, kind in kinds.items():
            start = convert(self.scalar(nodes.Variable(name), names), kind, "assign")
            step = convert(self.scalar(rewritten(last[name].value, place), names), kind, "assign")
            first.append(f"{start.sql}")
            then.append(f"{step.sql}")
        listed = ", ".join(f"v{i}" for i in range(1, len(kinds) + 1))
        sql = (
            f"WITH RECURSIVE {rows} AS MATERIALIZED (SELECT *, row_number() OVER () AS n FROM ({compiled.sql}) AS q),"
            f" {fold_}(n, {listed}) AS (SELECT 0::int8, {', '.join(first)} UNION ALL SELECT {rows}.n, {', '.join(then)}"
            f" FROM {fold_} JOIN {rows} ON {rows}.n = {fold_}.n + 1) SELECT {listed} FROM {fold_} WHERE n > 0 ORDER BY n"
        )
        return self.finish(sql, assign=list(kinds.items()), selects=True)

    # --- targets ---------------------------------------------------------------------------------------------------

    def _place(self, table: TableInfo, column: ColumnInfo) -> str:
        return f"table '{table.database}.{table.schema}.{table.name}', column '{column.name}'"

    def to_column(self, value: Typed, table: TableInfo, column: ColumnInfo) -> str:
        """A value converted to a column's type as assignment does."""
        return convert(value, column.type, "assign", place=self._place(table, column)).sql

    def _writable(self, table: TableInfo, name: str, updating: bool) -> ColumnInfo:
        column = table.column(name)
        if column is None:
            raise SqlError(207, f"Invalid column name '{name}'.")
        if column.computed is not None:
            raise SqlError(
                271,
                f'The column "{column.name}" cannot be modified because it is either a computed column or is the result'
                " of a UNION operator.",
            )
        if updating and column.identity:
            raise SqlError(8102, f"Cannot update identity column '{column.name}'.")
        return column

    def _check_target(self, table: TableInfo, outputs: list[nodes.Output], event: str) -> None:
        if table.type == "S":
            raise SqlError(259, "Ad hoc updates to system catalogs are not allowed.")
        if table.triggers and any(output.into is None for output in outputs):
            raise SqlError(
                334,
                f"The target table '{table.name}' of the DML statement"
                " cannot have any enabled triggers if the statement"
                " contains an OUTPUT clause without INTO clause.",
            )
        if event in table.extra.get("trigger_events", ()):
            raise SqlError(
                40517,
                f"The table '{table.name}' has a trigger with a body,"
                " which is not supported by the local server: disable"
                " or drop the trigger.",
            )

    # --- OUTPUT ----------------------------------------------------------------------------------------------------

    def _with_outputs(
        self, change: str, outputs: list[nodes.Output], names: Names, extra: list[str], **options: object
    ) -> Plan:
        """Attach OUTPUT clauses to ``change`` (a statement text without RETURNING)."""
        change, _, prefix = self._split_prefix(change)
        if not outputs:
            returning = f" RETURNING {', '.join(extra)}" if extra else ""
            return self.finish(prefix + change + returning, writes=True, **options)
        lists = [self._output_items(output, names) for output in outputs]
        if len(outputs) == 1 and outputs[0].into is None:
            texts = [f"{self._output(value)} AS c{i}" for i, value in enumerate(lists[0], 1)]
            return self.finish(
                f"{prefix}{change} RETURNING {', '.join(texts)}", writes=True, columns=lists[0], **options
            )
        returned: list[str] = []
        for number, values in enumerate(lists):
            returned += [f"{self._output(value)} AS o{number}_{i}" for i, value in enumerate(values, 1)]
        returned += extra
        head = (prefix + ", " if prefix else "WITH ") + f"w AS ({change} RETURNING {', '.join(returned)})"
        inserts = []
        client: list[Typed] | None = None
        for number, (output, values) in enumerate(zip(outputs, lists, strict=True)):
            if output.into is None:
                client = values
                continue
            inserts.append(self._into(output, values, number))
        if client is None and not extra:
            return self.finish(f"{head} {inserts[0]}", writes=True, **options)
        head += "".join(f", i{n} AS ({text})" for n, text in enumerate(inserts))
        number = len(outputs) - 1
        final = ", ".join(f"w.o{number}_{i} AS c{i}" for i in range(1, len(client or []) + 1))
        return self.finish(f"{head} SELECT {final} FROM w", writes=True, columns=client, **options)

    @staticmethod
    def _split_prefix(change: str) -> tuple[str, str, str]:
        """A leading ``WITH m AS MATERIALIZED (...) `` belongs before our own WITH items."""
        marker = "\x00"
        if marker in change:
            prefix, change = change.split(marker, 1)
            return change, "", prefix
        return change, "", ""

    def _output_items(self, output: nodes.Output, names: Names) -> list[Typed]:
        items = []
        for item in output.items:
            node = item.value
            if isinstance(node, nodes.Star):
                found = [s for s in names.scopes if node.qualifier and s.alias == fold(node.qualifier[-1])]
                if not found:
                    raise SqlError(
                        107,
                        f"The column prefix '{'.'.join(node.qualifier)}' does not"
                        " match with a table name or alias name used in the query.",
                        severity=15,
                    )
                items += found[0].columns
                continue
            value = self.scalar(node, names)
            items.append(
                value.with_(name=item.alias or (value.name if isinstance(node, nodes.Column) else ""), identity=False)
            )
        return items

    def _into(self, output: nodes.Output, values: list[Typed], number: int) -> str:
        assert output.into is not None
        table = self.lookup(output.into)
        if table.triggers:
            raise SqlError(
                331, f"The target table '{table.name}' of the OUTPUT INTO clause cannot have any enabled triggers."
            )
        if table.type not in ("U", "TT"):
            raise SqlError(
                330, f"The target '{table.name}' of the OUTPUT INTO clause cannot be a view or common table expression."
            )
        if output.columns:
            columns = [self._writable(table, name, False) for name in output.columns]
        else:
            columns = [
                c for c in table.columns if c.computed is None and not (c.identity and not self._identity_on(table))
            ]
        if len(columns) != len(values):
            if len(columns) > len(values):
                raise SqlError(
                    120,
                    "The select list for the INSERT statement contains fewer items than the insert"
                    " list. The number of SELECT values must match the number of INSERT columns.",
                )
            raise SqlError(
                121,
                "The select list for the INSERT statement contains more items than the insert list."
                " The number of SELECT values must match the number of INSERT columns.",
            )
        for column in columns:
            if column.identity and not self._identity_on(table):
                self._refuse_identity(table)
        parts = [
            self.to_column(value.with_(sql=f"w.o{number}_{i}", constant=None), table, column)
            for i, (value, column) in enumerate(zip(values, columns, strict=True), 1)
        ]
        target = ", ".join(quoted(column.pg) for column in columns)
        return f"INSERT INTO {table.pg} ({target}) SELECT {', '.join(parts)} FROM w"

    # --- INSERT ----------------------------------------------------------------------------------------------------

    def _identity_on(self, table: TableInfo) -> bool:
        return self.env.identity_insert == table.pg

    def _refuse_identity(self, table: TableInfo) -> None:
        raise SqlError(
            544,
            "Cannot insert explicit value for identity column in"
            f" table '{table.name}' when IDENTITY_INSERT is set to OFF.",
        )

    def insert(self, node: nodes.Insert) -> Plan:
        self.statement = "insert"
        parent = self.with_ctes(node.ctes, None)
        table = self.lookup(node.target, node.line)
        if table.type == "V":
            table = self._view_target(table)
        self._check_target(table, node.outputs, "INSERT")
        check_hints(node.hints, table, True)
        how = locking(
            [h for h in node.hints if h.name in ("TABLOCK", "TABLOCKX", "HOLDLOCK", "SERIALIZABLE", "XLOCK")],
            table,
            self.env.isolation,
            self.env.in_transaction,
            False,
            True,
        )
        if how.table_mode:
            self.table_locks.append((f"LOCK TABLE {table.pg} IN {how.table_mode} MODE", False))
        explicit = [self._writable(table, name, False) for name in node.columns]
        if len({column.pg for column in explicit}) != len(explicit):
            name = next(c.name for c in explicit if [d.pg for d in explicit].count(c.pg) > 1)
            raise SqlError(
                264,
                f"The column name '{name}' is specified more than once in the SET clause or column list of an INSERT.",
            )
        columns = explicit or [c for c in table.columns if c.computed is None and not c.identity]
        identity = table.identity
        if identity is not None:
            if identity in explicit and not self._identity_on(table) and node.source is not None:
                self._refuse_identity(table)
            if self._identity_on(table) and identity not in explicit:
                if not explicit:
                    raise SqlError(
                        8101,
                        "An explicit value for the identity column in table"
                        f" '{table.full_name}' can only be specified when a"
                        " column list is used and IDENTITY_INSERT is ON.",
                    )
                raise SqlError(
                    545,
                    f"Explicit value must be specified for identity column in table '{table.name}' either"
                    " when IDENTITY_INSERT is set to ON or when a replication user"
                    " is inserting into a NOT FOR REPLICATION identity column.",
                )
        target = f"INSERT INTO {table.pg} AS d ({', '.join(quoted(c.pg) for c in columns)})"
        if node.source is None:
            change = f"INSERT INTO {table.pg} AS d DEFAULT VALUES"
        elif isinstance(node.source, nodes.Execute):
            raise SqlError(40517, "INSERT ... EXECUTE is not supported by the local server.")
        elif isinstance(node.source.body, nodes.Values) and node.top is None:
            change = f"{target} VALUES {self._value_rows(node.source.body, table, columns, parent)}"
        else:
            change = f"{target} {self._insert_query(node, node.source, table, columns, parent)}"
        scope = self.table_scope(table, "inserted", "d")
        names = Names([scope])
        return self._with_outputs(change, node.outputs, names, [], identity=table if identity else None, table=table)

    def _view_target(self, view: TableInfo) -> TableInfo:
        raise SqlError(40517, f"INSERT and MERGE into the view '{view.name}' are not supported by the local server.")

    def _value_rows(
        self, values: nodes.Values, table: TableInfo, columns: list[ColumnInfo], parent: Names | None
    ) -> str:
        rows = []
        for row in values.rows:
            if len(row) != len(columns):
                if len(row) > len(columns):
                    raise SqlError(
                        110,
                        "There are fewer columns in the INSERT statement than values specified in the VALUES"
                        " clause. The number of values in the VALUES clause must match"
                        " the number of columns specified in the INSERT statement.",
                        severity=15,
                    )
                if len({len(r) for r in values.rows}) == 1 and len(columns) == len(
                    [c for c in table.columns if c.computed is None and not c.identity]
                ):
                    raise SqlError(213, "Column name or number of supplied values does not match table definition.")
                raise SqlError(
                    109,
                    "There are more columns in the INSERT statement than values specified in the VALUES"
                    " clause. The number of values in the VALUES clause must match"
                    " the number of columns specified in the INSERT statement.",
                    severity=15,
                )
            cells = []
            for node, column in zip(row, columns, strict=True):
                if isinstance(node, nodes.Literal) and node.kind == "default":
                    cells.append("DEFAULT")
                else:
                    cells.append(self.to_column(self.scalar(node, Names([], parent)), table, column))
            rows.append(f"({', '.join(cells)})")
        return ", ".join(rows)

    def _insert_query(
        self, node: nodes.Insert, query: nodes.Query, table: TableInfo, columns: list[ColumnInfo], parent: Names | None
    ) -> str:
        if node.top is not None and isinstance(query.body, nodes.Select) and query.body.top is None:
            query.body.top = node.top
        self.depth -= 1
        compiled = self.compile_query(query, parent)
        self.depth += 1
        if len(compiled.columns) != len(columns):
            if not node.columns:
                raise SqlError(213, "Column name or number of supplied values does not match table definition.")
            number, word = (121, "more") if len(compiled.columns) > len(columns) else (120, "fewer")
            raise SqlError(
                number,
                f"The select list for the INSERT statement contains {word} items than the insert"
                " list. The number of SELECT values must match the number of INSERT columns.",
            )
        cells = [
            self.to_column(value.with_(sql=f"s.c{i}", constant=None), table, column)
            for i, (value, column) in enumerate(zip(compiled.columns, columns, strict=True), 1)
        ]
        return f"SELECT {', '.join(cells)} FROM ({compiled.sql}) AS s"

    # --- UPDATE and DELETE -----------------------------------------------------------------------------------------

    def delete(self, node: nodes.Delete) -> Plan:
        self.statement = "delete"
        parent = self.with_ctes(node.ctes, None)
        direct = self._direct(node, parent)
        if direct is not None:
            names = Names([self.table_scope(direct, node.target[-1], "d", node.target)], parent)
            self._check_target(direct, node.outputs, "DELETE")
            self._direct_lock(node.hints, direct)
            where = f" WHERE {self.predicate(node.where, names)}" if node.where is not None else ""
            deleted = Names([self.table_scope(direct, "deleted", "d")])
            return self._with_outputs(f"DELETE FROM {direct.pg} AS d{where}", node.outputs, deleted, [], table=direct)
        chosen = self._choose(node, parent, [])
        self._check_target(chosen.table, node.outputs, "DELETE")
        names = Names([chosen.scope("deleted", "d"), *chosen.others])
        change = f"DELETE FROM {chosen.table.pg} AS d USING m WHERE d.ctid = m._ctid"
        return self._chosen_plan(chosen, change, node.outputs, names, [])

    def _direct(self, node: nodes.Update | nodes.Delete, parent: Names | None) -> TableInfo | None:
        """The table of a statement that PostgreSQL can run as it stands, else None."""
        if node.sources or node.top is not None:
            return None
        if len(node.target) == 1 and parent is not None and parent.cte(fold(node.target[0])) is not None:
            return None
        table = self.lookup(node.target, node.line)
        if table.type == "V" or any(hint.name in ("READPAST", "NOWAIT") for hint in node.hints):
            return None
        return table

    def _direct_lock(self, hints: list[nodes.Hint], table: TableInfo) -> None:
        how = locking(hints, table, self.env.isolation, self.env.in_transaction, False, True)
        if how.table_mode:
            self.table_locks.append((f"LOCK TABLE {table.pg} IN {how.table_mode} MODE", False))

    def update(self, node: nodes.Update) -> Plan:
        self.statement = "update"
        parent = self.with_ctes(node.ctes, None)
        direct = self._direct(node, parent)
        if direct is not None:
            names = Names([self.table_scope(direct, node.target[-1], "d", node.target)], parent)
            self._check_target(direct, node.outputs, "UPDATE")
            self._direct_lock(node.hints, direct)
            sets, assign = self._sets(node.assignments, direct, names)
            assignments = ", ".join(f"{quoted(column.pg)} = {sql}" for column, sql in sets)
            where = f" WHERE {self.predicate(node.where, names)}" if node.where is not None else ""
            extra = self._returned(assign, direct, self.table_scope(direct, node.target[-1], "old"))
            outputs = Names([self.table_scope(direct, "inserted", "new"), self.table_scope(direct, "deleted", "old")])
            plan = self._with_outputs(
                f"UPDATE {direct.pg} AS d SET {assignments or self._nothing(direct)}{where}",
                node.outputs,
                outputs,
                extra,
                table=direct,
            )
            plan.assign = [(name, kind) for name, kind, _, _ in assign]
            return plan
        chosen = self._choose(node, parent, node.assignments)
        self._check_target(chosen.table, node.outputs, "UPDATE")
        names = Names([chosen.scope("inserted", "new"), chosen.scope("deleted", "old"), *chosen.others])
        sets_sql = ", ".join(f"{quoted(column.pg)} = m.{alias}" for column, alias in chosen.sets)
        change = (
            f"UPDATE {chosen.table.pg} AS d SET {sets_sql or self._nothing(chosen.table)} FROM m WHERE d.ctid = m._ctid"
        )
        extra = [f"m.{alias}" for _, _, alias in chosen.variables]
        plan = self._chosen_plan(chosen, change, node.outputs, names, extra)
        plan.assign = [(name, kind) for name, kind, _ in chosen.variables]
        return plan

    @staticmethod
    def _nothing(table: TableInfo) -> str:
        column = next(c for c in table.columns if c.computed is None)
        return f"{quoted(column.pg)} = d.{quoted(column.pg)}"

    def _sets(
        self, assignments: list[nodes.Assignment], table: TableInfo, names: Names
    ) -> tuple[list[tuple[ColumnInfo, str]], list[tuple[str, SqlType, nodes.Expr | None, ColumnInfo | None]]]:
        sets: list[tuple[ColumnInfo, str]] = []
        variables: list[tuple[str, SqlType, nodes.Expr | None, ColumnInfo | None]] = []
        for item in assignments:
            column = None
            if item.column is not None:
                column = self._writable(table, item.column, True)
                if any(column.pg == other.pg for other, _ in sets):
                    raise SqlError(
                        264,
                        f"The column name '{column.name}' is specified more than"
                        " once in the SET clause or column list of an INSERT.",
                    )
                if isinstance(item.value, nodes.Literal) and item.value.kind == "default":
                    sets.append((column, "DEFAULT"))
                else:
                    value = self.scalar(item.value, names)
                    if item.op != "=":
                        value = self.operate(item.op[0], self.scalar(nodes.Column((item.column,)), names), value)
                    sets.append((column, self.to_column(value, table, column)))
            if item.variable is not None:
                kind = self.env.variables.get(item.variable)
                if kind is None:
                    raise SqlError(137, f'Must declare the scalar variable "{item.variable}".', severity=15, state=2)
                expr = item.value
                if column is None and item.op != "=":
                    expr = nodes.Binary(item.op[0], nodes.Variable(item.variable), expr)
                variables.append((item.variable, kind, expr if column is None else None, column))
        return sets, variables

    def _returned(
        self, variables: list[tuple[str, SqlType, nodes.Expr | None, ColumnInfo | None]], table: TableInfo, old: Scope
    ) -> list[str]:
        parts = []
        for _, kind, expr, column in variables:
            if column is not None:
                value = Typed(f"new.{quoted(column.pg)}", column.type)
            else:
                assert expr is not None
                value = self.scalar(expr, Names([old]))
            parts.append(convert(value, kind, "assign").sql)
        return parts

    def _choose(
        self, node: nodes.Update | nodes.Delete, parent: Names | None, assignments: list[nodes.Assignment]
    ) -> _Chosen:
        """Build ``m``: the rows that the statement changes, with what it needs of them."""
        names = Names([], parent)
        locks: list[RowLock] = []
        sources, alias = self._target_source(node)
        from_sql = ", ".join(self.source(source, names, locks, alias) for source in sources)
        scope = next((s for s in names.scopes if s.alias == alias), None)
        if scope is None or scope.table is None or not scope.ctid:
            raise SqlError(208, f"Invalid object name '{'.'.join(node.target)}'.", line=node.line)
        where = f" WHERE {self.predicate(node.where, names)}" if node.where is not None else ""
        chosen = _Chosen(scope.table, scope)
        parts = [f"{scope.ctid} AS _ctid"]
        sets, variables = self._sets(assignments, scope.table, names)
        for i, (column, sql) in enumerate(sets):
            if sql == "DEFAULT":
                raise SqlError(
                    40517, "SET column = DEFAULT with a join, CTE or TOP is not supported by the local server."
                )
            parts.append(f"{sql} AS v{i}")
            chosen.sets.append((column, f"v{i}"))
        for i, (name, kind, expr, own) in enumerate(variables):
            if own is not None:
                sql = convert(Typed(next(s for c, s in sets if c.pg == own.pg), own.type), kind, "assign").sql
            else:
                assert expr is not None
                sql = convert(self.scalar(expr, names), kind, "assign").sql
            parts.append(f"{sql} AS w{i}")
            chosen.variables.append((name, kind, f"w{i}"))
        number = 0
        for each in names.scopes:
            columns = []
            for column_value in each.columns:
                if each is scope and column_value.origin:
                    continue
                number += 1
                columns.append(column_value.with_(sql=f"m.x{number}", origin=""))
                chosen.exports[f"x{number}"] = column_value.sql
            if each is scope:
                chosen.computed = {fold(c.name): c for c in columns}
            else:
                chosen.others.append(Scope(each.alias, columns, None, "m", each.exposed))
        limit = ""
        if node.top is not None:
            if node.top.percent:
                raise SqlError(40517, "TOP PERCENT in UPDATE and DELETE is not supported by the local server.")
            limit = f" LIMIT {self.count(node.top.value, Names([], parent))}"
        chosen.head = parts
        chosen.tail = f" FROM {from_sql}{where}{limit}"
        for lock in locks:
            chosen.tail += f" FOR {lock.how.strength} OF {lock.alias}{lock.how.wait}"
        return chosen

    def _target_source(self, node: nodes.Update | nodes.Delete) -> tuple[list[nodes.Source], str]:
        """The FROM items with the target among them (its hints added), and the target's folded alias."""
        target = node.target
        if not node.sources:
            if target[0].startswith("@"):
                return [nodes.VariableSource(target[0], target[0])], fold(target[0])
            return [nodes.TableSource(target, "", node.hints, node.line)], fold(target[-1])
        found: list[nodes.Source] = []

        def visit(source: nodes.Source) -> None:
            if isinstance(source, nodes.Join):
                visit(source.left)
                visit(source.right)
            elif isinstance(source, nodes.TableSource):
                exposed = source.alias or source.name[-1]
                if (len(target) == 1 and fold(exposed) == fold(target[0])) or fold(source.name[-1]) == fold(target[-1]):
                    found.append(source)
            elif isinstance(source, nodes.VariableSource | nodes.QuerySource) and (
                fold(source.alias) == fold(target[-1]) or getattr(source, "name", "") == target[0]
            ):
                found.append(source)

        for source in node.sources:
            visit(source)
        exact = [s for s in found if fold(getattr(s, "alias", "") or getattr(s, "name", ("",))[-1]) == fold(target[-1])]
        matches = exact or found
        if len(matches) > 1:
            raise SqlError(8154, f"The table '{target[-1]}' is ambiguous.")
        if not matches:
            return [nodes.TableSource(target, "", node.hints, node.line), *node.sources], fold(target[-1])
        match = matches[0]
        if isinstance(match, nodes.TableSource):
            if node.hints:
                match.hints = [*match.hints, *(h for h in node.hints if h not in match.hints)]
            return node.sources, fold(match.alias or match.name[-1])
        return node.sources, fold(match.alias)  # type: ignore[attr-defined]

    def _chosen_plan(
        self, chosen: _Chosen, change: str, outputs: list[nodes.Output], names: Names, extra: list[str]
    ) -> Plan:
        plan = self._with_outputs(f"\x01\x00{change}", outputs, names, extra, table=chosen.table)
        used = set(re.findall(r"\bm\.(x\d+)\b", plan.sql))
        parts = [*chosen.head, *(f"{sql} AS {name}" for name, sql in chosen.exports.items() if name in used)]
        select = f"SELECT {', '.join(parts)}{chosen.tail}"
        plan.sql = self.pruned(plan.sql.replace("\x01", f"WITH m AS MATERIALIZED ({select}) ", 1))
        if " FOR " in chosen.tail and "SKIP LOCKED" not in chosen.tail and "NOWAIT" not in chosen.tail:
            # A row that another transaction changed while this one waited has moved: wait first, look again after.
            plan.prelock = self.pruned(f"SELECT count(*) FROM ({select}) AS m")
        return plan

    # --- MERGE -----------------------------------------------------------------------------------------------------

    def merge(self, node: nodes.Merge) -> Plan:
        self.statement = "merge"
        if node.top is not None:
            raise SqlError(40517, "MERGE TOP is not supported by the local server.")
        parent = self.with_ctes(node.ctes, None)
        table = self.lookup(node.target, node.line)
        if table.type == "V":
            table = self._view_target(table)
        for event in {"update": "UPDATE", "delete": "DELETE", "insert": "INSERT"}.values():
            self._check_target(table, node.outputs, event)
        self._direct_lock(node.hints, table)
        target = self.table_scope(
            table, node.alias or node.target[-1], "d", (node.alias,) if node.alias else node.target
        )
        names = Names([], parent)
        locks: list[RowLock] = []
        source = self.source(node.source, names, locks)
        source_scopes = list(names.scopes)
        names.scopes = [target, *source_scopes]
        text = f"MERGE INTO {table.pg} AS d USING {source} ON {self.predicate(node.on, names)}"
        for action in node.actions:
            text += self._merge_action(action, table, names, target, source_scopes, parent)
        inserted, deleted = self.table_scope(table, "inserted", "new"), self.table_scope(table, "deleted", "old")
        special = Scope("", [Typed("merge_action()", SqlType("nvarchar", length=10), False, name="$action")])
        outputs = Names([inserted, deleted, special, *source_scopes])
        return self._with_outputs(
            text, node.outputs, outputs, [], table=table, identity=table if table.identity else None
        )

    def _merge_action(
        self,
        action: nodes.MergeAction,
        table: TableInfo,
        names: Names,
        target: Scope,
        source: list[Scope],
        parent: Names | None,
    ) -> str:
        head = {"matched": "MATCHED", "target": "NOT MATCHED", "source": "NOT MATCHED BY SOURCE"}[action.matched]
        visible = names
        if action.matched == "target":
            visible = Names(source, parent)
        elif action.matched == "source":
            visible = Names([target], parent)
        text = f" WHEN {head}"
        if action.condition is not None:
            text += f" AND {self.predicate(action.condition, visible)}"
        if action.action == "delete":
            return text + " THEN DELETE"
        if action.action == "update":
            sets, variables = self._sets(action.assignments, table, visible)
            if variables:
                raise SqlError(40517, "Assigning variables in MERGE is not supported by the local server.")
            return text + " THEN UPDATE SET " + ", ".join(f"{quoted(column.pg)} = {sql}" for column, sql in sets)
        columns = [self._writable(table, name, False) for name in action.columns] or [
            c for c in table.columns if c.computed is None and not c.identity
        ]
        if any(column.identity for column in columns) and not self._identity_on(table):
            self._refuse_identity(table)
        if action.values is None:
            return text + " THEN INSERT DEFAULT VALUES"
        if len(action.values) != len(columns):
            raise SqlError(
                10709, "The number of columns in the INSERT clause of MERGE must match the number of values."
            )
        cells = []
        for value, column in zip(action.values, columns, strict=True):
            if isinstance(value, nodes.Literal) and value.kind == "default":
                cells.append("DEFAULT")
            else:
                cells.append(self.to_column(self.scalar(value, visible), table, column))
        return f"{text} THEN INSERT ({', '.join(quoted(c.pg) for c in columns)}) VALUES ({', '.join(cells)})"


class _Chosen:
    """The rows a statement changes: how they are selected and what is exported of them."""

    def __init__(self, table: TableInfo, target: Scope) -> None:
        self.table, self.target = table, target
        self.sets: list[tuple[ColumnInfo, str]] = []
        self.variables: list[tuple[str, SqlType, str]] = []
        self.exports: dict[str, str] = {}
        self.computed: dict[str, Typed] = {}
        self.others: list[Scope] = []
        self.head: list[str] = []
        self.tail = ""

    def scope(self, alias: str, pg_alias: str) -> Scope:
        """``inserted`` or ``deleted`` with the columns that the target shows, under their names there."""
        columns = []
        for column in self.target.columns:
            if column.origin:
                columns.append(column.with_(sql=f"{pg_alias}.{column.origin}", constant=None))
            else:
                columns.append(self.computed[fold(column.name)])
        return Scope(alias, columns, self.table, pg_alias)
