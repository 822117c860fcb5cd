"""Parsing of control of flow and messages: BEGIN, IF, WHILE, TRY, RETURN, PRINT, THROW, RAISERROR, WAITFOR, USE."""

from __future__ import annotations

from fakemssql.contract import SqlError
from fakemssql.tsql.parser import lexer, nodes
from fakemssql.tsql.parser.execution import Execution
from fakemssql.tsql.parser.nodes import Statement

_INTEGER = (lexer.NUMBER, lexer.VARIABLE)
_TEXT = (lexer.STRING, lexer.NSTRING, lexer.VARIABLE)


class Control(Execution):
    """Adds control of flow."""

    def statement(self) -> Statement:
        raise NotImplementedError

    def statements(self, *ends: str) -> list[Statement]:
        raise NotImplementedError

    def _on_begin(self) -> Statement:
        self.expect("BEGIN")
        if self.upper in ("TRAN", "TRANSACTION"):
            self.next()
            name = self._transaction_name()
            if self.accept("WITH"):
                self.unsupported("BEGIN TRANSACTION WITH MARK")
            return nodes.Transaction("begin", name)
        if self.upper == "DISTRIBUTED":
            self.unsupported("BEGIN DISTRIBUTED TRANSACTION")
        if self.upper in ("DIALOG", "CONVERSATION"):
            self.unsupported("Service Broker")
        if self.accept("TRY"):
            body = self.statements("END")
            if not body:
                self.fail()
            self.expect("END", "TRY")
            self.expect("BEGIN", "CATCH")
            handler = self.statements("END")
            self.expect("END", "CATCH")
            return nodes.TryCatch(body, handler)
        body = self.statements("END")
        if not body:
            self.fail()
        self.expect("END")
        return nodes.Block(body)

    def _on_if(self) -> Statement:
        self.expect("IF")
        condition = self.condition()
        then = self.statement()
        mark = self.index
        while self.accept_op(";"):
            pass
        if self.accept("ELSE"):
            return nodes.If(condition, then, self.statement())
        self.index = mark
        return nodes.If(condition, then, None)

    def _on_while(self) -> Statement:
        self.expect("WHILE")
        return nodes.While(self.condition(), self.statement())

    def _on_break(self) -> Statement:
        self.next()
        return nodes.Simple("break")

    def _on_continue(self) -> Statement:
        self.next()
        return nodes.Simple("continue")

    def _on_checkpoint(self) -> Statement:
        self.next()
        return nodes.Simple("checkpoint")

    def _on_return(self) -> Statement:
        line = self.next().line
        if self._starts_expression():
            if not self.in_module:
                raise SqlError(
                    178,
                    "A RETURN statement with a return value cannot be used in this context.",
                    severity=15,
                    line=line,
                )
            return nodes.Return(self.expression())
        return nodes.Return(None)

    def _starts_expression(self) -> bool:
        token = self.token
        if token.kind in (lexer.NUMBER, lexer.STRING, lexer.NSTRING, lexer.VARIABLE, lexer.BINARY, lexer.MONEY):
            return True
        if token.kind == lexer.OPERATOR:
            return token.value in ("-", "+", "~", "(")
        return token.upper in ("CASE", "CAST", "CONVERT", "COALESCE", "NULL", "NULLIF") or (
            self.is_identifier() and token.upper != "THROW"
        )

    def _on_print(self) -> Statement:
        self.next()
        return nodes.Print(self.expression())

    def _on_throw(self) -> Statement:
        self.next()
        if self.token.kind not in (lexer.NUMBER, lexer.VARIABLE):
            return nodes.Throw(None, None, None)
        number = self._one_of(*_INTEGER)
        self.expect_op(",")
        message = self._one_of(*_TEXT)
        self.expect_op(",")
        return nodes.Throw(number, message, self._one_of(*_INTEGER))

    def _one_of(self, *kinds: int, signed: bool = False) -> nodes.Expr:
        """A constant of one of these kinds, or a variable."""
        ahead = self.peek() if signed and self.is_op("-") else self.token
        if ahead.kind not in kinds or (ahead.kind == lexer.NUMBER and not ahead.value.isdigit()):
            self.fail(ahead)
        return self.constant()

    def _on_raiserror(self) -> Statement:
        self.next()
        self.expect_op("(")
        values = [self._one_of(*_INTEGER, *_TEXT, signed=True)]
        for _ in range(2):
            self.expect_op(",")
            values.append(self._one_of(*_INTEGER, signed=True))
        while self.accept_op(","):
            values.append(self.constant())
        self.expect_op(")")
        options = []
        if self.accept("WITH"):
            while True:
                option = self.next().upper
                if option not in ("NOWAIT", "LOG", "SETERROR"):
                    self.fail(self.peek(-1))
                options.append(option)
                if not self.accept_op(","):
                    break
        return nodes.RaiseError(values[0], values[1], values[2], values[3:], options)

    def _on_waitfor(self) -> Statement:
        self.next()
        kind = self.next().upper
        if kind not in ("DELAY", "TIME"):
            self.unsupported("WAITFOR of a statement", self.peek(-1))
        return nodes.WaitFor(kind.lower(), self._one_of(*_TEXT))

    def _on_use(self) -> Statement:
        self.next()
        return nodes.Use(self.identifier())
