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
    ]
)


_OLD_HINTS = HINTS - {"INDEX", "FORCESEEK", "FORCESCAN", "READCOMMITTEDLOCK"}
"""Those that may stand without WITH ("Table hints": where a table has no alias; behind an alias all may)."""


class Sources(Expressions):
    """Adds what can stand in FROM to expressions."""

    def values(self, *, new: bool = True) -> nodes.Values:
        raise NotImplementedError

    def column_list(self) -> list[str]:
        self.expect_op("(")
        names = [self.identifier()]
        while self.accept_op(","):
            names.append(self.identifier())
        self.expect_op(")")
        return names

    def alias(self, strings: bool = False, words: bool = False) -> str | None:
        """``[AS] name`` if there is one; with ``words`` also one with which a clause might begin."""
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
            if (not words and self._clause_ahead()) or self.trigger_switch_ahead():
                return None
            self.next()
            return str(token.value)
        return None

    def trigger_switch_ahead(self) -> bool:
        return self.upper in ("ENABLE", "DISABLE") and self.peek().upper == "TRIGGER"

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
                left = nodes.Join(kind, left, right, self.condition())
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
            source = nodes.Join(kind, source, right, self.condition())
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
        if self.is_op("(") and not self._hint_ahead():
            return self._function_source(table, token.line)
        if self.upper == "FOR" and self.peek().upper == "SYSTEM_TIME":
            self.unsupported("FOR SYSTEM_TIME")
        hints = self._old_hint(_OLD_HINTS) if self._hint_ahead() else []
        alias = self.alias() or ""
        if self.upper == "TABLESAMPLE":
            self.unsupported("TABLESAMPLE")
        if not hints:
            if self.upper == "WITH" and self.peek().value == "(":
                hints = self.hints()
            elif self._hint_ahead():
                hints = self._old_hint(HINTS if alias else _OLD_HINTS)
            elif alias and self.is_op("(") and self.peek().kind == lexer.NUMBER:
                self.unsupported("An index as a hint without INDEX")
        if self.upper == "TABLESAMPLE":
            self.unsupported("TABLESAMPLE")
        return nodes.TableSource(table, alias, hints, token.line)

    def _hint_ahead(self) -> bool:
        """Whether a hint without WITH comes next."""
        return self.is_op("(") and self.peek().upper in HINTS and self.peek(2).value in (")", ",", "(", "=")

    def _old_hint(self, known: frozenset[str]) -> list[Hint]:
        """``(NOLOCK)``: the hint stands alone. Error 1018 where it does not."""
        self.expect_op("(")
        hint = self._hint()
        if hint.name not in known or not self.is_op(")"):
            word = self.token.value if hint.name in known else hint.name
            raise SqlError(
                1018,
                f"Incorrect syntax near '{word}'. If this is intended as a part of a table hint, A WITH keyword and"
                " parenthesis are now required. See SQL Server Books Online for proper syntax.",
                severity=15,
                line=self.token.line,
            )
        self.next()
        return [hint]

    def hints(self) -> list[Hint]:
        """``WITH ( hint [, hint ...] )``; the comma may be missing, as in old code."""
        self.expect("WITH")
        self.expect_op("(")
        hints = [self._hint()]
        while not self.accept_op(")"):
            self.accept_op(",")
            hints.append(self._hint())
        return hints

    def _hint(self) -> Hint:
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
        if word == "INDEX":
            if self.accept_op("=") and not self.is_op("("):
                hint.args.append(self._index())
                return hint
            self.expect_op("(")
            hint.args.append(self._index())
            while self.accept_op(","):
                hint.args.append(self._index())
            self.expect_op(")")
        elif word == "FORCESEEK" and self.accept_op("("):
            hint.args.append(self._index())
            self.column_list()
            self.expect_op(")")
        return hint

    def _index(self) -> str:
        """An index by its name or number."""
        if self.token.kind == lexer.NUMBER and self.token.value.isdigit():
            return str(self.next().value)
        return self.identifier()

    def _parenthesised_source(self) -> Source:
        self.expect_op("(")
        if self.upper == "VALUES":
            return self._derived(nodes.Query(self.values(new=False)))
        if self._query_ahead():
            mark = self.index
            try:
                query = self.nested_query()
            except SqlError:
                if self.tokens[mark].upper == "SELECT":
                    raise
            else:
                if self.is_op(")"):
                    return self._derived(query)
            self.index = mark
        if self.upper in ("INSERT", "UPDATE", "DELETE", "MERGE"):
            self.unsupported("A data modification as a table source")
        inner = self.join()
        if not isinstance(inner, nodes.Join):
            self.fail()
        self.expect_op(")")
        return inner

    def _derived(self, query: nodes.Query) -> Source:
        self.expect_op(")")
        alias = self.alias()
        if alias is None:
            self.fail()
        columns = self.column_list() if self.is_op("(") else []
        return nodes.QuerySource(query, alias, columns)

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
