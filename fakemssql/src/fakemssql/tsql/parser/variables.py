"""Parsing of DECLARE, SET and transactions."""

from __future__ import annotations

from fakemssql.contract import SqlError
from fakemssql.tsql.parser import lexer, nodes
from fakemssql.tsql.parser.definitions import Definitions
from fakemssql.tsql.parser.nodes import Statement


class Variables(Definitions):
    """Adds variables, options and transactions."""

    def _on_declare(self) -> Statement:
        self.next()
        found: list[Statement] = []
        while True:
            line = self.token.line
            if self.is_identifier() and self.peek().upper in ("CURSOR", "INSENSITIVE", "SCROLL"):
                self.unsupported("A cursor")
            name = self.variable()
            if name in self.declared:
                raise SqlError(
                    134,
                    f"The variable name '{name}' has already been declared."
                    " Variable names must be unique within a query batch or stored procedure.",
                    severity=15,
                    line=line,
                )
            self.declared.add(name)
            self.accept("AS")
            if self.accept("TABLE"):
                table = nodes.CreateTable((name,), [], [], [], line=line)
                self.table_elements(table)
                found.append(nodes.DeclareTable(name, table, line=line))
            else:
                if self.upper == "CURSOR":
                    self.unsupported("A cursor")
                kind = self.type()
                value = self.expression() if self.accept_op("=") else None
                found.append(nodes.Declare(name, kind, value, line=line))
            if not self.accept_op(","):
                break
        return found[0] if len(found) == 1 else nodes.Block(found)

    def _on_set(self) -> Statement:
        self.next()
        if self.token.kind == lexer.VARIABLE:
            name = self.variable()
            if self.is_op("."):
                self.unsupported("A method of a variable")
            token = self.next()
            if token.kind != lexer.OPERATOR or token.value not in ("=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^="):
                self.fail(token)
            if self.upper == "CURSOR":
                self.unsupported("A cursor")
            return nodes.SetVariable(name, token.value, self.expression())
        if self.accept("TRANSACTION"):
            if not self.accept("ISOLATION") or not self.accept("LEVEL"):
                self.fail()
            words = [self.next().upper]
            if words[0] in ("READ", "REPEATABLE"):
                words.append(self.next().upper)
            level = " ".join(words)
            if level not in ("READ UNCOMMITTED", "READ COMMITTED", "REPEATABLE READ", "SNAPSHOT", "SERIALIZABLE"):
                self.fail(self.peek(-1))
            return nodes.SetOption(["ISOLATION"], level)
        if self.accept("IDENTITY_INSERT"):
            table = self.name()
            return nodes.SetOption(["IDENTITY_INSERT"], (table, self._on_off()))
        if self.accept("STATISTICS"):
            names = [self.next().upper]
            while self.accept_op(","):
                names.append(self.next().upper)
            if not set(names) <= {"IO", "TIME", "XML", "PROFILE"}:
                self.fail(self.peek(-1))
            on = self._on_off()
            if on and (shown := {"PROFILE", "XML"}.intersection(names)):
                self.unsupported(f"SET STATISTICS {min(shown)}")
            return nodes.SetOption([f"STATISTICS {name}" for name in names], on)
        names = [self._option_name()]
        while self.accept_op(","):
            names.append(self._option_name())
        return nodes.SetOption(names, self._option_value())

    def _option_name(self) -> str:
        token = self.next()
        if token.kind != lexer.WORD:
            self.fail(token)
        return token.upper

    def _on_off(self) -> bool:
        word = self.next().upper
        if word not in ("ON", "OFF"):
            self.fail(self.peek(-1))
        return word == "ON"

    def _option_value(self) -> object:
        if self.upper in ("ON", "OFF"):
            return self._on_off()
        token = self.token
        if token.kind == lexer.WORD and self.peek().value != "(":
            self.next()
            return nodes.Literal("varchar", token.value)
        return self.expression()

    def _transaction_name(self) -> str | None:
        token = self.token
        if token.kind == lexer.VARIABLE:
            return self.variable()
        if self.is_identifier(token) and token.upper not in ("THROW", "GO"):
            self.next()
            return str(token.value)
        return None

    def _on_commit(self) -> Statement:
        return self._ending("commit")

    def _on_rollback(self) -> Statement:
        return self._ending("rollback")

    def _ending(self, kind: str) -> Statement:
        self.next()
        if self.upper in ("TRAN", "TRANSACTION"):
            self.next()
            name = self._transaction_name()
            if self.accept("WITH"):
                self.skip_parentheses()
            return nodes.Transaction(kind, name)
        if self.upper == "WORK":
            self.next()
        return nodes.Transaction(kind, None, True)

    def _on_save(self) -> Statement:
        self.next()
        if not self.accept_any("TRAN", "TRANSACTION"):
            self.fail()
        name = self._transaction_name()
        if name is None:
            self.fail()
        return nodes.Transaction("save", name)
