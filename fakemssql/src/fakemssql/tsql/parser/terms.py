"""Parsing of what stands between operators: constants, names, calls, CASE, CAST, windows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fakemssql.contract import SqlError
from fakemssql.tsql.parser import lexer, nodes
from fakemssql.tsql.parser.cursor import Cursor
from fakemssql.tsql.parser.keywords import RESERVED
from fakemssql.types import SqlType

if TYPE_CHECKING:
    from fakemssql.tsql.parser.nodes import Expr, OrderItem, Query


_BARE_FUNCTIONS = frozenset(["CURRENT_TIMESTAMP", "CURRENT_USER", "SESSION_USER", "SYSTEM_USER", "USER"])


_RESERVED_FUNCTIONS = frozenset(["COALESCE", "NULLIF", "LEFT", "RIGHT", "CONVERT", "TRY_CONVERT", "IDENTITY"])


class Terms(Cursor):
    """Adds the operands of expressions to a cursor."""

    def query(self) -> Query:
        raise NotImplementedError

    def _query_ahead(self) -> bool:
        """Whether a query expression starts here, perhaps behind parentheses."""
        ahead = 0
        while self.peek(ahead).kind == lexer.OPERATOR and self.peek(ahead).value == "(":
            ahead += 1
        return self.peek(ahead).upper in ("SELECT", "WITH")

    def expression(self) -> Expr:
        raise NotImplementedError

    def predicate(self) -> Expr:
        raise NotImplementedError

    def _primary(self) -> Expr:
        token = self.token
        kind = token.kind
        if kind == lexer.NUMBER:
            self.index += 1
            return self._number(token.value)
        if kind in (lexer.STRING, lexer.NSTRING):
            self.index += 1
            return nodes.Literal("varchar" if kind == lexer.STRING else "nvarchar", token.value)
        if kind == lexer.BINARY:
            self.index += 1
            return nodes.Literal("binary", token.value)
        if kind == lexer.MONEY:
            self.index += 1
            return nodes.Literal("money", token.value)
        if kind == lexer.VARIABLE:
            self.index += 1
            return nodes.Variable(token.value.lower())
        if kind == lexer.OPERATOR:
            if token.value == "(":
                return self._parenthesised()
            if token.value == "{":
                return self._escape()
            self.fail()
        word = token.upper
        if word == "NULL":
            self.index += 1
            return nodes.Literal("null", None)
        if word == "DEFAULT":
            self.index += 1
            return nodes.Literal("default", None)
        if word == "CASE":
            return self._case()
        if word in ("CAST", "TRY_CAST") and self.peek().value == "(":
            return self._cast(word == "TRY_CAST")
        if word in ("CONVERT", "TRY_CONVERT") and self.peek().value == "(":
            return self._convert(word == "TRY_CONVERT")
        if word in _BARE_FUNCTIONS:
            self.index += 1
            return nodes.Function((token.value,), [], line=token.line)
        if word == "NEXT" and self.peek().upper == "VALUE" and self.peek(2).upper == "FOR":
            self.unsupported("A sequence")
        if word in ("PARSE", "TRY_PARSE") and self.peek().value == "(":
            self.unsupported(word)
        if word in _RESERVED_FUNCTIONS and self.peek().value == "(":
            self.index += 1
            return self._call((token.value,), token.line)
        if word == "$ACTION":
            self.index += 1
            return nodes.Column(("$action",), token.line)
        if not self.is_identifier():
            self.fail()
        return self._named()

    @staticmethod
    def _number(text: str) -> Expr:
        if "e" in text or "E" in text:
            return nodes.Literal("float", text)
        if "." in text or int(text) > 2147483647:
            return nodes.Literal("numeric", text)
        return nodes.Literal("int", int(text))

    def _parenthesised(self) -> Expr:
        self.expect_op("(")
        if self._query_ahead():
            mark = self.index
            try:
                query = self.query()
                self.expect_op(")")
                return nodes.Subquery(query)
            except SqlError:
                if self.tokens[mark].upper in ("SELECT", "WITH"):
                    raise
                self.index = mark
        inner = self.predicate()
        self.expect_op(")")
        return inner

    def _escape(self) -> Expr:
        """ODBC escapes: ``{fn f(x)}``, ``{d '..'}``, ``{t '..'}``, ``{ts '..'}``, ``{guid '..'}``."""
        self.expect_op("{")
        word = self.next().upper
        if word == "FN":
            inner = self.expression()
        elif word in ("D", "T", "TS", "GUID") and self.token.kind in (lexer.STRING, lexer.NSTRING):
            target = {"D": "datetime", "T": "datetime", "TS": "datetime", "GUID": "uniqueidentifier"}[word]
            inner = nodes.Cast(nodes.Literal("varchar", self.next().value), SqlType(target))
        else:
            self.fail()
        self.expect_op("}")
        return inner

    def _case(self) -> Expr:
        self.expect("CASE")
        operand = None if self.upper == "WHEN" else self.expression()
        whens = []
        while self.accept("WHEN"):
            condition = self.predicate() if operand is None else self.expression()
            self.expect("THEN")
            whens.append((condition, self.expression()))
        if not whens:
            self.fail()
        otherwise = self.expression() if self.accept("ELSE") else None
        self.expect("END")
        return nodes.Case(operand, whens, otherwise)

    def _cast(self, attempt: bool) -> Expr:
        self.next()
        self.expect_op("(")
        value = self.expression()
        self.expect("AS")
        kind = self.type(declared=False)
        self.expect_op(")")
        return nodes.Cast(value, kind, attempt)

    def _convert(self, attempt: bool) -> Expr:
        self.next()
        self.expect_op("(")
        kind = self.type(declared=False)
        self.expect_op(",")
        value = self.expression()
        style = self.expression() if self.accept_op(",") else None
        self.expect_op(")")
        return nodes.Cast(value, kind, attempt, style)

    def _named(self) -> Expr:
        """A column, a function call, or ``t.*``."""
        line = self.token.line
        parts = [self.identifier()]
        while self.is_op("."):
            self.next()
            if self.accept_op("*"):
                return nodes.Star(tuple(parts))
            if self.is_op("."):
                parts.append("")
                continue
            token = self.token
            if token.kind == lexer.WORD and token.upper in RESERVED and self.peek().value == "(":
                self.index += 1
                parts.append(token.value)
            else:
                parts.append(self.identifier())
        if self.is_op("(") and len(parts) <= 3:
            return self._call(tuple(parts), line)
        if self.is_op("::"):
            self.unsupported("The :: operator")
        return nodes.Column(tuple(parts), line)

    def _call(self, name: tuple[str, ...], line: int) -> Expr:
        self.expect_op("(")
        call = nodes.Function(name, [], line=line)
        word = name[-1].upper()
        if self.accept_op("*"):
            call.star = True
        elif word == "TRIM" and len(name) == 1:
            self._trim(call)
        elif not self.is_op(")"):
            if self.accept("DISTINCT"):
                call.distinct = True
            else:
                self.accept("ALL")
            while True:
                call.args.append(self.predicate())
                if not self.accept_op(","):
                    break
        self.expect_op(")")
        if self.upper == "WITHIN" and self.peek().upper == "GROUP":
            self.expect("WITHIN", "GROUP")
            self.expect_op("(")
            call.within = self.order_by()
            self.expect_op(")")
        if self.upper in ("IGNORE", "RESPECT") and self.peek().upper == "NULLS":
            self.unsupported(f"{self.upper} NULLS")
        if self.upper == "OVER":
            call.over = self._over()
        return call

    def _trim(self, call: nodes.Function) -> None:
        side = self.accept_any("LEADING", "TRAILING", "BOTH")
        first = self.expression()
        if self.accept("FROM"):
            call.args = [self.expression(), first]
        else:
            if side:
                self.fail()
            call.args = [first]
        if side and side != "BOTH":
            call.name = ("LTRIM" if side == "LEADING" else "RTRIM",)

    def _over(self) -> nodes.Window:
        self.expect("OVER")
        if not self.is_op("("):
            self.unsupported("A named window")
        self.expect_op("(")
        partition: list[Expr] = []
        if self.accept("PARTITION", "BY"):
            partition.append(self.expression())
            while self.accept_op(","):
                partition.append(self.expression())
        order = self.order_by() if self.upper == "ORDER" else []
        frame = ""
        if self.upper in ("ROWS", "RANGE"):
            words = [self.next().upper]
            if self.accept("BETWEEN"):
                words += ["BETWEEN", self._bound(), "AND"]
                self.expect("AND")
            words.append(self._bound())
            frame = " ".join(words)
        self.expect_op(")")
        return nodes.Window(partition, order, frame)

    def _bound(self) -> str:
        if self.accept("CURRENT", "ROW"):
            return "CURRENT ROW"
        size = "UNBOUNDED" if self.accept("UNBOUNDED") else str(self.integer())
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
