# ruff: noqa: S608 - names go through names.quoted, values through names.literal or as parameters
"""Compiling UPDATE and DELETE.

A statement with a CTE, a join, TOP or READPAST becomes ``WITH m AS MATERIALIZED (SELECT ctid ... FOR UPDATE)
DELETE ... USING m``: PostgreSQL first selects and locks the rows in their order, then changes them by ctid.
"""

from __future__ import annotations

import re

from fakemssql.contract import SqlError
from fakemssql.tsql.catalog.tables import ColumnInfo, TableInfo
from fakemssql.tsql.compiler.base_tables import hinted, lookup, table_scope
from fakemssql.tsql.compiler.compilation import Compilation
from fakemssql.tsql.compiler.convert import convert
from fakemssql.tsql.compiler.order import row_count
from fakemssql.tsql.compiler.outputs import shown, with_outputs
from fakemssql.tsql.compiler.plan import Plan, pruned
from fakemssql.tsql.compiler.scopes import Names, Scope, Typed, with_ctes
from fakemssql.tsql.compiler.seeks import check_seeks
from fakemssql.tsql.compiler.targets import as_shown, assigned, check_target, lock_target
from fakemssql.tsql.compiler.trees import walk
from fakemssql.tsql.names import fold, quoted
from fakemssql.tsql.parser import nodes
from fakemssql.types import SqlType


def delete(c: Compilation, node: nodes.Delete) -> Plan:
    c.statement = "delete"
    parent = with_ctes(node.ctes, None)
    direct = _direct(c, node, parent)
    if direct is not None:
        _, where = _prepared(c, node, direct, parent)
        deleted = Names([table_scope(c, direct, "deleted", "d")])
        return with_outputs(c, f"DELETE FROM {direct.pg} AS d{where}", node.outputs, deleted, [], table=direct)
    chosen = _choose(c, node, parent, [])
    check_target(c, chosen.table, node.outputs, "DELETE")
    names = Names([chosen.scope("deleted", "d"), *chosen.others])
    change = f"DELETE FROM {chosen.table.pg} AS d USING m WHERE d.ctid = m._ctid"
    whole = Names([table_scope(c, chosen.table, "deleted", "d")])
    return _chosen_plan(c, chosen, change, node.outputs, names, [], whole)


def _prepared(
    c: Compilation, node: nodes.Update | nodes.Delete, table: TableInfo, parent: Names | None
) -> tuple[Names, str]:
    """Check and lock the target of a direct statement; return its names and its WHERE."""
    permission = c.statement.upper()
    check_target(c, table, node.outputs, permission)
    c.env.require(table, permission)
    if _reads(node):
        c.env.require(table, "SELECT")
    lock_target(c, node.hints, table)
    names = Names([table_scope(c, table, node.target[-1], "d", node.target)], parent)
    return names, f" WHERE {c.predicate(node.where, names)}" if node.where is not None else ""


def _reads(node: nodes.Update | nodes.Delete) -> bool:
    """Return whether a statement also reads the rows that it changes, and so needs SELECT."""
    values = [a.value for a in node.assignments] if isinstance(node, nodes.Update) else []
    added = isinstance(node, nodes.Update) and any(a.op != "=" for a in node.assignments)
    columns = any(isinstance(each, nodes.Column) for each in walk(values))
    return bool(node.where is not None or shown(node.outputs) or node.sources or added or columns)


def _direct(c: Compilation, node: nodes.Update | nodes.Delete, parent: Names | None) -> TableInfo | None:
    """Return the table of a statement that PostgreSQL can run without ``m``, else None."""
    if node.sources or node.top is not None:
        return None
    if len(node.target) == 1 and parent is not None and parent.cte(fold(node.target[0])) is not None:
        return None
    table = lookup(c, node.target, node.line)
    if table.type == "V" or any(hint.name in ("READPAST", "NOWAIT") for hint in node.hints):
        return None
    return table


