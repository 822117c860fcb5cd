"""Parsing of DECLARE, SET and transactions."""

from __future__ import annotations

from fakemssql.contract import SqlError
from fakemssql.tsql.parser import lexer, nodes
from fakemssql.tsql.parser.definitions import Definitions
from fakemssql.tsql.parser.nodes import Statement

_SWITCHES = frozenset(
    [
        *("ANSI_DEFAULTS", "ANSI_NULLS", "ANSI_NULL_DFLT_OFF", "ANSI_NULL_DFLT_ON", "ANSI_PADDING", "ANSI_WARNINGS"),
        *("ARITHABORT", "ARITHIGNORE", "CONCAT_NULL_YIELDS_NULL", "CURSOR_CLOSE_ON_COMMIT", "FMTONLY", "FORCEPLAN"),
        *("IMPLICIT_TRANSACTIONS", "NOCOUNT", "NOEXEC", "NO_BROWSETABLE", "NUMERIC_ROUNDABORT", "PARSEONLY"),
        *("QUOTED_IDENTIFIER", "REMOTE_PROC_TRANSACTIONS", "SHOWPLAN_ALL", "SHOWPLAN_TEXT", "SHOWPLAN_XML"),
        "XACT_ABORT",
    ]
)
"""Options that are ON or OFF ("SET statements")."""

_VALUES = frozenset(
    [
        *("CONTEXT_INFO", "DATEFIRST", "DATEFORMAT", "DEADLOCK_PRIORITY", "ERRLVL", "FIPS_FLAGGER", "LANGUAGE"),
        *("LOCK_TIMEOUT", "QUERY_GOVERNOR_COST_LIMIT", "ROWCOUNT", "TEXTSIZE"),
    ]
)
"""Options with a value."""


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
            if self.upper == "TABLE" and not found:
                self.next()
                table = nodes.CreateTable((name,), [], [], [], line=line)
                self.table_elements(table, variable=True)
                return nodes.DeclareTable(name, table, line=line)
            else:
                if self.upper == "CURSOR":
                    self.unsupported("A cursor")
                kind = self.type()
                if self.upper in ("NULL", "NOT"):
                    self.unsupported("A variable that tells whether it may be NULL")
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
            return nodes.SetOption(["IDENTITY_INSERT"], (table, self.switch()))
        if self.accept("STATISTICS"):
            names = [self.next().upper]
            while self.accept_op(","):
                names.append(self.next().upper)
            if not set(names) <= {"IO", "TIME", "XML", "PROFILE"}:
                self.fail(self.peek(-1))
            on = self.switch()
            if on and (shown := {"PROFILE", "XML"}.intersection(names)):
                self.unsupported(f"SET STATISTICS {min(shown)}")
            return nodes.SetOption([f"STATISTICS {name}" for name in names], on)
        name = self._option_name()
        if name in _VALUES:
            return nodes.SetOption([name], self._set_value(name))
        names = [name]
        while self.accept_op(","):
            names.append(self._option_name())
        unknown = next((each for each in names if each not in _SWITCHES), None)
        if unknown is not None:
            raise SqlError(
                195, f"'{unknown}' is not a recognized SET option.", severity=15, state=5, line=self.token.line
            )
        return nodes.SetOption(names, self.switch())

    def _option_name(self) -> str:
        token = self.next()
        if token.kind != lexer.WORD:
            self.fail(token)
        return token.upper

    def _set_value(self, name: str) -> object:
        """A constant, a variable, or a word, which is a text."""
        token = self.token
        if name == "FIPS_FLAGGER" and self.accept("OFF"):
            return False
        if self.is_identifier():
            return nodes.Literal("varchar", self.identifier())
        whole = token.kind == lexer.NUMBER and token.value.isdigit()
        if name == "ROWCOUNT" and not whole and token.kind != lexer.VARIABLE:
            self.fail()
        if name == "TEXTSIZE" and not whole and not self.is_op("-"):
            self.fail()
        return self.constant()

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
            self._durability(kind)
            return nodes.Transaction(kind, name)
        if self.upper == "WORK":
            self.next()
        self._durability(kind)
        return nodes.Transaction(kind, None, True)

    def _durability(self, kind: str) -> None:
        """``WITH (DELAYED_DURABILITY = ON)``, which changes nothing here."""
        if kind == "commit" and self.upper == "WITH" and self.peek().value == "(":
            self.next()
            self.expect_op("(")
            self.expect("DELAYED_DURABILITY")
            self.expect_op("=")
            self.switch()
            self.expect_op(")")

    def _on_save(self) -> Statement:
        self.next()
        if not self.accept_any("TRAN", "TRANSACTION"):
            self.fail()
        name = self._transaction_name()
        if name is None:
            self.fail()
        return nodes.Transaction("save", name)
