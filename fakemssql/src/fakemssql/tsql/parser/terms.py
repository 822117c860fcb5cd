"""Parsing of operands: constants, names, calls, CASE, parentheses, signs."""

from __future__ import annotations

from collections.abc import Callable

from fakemssql.contract import SqlError
from fakemssql.tsql.parser import lexer, nodes
from fakemssql.tsql.parser.calls import CALLS, call
from fakemssql.tsql.parser.lexer import Token
from fakemssql.tsql.parser.nodes import Expr
from fakemssql.tsql.parser.parser import Parser

COMPARISONS = frozenset(["=", "<>", "!=", "<", ">", "<=", ">=", "!<", "!>"])

_CONDITIONS = (
    nodes.Exists,
    nodes.In,
    nodes.Like,
    nodes.Between,
    nodes.IsNull,
    nodes.Updated,
)


def is_condition(value: Expr) -> bool:
    """Return whether an expression is a condition; in T-SQL a condition is not a value."""
    if isinstance(value, nodes.Binary):
        return value.op in COMPARISONS or value.op in ("and", "or")
    return isinstance(value, _CONDITIONS) or (isinstance(value, nodes.Unary) and value.op == "not")


def scalar(p: Parser, value: Expr) -> Expr:
    """Return ``value``; error 102 or 156 for a condition and for ``t.*``."""
    if is_condition(value) or isinstance(value, nodes.Star):
        p.fail(p.peek(-1))
    return value


def operand(p: Parser) -> Expr:
    token = p.token
    literal = LITERALS.get(token.kind)
    if literal is not None:
        p.next()
        value = literal(token)
    else:
        value = _rule(p, token)(p)
    if p.is_op(".") and not isinstance(value, nodes.Star):
        p.unsupported("A property or method of a value")
    return value


def _rule(p: Parser, token: Token) -> Callable[[Parser], Expr]:
    """Return the rule of an operand that begins with an operator or a word."""
    if token.kind == lexer.OPERATOR:
        return _OPERATORS.get(token.value) or p.fail()
    rule = _WORDS.get(token.upper)
    if rule is None and p.peek().value == "(":
        rule = CALLS.get(token.upper)
    return rule or _named


def constant(p: Parser) -> Expr:
    """Parse a literal, with a sign if it is a number, or a variable."""
    if p.is_op("-") and p.peek().kind in (lexer.NUMBER, lexer.MONEY):
        p.next()
        return nodes.Unary("-", operand(p))
    if p.token.kind not in LITERALS and p.upper != "NULL":
        p.fail()
    return operand(p)


def number(token: Token) -> Expr:
    text = token.value
    if "e" in text or "E" in text:
        return nodes.Literal("float", text.rstrip("eE+-"))  # 1e is 1e0
    if "." in text or int(text) > 2147483647:
        return nodes.Literal("numeric", text)
    return nodes.Literal("int", int(text))


def _signed(p: Parser) -> Expr:
    sign = p.next().value
    return nodes.Unary(sign, scalar(p, operand(p)))


def _parenthesised(p: Parser) -> Expr:
    p.expect_op("(")
    if p.query_ahead():
        mark = p.index
        try:
            query = p.nested_query()
            p.expect_op(")")
            return nodes.Subquery(query)
        except SqlError:
            if p.tokens[mark].upper == "SELECT":
                raise
            p.move(mark)
    inner = p.predicate()
    p.expect_op(")")
    return inner


def _without_schema(p: Parser) -> Expr:
    """``.t.a``: a name whose schema is omitted."""
    while p.accept_op("."):
        pass
    value = _named(p)
    if isinstance(value, nodes.Function):
        p.unsupported("A function's name that begins with a dot")
    if isinstance(value, nodes.Column) and len(value.name) < 2:
        p.fail(p.peek(-1))
    return value


def _named(p: Parser) -> Expr:
    """Parse a column, a function call, or ``t.*``."""
    line, quoted = p.token.line, p.token.kind == lexer.QUOTED
    parts = [p.identifier()]
    while p.accept_op("."):
        if p.accept_op("*"):
            return nodes.Star(tuple(parts))
        parts.append("" if p.is_op(".") else p.identifier())
    if p.is_op("(") and len(parts) <= 3:
        function = call(p, tuple(parts), line)
        if quoted and (function.star or function.over is not None):
            p.fail(p.peek(-1))
        return function
    if p.is_op("::"):
        p.unsupported("The :: operator")
    if len(parts) > 5 or (len(parts) > 1 and not parts[-2]):
        p.fail(p.peek(-1))
    return nodes.Column(tuple(parts), line)


def _case(p: Parser) -> Expr:
    p.expect("CASE")
    subject = None if p.upper == "WHEN" else p.expression()
    whens = []
    while p.accept("WHEN"):
        condition = p.condition() if subject is None else p.expression()
        p.expect("THEN")
        whens.append((condition, p.expression()))
    if not whens:
        p.fail()
    otherwise = p.expression() if p.accept("ELSE") else None
    p.expect("END")
    return nodes.Case(subject, whens, otherwise)


def _null(p: Parser) -> Expr:
    p.next()
    return nodes.Literal("null", None)


def _without_parentheses(p: Parser) -> Expr:
    """Parse a function that is called without parentheses."""
    token = p.next()
    return nodes.Function((token.value,), [], line=token.line)


def _action(p: Parser) -> Expr:
    return nodes.Column(("$action",), p.next().line)


def _next_value(p: Parser) -> Expr:
    if p.peek().upper == "VALUE" and p.peek(2).upper == "FOR":
        p.unsupported("A sequence")
    return _named(p)


LITERALS: dict[int, Callable[[Token], Expr]] = {
    lexer.NUMBER: number,
    lexer.STRING: lambda token: nodes.Literal("varchar", token.value),
    lexer.NSTRING: lambda token: nodes.Literal("nvarchar", token.value),
    lexer.BINARY: lambda token: nodes.Literal("binary", token.value),
    lexer.MONEY: lambda token: nodes.Literal("money", token.value),
    lexer.VARIABLE: lambda token: nodes.Variable(token.value.lower()),
}
"""Nodes of single tokens, by the kind of the token."""

_OPERATORS: dict[str, Callable[[Parser], Expr]] = {
    **dict.fromkeys(["+", "-", "~"], _signed),
    "(": _parenthesised,
    "{": Parser.refusing("An ODBC escape"),
    ".": _without_schema,
}

_WORDS: dict[str, Callable[[Parser], Expr]] = {
    **dict.fromkeys(["CURRENT_TIMESTAMP", "CURRENT_USER", "SESSION_USER", "SYSTEM_USER", "USER"], _without_parentheses),
    "NULL": _null,
    "CASE": _case,
    "NEXT": _next_value,
    "$ACTION": _action,
}
