"""Parsing of what stands between operators: constants, names, calls, CASE, CAST, windows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fakemssql.contract import SqlError
from fakemssql.tsql.parser import lexer, nodes
from fakemssql.tsql.parser.windows import Windows
from fakemssql.types import SqlType

if TYPE_CHECKING:
    from fakemssql.tsql.parser.nodes import Expr, Query


_BARE_FUNCTIONS = frozenset(["CURRENT_TIMESTAMP", "CURRENT_USER", "SESSION_USER", "SYSTEM_USER", "USER"])


_CONSTANTS = (lexer.NUMBER, lexer.MONEY, lexer.STRING, lexer.NSTRING, lexer.BINARY, lexer.VARIABLE)

_RESERVED_FUNCTIONS = frozenset(["COALESCE", "NULLIF", "LEFT", "RIGHT", "CONVERT", "TRY_CONVERT"])


_COUNTS = {"COALESCE": (2, 1_000), "NULLIF": (2, 2), "IIF": (3, 3)}
"""The least and the highest number of arguments of functions that the grammar knows."""


class Terms(Windows):
    """Adds the operands of expressions to windows."""

    def nested_query(self) -> Query:
        raise NotImplementedError

    def _query_ahead(self) -> bool:
        """Whether a query expression starts here, perhaps behind parentheses."""
        ahead = 0
        while self.peek(ahead).kind == lexer.OPERATOR and self.peek(ahead).value == "(":
            ahead += 1
        return self.peek(ahead).upper == "SELECT"

    def predicate(self) -> Expr:
        raise NotImplementedError

    def condition(self) -> Expr:
        raise NotImplementedError

    def constant(self) -> Expr:
        """A literal, with a sign where it is a number, or a variable."""
        token = self.token
        if token.kind == lexer.OPERATOR and token.value == "-" and self.peek().kind in (lexer.NUMBER, lexer.MONEY):
            self.index += 1
            return nodes.Unary("-", self._primary())
        if token.kind not in _CONSTANTS and token.upper != "NULL":
            self.fail()
        return self._primary()

    def _primary(self) -> Expr:
        value = self._operand()
        if self.is_op(".") and not isinstance(value, nodes.Star):
            self.unsupported("A property or method of a value")
        return value

    def _operand(self) -> Expr:
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
            if token.value == ".":
                return self._without_schema()
            self.fail()
        word = token.upper
        if word == "NULL":
            self.index += 1
            return nodes.Literal("null", None)
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
            if self.peek().value == "*":
                self.fail(self.peek())
            return self._call((token.value,), token.line)
        if word == "IDENTITY" and self.peek().value == "(":
            self.unsupported("The function IDENTITY")
        if word == "$ACTION":
            self.index += 1
            return nodes.Column(("$action",), token.line)
        if not self.is_identifier():
            self.fail()
        return self._named()

    def _without_schema(self) -> Expr:
        """``.t.a``: the schema's name is left out."""
        while self.accept_op("."):
            pass
        value = self._named()
        if isinstance(value, nodes.Function):
            self.unsupported("A function's name that begins with a dot")
        if isinstance(value, nodes.Column) and len(value.name) < 2:
            self.fail(self.peek(-1))
        return value

    @staticmethod
    def _number(text: str) -> Expr:
        if "e" in text or "E" in text:
            return nodes.Literal("float", text.rstrip("eE+-"))  # 1e is 1e0
        if "." in text or int(text) > 2147483647:
            return nodes.Literal("numeric", text)
        return nodes.Literal("int", int(text))

    def _parenthesised(self) -> Expr:
        self.expect_op("(")
        if self._query_ahead():
            mark = self.index
            try:
                query = self.nested_query()
                self.expect_op(")")
                return nodes.Subquery(query)
            except SqlError:
                if self.tokens[mark].upper == "SELECT":
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
            if not isinstance(inner, nodes.Function | nodes.Cast):
                self.fail(self.peek(-1))
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
            condition = self.condition() if operand is None else self.expression()
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
        line, quoted = self.token.line, self.token.kind == lexer.QUOTED
        parts = [self.identifier()]
        while self.is_op("."):
            self.next()
            if self.accept_op("*"):
                return nodes.Star(tuple(parts))
            if self.is_op("."):
                parts.append("")
                continue
            parts.append(self.identifier())
        if self.is_op("(") and len(parts) <= 3:
            call = self._call(tuple(parts), line)
            if quoted and (call.star or call.over is not None):
                self.fail(self.peek(-1))
            return call
        if self.is_op("::"):
            self.unsupported("The :: operator")
        if len(parts) > 5 or (len(parts) > 1 and not parts[-2]):
            self.fail(self.peek(-1))
        return nodes.Column(tuple(parts), line)

    def _call(self, name: tuple[str, ...], line: int) -> nodes.Function:
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
            call.args.append(self.condition() if word == "IIF" and len(name) == 1 else self.expression())
            while self.accept_op(","):
                call.args.append(self.expression())
        few, many = _COUNTS.get(word, (0, len(call.args)))
        if not few <= len(call.args) <= many and len(name) == 1:
            self.fail()
        self.expect_op(")")
        if self.upper == "WITHIN" and self.peek().upper == "GROUP":
            self.expect("WITHIN", "GROUP")
            self.expect_op("(")
            call.within = self.order_by()
            self.expect_op(")")
        if self.upper in ("IGNORE", "RESPECT") and self.peek().upper == "NULLS":
            self.unsupported(f"{self.upper} NULLS")
        if self.upper == "OVER":
            call.over = self.over()
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
