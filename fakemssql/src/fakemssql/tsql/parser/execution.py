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
            text = self._text_piece()
            while self.accept_op("+"):
                text = nodes.Binary("+", text, self._text_piece())
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
            call = nodes.Execute(None, [], result, variable=str(self.next().value).lower())
        else:
            call = nodes.Execute(self.name(), [], result)
        if self.is_op(";") and self.peek().kind == lexer.NUMBER:
            self.unsupported("The number of a procedure")
        more = self._starts_argument()
        while more:
            name = ""
            if self.token.kind == lexer.VARIABLE and self.peek().value == "=":
                name = str(self.next().value).lower()
                self.next()
            elif not self._starts_argument():
                self.fail()
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
            value = self._argument_value()
            token = self.token
            output = value is not None and bool(self.accept_any("OUTPUT", "OUT"))
            if output and not isinstance(value, nodes.Variable):
                raise SqlError(
                    179,
                    "Cannot use the OUTPUT option when passing a constant to a stored procedure.",
                    severity=15,
                    line=token.line,
                )
            call.arguments.append(nodes.Argument(name, value, output))
            more = self.accept_op(",")
        if self.upper == "WITH" and self.peek().upper in ("RECOMPILE", "RESULT"):
            self.next()
            if self.accept("RESULT"):
                self.unsupported("WITH RESULT SETS")
            self.next()
        return call

    def _text_piece(self) -> nodes.Expr:
        if self.token.kind not in (lexer.STRING, lexer.NSTRING, lexer.VARIABLE):
            self.fail()
        return self.constant()

    def _argument_value(self) -> nodes.Expr | None:
        """A constant, a variable or a word, which is a text; None for DEFAULT."""
        if self.accept("DEFAULT"):
            return None
        if self.is_identifier():
            return nodes.Literal("nvarchar", self.identifier())
        return self.constant()

    def _starts_argument(self) -> bool:
        token = self.token
        if token.kind in (lexer.NUMBER, lexer.STRING, lexer.NSTRING, lexer.BINARY, lexer.MONEY, lexer.VARIABLE):
            return True
        if token.kind == lexer.OPERATOR:
            return bool(token.value == "-")
        return token.upper in ("NULL", "DEFAULT") or (self.is_identifier() and not self.trigger_switch_ahead())
