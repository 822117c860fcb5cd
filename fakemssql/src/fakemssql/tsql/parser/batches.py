"""Parsing of whole batches: which statement begins here. :func:`parse` is the entry."""

from __future__ import annotations

from fakemssql.contract import SqlError
from fakemssql.tsql.parser import lexer, nodes
from fakemssql.tsql.parser.maintenance import Maintenance
from fakemssql.tsql.parser.nodes import Statement

_REFUSED = {
    "BACKUP": "BACKUP",
    "RESTORE": "RESTORE",
    "KILL": "KILL",
    "RECONFIGURE": "RECONFIGURE",
    "SHUTDOWN": "SHUTDOWN",
    "BULK": "BULK INSERT",
    "GOTO": "GOTO",
    "SETUSER": "SETUSER",
    "READTEXT": "READTEXT",
    "WRITETEXT": "WRITETEXT",
    "UPDATETEXT": "UPDATETEXT",
    "OPEN": "A cursor",
    "FETCH": "A cursor",
    "CLOSE": "A cursor",
    "DEALLOCATE": "A cursor",
    "REVERT": "REVERT",
    "MOVE": "Service Broker",
    "SEND": "Service Broker",
    "RECEIVE": "Service Broker",
}


_ALONE = {
    **{word: word for word in ("VIEW", "PROCEDURE", "TRIGGER", "FUNCTION", "SCHEMA")},
    "PROC": "PROCEDURE",
}
"""What a statement makes or changes that is alone in its batch."""


