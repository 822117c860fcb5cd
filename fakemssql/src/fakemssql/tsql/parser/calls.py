"""Parsing of function calls, with ORDER BY and OVER; CAST and CONVERT have a grammar of their own."""

from __future__ import annotations

from collections.abc import Callable

from fakemssql.contract import SqlError
from fakemssql.tsql.parser import nodes
from fakemssql.tsql.parser.lexer import syntax_error
from fakemssql.tsql.parser.nodes import Expr, Name, OrderItem
from fakemssql.tsql.parser.parser import Parser
from fakemssql.tsql.parser.types import data_type

_COUNTS = {"COALESCE": (2, 1_000), "NULLIF": (2, 2), "IIF": (3, 3)}
"""The least and the greatest number of arguments, for functions that the grammar knows."""


def call(p: Parser, name: Name, line: int) -> nodes.Function:
    """Parse the part of a function call behind its name: arguments and OVER."""
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
    """Return a function whose name is a reserved word."""
    token = p.next()
    if p.peek().value == "*":
        p.fail(p.peek())
    return call(p, (token.value,), token.line)


CALLS: dict[str, Callable[[Parser], Expr]] = {
    **dict.fromkeys(["CAST", "TRY_CAST"], _cast),
    **dict.fromkeys(["CONVERT", "TRY_CONVERT"], _convert),
    "PARSE": Parser.refusing("PARSE"),
    "TRY_PARSE": Parser.refusing("TRY_PARSE"),
    **dict.fromkeys(["COALESCE", "NULLIF", "LEFT", "RIGHT"], _reserved),
    "IDENTITY": Parser.refusing("The function IDENTITY"),
}
"""Rules of calls that are not like those of other functions, by the word before the parenthesis."""


def order_by(p: Parser) -> list[OrderItem]:
    """``ORDER BY`` and its items."""
    p.expect("ORDER", "BY")
    return p.list_of(_order_item)


def _order_item(p: Parser) -> OrderItem:
    return OrderItem(p.expression(), p.accept_any("ASC", "DESC") == "DESC")


def over(p: Parser) -> nodes.Window:
    p.expect("OVER")
    if not p.is_op("("):
        p.unsupported("A named window")
    p.expect_op("(")
    if p.is_identifier() and p.upper not in ("PARTITION", "ROWS", "RANGE"):
        p.unsupported("A named window")
    partition = p.list_of(lambda p: p.expression()) if p.accept("PARTITION", "BY") else []
    order = order_by(p) if p.upper == "ORDER" else []
    frame = ""
    if p.upper in ("ROWS", "RANGE"):
        frame = _frame(p, bool(order))
    p.expect_op(")")
    return nodes.Window(partition, order, frame)


def _frame(p: Parser, ordered: bool) -> str:
    token = p.next()
    if not ordered:
        raise syntax_error(10756, "Window frame with ROWS or RANGE must have an ORDER BY clause.", line=token.line)
    between = p.accept("BETWEEN")
    bounds = [_bound(p)]
    if between:
        p.expect("AND")
        bounds.append(_bound(p))
    if token.upper == "RANGE" and any(bound[0].isdigit() for bound in bounds):
        raise SqlError(
            4194, "RANGE is only supported with UNBOUNDED and CURRENT ROW window frame delimiters.", line=token.line
        )
    places = [_place(bound) for bound in [*bounds, "CURRENT ROW"][:2]]
    if places[0] == 2 or places[1] == -2 or places[0] > places[1]:
        raise SqlError(4193, f"'{' AND '.join(bounds)}' is not a valid window frame.", line=token.line)
    return f"{token.upper} BETWEEN {' AND '.join(bounds)}" if between else f"{token.upper} {bounds[0]}"


def _bound(p: Parser) -> str:
    if p.accept("CURRENT", "ROW"):
        return "CURRENT ROW"
    size = "UNBOUNDED" if p.accept("UNBOUNDED") else p.digits()
    return f"{size} {p.expect_any('PRECEDING', 'FOLLOWING')}"


def _place(bound: str) -> int:
    """Return the position of a bound of a window: -2 for the first row, 0 for the current row, 2 for the last row."""
    size, _, side = bound.partition(" ")
    if size == "CURRENT":
        return 0
    return (2 if size == "UNBOUNDED" else 1) * (-1 if side == "PRECEDING" else 1)
