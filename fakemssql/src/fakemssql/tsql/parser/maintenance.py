"""Parsing of UPDATE STATISTICS and DBCC."""

from __future__ import annotations

from fakemssql.tsql.parser import lexer, nodes
from fakemssql.tsql.parser.nodes import Statement
from fakemssql.tsql.parser.security import Security

_STATISTICS_OPTIONS = {
    **dict.fromkeys(["FULLSCAN", "SAMPLE", "RESAMPLE", "ALL", "COLUMNS", "INDEX", "NORECOMPUTE"], ""),
    **dict.fromkeys(["INCREMENTAL", "PERSIST_SAMPLE_PERCENT", "AUTO_DROP"], "switch"),
    **dict.fromkeys(["ROWCOUNT", "PAGECOUNT", "MAXDOP"], "number"),
}
"""Options of UPDATE STATISTICS and the kind of value that they take."""

_DBCC_OPTIONS = (
    "NO_INFOMSGS",
    "ALL_ERRORMSGS",
    "TABLERESULTS",
    "COUNT_ROWS",
    "DATA_PURITY",
    "PHYSICAL_ONLY",
    "TABLOCK",
)


class Maintenance(Security):
    """Adds what administrators maintain a database with."""

    def update_statistics(self) -> Statement:
        """UPDATE STATISTICS t [index | (index, ...)] [WITH FULLSCAN | SAMPLE n PERCENT | ROWCOUNT = n, ...]."""
        self.expect("UPDATE", "STATISTICS")
        statement = nodes.UpdateStatistics(self.name(), [])
        if self.is_op("("):
            statement.names = self.column_list()
        elif self.is_identifier():
            statement.names = [self.identifier()]
        if self.accept("WITH"):
            self._statistics_option(statement)
            while self.accept_op(","):
                self._statistics_option(statement)
        return statement

    def _statistics_option(self, statement: nodes.UpdateStatistics) -> None:
        option = self.accept_any(*_STATISTICS_OPTIONS) or self.fail()
        kind = _STATISTICS_OPTIONS[option]
        if option == "RESAMPLE" and self.upper == "ON":
            self.unsupported("Partitioning")
        if option == "SAMPLE":
            self._count()
            if not self.accept_any("PERCENT", "ROWS"):
                self.fail()
        elif kind:
            self.expect_op("=")
            if kind == "switch":
                self.switch()
            else:
                count = self._count()
                statement.row_count = count if option == "ROWCOUNT" else statement.row_count

    def _count(self) -> int:
        number = self.next()
        if number.kind != lexer.NUMBER:
            self.fail(number)
        return int(float(number.value))

    def _on_dbcc(self) -> Statement:
        self.next()
        command = self.identifier().upper()
        arguments: list[nodes.Expr] = []
        if self.accept_op("(") and not self.accept_op(")"):
            arguments.append(self._dbcc_argument())
            while self.accept_op(","):
                arguments.append(self._dbcc_argument())
            self.expect_op(")")
        if self.accept("WITH"):
            while True:
                if not self.accept_any(*_DBCC_OPTIONS):
                    self.fail()
                if not self.accept_op(","):
                    break
        return nodes.Dbcc(command, arguments)

    def _dbcc_argument(self) -> nodes.Expr:
        """A constant, a variable, or a name in one part, brackets and all."""
        if not self.is_identifier():
            return self.constant()
        start = self.index
        self.next()
        if self.is_op("="):
            self.unsupported("A DBCC command with named arguments")
        return nodes.Literal("nvarchar", self.source_text(start))
