"""Parsing of calls of functions, of those too that have a grammar of their own: CAST, CONVERT, TRIM, IIF."""

from __future__ import annotations

from collections.abc import Callable

from fakemssql.tsql.parser import nodes
from fakemssql.tsql.parser.nodes import Expr, Name
from fakemssql.tsql.parser.parser import Parser
from fakemssql.tsql.parser.types import data_type
from fakemssql.tsql.parser.windows import over

_COUNTS = {"COALESCE": (2, 1_000), "NULLIF": (2, 2), "IIF": (3, 3)}
"""The least and the highest number of arguments of functions that the grammar knows."""


def call(p: Parser, name: Name, line: int) -> nodes.Function:
    """What follows the name of a function: its arguments, WITHIN GROUP and OVER."""
    p.expect_op("(")
    function = nodes.Function(name, [], line=line)
    word = name[0].upper() if len(name) == 1 else ""
    if p.accept_op("*"):
        function.star = True
    elif not p.is_op(")"):
        if word == "TRIM" and p.upper in ("LEADING", "TRAILING", "BOTH"):
            p.unsupported(f"TRIM ({p.upper} ...)")
        function.distinct = p.accept_any("DISTINCT", "ALL") == "DISTINCT"
        function.args.append(p.condition() if word == "IIF" else p.expression())
        if word == "TRIM" and p.upper == "FROM":
            p.unsupported("TRIM ... FROM")
        while p.accept_op(","):
            function.args.append(p.expression())
    few, many = _COUNTS.get(word, (0, len(function.args)))
    if not few <= len(function.args) <= many:
        p.fail()
    p.expect_op(")")
    if p.upper == "WITHIN" and p.peek().upper == "GROUP":
        p.unsupported("WITHIN GROUP")
    if p.upper in ("IGNORE", "RESPECT") and p.peek().upper == "NULLS":
        p.unsupported(f"{p.upper} NULLS")
    if p.upper == "OVER":
        function.over = over(p)
    return function


def _cast(p: Parser) -> Expr:
    attempt = p.word() == "TRY_CAST"
    p.expect_op("(")
    value = p.expression()
    p.expect("AS")
    kind = data_type(p, declared=False)
    p.expect_op(")")
    return nodes.Cast(value, kind, attempt)


def _convert(p: Parser) -> Expr:
    attempt = p.word() == "TRY_CONVERT"
    p.expect_op("(")
    kind = data_type(p, declared=False)
    p.expect_op(",")
    value = p.expression()
    style = p.expression() if p.accept_op(",") else None
    p.expect_op(")")
    return nodes.Cast(value, kind, attempt, style)


def _reserved(p: Parser) -> Expr:
    """A function whose name is a reserved word."""
    token = p.next()
    if p.peek().value == "*":
        p.fail(p.peek())
    return call(p, (token.value,), token.line)


def _parse(p: Parser) -> Expr:
    p.unsupported(p.upper)


def _identity(p: Parser) -> Expr:
    p.unsupported("The function IDENTITY")


CALLS: dict[str, Callable[[Parser], Expr]] = {
    **dict.fromkeys(["CAST", "TRY_CAST"], _cast),
    **dict.fromkeys(["CONVERT", "TRY_CONVERT"], _convert),
    **dict.fromkeys(["PARSE", "TRY_PARSE"], _parse),
    **dict.fromkeys(["COALESCE", "NULLIF", "LEFT", "RIGHT"], _reserved),
    "IDENTITY": _identity,
}
"""What words read that are calls where a parenthesis follows them, and no names of functions as others are."""