class Batch(Maintenance):
    """Parses batches."""

    def statements(self, *ends: str) -> list[Statement]:
        """Statements up to one of the words ``ends`` (not taken), or to the end of the text."""
        found: list[Statement] = []
        while True:
            while self.accept_op(";"):
                pass
            if self.token.kind == lexer.END:
                if ends:
                    self.fail()
                return found
            if self.upper in ends:
                return found
            if found and not self._ended():
                self._require_end()
            found.append(self.statement())

    def _ended(self) -> bool:
        """Whether a semicolon stands before the next statement."""
        token = self.peek(-1)
        return token.kind == lexer.OPERATOR and bool(token.value == ";")

    def _require_end(self) -> None:
        """WITH and THROW are read as parts of the statement before them unless a semicolon ends it."""
        if self.upper == "WITH":
            raise SqlError(
                319,
                "Incorrect syntax near the keyword 'with'. If this statement is a common table expression, an"
                " xmlnamespaces clause or a change tracking context clause, the previous statement must be terminated"
                " with a semicolon.",
                severity=15,
                line=self.token.line,
            )
        if self.upper == "THROW":
            self.fail()

    def statement(self) -> Statement:
        start = self.index
        statement = self._dispatch()
        statement.line = self.tokens[start].line
        statement.text = self.source_text(start)
        return statement

    def _dispatch(self) -> Statement:
        token = self.token
        word = token.upper
        if self.is_op("("):
            return nodes.SelectStatement(self.query([], alone=True))
        if word == "WITH":
            ctes = self.with_clause()
            handler = {"INSERT": self.insert, "UPDATE": self.update, "DELETE": self.delete, "MERGE": self.merge}
            if self.upper in handler:
                return handler[self.upper](ctes)
            if self.upper != "SELECT" and not self.is_op("("):
                self.fail()
            return nodes.SelectStatement(self.query(ctes, alone=True))
        if word == "SELECT":
            return nodes.SelectStatement(self.query([], alone=True))
        if word in ("INSERT", "UPDATE", "DELETE", "MERGE"):
            if word == "UPDATE" and self.peek().upper == "STATISTICS":
                return self.update_statistics()
            return {"INSERT": self.insert, "UPDATE": self.update, "DELETE": self.delete, "MERGE": self.merge}[word]([])
        method = getattr(self, "_on_" + word.lower(), None) if word else None
        if method is not None:
            result = method()
            assert isinstance(result, Statement)
            return result
        if word in _REFUSED:
            self.unsupported(_REFUSED[word])
        if self.is_identifier(token) and self.peek().value == ":" and token.kind == lexer.WORD:
            self.unsupported("A label")
        starts_name = self.is_identifier(token) or token.kind == lexer.VARIABLE or self.is_op(".")
        if starts_name and self._first():
            return self._procedure_call()
        self.fail()

    def _first(self) -> bool:
        """Whether nothing but semicolons stands before the next token."""
        return all(token.kind == lexer.OPERATOR and token.value == ";" for token in self.tokens[: self.index])

    def _on_truncate(self) -> Statement:
        return self.truncate()

    def _on_drop(self) -> Statement:
        return self.drop_principal() if self.drops_principal() else self.drop()

    def _on_create(self) -> Statement:
        first, line = self._first(), self.expect("CREATE").line
        mode = "create"
        if self.accept("OR"):
            self.expect("ALTER")
            mode = "create or alter"
        word = self.upper
        if word == "TABLE":
            return self.create_table()
        if word in ("UNIQUE", "CLUSTERED", "NONCLUSTERED", "INDEX", "COLUMNSTORE"):
            return self.create_index()
        if word == "DATABASE":
            return self.create_database()
        if word == "SYNONYM":
            return self.create_synonym()
        if word in ("LOGIN", "USER", "ROLE"):
            return self.create_principal()
        if word in _ALONE:
            if not first:
                raise self.first_in_batch(line, f"CREATE {_ALONE[word]}")
            if word == "SCHEMA":
                return self.create_schema()
            return self.create_view(mode) if word == "VIEW" else self._module(mode)
        self.unsupported(f"CREATE {self.token.value}")

    def _on_alter(self) -> Statement:
        first, line = self._first(), self.expect("ALTER").line
        word = self.upper
        if word in _ALONE and word != "SCHEMA" and not first:
            raise self.first_in_batch(line, f"ALTER {_ALONE[word]}")
        if word == "TABLE":
            return self.alter_table()
        if word == "INDEX":
            return self.alter_index()
        if word == "DATABASE":
            return self.alter_database()
        if word == "VIEW":
            return self.create_view("alter")
        if word in ("LOGIN", "USER", "ROLE", "SERVER"):
            return self.alter_principal()
        if word in ("PROCEDURE", "PROC", "TRIGGER", "FUNCTION"):
            return self._module("alter")
        self.unsupported(f"ALTER {self.token.value}")

    def _module(self, mode: str) -> Statement:
        kind = {"PROC": "PROCEDURE"}.get(self.upper, self.upper)
        line = self.next().line
        if kind == "FUNCTION":
            self.unsupported("CREATE FUNCTION")
        module = nodes.CreateModule(kind, self.name(2), mode, line=line)
        self.declared, self.in_module = set(), kind != "TRIGGER"
        if kind == "TRIGGER":
            self.expect("ON")
            if self.upper in ("DATABASE", "ALL"):
                self.unsupported("A DDL trigger")
            module.table = self.name()
            if self.accept("WITH"):
                self._module_options("ENCRYPTION", "SCHEMABINDING")
            module.instead = self.accept("INSTEAD", "OF")
            if not module.instead and not self.accept_any("FOR", "AFTER"):
                self.fail()
            while True:
                event = self.accept_any("INSERT", "UPDATE", "DELETE") or self.fail()
                if event in module.events:
                    self.fail(self.peek(-1))
                module.events.append(event)
                if not self.accept_op(","):
                    break
            self.accept("NOT", "FOR", "REPLICATION")
        else:
            if self.is_op(";"):
                self.unsupported("The number of a procedure")
            enclosed = self.accept_op("(")
            while enclosed or self.token.kind == lexer.VARIABLE or module.parameters:
                name = self.variable()
                self.accept("AS")
                self.declared.add(name)
                parameter = nodes.Declare(name, self.type(), None)
                if self.upper in ("VARYING", "NULL", "NOT"):
                    self.unsupported(f"A parameter with {self.upper}")
                if self.accept_op("="):
                    word = self.identifier() if self.is_identifier() else None
                    parameter.value = self.constant() if word is None else nodes.Literal("nvarchar", word)
                if self.upper == "READONLY":
                    self.unsupported("A table-valued parameter")
                parameter.output = bool(self.accept_any("OUTPUT", "OUT"))
                module.parameters.append(parameter)
                if not self.accept_op(","):
                    break
            if enclosed:
                self.expect_op(")")
            if self.accept("WITH"):
                self._module_options("ENCRYPTION", "SCHEMABINDING", "RECOMPILE")
            if self.upper == "FOR":
                self.unsupported("A procedure for replication")
        self.expect("AS")
        module.body = self.statements()
        if kind == "TRIGGER" and not module.body:
            self.fail()
        return module

    def _module_options(self, *known: str) -> None:
        """``WITH RECOMPILE, EXECUTE AS CALLER``: texts are compiled when they are run."""
        while True:
            if self.accept("EXECUTE") or self.accept("EXEC"):
                self.expect("AS")
                token = self.next()
                if token.upper in ("SELF", "OWNER") or token.kind in (lexer.STRING, lexer.NSTRING):
                    self.unsupported("EXECUTE AS", token)
                if token.upper != "CALLER":
                    self.fail(token)
            elif not self.accept_any(*known):
                self.fail()
            if not self.accept_op(","):
                return

    def _on_enable(self) -> Statement:
        return self._trigger_state(True)

    def _on_disable(self) -> Statement:
        return self._trigger_state(False)

    def _trigger_state(self, enabled: bool) -> Statement:
        self.next()
        self.expect("TRIGGER")
        name = "" if self.accept("ALL") else self.name()[-1]
        if self.is_op(","):
            self.unsupported(f"{'ENABLE' if enabled else 'DISABLE'} TRIGGER of several")
        self.expect("ON")
        if self.upper in ("DATABASE", "ALL"):
            self.unsupported("A DDL trigger")
        return nodes.TriggerState(name, self.name(), enabled)


def parse(text: str, quoted_identifier: bool = True) -> list[Statement]:
    """The statements of a batch. Raises :class:`SqlError` for what is no T-SQL or not supported."""
    try:
        batch = Batch(text, lexer.tokenize(text, quoted_identifier))
        return batch.statements()
    except RecursionError:
        raise SqlError(191, "Some part of your SQL statement is nested too deeply.", severity=15) from None
