"""Parsing of expressions and predicates ("Expressions (Transact-SQL)", "Operator precedence")."""

from __future__ import annotations

from collections.abc import Callable

from fakemssql.tsql.parser import lexer, nodes
from fakemssql.tsql.parser.lexer import syntax_error
from fakemssql.tsql.parser.nodes import Expr, Query
from fakemssql.tsql.parser.parser import Parser
from fakemssql.tsql.parser.terms import COMPARISONS, is_condition, operand, scalar

_SAME = {"!=": "<>", "!<": ">=", "!>": "<="}
"""Comparison operators with a second spelling; the tree has the second one."""

# --- Values ----------------------------------------------------------------------------------------------------------


def expression(p: Parser) -> Expr:
    """Parse a scalar expression; a comparison or AND, OR, NOT ends it."""
    return scalar(p, _sum(p))


def expression_or_star(p: Parser) -> Expr:
    """Parse an item of a SELECT list: a scalar expression, or ``t.*``."""
    value = _sum(p)
    return value if isinstance(value, nodes.Star) else scalar(p, value)


def _sum(p: Parser) -> Expr:
    left = _product(p)
    while True:
        token = p.token
        if token.kind == lexer.OPERATOR and token.value in ("+", "-", "&", "|", "^"):
            p.next()
            left = nodes.Binary(token.value, scalar(p, left), scalar(p, _product(p)))
        elif token.upper == "COLLATE":
            p.next()
            left = nodes.Collate(scalar(p, left), p.identifier())
        elif token.upper == "AT" and p.peek().upper == "TIME":
            p.unsupported("AT TIME ZONE")
        else:
            return left


def _product(p: Parser) -> Expr:
    left = operand(p)
    while p.token.kind == lexer.OPERATOR and p.token.value in ("*", "/", "%"):
        op = p.next().value
        left = nodes.Binary(op, scalar(p, left), scalar(p, operand(p)))
    return left


# --- Conditions ------------------------------------------------------------------------------------------------------


def condition(p: Parser) -> Expr:
    """Parse a search condition. Error 4145 for a value."""
    return _truth(p, predicate(p))


def predicate(p: Parser) -> Expr:
    """Parse a search condition, or a value in parentheses."""
    return _joined(p, "OR", _conjunction)


def _truth(p: Parser, value: Expr) -> Expr:
    if not is_condition(value):
        token = p.token if p.token.kind != lexer.END else p.peek(-1)
        raise syntax_error(
            4145,
            "An expression of non-boolean type specified in a context where a condition is expected, near"
            f" '{p.text[token.start : token.end]}'.",
            line=token.line,
        )
    return value


def _conjunction(p: Parser) -> Expr:
    return _joined(p, "AND", _negation)


def _joined(p: Parser, word: str, part: Callable[[Parser], Expr]) -> Expr:
    """Parse conditions with AND or OR between them, or a single condition or value."""
    left = part(p)
    while p.upper == word:
        _truth(p, left)
        p.next()
        left = nodes.Binary(word.lower(), left, _truth(p, part(p)))
    return left


def _negation(p: Parser) -> Expr:
    if p.accept("NOT"):
        return nodes.Unary("not", _truth(p, _negation(p)))
    return _comparison(p)


def _comparison(p: Parser) -> Expr:
    test = _TESTS.get(p.upper)
    if test is not None and p.peek().value == "(":
        return test(p)
    left = _sum(p)
    if is_condition(left):
        return left
    scalar(p, left)
    token = p.token
    if token.kind == lexer.OPERATOR and token.value in COMPARISONS:
        p.next()
        op = _SAME.get(token.value, token.value)
        if p.upper in ("ALL", "ANY", "SOME") and p.peek().value == "(":
            p.unsupported("A comparison with ALL, ANY or SOME")
        return nodes.Binary(op, left, expression(p))
    negated = token.upper == "NOT" and p.peek().upper in _NEGATED
    if negated:
        p.next()
    relation = _RELATIONS.get(p.upper)
    if relation is None:
        return left
    p.next()
    return relation(p, left, negated)


def _exists(p: Parser) -> Expr:
    p.expect("EXISTS")
    return nodes.Exists(_subquery(p))


def _updated(p: Parser) -> Expr:
    p.expect("UPDATE")
    return nodes.Updated(p.in_parentheses(Parser.identifier))


def _subquery(p: Parser) -> Query:
    return p.in_parentheses(lambda p: p.nested_query())


def _in(p: Parser, left: Expr, negated: bool) -> Expr:
    if p.query_ahead():
        return nodes.In(left, None, _subquery(p), negated)
    return nodes.In(left, p.list_in_parentheses(expression), None, negated)


def _like(p: Parser, left: Expr, negated: bool) -> Expr:
    pattern = expression(p)
    if p.is_op("{"):
        p.unsupported("An ODBC escape")
    return nodes.Like(left, pattern, expression(p) if p.accept("ESCAPE") else None, negated)


def _between(p: Parser, left: Expr, negated: bool) -> Expr:
    low = expression(p)
    p.expect("AND")
    return nodes.Between(left, low, expression(p), negated)


def _is(p: Parser, left: Expr, _: bool) -> Expr:
    negated = p.accept("NOT")
    if p.upper == "DISTINCT":
        p.unsupported("IS DISTINCT FROM")
    p.expect("NULL")
    return nodes.IsNull(left, negated)


_TESTS: dict[str, Callable[[Parser], Expr]] = {"EXISTS": _exists, "UPDATE": _updated}
"""Rules of conditions that begin with a word and a parenthesis."""

_RELATIONS: dict[str, Callable[[Parser, Expr, bool], Expr]] = {
    "IN": _in,
    "LIKE": _like,
    "BETWEEN": _between,
    "IS": _is,
}
"""Rules of conditions on the value before them, by their word. NOT may precede those of ``_NEGATED``."""

_NEGATED = ("IN", "LIKE", "BETWEEN")
