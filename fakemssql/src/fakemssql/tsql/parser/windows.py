"""Parsing of ORDER BY and of windows: OVER, its order and its frame ("OVER clause")."""

from __future__ import annotations

from fakemssql.contract import SqlError
from fakemssql.tsql.parser import nodes
from fakemssql.tsql.parser.nodes import Expr, OrderItem
from fakemssql.tsql.parser.parser import Parser


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
    partition: list[Expr] = []
    if p.accept("PARTITION", "BY"):
        partition.append(p.expression())
        while p.accept_op(","):
            partition.append(p.expression())
    order = order_by(p) if p.upper == "ORDER" else []
    frame = ""
    if p.upper in ("ROWS", "RANGE"):
        frame = _frame(p, bool(order))
    p.expect_op(")")
    return nodes.Window(partition, order, frame)


def _frame(p: Parser, ordered: bool) -> str:
    token = p.next()
    if not ordered:
        raise SqlError(
            10756, "Window frame with ROWS or RANGE must have an ORDER BY clause.", severity=15, line=token.line
        )
    between = p.accept("BETWEEN")
    bounds = [_bound(p)]
    if between:
        p.expect("AND")
        bounds.append(_bound(p))
    if token.upper == "RANGE" and any(bound[0].isdigit() for bound in bounds):
        raise SqlError(
            4194,
            "RANGE is only supported with UNBOUNDED and CURRENT ROW window frame delimiters.",
            line=token.line,
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
    """Where a bound of a window lies: -2 for the first row, 0 for the current one, 2 for the last."""
    size, _, side = bound.partition(" ")
    if size == "CURRENT":
        return 0
    return (2 if size == "UNBOUNDED" else 1) * (-1 if side == "PRECEDING" else 1)
