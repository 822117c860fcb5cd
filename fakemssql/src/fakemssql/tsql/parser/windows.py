"""Parsing of ORDER BY and of windows: OVER, its order and its frame ("OVER clause")."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fakemssql.contract import SqlError
from fakemssql.tsql.parser import lexer, nodes
from fakemssql.tsql.parser.cursor import Cursor

if TYPE_CHECKING:
    from fakemssql.tsql.parser.nodes import Expr, OrderItem


def _places(bound: str) -> int:
    """Where a bound of a window lies: -2 for the first row, 0 for the current one, 2 for the last."""
    size, _, side = bound.partition(" ")
    if size == "CURRENT":
        return 0
    return (2 if size == "UNBOUNDED" else 1) * (-1 if side == "PRECEDING" else 1)


class Windows(Cursor):
    """Adds orders and windows to a cursor."""

    def expression(self) -> Expr:
        raise NotImplementedError

    def over(self) -> nodes.Window:
        self.expect("OVER")
        if not self.is_op("("):
            self.unsupported("A named window")
        self.expect_op("(")
        if self.is_identifier() and self.upper not in ("PARTITION", "ROWS", "RANGE"):
            self.unsupported("A named window")
        partition: list[Expr] = []
        if self.accept("PARTITION", "BY"):
            partition.append(self.expression())
            while self.accept_op(","):
                partition.append(self.expression())
        order = self.order_by() if self.upper == "ORDER" else []
        frame = ""
        if self.upper in ("ROWS", "RANGE"):
            frame = self._frame(bool(order))
        self.expect_op(")")
        return nodes.Window(partition, order, frame)

    def _frame(self, ordered: bool) -> str:
        token = self.next()
        if not ordered:
            raise SqlError(
                10756, "Window frame with ROWS or RANGE must have an ORDER BY clause.", severity=15, line=token.line
            )
        between = self.accept("BETWEEN")
        bounds = [self._bound()]
        if between:
            self.expect("AND")
            bounds.append(self._bound())
        if token.upper == "RANGE" and any(bound[0].isdigit() for bound in bounds):
            raise SqlError(
                4194,
                "RANGE is only supported with UNBOUNDED and CURRENT ROW window frame delimiters.",
                line=token.line,
            )
        places = [_places(bound) for bound in [*bounds, "CURRENT ROW"][:2]]
        if places[0] == 2 or places[1] == -2 or places[0] > places[1]:
            raise SqlError(4193, f"'{' AND '.join(bounds)}' is not a valid window frame.", line=token.line)
        return f"{token.upper} BETWEEN {' AND '.join(bounds)}" if between else f"{token.upper} {bounds[0]}"

    def _bound(self) -> str:
        if self.accept("CURRENT", "ROW"):
            return "CURRENT ROW"
        if not self.accept("UNBOUNDED") and not (self.token.kind == lexer.NUMBER and self.token.value.isdigit()):
            self.fail()
        size = "UNBOUNDED" if self.peek(-1).upper == "UNBOUNDED" else str(self.next().value)
        side = self.accept_any("PRECEDING", "FOLLOWING")
        if not side:
            self.fail()
        return f"{size} {side}"

    def order_by(self) -> list[OrderItem]:
        """``ORDER BY`` and its items."""
        self.expect("ORDER", "BY")
        items = []
        while True:
            value = self.expression()
            descending = self.accept_any("ASC", "DESC") == "DESC"
            items.append(nodes.OrderItem(value, descending))
            if not self.accept_op(","):
                return items
