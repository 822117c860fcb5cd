"""Parsing of whole batches: which statement begins here. :func:`parse` is the entry."""

from __future__ import annotations

from fakemssql.contract import SqlError
from fakemssql.tsql.parser import lexer, nodes
from fakemssql.tsql.parser.nodes import Statement
from fakemssql.tsql.parser.security import Security

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
    "SEND": "Service Broker",
    "RECEIVE": "Service Broker",
}


class Batch(Security):
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
            found.append(self.statement())

    def statement(self) -> Statement:
        while self.accept_op(";"):
            pass
        start = self.index
        statement = self._dispatch()
        statement.line = self.tokens[start].line
        statement.text = self.source_text(start)
        return statement

    def _dispatch(self) -> Statement:
        token = self.token
        word = token.upper
        if self.is_op("("):
            return nodes.SelectStatement(self.query())
        if self.is_op("{"):
            return self._odbc_call()
        if word == "WITH":
            ctes = self.with_clause()
            handler = {"INSERT": self.insert, "UPDATE": self.update, "DELETE": self.delete, "MERGE": self.merge}
            if self.upper in handler:
                return handler[self.upper](ctes)
            if self.upper != "SELECT" and not self.is_op("("):
                self.fail()
            return nodes.SelectStatement(self.query(ctes))
        if word == "SELECT":
            return nodes.SelectStatement(self.query())
        if word in ("INSERT", "UPDATE", "DELETE", "MERGE"):
            if word == "UPDATE" and self.peek().upper == "STATISTICS":
                return self._update_statistics()
            return {"INSERT": self.insert, "UPDATE": self.update, "DELETE": self.delete, "MERGE": self.merge}[word]([])
        method = getattr(self, "_on_" + word.lower(), None) if word else None
        if method is not None:
            result = method()
            assert isinstance(result, Statement)
            return result
        if word in _REFUSED:
            self.unsupported(_REFUSED[word])
        if self.is_identifier(token):
            if self.peek().value == ":" and token.kind == lexer.WORD:
                self.unsupported("A label")
            if self.index == 0 or all(t.kind == lexer.OPERATOR and t.value == ";" for t in self.tokens[: self.index]):
                return self._procedure_call()
        self.fail()

    def _update_statistics(self) -> Statement:
        """UPDATE STATISTICS t [index | (index, ...)] [WITH FULLSCAN | SAMPLE n PERCENT | ROWCOUNT = n, ...]."""
        self.expect("UPDATE", "STATISTICS")
        statement = nodes.UpdateStatistics(self.name(), [])
        if self.is_op("("):
            statement.names = self.column_list()
        elif self.is_identifier() and self.upper not in _REFUSED:
            statement.names = [self.identifier()]
        if self.accept("WITH"):
            while True:
                option = self.next().upper
                if self.token.kind == lexer.NUMBER:
                    self.next()
                    self.accept_any("PERCENT", "ROWS")
                elif self.accept_op("="):
                    value = self.next()
                    if option == "ROWCOUNT":
                        statement.row_count = int(value.value)
                elif self.upper == "ON" and self.peek().upper == "PARTITIONS":
                    self.unsupported("Partitioning")
                if not self.accept_op(","):
                    break
        return statement

    def _on_truncate(self) -> Statement:
        return self.truncate()

    def _on_drop(self) -> Statement:
        return self.drop_principal() if self.drops_principal() else self.drop()

    def _on_create(self) -> Statement:
        first = self.index == 0 or all(t.value == ";" for t in self.tokens[: self.index])
        line = self.expect("CREATE").line
        mode = "create"
        if self.accept("OR"):
            self.expect("ALTER")
            mode = "create or alter"
        word = self.upper
        if word == "TABLE":
            return self.create_table()
        if word in ("UNIQUE", "CLUSTERED", "NONCLUSTERED", "INDEX", "COLUMNSTORE"):
            return self.create_index()
        if word == "SCHEMA":
            return self.create_schema()
        if word == "DATABASE":
            return self.create_database()
        if word == "SYNONYM":
            return self.create_synonym()
        if word == "SEQUENCE":
            return self.create_sequence()
        if word in ("LOGIN", "USER", "ROLE"):
            return self.create_principal()
        if word in ("VIEW", "PROCEDURE", "PROC", "TRIGGER", "FUNCTION"):
            if not first:
                raise self.first_in_batch(line, {"PROC": "PROCEDURE"}.get(word, word))
            return self.create_view(mode) if word == "VIEW" else self._module(mode)
        self.unsupported(f"CREATE {self.token.value}")

    def _on_alter(self) -> Statement:
        self.expect("ALTER")
        word = self.upper
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
        if word == "AUTHORIZATION":
            return self.alter_authorization()
        if word in ("PROCEDURE", "PROC", "TRIGGER", "FUNCTION"):
            return self._module("alter")
        self.unsupported(f"ALTER {self.token.value}")

    def _module(self, mode: str) -> Statement:
        kind = {"PROC": "PROCEDURE"}.get(self.upper, self.upper)
        line = self.next().line
        if kind == "FUNCTION":
            self.unsupported("CREATE FUNCTION")
        module = nodes.CreateModule(kind, self.name(), mode, line=line)
        self.declared, self.in_module = set(), kind != "TRIGGER"
        if kind == "TRIGGER":
            self.expect("ON")
            if self.upper in ("DATABASE", "ALL"):
                self.unsupported("A DDL trigger")
            module.table = self.name()
            if self.accept("WITH"):
                self._module_options(module)
            module.instead = self.accept("INSTEAD", "OF")
            if not module.instead and not self.accept_any("FOR", "AFTER"):
                self.fail()
            while True:
                module.events.append(self.accept_any("INSERT", "UPDATE", "DELETE") or self.fail())
                if not self.accept_op(","):
                    break
            self.accept("WITH", "APPEND")
            self.accept("NOT", "FOR", "REPLICATION")
        else:
            enclosed = self.accept_op("(")
            while self.token.kind == lexer.VARIABLE:
                name = self.variable()
                self.accept("AS")
                self.declared.add(name)
                parameter = nodes.Declare(name, self.type(), None)
                if self.accept_op("="):
                    parameter.value = self.expression()
                parameter.output = bool(self.accept_any("OUTPUT", "OUT"))
                module.parameters.append(parameter)
                if not self.accept_op(","):
                    break
            if enclosed:
                self.expect_op(")")
            if self.accept("WITH"):
                self._module_options(module)
        self.expect("AS")
        module.body = self.statements()
        return module

    def _module_options(self, module: nodes.CreateModule) -> None:
        """``WITH RECOMPILE, EXECUTE AS OWNER``: texts are compiled when they are run."""
        while True:
            if self.accept("EXECUTE") or self.accept("EXEC"):
                self.expect("AS")
                token = self.next()
                if token.kind in (lexer.STRING, lexer.NSTRING):
                    module.execute_as = f":{token.value}"
                elif token.upper in ("CALLER", "SELF", "OWNER"):
                    module.execute_as = token.upper.lower()
                else:
                    self.fail(token)
            elif not self.accept_any("RECOMPILE", "ENCRYPTION", "SCHEMABINDING"):
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
        self.expect("ON")
        return nodes.TriggerState(name, self.name(), enabled)

    def _on_dbcc(self) -> Statement:
        self.next()
        command = self.next().upper
        arguments: list[nodes.Expr] = []
        if self.accept_op("("):
            while not self.accept_op(")"):
                if self.token.kind in (lexer.WORD, lexer.QUOTED):
                    mark = self.index
                    self.name() if self.is_identifier() else self.next()
                    arguments.append(nodes.Literal("nvarchar", self.source_text(mark)))
                else:
                    arguments.append(self.expression())
                self.accept_op(",")
        if self.accept("WITH"):
            self.next()
        return nodes.Dbcc(command, arguments)


def parse(text: str, quoted_identifier: bool = True) -> list[Statement]:
    """The statements of a batch. Raises :class:`SqlError` for what is no T-SQL or not supported."""
    try:
        batch = Batch(text, lexer.tokenize(text, quoted_identifier))
        return batch.statements()
    except RecursionError:
        raise SqlError(191, "Some part of your SQL statement is nested too deeply.", severity=15) from None
