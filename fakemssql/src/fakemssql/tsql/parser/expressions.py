"""Parsing of expressions and predicates ("Expressions (Transact-SQL)", "Operator precedence")."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fakemssql.tsql.parser import lexer, nodes
from fakemssql.tsql.parser.terms import Terms

if TYPE_CHECKING:
    from fakemssql.tsql.parser.nodes import Expr


_COMPARISONS = frozenset(["=", "<>", "!=", "<", ">", "<=", ">=", "!<", "!>"])


_NORMAL = {"!=": "<>", "!<": ">=", "!>": "<="}


class Expressions(Terms):
    """Adds expressions to a cursor."""

    def expression(self) -> Expr:
        """A scalar expression: comparison and logic end it."""
        left = self._term()
        while True:
            token = self.token
            if token.kind == lexer.OPERATOR and token.value in ("+", "-", "&", "|", "^"):
                self.index += 1
                left = nodes.Binary(token.value, left, self._term())
            elif token.upper == "COLLATE":
                self.index += 1
                left = nodes.Collate(left, self.identifier())
            elif token.upper == "AT" and self.peek().upper == "TIME":
                self.expect("AT", "TIME")
                if self.next().upper != "ZONE":
                    self.fail()
                left = nodes.AtTimeZone(left, self._term())
            else:
                return left

    def predicate(self) -> Expr:
        """A search condition (or, in parentheses, whatever it turns out to be)."""
        left = self._conjunction()
        while self.accept("OR"):
            left = nodes.Binary("or", left, self._conjunction())
        return left

    def _conjunction(self) -> Expr:
        left = self._negation()
        while self.accept("AND"):
            left = nodes.Binary("and", left, self._negation())
        return left

    def _negation(self) -> Expr:
        if self.accept("NOT"):
            return nodes.Unary("not", self._negation())
        return self._comparison()

    def _comparison(self) -> Expr:
        if self.upper == "EXISTS" and self.peek().value == "(":
            self.next()
            self.expect_op("(")
            query = self.query()
            self.expect_op(")")
            return nodes.Exists(query)
        if self.upper == "UPDATE" and self.peek().value == "(":
            self.next()
            self.expect_op("(")
            column = self.identifier()
            self.expect_op(")")
            return nodes.Updated(column)
        left = self.expression()
        while True:
            token = self.token
            if token.kind == lexer.OPERATOR and token.value in _COMPARISONS:
                self.index += 1
                op = _NORMAL.get(token.value, token.value)
                if self.upper in ("ALL", "ANY", "SOME") and self.peek().value == "(":
                    every = self.next().upper == "ALL"
                    self.expect_op("(")
                    query = self.query()
                    self.expect_op(")")
                    left = nodes.Quantified(op, left, every, query)
                else:
                    left = nodes.Binary(op, left, self.expression())
                continue
            negated = token.upper == "NOT" and self.peek().upper in ("IN", "LIKE", "BETWEEN")
            if negated:
                self.next()
            word = self.upper
            if word == "IN":
                self.next()
                left = self._in(left, negated)
            elif word == "LIKE":
                self.next()
                pattern = self.expression()
                escape = None
                if self.accept("ESCAPE"):
                    escape = self.expression()
                elif self.is_op("{") and self.peek().upper == "ESCAPE":
                    self.next()
                    self.next()
                    escape = self.expression()
                    self.expect_op("}")
                left = nodes.Like(left, pattern, escape, negated)
            elif word == "BETWEEN":
                self.next()
                low = self.expression()
                self.expect("AND")
                left = nodes.Between(left, low, self.expression(), negated)
            elif word == "IS":
                self.next()
                negated = self.accept("NOT")
                if self.accept("DISTINCT"):
                    self.expect("FROM")
                    left = nodes.IsDistinct(left, self.expression(), negated)
                else:
                    self.expect("NULL")
                    left = nodes.IsNull(left, negated)
            else:
                return left

    def _in(self, left: Expr, negated: bool) -> Expr:
        self.expect_op("(")
        if self._query_ahead():
            query = self.query()
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
            left = nodes.Binary(op, left, self._unary())
        return left

    def _unary(self) -> Expr:
        token = self.token
        if token.kind == lexer.OPERATOR and token.value in ("+", "-", "~"):
            self.index += 1
            return nodes.Unary(token.value, self._unary())
        return self._primary()
