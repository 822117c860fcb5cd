"""Parsing of query expressions ("SELECT (Transact-SQL)")."""

from __future__ import annotations

from typing import Any

from fakemssql.tsql.parser import lexer, nodes
from fakemssql.tsql.parser.nodes import Query
from fakemssql.tsql.parser.sources import Sources

_ASSIGNMENTS = frozenset(["=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^="])


_QUERY_HINTS = frozenset(
    [
        "MAXDOP",
        "RECOMPILE",
        "OPTIMIZE",
        "FAST",
        "LOOP",
        "HASH",
        "MERGE",
        "ORDER",
        "CONCAT",
        "FORCE",
        "MAXRECURSION",
        "KEEP",
        "KEEPFIXED",
        "EXPAND",
        "USE",
        "QUERYTRACEON",
        "ROBUST",
        "PARAMETERIZATION",
        "IGNORE_NONCLUSTERED_COLUMNSTORE_INDEX",
        "NO_PERFORMANCE_SPOOL",
        "MIN_GRANT_PERCENT",
        "MAX_GRANT_PERCENT",
        "LABEL",
        "TABLE",
    ]
)


class Queries(Sources):
    """Adds query expressions."""

    def with_clause(self) -> list[nodes.Cte]:
        """``WITH a AS (...), b AS (...)`` or nothing."""
        ctes: list[nodes.Cte] = []
        if not self.accept("WITH"):
            return ctes
        if self.upper == "XMLNAMESPACES":
            self.unsupported("WITH XMLNAMESPACES")
        while True:
            name = self.identifier()
            columns = self.column_list() if self.is_op("(") else []
            self.expect("AS")
            self.expect_op("(")
            query = self.query()
            self.expect_op(")")
            ctes.append(nodes.Cte(name, columns, query))
            if not self.accept_op(","):
                return ctes

    def query(self, ctes: list[nodes.Cte] | None = None) -> Query:
        """A query expression with its ORDER BY, OFFSET, FOR and OPTION clauses."""
        if ctes is None:
            ctes = self.with_clause()
        query = Query(self._set_operations(), ctes)
        if self.upper == "ORDER":
            query.order = self.order_by()
            if self.accept("OFFSET"):
                query.offset = self.expression()
                if not self.accept_any("ROW", "ROWS"):
                    self.fail()
                if self.accept("FETCH"):
                    if not self.accept_any("FIRST", "NEXT"):
                        self.fail()
                    query.fetch = self.expression()
                    if not self.accept_any("ROW", "ROWS"):
                        self.fail()
                    self.expect("ONLY")
        if self.upper == "FOR" and self.peek().upper in ("XML", "JSON", "BROWSE"):
            self.unsupported(f"FOR {self.peek().upper}")
        self.option_clause()
        return query

    def option_clause(self) -> None:
        """``OPTION (...)``: hints for SQL Server's optimizer; results do not depend on them."""
        if not self.accept("OPTION"):
            return
        if self.peek().upper not in _QUERY_HINTS:
            self.fail(self.peek())
        self.skip_parentheses()

    def _set_operations(self) -> Any:
        left = self._intersections()
        while self.upper in ("UNION", "EXCEPT"):
            op = self.next().upper.lower()
            if op == "union" and self.accept("ALL"):
                op = "union all"
            left = nodes.SetOperation(op, left, self._intersections())
        return left

    def _intersections(self) -> Any:
        left = self._query_primary()
        while self.accept("INTERSECT"):
            left = nodes.SetOperation("intersect", left, self._query_primary())
        return left

    def _query_primary(self) -> Any:
        if self.accept_op("("):
            inner = self.query([])
            self.expect_op(")")
            return inner
        if self.upper == "VALUES":
            return self.values()
        return self._select()

    def values(self) -> nodes.Values:
        self.expect("VALUES")
        rows = []
        while True:
            self.expect_op("(")
            row = [self.expression()]
            while self.accept_op(","):
                row.append(self.expression())
            self.expect_op(")")
            rows.append(row)
            if not self.accept_op(","):
                return nodes.Values(rows)

    def top(self) -> nodes.Top | None:
        if not self.accept("TOP"):
            return None
        if self.accept_op("("):
            value = self.expression()
            self.expect_op(")")
        else:
            token = self.next()
            if token.kind == lexer.VARIABLE:
                value = nodes.Variable(token.value.lower())
            elif token.kind == lexer.NUMBER:
                value = self._number(token.value)
            else:
                self.fail(token)
        percent = self.accept("PERCENT")
        ties = False
        if self.upper == "WITH" and self.peek().upper == "TIES":
            self.expect("WITH", "TIES")
            ties = True
        return nodes.Top(value, percent, ties)

    def _select(self) -> nodes.Select:
        token = self.expect("SELECT")
        select = nodes.Select([], line=token.line)
        select.distinct = self.accept_any("DISTINCT", "ALL") == "DISTINCT"
        select.top = self.top()
        while True:
            select.items.append(self.select_item(assign=True))
            if not self.accept_op(","):
                break
        if self.accept("INTO"):
            select.into = self.name()
        if self.accept("FROM"):
            select.sources = self.sources()
        if self.accept("WHERE"):
            select.where = self.predicate()
        if self.accept("GROUP"):
            self.expect("BY")
            if self.upper in ("ROLLUP", "CUBE", "GROUPING") and self.peek().value in ("(", "SETS"):
                self.unsupported("GROUP BY ROLLUP, CUBE and GROUPING SETS")
            self.accept("ALL")
            select.group.append(self.expression())
            while self.accept_op(","):
                select.group.append(self.expression())
            if self.upper == "WITH" and self.peek().upper in ("ROLLUP", "CUBE"):
                self.unsupported("GROUP BY ... WITH ROLLUP and CUBE")
        if self.accept("HAVING"):
            select.having = self.predicate()
        if self.upper == "WINDOW":
            self.unsupported("The WINDOW clause")
        return select

    def select_item(self, assign: bool = False) -> nodes.SelectItem:
        """One item of a SELECT or OUTPUT list."""
        token = self.token
        if self.accept_op("*"):
            return nodes.SelectItem(nodes.Star(()))
        following = self.peek()
        operator = following.value if following.kind == lexer.OPERATOR else ""
        if assign and token.kind == lexer.VARIABLE and operator in _ASSIGNMENTS:
            variable = self.variable()
            self.next()
            return nodes.SelectItem(self.expression(), variable=variable, op=operator)
        if operator == "=" and (self.is_identifier(token) or token.kind in (lexer.STRING, lexer.NSTRING)):
            self.next()
            self.next()
            return nodes.SelectItem(self.expression(), alias=str(token.value))
        value = self.expression()
        return nodes.SelectItem(value, alias=self.alias(strings=True))
