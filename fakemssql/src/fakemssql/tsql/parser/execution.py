"""Parsing of EXECUTE and of the ODBC call escape."""

from __future__ import annotations

from fakemssql.contract import SqlError
from fakemssql.tsql.parser import lexer, nodes
from fakemssql.tsql.parser.nodes import Statement
from fakemssql.tsql.parser.variables import Variables


class Execution(Variables):
    """Adds EXECUTE."""

    def _on_exec(self) -> Statement:
        if self.peek().upper == "AS":
            self.unsupported("EXECUTE AS")
        return self.execute()

    _on_execute = _on_exec

    def execute(self) -> nodes.Execute:
        self.next()
        if self.is_op("("):
            self.next()
            text = self.expression()
            if self.is_op(","):
                self.unsupported("EXECUTE with pass-through parameters")
            self.expect_op(")")
            if self.upper in ("AT", "AS"):
                self.unsupported("EXECUTE ... AT and AS")
            return nodes.Execute(None, [], None, text)
        result = None
        if self.token.kind == lexer.VARIABLE and self.peek().value == "=":
            result = self.variable()
            self.next()
        return self._procedure_call(result)

    def _procedure_call(self, result: str | None = None) -> nodes.Execute:
        if self.token.kind == lexer.VARIABLE:
            call = nodes.Execute(None, [], result, variable=self.variable())
        else:
            call = nodes.Execute(self.name(), [], result)
        if self.token.kind == lexer.NUMBER and self.is_op(";"):
            self.fail()
        while self._starts_argument():
            name = ""
            if self.token.kind == lexer.VARIABLE and self.peek().value == "=":
                name = str(self.next().value).lower()
                self.next()
            elif any(argument.name for argument in call.arguments):
                number = len(call.arguments) + 1
                raise SqlError(
                    119,
                    f"Must pass parameter number {number} and subsequent parameters as '@name = value'. After the form"
                    " '@name = value' has been used, all subsequent parameters must be passed in the form '@name ="
                    " value'.",
                    severity=15,
                    line=self.token.line,
                )
            value: nodes.Expr | None
            if self.accept("DEFAULT"):
                value = None
            elif (
                self.token.kind == lexer.WORD and self.is_identifier() and self.peek().value not in ("(", ".")
            ) or self.token.kind == lexer.QUOTED:
                value = nodes.Literal("nvarchar", self.next().value)
            else:
                value = self.expression()
            output = bool(self.accept_any("OUTPUT", "OUT"))
            call.arguments.append(nodes.Argument(name, value, output))
            if not self.accept_op(","):
                break
        if self.upper == "WITH" and self.peek().upper in ("RECOMPILE", "RESULT"):
            self.next()
            if self.accept("RESULT"):
                self.unsupported("WITH RESULT SETS")
            self.next()
        return call

    def _starts_argument(self) -> bool:
        token = self.token
        if token.kind in (lexer.NUMBER, lexer.STRING, lexer.NSTRING, lexer.BINARY, lexer.MONEY, lexer.VARIABLE):
            return True
        if token.kind == lexer.OPERATOR:
            return token.value in ("-", "+")
        return token.upper in ("NULL", "DEFAULT") or self.is_identifier()

    def _odbc_call(self) -> Statement:
        """``{call p(?)}`` with literals; drivers replace the markers before."""
        self.expect_op("{")
        result = None
        if self.token.kind == lexer.VARIABLE:
            result = self.variable()
            self.expect_op("=")
        if self.next().upper != "CALL":
            self.fail(self.peek(-1))
        call = nodes.Execute(self.name(), [], result)
        if self.accept_op("("):
            while not self.accept_op(")"):
                value = self.expression()
                call.arguments.append(nodes.Argument("", value, bool(self.accept_any("OUTPUT", "OUT"))))
                self.accept_op(",")
        self.expect_op("}")
        return call
