"""The entry to the compiler: one statement to the method that compiles it."""

from __future__ import annotations

from fakemssql.contract import SqlError
from fakemssql.tsql.compiler.assignments import Assignments
from fakemssql.tsql.compiler.changes import Changes
from fakemssql.tsql.compiler.inserts import Inserts
from fakemssql.tsql.compiler.merges import Merges
from fakemssql.tsql.compiler.plan import Plan
from fakemssql.tsql.parser import nodes


class Compiler(Assignments, Inserts, Changes, Merges):
    """Statement compiler; one instance compiles one statement."""

    def compile(self, statement: nodes.Statement) -> Plan:
        """Compile a SELECT or a statement that changes rows."""
        if isinstance(statement, nodes.SelectStatement):
            return self.select(statement.query)
        if isinstance(statement, nodes.Insert):
            return self.insert(statement)
        if isinstance(statement, nodes.Update):
            return self.update(statement)
        if isinstance(statement, nodes.Delete):
            return self.delete(statement)
        assert isinstance(statement, nodes.Merge)
        return self.merge(statement)

    def select(self, query: nodes.Query) -> Plan:
        body = query.body
        if isinstance(body, nodes.Select) and any(item.variable for item in body.items):
            if not all(item.variable for item in body.items):
                raise SqlError(
                    141,
                    "A SELECT statement that assigns a value to a variable must not be combined with data-retrieval"
                    " operations.",
                    severity=15,
                )
            return self._assigning(query, body)
        compiled = self.compile_query(query, None)
        return self.finish(compiled.sql, columns=compiled.columns, selects=True)