def update(c: Compilation, node: nodes.Update) -> Plan:
    c.statement = "update"
    parent = with_ctes(node.ctes, None)
    direct = _direct(c, node, parent)
    if direct is not None:
        names, where = _prepared(c, node, direct, parent)
        sets, assign = assigned(c, node.assignments, direct, names)
        assignments = ", ".join(f"{quoted(column.pg)} = {sql}" for column, sql in sets)
        extra = _returned(c, assign, table_scope(c, direct, node.target[-1], "old"))
        outputs = Names([table_scope(c, direct, "inserted", "new"), table_scope(c, direct, "deleted", "old")])
        plan = with_outputs(
            c,
            f"UPDATE {direct.pg} AS d SET {assignments or _nothing(direct)}{where}",
            node.outputs,
            outputs,
            extra,
            table=direct,
        )
        plan.assign = [(name, kind) for name, kind, _, _ in assign]
        if direct.type == "U" and not direct.local:
            # The lock of PostgreSQL's UPDATE is compatible with shared locks of others; an exclusive lock is not.
            plan.prelock = f"SELECT count(*) FROM (SELECT 1 FROM {direct.pg} AS d{where} FOR UPDATE OF d) AS m"
        return plan
    chosen = _choose(c, node, parent, node.assignments)
    check_target(c, chosen.table, node.outputs, "UPDATE")
    names = Names([chosen.scope("inserted", "new"), chosen.scope("deleted", "old"), *chosen.others])
    sets_sql = ", ".join(f"{quoted(column.pg)} = m.{alias}" for column, alias in chosen.sets)
    change = f"UPDATE {chosen.table.pg} AS d SET {sets_sql or _nothing(chosen.table)} FROM m WHERE d.ctid = m._ctid"
    extra = [f"m.{alias}" for _, _, alias in chosen.variables]
    whole = Names([table_scope(c, chosen.table, name, pg) for name, pg in (("inserted", "new"), ("deleted", "old"))])
    plan = _chosen_plan(c, chosen, change, node.outputs, names, extra, whole)
    plan.assign = [(name, kind) for name, kind, _ in chosen.variables]
    return plan


def _nothing(table: TableInfo) -> str:
    column = next(each for each in table.columns if each.computed is None)
    return f"{quoted(column.pg)} = d.{quoted(column.pg)}"


def _returned(
    c: Compilation,
    variables: list[tuple[str, SqlType, nodes.Expr | None, ColumnInfo | None]],
    old: Scope,
) -> list[str]:
    parts = []
    for _, kind, expr, column in variables:
        if column is not None:
            value = Typed(f"new.{quoted(column.pg)}", column.type)
        else:
            assert expr is not None
            value = c.scalar(expr, Names([old]))
        parts.append(convert(value, kind, "assign").sql)
    return parts


def _choose(
    c: Compilation, node: nodes.Update | nodes.Delete, parent: Names | None, assignments: list[nodes.Assignment]
) -> _Chosen:
    """Build ``m``: the rows that the statement changes, with the values that it needs."""
    names = Names([], parent)
    sources, alias = _target_source(node)
    c.unread_target = "" if _reads(node) else alias
    from_sql = ", ".join(c.source(source, names, alias) for source in sources)
    scope = next((s for s in names.scopes if s.alias == alias), None)
    if scope is None or scope.table is None or not scope.ctid:
        raise SqlError(208, f"Invalid object name '{'.'.join(node.target)}'.", line=node.line)
    where = f" WHERE {c.predicate(node.where, names)}" if node.where is not None else ""
    check_seeks(sources, node.where, lambda name: hinted(c, name, names))
    chosen = _Chosen(scope.table, scope)
    parts = [f"{scope.ctid} AS _ctid"]
    sets, variables = assigned(c, assignments, as_shown(scope, scope.table), names)
    for i, (column, sql) in enumerate(sets):
        if sql == "DEFAULT":
            raise SqlError(40517, "SET column = DEFAULT with a join, CTE or TOP is not supported by fakemssql.")
        parts.append(f"{sql} AS v{i}")
        chosen.sets.append((column, f"v{i}"))
    for i, (name, kind, expr, own) in enumerate(variables):
        if own is not None:
            sql = convert(Typed(next(s for each, s in sets if each.pg == own.pg), own.type), kind, "assign").sql
        else:
            assert expr is not None
            sql = convert(c.scalar(expr, names), kind, "assign").sql
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
            chosen.computed = {fold(each.name): each for each in columns}
        else:
            chosen.others.append(Scope(each.alias, columns, None, each.exposed))
    limit = "" if node.top is None else f" LIMIT {row_count(c, node.top.value, Names([], parent))}"
    chosen.head = parts
    chosen.tail = f" FROM {from_sql}{where}{limit}"
    chosen.tail += "".join(lock.clause for lock in names.locks)
    return chosen


