"""Parsing of query expressions ("SELECT (Transact-SQL)", "FROM clause", "Table hints")."""

from __future__ import annotations

from typing import Any

from airflow_sqlqueue.localdb.tsql.parser import lexer, nodes
from airflow_sqlqueue.localdb.tsql.parser.expressions import Expressions
from airflow_sqlqueue.localdb.tsql.parser.nodes import Hint, Query, Source

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
_ASSIGNMENTS = frozenset(["=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^="])
_QUERY_HINTS = frozenset(
    [
        "MAXDOP",
        "RECOMPILE",
        "OPTIMIZE",
        "FAST",
        "LOOP",
        "HASH",
        "MERGE",
        "ORDER",
        "CONCAT",
        "FORCE",
        "MAXRECURSION",
        "KEEP",
        "KEEPFIXED",
        "EXPAND",
        "USE",
        "QUERYTRACEON",
        "ROBUST",
        "PARAMETERIZATION",
        "IGNORE_NONCLUSTERED_COLUMNSTORE_INDEX",
        "NO_PERFORMANCE_SPOOL",
        "MIN_GRANT_PERCENT",
        "MAX_GRANT_PERCENT",
        "LABEL",
        "TABLE",
    ]
)


class Queries(Expressions):
    """The query part of the parser."""

    def with_clause(self) -> list[nodes.Cte]:
        """``WITH a AS (...), b AS (...)`` or nothing."""
        ctes: list[nodes.Cte] = []
        if not self.accept("WITH"):
            return ctes
        if self.upper == "XMLNAMESPACES":
            self.unsupported("WITH XMLNAMESPACES")
        while True:
            name = self.identifier()
            columns = self.column_list() if self.is_op("(") else []
            self.expect("AS")
            self.expect_op("(")
            query = self.query()
            self.expect_op(")")
            ctes.append(nodes.Cte(name, columns, query))
            if not self.accept_op(","):
                return ctes

    def column_list(self) -> list[str]:
        self.expect_op("(")
        names = [self.identifier()]
        while self.accept_op(","):
            names.append(self.identifier())
        self.expect_op(")")
        return names

    def query(self, ctes: list[nodes.Cte] | None = None) -> Query:
        """A query expression with its ORDER BY, OFFSET, FOR and OPTION clauses."""
        if ctes is None:
            ctes = self.with_clause()
        query = Query(self._set_operations(), ctes)
        if self.upper == "ORDER":
            query.order = self.order_by()
            if self.accept("OFFSET"):
                query.offset = self.expression()
                if not self.accept_any("ROW", "ROWS"):
                    self.fail()
                if self.accept("FETCH"):
                    if not self.accept_any("FIRST", "NEXT"):
                        self.fail()
                    query.fetch = self.expression()
                    if not self.accept_any("ROW", "ROWS"):
                        self.fail()
                    self.expect("ONLY")
        if self.upper == "FOR" and self.peek().upper in ("XML", "JSON", "BROWSE"):
            self.next()
            self._for_clause(query)
        self.option_clause()
        return query

    def _for_clause(self, query: Query) -> None:
        query.for_clause = self.next().upper
        if query.for_clause != "JSON":
            self.unsupported(f"FOR {query.for_clause}", self.peek(-1))
        mode = self.accept_any("PATH", "AUTO")
        if not mode:
            self.fail()
        query.for_options["MODE"] = mode
        while self.accept_op(","):
            option = self.next().upper
            value = ""
            if option == "ROOT" and self.accept_op("("):
                value = str(self.next().value)
                self.expect_op(")")
            if option not in ("ROOT", "INCLUDE_NULL_VALUES", "WITHOUT_ARRAY_WRAPPER"):
                self.fail(self.peek(-1))
            query.for_options[option] = value

    def option_clause(self) -> None:
        """``OPTION (...)``: hints for SQL Server's optimizer; results do not depend on them."""
        if not self.accept("OPTION"):
            return
        if self.peek().upper not in _QUERY_HINTS:
            self.fail(self.peek())
        self.skip_parentheses()

    def _set_operations(self) -> Any:
        left = self._intersections()
        while self.upper in ("UNION", "EXCEPT"):
            op = self.next().upper.lower()
            if op == "union" and self.accept("ALL"):
                op = "union all"
            left = nodes.SetOperation(op, left, self._intersections())
        return left

    def _intersections(self) -> Any:
        left = self._query_primary()
        while self.accept("INTERSECT"):
            left = nodes.SetOperation("intersect", left, self._query_primary())
        return left

    def _query_primary(self) -> Any:
        if self.accept_op("("):
            inner = self.query([])
            self.expect_op(")")
            return inner
        if self.upper == "VALUES":
            return self.values()
        return self._select()

    def values(self) -> nodes.Values:
        self.expect("VALUES")
        rows = []
        while True:
            self.expect_op("(")
            row = [self.expression()]
            while self.accept_op(","):
                row.append(self.expression())
            self.expect_op(")")
            rows.append(row)
            if not self.accept_op(","):
                return nodes.Values(rows)

    def top(self) -> nodes.Top | None:
        if not self.accept("TOP"):
            return None
        if self.accept_op("("):
            value = self.expression()
            self.expect_op(")")
        else:
            token = self.next()
            if token.kind == lexer.VARIABLE:
                value = nodes.Variable(token.value.lower())
            elif token.kind == lexer.NUMBER:
                value = self._number(token.value)
            else:
                self.fail(token)
        percent = self.accept("PERCENT")
        ties = False
        if self.upper == "WITH" and self.peek().upper == "TIES":
            self.expect("WITH", "TIES")
            ties = True
        return nodes.Top(value, percent, ties)

    def _select(self) -> nodes.Select:
        token = self.expect("SELECT")
        select = nodes.Select([], line=token.line)
        select.distinct = self.accept_any("DISTINCT", "ALL") == "DISTINCT"
        select.top = self.top()
        while True:
            select.items.append(self.select_item(assign=True))
            if not self.accept_op(","):
                break
        if self.accept("INTO"):
            select.into = self.name()
        if self.accept("FROM"):
            select.sources = self.sources()
        if self.accept("WHERE"):
            select.where = self.predicate()
        if self.accept("GROUP"):
            self.expect("BY")
            if self.upper in ("ROLLUP", "CUBE", "GROUPING") and self.peek().value in ("(", "SETS"):
                self.unsupported("GROUP BY ROLLUP, CUBE and GROUPING SETS")
            self.accept("ALL")
            select.group.append(self.expression())
            while self.accept_op(","):
                select.group.append(self.expression())
            if self.upper == "WITH" and self.peek().upper in ("ROLLUP", "CUBE"):
                self.unsupported("GROUP BY ... WITH ROLLUP and CUBE")
        if self.accept("HAVING"):
            select.having = self.predicate()
        if self.upper == "WINDOW":
            self.unsupported("The WINDOW clause")
        return select

    def select_item(self, assign: bool = False) -> nodes.SelectItem:
        """One item of a SELECT or OUTPUT list."""
        token = self.token
        if self.accept_op("*"):
            return nodes.SelectItem(nodes.Star(()))
        following = self.peek()
        operator = following.value if following.kind == lexer.OPERATOR else ""
        if assign and token.kind == lexer.VARIABLE and operator in _ASSIGNMENTS:
            variable = self.variable()
            self.next()
            return nodes.SelectItem(self.expression(), variable=variable, op=operator)
        if operator == "=" and (self.is_identifier(token) or token.kind in (lexer.STRING, lexer.NSTRING)):
            self.next()
            self.next()
            return nodes.SelectItem(self.expression(), alias=str(token.value))
        value = self.expression()
        return nodes.SelectItem(value, alias=self.alias(strings=True))

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

    # --- FROM ----------------------------------------------------------------------------------------------------

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
        if self.upper in ("OPENROWSET", "OPENQUERY", "OPENXML", "OPENDATASOURCE", "CONTAINSTABLE", "FREETEXTTABLE"):
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
                    from airflow_sqlqueue.localdb.contract import SqlError

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
            args.append(self.expression())
            while self.accept_op(","):
                args.append(self.expression())
        self.expect_op(")")
        schema = None
        if self.upper == "WITH" and self.peek().value == "(" and name[-1].upper() == "OPENJSON":
            self.next()
            schema = self._json_schema()
        alias = self.alias() or name[-1]
        columns = self.column_list() if self.is_op("(") else []
        return nodes.FunctionSource(name, args, alias, columns, schema, line)

    def _json_schema(self) -> list[tuple[str, Any, str | None, bool]]:
        self.expect_op("(")
        columns = []
        while True:
            name = self.identifier()
            kind = self.type()
            path = None
            if self.token.kind in (lexer.STRING, lexer.NSTRING):
                path = str(self.next().value)
            as_json = False
            if self.accept("AS"):
                if self.next().upper != "JSON":
                    self.fail(self.peek(-1))
                as_json = True
            columns.append((name, kind, path, as_json))
            if self.accept_op(")"):
                return columns
            self.expect_op(",")
