"""Parsing of query expressions ("SELECT (Transact-SQL)")."""

from __future__ import annotations

from fakemssql.tsql.parser import lexer, nodes
from fakemssql.tsql.parser.calls import order_by
from fakemssql.tsql.parser.expressions import condition, expression, expression_or_star
from fakemssql.tsql.parser.hints import option_clause
from fakemssql.tsql.parser.lexer import syntax_error
from fakemssql.tsql.parser.nodes import Query
from fakemssql.tsql.parser.parser import ASSIGNMENTS, Parser
from fakemssql.tsql.parser.sources import alias, from_clause
from fakemssql.tsql.parser.terms import number

_Body = nodes.Select | nodes.SetOperation | Query


def with_clause(p: Parser) -> list[nodes.Cte]:
    """``WITH a AS (...), b AS (...)`` or nothing."""
    if not p.accept("WITH"):
        return []
    if p.upper == "XMLNAMESPACES":
        p.unsupported("WITH XMLNAMESPACES")
    return p.list_of(_cte)


def _cte(p: Parser) -> nodes.Cte:
    name = p.identifier()
    columns = p.column_list() if p.is_op("(") else []
    p.expect("AS")
    return nodes.Cte(name, columns, p.in_parentheses(nested_query))


def query(p: Parser, ctes: list[nodes.Cte], *, alone: bool = False) -> Query:
    """Parse a query expression with its ORDER BY, OFFSET and OPTION clauses.

    ``alone``: the query is a statement, which may have INTO and may assign variables.
    """
    found = _ordered(p, ctes, alone)
    option_clause(p)
    return found


def nested_query(p: Parser) -> Query:
    """Parse a query expression inside another one or in a view. Error 1033 for ORDER BY without TOP or OFFSET."""
    line = p.token.line
    found = _ordered(p, [], False)
    body = found.body
    if found.order and found.offset is None and not (isinstance(body, nodes.Select) and body.top is not None):
        raise syntax_error(
            1033,
            "The ORDER BY clause is invalid in views, inline functions, derived tables, subqueries, and common table"
            " expressions, unless TOP, OFFSET or FOR XML is also specified.",
            line=line,
        )
    return found


def _ordered(p: Parser, ctes: list[nodes.Cte], alone: bool) -> Query:
    found = Query(_set_operations(p, alone), ctes)
    if p.upper == "ORDER":
        found.order = order_by(p)
        if p.accept("OFFSET"):
            found.offset = expression(p)
            p.expect_any("ROW", "ROWS")
            if p.accept("FETCH"):
                p.expect_any("FIRST", "NEXT")
                found.fetch = expression(p)
                p.expect_any("ROW", "ROWS")
                p.expect("ONLY")
    if p.upper == "FOR" and p.peek().upper in ("XML", "JSON", "BROWSE"):
        p.unsupported(f"FOR {p.peek().upper}")
    return found


def _set_operations(p: Parser, alone: bool) -> _Body:
    left: _Body = _intersections(p, alone)
    while p.upper in ("UNION", "EXCEPT"):
        op = p.next().upper.lower()
        if op == "union" and p.accept("ALL"):
            op = "union all"
        left = nodes.SetOperation(op, left, _intersections(p, False))
    return left


def _intersections(p: Parser, alone: bool) -> _Body:
    left: _Body = _select(p, alone)
    while p.accept("INTERSECT"):
        left = nodes.SetOperation("intersect", left, _select(p, False))
    return left


def top_clause(p: Parser, *, changing: bool = False) -> nodes.Top | None:
    """``TOP (n)`` or nothing; only SELECT may omit the parentheses."""
    if not p.accept("TOP"):
        return None
    if p.is_op("("):
        if p.peek().upper == "SELECT":
            p.unsupported("A subquery in TOP without parentheses of its own")
        value = p.in_parentheses(expression)
    else:
        token = p.next()
        if token.kind != lexer.NUMBER or changing:
            p.fail(token)
        value = number(token)
    if p.upper == "PERCENT":
        p.unsupported("TOP PERCENT")
    if p.upper == "WITH" and p.peek().upper == "TIES" and not changing:
        p.unsupported("TOP WITH TIES")
    return nodes.Top(value)


def _select(p: Parser, alone: bool) -> nodes.Select | Query:
    """Parse SELECT, or a query expression in parentheses."""
    if p.accept_op("("):
        inner = Query(_set_operations(p, False), [])
        p.expect_op(")")
        return inner
    token = p.expect("SELECT")
    select = nodes.Select([], line=token.line)
    select.distinct = p.accept_any("DISTINCT", "ALL") == "DISTINCT"
    select.top = top_clause(p)
    select.items = p.list_of(lambda p: select_item(p, assign=alone))
    if alone and p.accept("INTO"):
        select.into = p.name()
    select.sources = from_clause(p)
    if p.accept("WHERE"):
        select.where = condition(p)
    if p.accept("GROUP"):
        p.expect("BY")
        if p.upper in ("ROLLUP", "CUBE", "GROUPING") and p.peek().value in ("(", "SETS"):
            p.unsupported("GROUP BY ROLLUP, CUBE and GROUPING SETS")
        if p.upper == "ALL":
            p.unsupported("GROUP BY ALL")
        select.group = p.list_of(expression)
        if p.upper == "WITH" and p.peek().upper in ("ROLLUP", "CUBE"):
            p.unsupported("GROUP BY ... WITH ROLLUP and CUBE")
    if p.accept("HAVING"):
        select.having = condition(p)
    if p.upper == "WINDOW":
        p.unsupported("The WINDOW clause")
    return select


def select_item(p: Parser, *, assign: bool = False, renamed: bool = True) -> nodes.SelectItem:
    """Parse an item of a SELECT or OUTPUT list; ``renamed``: its name may precede it, with an equals sign."""
    token = p.token
    if p.accept_op("*"):
        return nodes.SelectItem(nodes.Star(()))
    following = p.peek()
    operator = following.value if following.kind == lexer.OPERATOR else ""
    if assign and token.kind == lexer.VARIABLE and operator in ASSIGNMENTS:
        variable = p.variable()
        p.next()
        return nodes.SelectItem(expression(p), variable=variable, op=operator)
    if renamed and operator == "=" and (p.is_identifier() or p.is_string()):
        p.next()
        p.next()
        return nodes.SelectItem(expression(p), alias=str(token.value))
    value = expression_or_star(p)
    if isinstance(value, nodes.Star):
        return nodes.SelectItem(value)
    return nodes.SelectItem(value, alias=alias(p, strings=True, words=renamed))
