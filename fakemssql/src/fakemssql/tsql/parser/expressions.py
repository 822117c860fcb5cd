"""Parsing of expressions and predicates ("Expressions (Transact-SQL)", "Operator precedence")."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fakemssql.contract import SqlError
from fakemssql.tsql.parser import lexer, nodes
from fakemssql.tsql.parser.terms import Terms

if TYPE_CHECKING:
    from fakemssql.tsql.parser.nodes import Expr, Query


_COMPARISONS = frozenset(["=", "<>", "!=", "<", ">", "<=", ">=", "!<", "!>"])


_NORMAL = {"!=": "<>", "!<": ">=", "!>": "<="}


_CONDITIONS = (
    nodes.Exists,
    nodes.In,
    nodes.Like,
    nodes.Between,
    nodes.IsNull,
    nodes.IsDistinct,
    nodes.Quantified,
    nodes.Updated,
)


def is_condition(value: Expr) -> bool:
    """Whether an expression is true or false, which in T-SQL no value is."""
    if isinstance(value, nodes.Binary):
        return value.op in _COMPARISONS or value.op in ("and", "or")
    return isinstance(value, _CONDITIONS) or (isinstance(value, nodes.Unary) and value.op == "not")


class Expressions(Terms):
    """Adds expressions to a cursor."""

    def expression(self) -> Expr:
        """A scalar expression: comparison and logic end it."""
        return self._scalar(self._sum())

    def _scalar(self, value: Expr) -> Expr:
        """A value that is no condition in parentheses, and not ``t.*``."""
        if is_condition(value) or isinstance(value, nodes.Star):
            self.fail(self.peek(-1))
        return value

    def expression_or_star(self) -> Expr:
        """What an item of a SELECT list may be: a scalar expression, or ``t.*``."""
        value = self._sum()
        return value if isinstance(value, nodes.Star) else self._scalar(value)

    def _sum(self) -> Expr:
        left = self._term()
        while True:
            token = self.token
            if token.kind == lexer.OPERATOR and token.value in ("+", "-", "&", "|", "^"):
                self.index += 1
                left = nodes.Binary(token.value, self._scalar(left), self._scalar(self._term()))
            elif token.upper == "COLLATE":
                self.index += 1
                left = nodes.Collate(self._scalar(left), self.identifier())
            elif token.upper == "AT" and self.peek().upper == "TIME":
                self.expect("AT", "TIME")
                if self.next().upper != "ZONE":
                    self.fail()
                left = nodes.AtTimeZone(self._scalar(left), self._scalar(self._term()))
            else:
                return left

    def predicate(self) -> Expr:
        """A search condition (or, in parentheses, whatever it turns out to be)."""
        left = self._conjunction()
        while self.upper == "OR":
            self._truth(left)
            self.next()
            left = nodes.Binary("or", left, self._truth(self._conjunction()))
        return left

    def condition(self) -> Expr:
        """A search condition. Error 4145 for a value."""
        return self._truth(self.predicate())

    def _truth(self, value: Expr) -> Expr:
        if not is_condition(value):
            token = self.token if self.token.kind != lexer.END else self.peek(-1)
            raise SqlError(
                4145,
                "An expression of non-boolean type specified in a context where a condition is expected, near"
                f" '{self.text[token.start : token.end]}'.",
                severity=15,
                line=token.line,
            )
        return value

    def _conjunction(self) -> Expr:
        left = self._negation()
        while self.upper == "AND":
            self._truth(left)
            self.next()
            left = nodes.Binary("and", left, self._truth(self._negation()))
        return left

    def _negation(self) -> Expr:
        if self.accept("NOT"):
            return nodes.Unary("not", self._truth(self._negation()))
        return self._comparison()

    def _comparison(self) -> Expr:
        if self.upper == "EXISTS" and self.peek().value == "(":
            self.next()
            return nodes.Exists(self._subquery())
        if self.upper == "UPDATE" and self.peek().value == "(":
            self.next()
            self.expect_op("(")
            column = self.identifier()
            self.expect_op(")")
            return nodes.Updated(column)
        left = self._sum()
        if is_condition(left):
            return left
        self._scalar(left)
        token = self.token
        if token.kind == lexer.OPERATOR and token.value in _COMPARISONS:
            self.index += 1
            op = _NORMAL.get(token.value, token.value)
            if self.upper in ("ALL", "ANY", "SOME") and self.peek().value == "(":
                every = self.next().upper == "ALL"
                return nodes.Quantified(op, left, every, self._subquery())
            return nodes.Binary(op, left, self.expression())
        negated = token.upper == "NOT" and self.peek().upper in ("IN", "LIKE", "BETWEEN")
        if negated:
            self.next()
        word = self.accept_any("IN", "LIKE", "BETWEEN", "IS")
        if word == "IN":
            return self._in(left, negated)
        if word == "LIKE":
            return self._like(left, negated)
        if word == "BETWEEN":
            low = self.expression()
            self.expect("AND")
            return nodes.Between(left, low, self.expression(), negated)
        if word == "IS":
            negated = self.accept("NOT")
            if self.accept("DISTINCT"):
                self.expect("FROM")
                return nodes.IsDistinct(left, self.expression(), negated)
            self.expect("NULL")
            return nodes.IsNull(left, negated)
        return left

    def _subquery(self) -> Query:
        self.expect_op("(")
        query = self.nested_query()
        self.expect_op(")")
        return query

    def _like(self, left: Expr, negated: bool) -> Expr:
        pattern = self.expression()
        escape = None
        if self.accept("ESCAPE"):
            escape = self.expression()
        elif self.is_op("{") and self.peek().upper == "ESCAPE":
            self.next()
            self.next()
            escape = self.expression()
            self.expect_op("}")
        return nodes.Like(left, pattern, escape, negated)

    def _in(self, left: Expr, negated: bool) -> Expr:
        self.expect_op("(")
        if self._query_ahead():
            query = self.nested_query()
            self.expect_op(")")
            return nodes.In(left, None, query, negated)
        items = [self.expression()]
        while self.accept_op(","):
            items.append(self.expression())
        self.expect_op(")")
        return nodes.In(left, items, None, negated)

    def _term(self) -> Expr:
        left = self._unary()
        while self.token.kind == lexer.OPERATOR and self.token.value in ("*", "/", "%"):
            op = self.next().value
            left = nodes.Binary(op, self._scalar(left), self._scalar(self._unary()))
        return left

    def _unary(self) -> Expr:
        token = self.token
        if token.kind == lexer.OPERATOR and token.value in ("+", "-", "~"):
            self.index += 1
            return nodes.Unary(token.value, self._scalar(self._unary()))
        return self._primary()
