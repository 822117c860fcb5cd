"""Parsing of FROM: tables, joins, hints, table functions ("FROM clause", "Table hints")."""

from __future__ import annotations

from fakemssql.contract import SqlError
from fakemssql.tsql.parser import lexer, nodes
from fakemssql.tsql.parser.expressions import Expressions
from fakemssql.tsql.parser.nodes import Hint, Source

HINTS = frozenset(
    [
        "NOEXPAND",
        "INDEX",
        "FORCESEEK",
        "FORCESCAN",
        "HOLDLOCK",
        "NOLOCK",
        "NOWAIT",
        "PAGLOCK",
        "READCOMMITTED",
        "READCOMMITTEDLOCK",
        "READPAST",
        "READUNCOMMITTED",
        "REPEATABLEREAD",
        "ROWLOCK",
        "SERIALIZABLE",
        "SNAPSHOT",
        "TABLOCK",
        "TABLOCKX",
        "UPDLOCK",
        "XLOCK",
        "KEEPIDENTITY",
        "KEEPDEFAULTS",
        "IGNORE_CONSTRAINTS",
        "IGNORE_TRIGGERS",
        "FASTFIRSTROW",
    ]
)


class Sources(Expressions):
    """Adds what can stand in FROM to expressions."""

    def column_list(self) -> list[str]:
        self.expect_op("(")
        names = [self.identifier()]
        while self.accept_op(","):
            names.append(self.identifier())
        self.expect_op(")")
        return names

    def alias(self, strings: bool = False) -> str | None:
        """``[AS] name`` if there is one."""
        token = self.token
        if self.accept("AS"):
            token = self.token
            if strings and token.kind in (lexer.STRING, lexer.NSTRING):
                self.next()
                return str(token.value)
            return self.identifier()
        if strings and token.kind in (lexer.STRING, lexer.NSTRING):
            self.next()
            return str(token.value)
        if token.kind == lexer.QUOTED or (token.kind == lexer.WORD and self.is_identifier()):
            if self._clause_ahead():
                return None
            self.next()
            return str(token.value)
        return None

    def _clause_ahead(self) -> bool:
        """Words that are no reserved keywords yet start a clause or a statement here."""
        word, following = self.upper, self.peek().upper
        if word in ("OUTPUT", "OFFSET", "USING", "WINDOW") or (word == "THROW"):
            return True
        return word == "AT" and following == "TIME"

    def sources(self) -> list[Source]:
        items = [self.join()]
        while self.accept_op(","):
            items.append(self.join())
        return items

    def join(self) -> Source:
        left = self.table_source()
        while True:
            word, following = self.upper, self.peek().upper
            if word == "CROSS" and following == "JOIN":
                self.expect("CROSS", "JOIN")
                left = nodes.Join("cross", left, self.table_source(), None)
            elif word in ("CROSS", "OUTER") and following == "APPLY":
                self.next()
                self.next()
                left = nodes.Join(word.lower() + "_apply", left, self.table_source(), None)
            elif word in ("JOIN", "INNER", "LEFT", "RIGHT", "FULL"):
                kind = "inner" if word == "JOIN" else word.lower()
                if word != "JOIN":
                    self.next()
                    if word != "INNER":
                        self.accept("OUTER")
                    self.accept_any("LOOP", "HASH", "MERGE", "REMOTE")
                self.expect("JOIN")
                right = self.join_right()
                self.expect("ON")
                left = nodes.Join(kind, left, right, self.predicate())
            elif word in ("PIVOT", "UNPIVOT"):
                self.unsupported(word)
            else:
                return left

    def join_right(self) -> Source:
        """The right side of a join: ``a JOIN b JOIN c ON .. ON ..`` nests to the right."""
        source = self.table_source()
        while self.upper in ("JOIN", "INNER", "LEFT", "RIGHT", "FULL"):
            mark = self.index
            word = self.next().upper
            kind = "inner" if word == "JOIN" else word.lower()
            if word != "JOIN":
                if word != "INNER":
                    self.accept("OUTER")
                self.expect("JOIN")
            right = self.join_right()
            if not self.accept("ON"):
                self.index = mark
                return source
            source = nodes.Join(kind, source, right, self.predicate())
        return source

    def table_source(self) -> Source:
        token = self.token
        if token.kind == lexer.VARIABLE:
            name = self.variable()
            if self.is_op("."):
                self.unsupported("A method of a variable")
            return nodes.VariableSource(name, self.alias() or name)
        if self.is_op("("):
            return self._parenthesised_source()
        if self.upper in (
            "OPENROWSET",
            "OPENQUERY",
            "OPENXML",
            "OPENJSON",
            "OPENDATASOURCE",
            "CONTAINSTABLE",
            "FREETEXTTABLE",
        ):
            self.unsupported(self.upper)
        table = self.name()
        if self.is_op("(") and not self._old_hints_ahead():
            return self._function_source(table, token.line)
        if self.upper == "FOR" and self.peek().upper == "SYSTEM_TIME":
            self.unsupported("FOR SYSTEM_TIME")
        hints: list[Hint] = []
        if self._old_hints_ahead():
            hints = self.hint_list()
            alias = self.alias() or ""
        else:
            alias = self.alias() or ""
        if self.upper == "TABLESAMPLE":
            self.unsupported("TABLESAMPLE")
        if self.upper == "WITH" and self.peek().value == "(":
            self.next()
            hints += self.hint_list()
        elif self._old_hints_ahead():
            hints += self.hint_list()
        if self.upper == "TABLESAMPLE":
            self.unsupported("TABLESAMPLE")
        return nodes.TableSource(table, alias, hints, token.line)

    def _old_hints_ahead(self) -> bool:
        return self.is_op("(") and self.peek().upper in HINTS and self.peek(2).value in (")", ",", "(", "=")

    def hint_list(self) -> list[Hint]:
        """``( hint [, hint ...] )``; the comma may be missing, as in old code."""
        self.expect_op("(")
        hints = []
        while True:
            word = self.token.upper
            if word not in HINTS:
                if self.token.kind == lexer.WORD:
                    raise SqlError(
                        321,
                        f'"{self.token.value}" is not a recognized table hints option. If it is intended as a parameter'
                        " to a table-valued function or to the CHANGETABLE function, ensure that your database"
                        " compatibility mode is set to 90.",
                        severity=15,
                        line=self.token.line,
                    )
                self.fail()
            self.next()
            hint = Hint(word)
            if (word in ("INDEX", "FORCESEEK") and self.is_op("(")) or (word == "INDEX" and self.is_op("=")):
                self.accept_op("=")
                if self.accept_op("("):
                    while True:
                        if self.token.kind == lexer.NUMBER:
                            hint.args.append(str(self.next().value))
                        else:
                            hint.args.append(self.identifier())
                        if self.is_op("("):
                            self.skip_parentheses()
                        if not self.accept_op(","):
                            break
                    self.expect_op(")")
                else:
                    hint.args.append(str(self.next().value))
            hints.append(hint)
            if self.accept_op(")"):
                return hints
            self.accept_op(",")

    def _parenthesised_source(self) -> Source:
        self.expect_op("(")
        if self._query_ahead() or self.upper == "VALUES":
            mark = self.index
            if self.upper in ("SELECT", "WITH", "VALUES"):
                query = self.query()
            else:
                try:
                    query = self.query()
                except Exception:
                    self.index = mark
                    inner = self.join()
                    self.expect_op(")")
                    return inner
            if self.is_op(")"):
                self.next()
                alias = self.alias()
                if alias is None:
                    self.fail()
                columns = self.column_list() if self.is_op("(") else []
                return nodes.QuerySource(query, alias, columns)
            self.index = mark
        if self.upper in ("INSERT", "UPDATE", "DELETE", "MERGE"):
            self.unsupported("A data modification as a table source")
        inner = self.join()
        self.expect_op(")")
        return inner

    def _function_source(self, name: nodes.Name, line: int) -> Source:
        self.expect_op("(")
        args = []
        if not self.is_op(")"):
            args.append(self._function_argument())
            while self.accept_op(","):
                args.append(self._function_argument())
        self.expect_op(")")
        alias = self.alias() or name[-1]
        columns = self.column_list() if self.is_op("(") else []
        return nodes.FunctionSource(name, args, alias, columns, line)

    def _function_argument(self) -> nodes.Expr:
        """DEFAULT is NULL for the system's functions."""
        return nodes.Literal("null", None) if self.accept("DEFAULT") else self.expression()
