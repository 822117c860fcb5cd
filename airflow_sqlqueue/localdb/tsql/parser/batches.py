"""Parsing of whole batches: control of flow, SET, transactions, EXECUTE. :func:`parse` is the entry."""

from __future__ import annotations

from airflow_sqlqueue.localdb.contract import SqlError
from airflow_sqlqueue.localdb.tsql.parser import lexer, nodes
from airflow_sqlqueue.localdb.tsql.parser.definitions import Definitions
from airflow_sqlqueue.localdb.tsql.parser.nodes import Statement

_PERMISSION_WORDS = ("GRANT", "DENY", "REVOKE")
_REFUSED = {
    "BACKUP": "BACKUP",
    "RESTORE": "RESTORE",
    "KILL": "KILL",
    "RECONFIGURE": "RECONFIGURE",
    "SHUTDOWN": "SHUTDOWN",
    "BULK": "BULK INSERT",
    "GOTO": "GOTO",
    "OPEN": "A cursor",
    "FETCH": "A cursor",
    "CLOSE": "A cursor",
    "DEALLOCATE": "A cursor",
    "REVERT": "REVERT",
    "SETUSER": "SETUSER",
    "READTEXT": "READTEXT",
    "WRITETEXT": "WRITETEXT",
    "UPDATETEXT": "UPDATETEXT",
    "SEND": "Service Broker",
    "RECEIVE": "Service Broker",
}


class Batch(Definitions):
    """The parser of statements and their order."""

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
        """UPDATE STATISTICS: PostgreSQL keeps its own, and no result depends on them."""
        self.expect("UPDATE", "STATISTICS")
        self.name()
        if self.is_op("("):
            self.skip_parentheses()
        elif self.is_identifier() and self.upper not in _REFUSED:
            self.next()
        if self.accept("WITH"):
            while self.next().upper and self.accept_op(","):
                pass
        return nodes.Simple("statistics")

    # --- control of flow -------------------------------------------------------------------------------------------

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
            self.expect("END", "TRY")
            self.accept_op(";")
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
        condition = self.predicate()
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
        return nodes.While(self.predicate(), self.statement())

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
        self.next()
        if self._starts_expression():
            return nodes.Return(self.expression())
        return nodes.Return(None)

    def _starts_expression(self) -> bool:
        token = self.token
        if token.kind in (lexer.NUMBER, lexer.STRING, lexer.NSTRING, lexer.VARIABLE, lexer.BINARY, lexer.MONEY):
            return True
        if token.kind == lexer.OPERATOR:
            return token.value in ("-", "+", "~", "(")
        return token.upper in ("CASE", "CAST", "CONVERT", "COALESCE", "NULL", "NULLIF") or (
            self.is_identifier() and self.peek().value == "(" and token.upper not in ("WITH",)
        )

    def _on_print(self) -> Statement:
        self.next()
        return nodes.Print(self.expression())

    def _on_throw(self) -> Statement:
        self.next()
        if not self._starts_expression():
            return nodes.Throw(None, None, None)
        number = self.expression()
        self.expect_op(",")
        message = self.expression()
        self.expect_op(",")
        return nodes.Throw(number, message, self.expression())

    def _on_raiserror(self) -> Statement:
        self.next()
        self.expect_op("(")
        values = [self.expression()]
        while self.accept_op(","):
            values.append(self.expression())
        self.expect_op(")")
        if len(values) < 3:
            self.fail()
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
        return nodes.WaitFor(kind.lower(), self.expression())

    def _on_use(self) -> Statement:
        self.next()
        return nodes.Use(self.identifier())

    # --- variables -------------------------------------------------------------------------------------------------

    def _on_declare(self) -> Statement:
        self.next()
        found: list[Statement] = []
        while True:
            line = self.token.line
            if self.is_identifier() and self.peek().upper in ("CURSOR", "INSENSITIVE", "SCROLL"):
                self.unsupported("A cursor")
            name = self.variable()
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
            if self._on_off() and not set(names) <= {"IO", "TIME"}:
                self.unsupported("SET STATISTICS XML and PROFILE")
            return nodes.SetOption(["STATISTICS"], None)
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

    # --- transactions ----------------------------------------------------------------------------------------------

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

    # --- execute ---------------------------------------------------------------------------------------------------

    def _on_exec(self) -> Statement:
        return self.execute()

    def _on_execute(self) -> Statement:
        return self.execute()

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
        if self.upper == "AS":
            self.unsupported("EXECUTE AS")
        result = None
        if self.token.kind == lexer.VARIABLE and self.peek().value == "=":
            result = self.variable()
            self.next()
        if self.token.kind == lexer.VARIABLE:
            self.unsupported("EXECUTE of a procedure named by a variable")
        return self._procedure_call(result)

    def _procedure_call(self, result: str | None = None) -> nodes.Execute:
        call = nodes.Execute(self.name(), [], result)
        if self.token.kind == lexer.NUMBER and self.is_op(";"):
            self.fail()
        while self._starts_argument():
            name = ""
            if self.token.kind == lexer.VARIABLE and self.peek().value == "=":
                name = str(self.next().value).lower()
                self.next()
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

    # --- definitions -----------------------------------------------------------------------------------------------

    def _on_truncate(self) -> Statement:
        return self.truncate()

    def _on_drop(self) -> Statement:
        return self.drop()

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
        if word in ("PROCEDURE", "PROC", "TRIGGER", "FUNCTION"):
            return self._module("alter")
        self.unsupported(f"ALTER {self.token.value}")

    def _module(self, mode: str) -> Statement:
        kind = {"PROC": "PROCEDURE"}.get(self.upper, self.upper)
        line = self.next().line
        if kind == "FUNCTION":
            self.unsupported("CREATE FUNCTION")
        module = nodes.CreateModule(kind, self.name(), mode, line=line)
        if kind == "TRIGGER":
            self.expect("ON")
            if self.upper in ("DATABASE", "ALL"):
                self.unsupported("A DDL trigger")
            module.table = self.name()
            timing = self.next().upper
            if timing == "INSTEAD":
                self.unsupported("An INSTEAD OF trigger")
            if timing not in ("FOR", "AFTER"):
                self.fail(self.peek(-1))
            while True:
                module.events.append(self.next().upper)
                if not self.accept_op(","):
                    break
        else:
            enclosed = self.accept_op("(")
            while self.token.kind == lexer.VARIABLE:
                name = self.variable()
                self.accept("AS")
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
            self.unsupported("WITH options of a module")
        self.expect("AS")
        module.body = self.statements()
        return module

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

    def _on_grant(self) -> Statement:
        self.unsupported(f"{self.token.value.upper()} (the local server has one login with all permissions)")

    _on_deny = _on_grant
    _on_revoke = _on_grant

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