def _target_source(node: nodes.Update | nodes.Delete) -> tuple[list[nodes.Source], str]:
    """Return the items of FROM, with the target and its hints among them, and the target's folded alias."""
    target = node.target
    if not node.sources:
        if target[0].startswith("@"):
            return [nodes.VariableSource(target[0], target[0])], fold(target[0])
        return [nodes.TableSource(target, "", node.hints, node.line)], fold(target[-1])
    found: list[nodes.TableSource | nodes.VariableSource | nodes.QuerySource] = []

    def visit(source: nodes.Source) -> None:
        if isinstance(source, nodes.Join):
            visit(source.left)
            visit(source.right)
        elif isinstance(source, nodes.TableSource):
            exposed = source.alias or source.name[-1]
            if (len(target) == 1 and fold(exposed) == fold(target[0])) or fold(source.name[-1]) == fold(target[-1]):
                found.append(source)
        elif isinstance(source, nodes.VariableSource | nodes.QuerySource):
            named = isinstance(source, nodes.VariableSource) and source.name == target[0]
            if named or fold(source.alias) == fold(target[-1]):
                found.append(source)

    for source in node.sources:
        visit(source)
    exact = [each for each in found if fold(_exposed(each)) == fold(target[-1])]
    matches = exact or found
    if len(matches) > 1:
        raise SqlError(8154, f"The table '{target[-1]}' is ambiguous.")
    if not matches:
        return [nodes.TableSource(target, "", node.hints, node.line), *node.sources], fold(target[-1])
    match = matches[0]
    if isinstance(match, nodes.TableSource) and node.hints:
        match.hints = [*match.hints, *(h for h in node.hints if h not in match.hints)]
    return node.sources, fold(_exposed(match))


def _exposed(source: nodes.TableSource | nodes.VariableSource | nodes.QuerySource) -> str:
    """Return the name of an item of FROM inside the statement."""
    if isinstance(source, nodes.TableSource):
        return source.alias or source.name[-1]
    return source.alias


def _chosen_plan(
    c: Compilation,
    chosen: _Chosen,
    change: str,
    outputs: list[nodes.Output],
    names: Names,
    extra: list[str],
    whole: Names,
) -> Plan:
    plan = with_outputs(c, f"\x01\x00{change}", outputs, names, extra, whole, table=chosen.table)
    used = set(re.findall(r"\bm\.(x\d+)\b", plan.sql))
    parts = [*chosen.head, *(f"{sql} AS {name}" for name, sql in chosen.exports.items() if name in used)]
    select = f"SELECT {', '.join(parts)}{chosen.tail}"
    if c.statement == "update" and "SKIP LOCKED" in chosen.tail:
        # The lock of PostgreSQL's UPDATE is compatible with shared locks of others; an exclusive lock is not.
        select = f"SELECT m.* FROM ({select}) AS m JOIN {chosen.table.pg} AS d ON d.ctid = m._ctid FOR UPDATE OF d"
    plan.sql = pruned(c, plan.sql.replace("\x01", f"WITH m AS MATERIALIZED ({select}) ", 1))
    if " FOR " in chosen.tail and "SKIP LOCKED" not in chosen.tail and "NOWAIT" not in chosen.tail:
        # A row that another transaction changed during the wait has moved: wait first, then select again.
        plan.prelock = pruned(c, f"SELECT count(*) FROM ({select}) AS m")
    return plan


class _Chosen:
    """Rows that a statement changes: their SELECT, and the columns that ``m`` exports."""

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
        """Return ``inserted`` or ``deleted`` with the columns of the target, under the names that the target shows."""
        columns = []
        for column in self.target.columns:
            if column.origin:
                columns.append(column.with_(sql=f"{pg_alias}.{column.origin}", constant=None))
            else:
                columns.append(self.computed[fold(column.name)])
        return Scope(alias, columns, self.table)
