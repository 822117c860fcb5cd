"""Parsing of INSERT, UPDATE, DELETE, MERGE and TRUNCATE with OUTPUT clauses and hints."""

from __future__ import annotations

from fakemssql.contract import SqlError
from fakemssql.tsql.parser import lexer, nodes
from fakemssql.tsql.parser.nodes import Hint, Name
from fakemssql.tsql.parser.queries import Queries

_ASSIGNMENTS = frozenset(["=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^="])


class Modifications(Queries):
    """The DML part of the parser."""

    def execute(self) -> nodes.Execute:
        raise NotImplementedError

    def target(self, *, columns: bool = False) -> Name:
        """A table, view, CTE, alias or ``@variable`` that is changed; ``columns`` may follow it."""
        if self.token.kind == lexer.VARIABLE:
            return (self.variable(),)
        if self.upper in ("OPENROWSET", "OPENQUERY", "OPENDATASOURCE"):
            self.unsupported(self.upper)
        name = self.name()
        if self.is_op("(") and not self._query_ahead() and not (columns and self.is_identifier(self.peek())):
            self.unsupported("A function as a target")
        return name

    def _hints(self) -> list[Hint]:
        """Hints on what is changed: always behind WITH, and none on indexes (error 1069)."""
        line = self.token.line
        if self.upper != "WITH" or self.peek().value != "(":
            return []
        if self.peek(-1).kind == lexer.VARIABLE:
            self.fail(self.peek())
        hints = self.hints()
        if any(hint.name == "INDEX" for hint in hints):
            raise SqlError(
                1069, "Index hints are only allowed in a FROM or OPTION clause.", severity=15, state=1, line=line
            )
        return hints

    def outputs(self) -> list[nodes.Output]:
        """Up to two OUTPUT clauses: INTO first, then to the client."""
        found: list[nodes.Output] = []
        while self.upper == "OUTPUT" and len(found) < 2:
            self.next()
            output = nodes.Output([self.select_item(renamed=False)])
            while self.accept_op(","):
                output.items.append(self.select_item(renamed=False))
            if not found and self.accept("INTO"):
                output.into = self.target(columns=True)
                if self.is_op("("):
                    output.columns = self.column_list()
            found.append(output)
            if output.into is None:
                break
        return found

    def insert(self, ctes: list[nodes.Cte]) -> nodes.Insert:
        line = self.expect("INSERT").line
        top = self.top(changing=True)
        self.accept("INTO")
        target = self.target(columns=True)
        hints = self._hints()
        columns: list[str] = []
        if self.is_op("(") and not self._query_ahead():
            columns = self._insert_columns()
        outputs = self.outputs()
        source: nodes.Query | nodes.Execute | None
        if self.accept("DEFAULT"):
            self.expect("VALUES")
            source = None
            self.option_clause()
        elif self.upper in ("EXEC", "EXECUTE"):
            source = self.execute()
            self.option_clause()
        elif self.upper == "VALUES":
            source = nodes.Query(self.values())
            self.option_clause()
        else:
            source = self.query([])
        return nodes.Insert(target, columns, hints, source, outputs, ctes, top, line=line)

    def _column(self) -> str:
        """A column that is given a value; what stands before its name tells nothing new."""
        name = self.identifier()
        while self.accept_op("."):
            name = self.identifier()
        return name

    def _insert_columns(self) -> list[str]:
        self.expect_op("(")
        names = []
        while True:
            names.append(self._column())
            if self.accept_op(")"):
                return names
            self.expect_op(",")

    def assignments(self) -> list[nodes.Assignment]:
        """``SET a = 1, @v = b = 2, c += 3``."""
        self.expect("SET")
        found = []
        while True:
            variable = column = None
            if self.token.kind == lexer.VARIABLE:
                variable = self.variable()
                op = self._assignment_operator()
                following = self.peek()
                if self.is_identifier() and following.kind == lexer.OPERATOR and following.value in _ASSIGNMENTS:
                    if op != "=":
                        self.fail(following)
                    column = self.identifier()
                    op = self._assignment_operator()
            else:
                while self.accept_op("."):
                    pass
                column = self._column()
                if self.is_op("("):
                    self.unsupported("A method in SET")
                op = self._assignment_operator()
            value = self.expression() if variable is not None and column is None else self.new_value()
            found.append(nodes.Assignment(column, variable, op, value))
            if not self.accept_op(","):
                return found

    def _assignment_operator(self) -> str:
        token = self.next()
        if token.kind != lexer.OPERATOR or token.value not in _ASSIGNMENTS:
            self.fail(token)
        return str(token.value)

    def update(self, ctes: list[nodes.Cte]) -> nodes.Update:
        line = self.expect("UPDATE").line
        top = self.top(changing=True)
        target = self.target()
        hints = self._hints()
        assignments = self.assignments()
        outputs = self.outputs()
        sources = self.sources() if self.accept("FROM") else []
        where = self._where()
        return nodes.Update(target, hints, assignments, outputs, sources, where, ctes, top, line=line)

    def delete(self, ctes: list[nodes.Cte]) -> nodes.Delete:
        line = self.expect("DELETE").line
        top = self.top(changing=True)
        self.accept("FROM")
        target = self.target()
        hints = self._hints()
        outputs = self.outputs()
        sources = self.sources() if self.accept("FROM") else []
        where = self._where()
        return nodes.Delete(target, hints, outputs, sources, where, ctes, top, line=line)

    def _where(self) -> nodes.Expr | None:
        where = None
        if self.accept("WHERE"):
            if self.accept("CURRENT"):
                self.unsupported("WHERE CURRENT OF")
            where = self.condition()
        self.option_clause()
        return where

    def merge(self, ctes: list[nodes.Cte]) -> nodes.Merge:
        line = self.expect("MERGE").line
        top = self.top(changing=True)
        self.accept("INTO")
        target = self.target()
        hints = self._hints()
        alias = "" if self.upper == "USING" else self.alias() or ""
        self.expect("USING")
        source = self.join()
        self.expect("ON")
        on = self.condition()
        actions = []
        while self.accept("WHEN"):
            actions.append(self._merge_action())
        if not actions:
            self.fail()
        outputs = self.outputs()
        self.option_clause()
        if not self.is_op(";"):
            raise SqlError(
                10713, "A MERGE statement must be terminated by a semi-colon (;).", severity=15, line=self.token.line
            )
        return nodes.Merge(target, alias, hints, source, on, actions, outputs, ctes, top, line=line)

    def _merge_action(self) -> nodes.MergeAction:
        negated = self.accept("NOT")
        if self.next().upper != "MATCHED":
            self.fail(self.peek(-1))
        matched = "matched"
        if negated:
            matched = "target"
            if self.accept("BY"):
                word = self.next().upper
                if word not in ("TARGET", "SOURCE"):
                    self.fail(self.peek(-1))
                matched = word.lower()
        condition = self.condition() if self.accept("AND") else None
        self.expect("THEN")
        action = nodes.MergeAction(matched, condition, "", [], [], None)
        if matched == "target":
            self.expect("INSERT")
            action.action = "insert"
            if self.is_op("("):
                action.columns = self._insert_columns()
            if self.accept("DEFAULT"):
                self.expect("VALUES")
            else:
                rows = self.values().rows
                if len(rows) > 1:
                    self.fail()
                action.values = rows[0]
        elif self.accept("DELETE"):
            action.action = "delete"
        else:
            self.expect("UPDATE")
            action.action = "update"
            action.assignments = self.assignments()
        return action

    def truncate(self) -> nodes.Truncate:
        line = self.expect("TRUNCATE").line
        self.expect("TABLE")
        target = self.name()
        if self.upper == "WITH":
            self.unsupported("TRUNCATE TABLE ... WITH (PARTITIONS)")
        return nodes.Truncate(target, line=line)
