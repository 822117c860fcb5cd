"""Parsing of query expressions ("SELECT (Transact-SQL)")."""

from __future__ import annotations

from typing import Any

from fakemssql.contract import SqlError
from fakemssql.tsql.parser import lexer, nodes
from fakemssql.tsql.parser.nodes import Query
from fakemssql.tsql.parser.sources import Sources

_ASSIGNMENTS = frozenset(["=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^="])


_QUERY_HINTS: dict[str, str | tuple[str, ...]] = {
    **dict.fromkeys(["MAXDOP", "FAST", "MAXRECURSION", "QUERYTRACEON"], "number"),
    **dict.fromkeys(["MIN_GRANT_PERCENT", "MAX_GRANT_PERCENT"], "number"),
    **dict.fromkeys(["RECOMPILE", "IGNORE_NONCLUSTERED_COLUMNSTORE_INDEX", "NO_PERFORMANCE_SPOOL"], ""),
    **dict.fromkeys(["OPTIMIZE", "USE", "LABEL", "TABLE"], "own"),
    **dict.fromkeys(["KEEP", "KEEPFIXED", "ROBUST"], ("PLAN",)),
    "LOOP": ("JOIN",),
    "HASH": ("JOIN", "GROUP", "UNION"),
    "MERGE": ("JOIN", "UNION"),
    "CONCAT": ("UNION",),
    "ORDER": ("GROUP",),
    "FORCE": ("ORDER",),
    "EXPAND": ("VIEWS",),
    "PARAMETERIZATION": ("SIMPLE", "FORCED"),
}
"""The first words of query hints and what may follow: a number, one of some words, or what its own method reads."""


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
            query = self.nested_query()
            self.expect_op(")")
            ctes.append(nodes.Cte(name, columns, query))
            if not self.accept_op(","):
                return ctes

    def query(self, ctes: list[nodes.Cte], *, alone: bool = False) -> Query:
        """A query expression with its ORDER BY, OFFSET, FOR and OPTION clauses.

        ``alone``: it is a statement, which may have INTO and give values to variables.
        """
        query = self._ordered(ctes, alone)
        self.option_clause()
        return query

    def nested_query(self) -> Query:
        """A query expression in another one or in a view, whose order means nothing. Error 1033."""
        line = self.token.line
        query = self._ordered([], False)
        body = query.body
        if query.order and query.offset is None and not (isinstance(body, nodes.Select) and body.top is not None):
            raise SqlError(
                1033,
                "The ORDER BY clause is invalid in views, inline functions, derived tables, subqueries, and common"
                " table expressions, unless TOP, OFFSET or FOR XML is also specified.",
                severity=15,
                line=line,
            )
        return query

    def _ordered(self, ctes: list[nodes.Cte], alone: bool) -> Query:
        query = Query(self._set_operations(alone), ctes)
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
        return query

    def option_clause(self) -> None:
        """``OPTION (...)``: hints for SQL Server's optimizer; results do not depend on them."""
        if not self.accept("OPTION"):
            return
        self.expect_op("(")
        while True:
            self._query_hint()
            if not self.accept_op(","):
                break
        self.expect_op(")")

    def _query_hint(self) -> None:
        word = self._word()
        if word not in _QUERY_HINTS:
            self.fail(self.peek(-1))
        kind = _QUERY_HINTS[word]
        if kind == "number":
            self.accept_op("=") if word.endswith("_PERCENT") else None
            if self.token.kind != lexer.NUMBER:
                self.fail()
            self.next()
        elif isinstance(kind, tuple) and not self.accept_any(*kind):
            self.fail()
        elif word == "USE":
            self._use_hint()
        elif word == "OPTIMIZE":
            self.expect("FOR")
            if not self.accept("UNKNOWN"):
                self._assumed_values()
        elif word == "LABEL":
            self.expect_op("=")
            self._string()
        elif word == "TABLE":
            self.unsupported("OPTION (TABLE HINT ...)")

    def _word(self) -> str:
        """One word of a clause, reserved or not."""
        token = self.next()
        if token.kind != lexer.WORD:
            self.fail(token)
        return token.upper

    def _string(self) -> str:
        token = self.next()
        if token.kind not in (lexer.STRING, lexer.NSTRING):
            self.fail(token)
        return str(token.value)

    def _use_hint(self) -> None:
        if self.upper == "PLAN":
            self.unsupported("OPTION (USE PLAN)")
        self.expect("HINT")
        self.expect_op("(")
        self._string()
        while self.accept_op(","):
            self._string()
        self.expect_op(")")

    def _assumed_values(self) -> None:
        """``(@a = 1, @b UNKNOWN)``."""
        self.expect_op("(")
        while True:
            self.variable()
            if not self.accept("UNKNOWN"):
                self.expect_op("=")
                self.constant()
            if not self.accept_op(","):
                break
        self.expect_op(")")

    def _set_operations(self, alone: bool) -> Any:
        left = self._intersections(alone)
        while self.upper in ("UNION", "EXCEPT"):
            op = self.next().upper.lower()
            if op == "union" and self.accept("ALL"):
                op = "union all"
            left = nodes.SetOperation(op, left, self._intersections(False))
        return left

    def _intersections(self, alone: bool) -> Any:
        left = self._query_primary(alone)
        while self.accept("INTERSECT"):
            left = nodes.SetOperation("intersect", left, self._query_primary(False))
        return left

    def _query_primary(self, alone: bool) -> Any:
        if self.accept_op("("):
            inner = Query(self._set_operations(False), [])
            self.expect_op(")")
            return inner
        return self._select(alone)

    def new_value(self) -> nodes.Expr:
        """What a column is given: an expression or DEFAULT."""
        return nodes.Literal("default", None) if self.accept("DEFAULT") else self.expression()

    def values(self, *, new: bool = True) -> nodes.Values:
        """``VALUES (1, 2), (3, 4)``; with ``new`` they are given to columns, which may have defaults."""
        self.expect("VALUES")
        value = self.new_value if new else self.expression
        rows = []
        while True:
            self.expect_op("(")
            row = [value()]
            while self.accept_op(","):
                row.append(value())
            self.expect_op(")")
            rows.append(row)
            if not self.accept_op(","):
                return nodes.Values(rows)

    def top(self, *, changing: bool = False) -> nodes.Top | None:
        """``TOP (n)``, whose parentheses only SELECT may leave out."""
        if not self.accept("TOP"):
            return None
        if self.accept_op("("):
            value = self.expression()
            self.expect_op(")")
        else:
            token = self.next()
            if token.kind != lexer.NUMBER or changing:
                self.fail(token)
            value = self._number(token.value)
        percent = self.accept("PERCENT")
        ties = False
        if self.upper == "WITH" and self.peek().upper == "TIES" and not changing:
            self.expect("WITH", "TIES")
            ties = True
        return nodes.Top(value, percent, ties)

    def _select(self, alone: bool) -> nodes.Select:
        token = self.expect("SELECT")
        select = nodes.Select([], line=token.line)
        select.distinct = self.accept_any("DISTINCT", "ALL") == "DISTINCT"
        select.top = self.top()
        while True:
            select.items.append(self.select_item(assign=alone))
            if not self.accept_op(","):
                break
        if alone and self.accept("INTO"):
            select.into = self.name()
        if self.accept("FROM"):
            select.sources = self.sources()
        if self.accept("WHERE"):
            select.where = self.condition()
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
            select.having = self.condition()
        if self.upper == "WINDOW":
            self.unsupported("The WINDOW clause")
        return select

    def select_item(self, assign: bool = False, renamed: bool = True) -> nodes.SelectItem:
        """One item of a SELECT or OUTPUT list; ``renamed``: its name may stand in front, with an equals sign."""
        token = self.token
        if self.accept_op("*"):
            return nodes.SelectItem(nodes.Star(()))
        following = self.peek()
        operator = following.value if following.kind == lexer.OPERATOR else ""
        if assign and token.kind == lexer.VARIABLE and operator in _ASSIGNMENTS:
            variable = self.variable()
            self.next()
            return nodes.SelectItem(self.expression(), variable=variable, op=operator)
        if renamed and operator == "=" and (self.is_identifier(token) or token.kind in (lexer.STRING, lexer.NSTRING)):
            self.next()
            self.next()
            return nodes.SelectItem(self.expression(), alias=str(token.value))
        value = self.expression_or_star()
        if isinstance(value, nodes.Star):
            return nodes.SelectItem(value)
        return nodes.SelectItem(value, alias=self.alias(strings=True, words=renamed))
