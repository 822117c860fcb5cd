"""Parsing of UPDATE STATISTICS and DBCC."""

from __future__ import annotations

from fakemssql.tsql.parser import lexer, nodes
from fakemssql.tsql.parser.nodes import Expr, UpdateStatistics
from fakemssql.tsql.parser.parser import Parser
from fakemssql.tsql.parser.terms import constant

_STATISTICS_OPTIONS = {
    **dict.fromkeys(["FULLSCAN", "SAMPLE", "RESAMPLE", "ALL", "COLUMNS", "INDEX", "NORECOMPUTE"], ""),
    **dict.fromkeys(["INCREMENTAL", "PERSIST_SAMPLE_PERCENT", "AUTO_DROP"], "switch"),
    **dict.fromkeys(["ROWCOUNT", "PAGECOUNT", "MAXDOP"], "number"),
}
"""Options of UPDATE STATISTICS and the kind of value that they take."""

_DBCC_OPTIONS = (
    *("NO_INFOMSGS", "ALL_ERRORMSGS", "TABLERESULTS", "COUNT_ROWS", "DATA_PURITY", "PHYSICAL_ONLY", "TABLOCK"),
)


def update_statistics(p: Parser) -> UpdateStatistics:
    """UPDATE STATISTICS t [index | (index, ...)] [WITH FULLSCAN | SAMPLE n PERCENT | ROWCOUNT = n, ...]."""
    p.expect("UPDATE", "STATISTICS")
    statement = UpdateStatistics(p.name(), [])
    if p.is_op("("):
        statement.names = p.column_list()
    elif p.is_identifier():
        statement.names = [p.identifier()]
    if p.accept("WITH"):
        _statistics_option(p, statement)
        while p.accept_op(","):
            _statistics_option(p, statement)
    return statement


def _statistics_option(p: Parser, statement: UpdateStatistics) -> None:
    option = p.expect_any(*_STATISTICS_OPTIONS)
    kind = _STATISTICS_OPTIONS[option]
    if option == "RESAMPLE" and p.upper == "ON":
        p.unsupported("Partitioning")
    if option == "SAMPLE":
        _count(p)
        p.expect_any("PERCENT", "ROWS")
    elif kind:
        p.expect_op("=")
        if kind == "switch":
            p.switch()
        else:
            count = _count(p)
            statement.row_count = count if option == "ROWCOUNT" else statement.row_count


def _count(p: Parser) -> int:
    number = p.next()
    if number.kind != lexer.NUMBER:
        p.fail(number)
    return int(float(number.value))


def kill(p: Parser) -> nodes.Kill:
    p.expect("KILL")
    if p.token.kind == lexer.STRING:
        p.unsupported("KILL of a distributed transaction")
    session = _count(p)
    if p.upper == "WITH":
        p.unsupported("KILL WITH STATUSONLY")
    return nodes.Kill(session)


def dbcc(p: Parser) -> nodes.Dbcc:
    p.expect("DBCC")
    command = p.identifier().upper()
    arguments: list[Expr] = []
    if p.accept_op("(") and not p.accept_op(")"):
        arguments = p.list_of(_dbcc_argument)
        p.expect_op(")")
    if p.accept("WITH"):
        p.list_of(_dbcc_option)
    return nodes.Dbcc(command, arguments)


def _dbcc_argument(p: Parser) -> Expr:
    """A constant, a variable, or a name in one part, brackets and all."""
    if not p.is_identifier():
        return constant(p)
    start = p.index
    p.next()
    if p.is_op("="):
        p.unsupported("A DBCC command with named arguments")
    return nodes.Literal("nvarchar", p.source_text(start))


def _dbcc_option(p: Parser) -> str:
    return p.expect_any(*_DBCC_OPTIONS)
