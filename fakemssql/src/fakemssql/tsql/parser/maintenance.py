"""Parsing of UPDATE STATISTICS, KILL and DBCC."""

from __future__ import annotations

from fakemssql.tsql.parser import lexer, nodes
from fakemssql.tsql.parser.nodes import Expr, UpdateStatistics
from fakemssql.tsql.parser.parser import Parser
from fakemssql.tsql.parser.terms import constant


def update_statistics(p: Parser) -> UpdateStatistics:
    """UPDATE STATISTICS t [index | (index, ...)] [WITH FULLSCAN | ROWCOUNT = n | PAGECOUNT = n, ...]."""
    p.expect("UPDATE", "STATISTICS")
    statement = UpdateStatistics(p.name(), [])
    if p.is_op("("):
        statement.names = p.column_list()
    elif p.is_identifier():
        statement.names = [p.identifier()]
    if p.accept("WITH"):
        p.list_of(lambda p: _statistics_option(p, statement))
    return statement


def _statistics_option(p: Parser, statement: UpdateStatistics) -> None:
    option = p.word()
    if option in ("ROWCOUNT", "PAGECOUNT"):
        p.expect_op("=")
        count = _count(p)
        statement.row_count = count if option == "ROWCOUNT" else statement.row_count
    elif option != "FULLSCAN":
        p.unsupported(f"UPDATE STATISTICS ... WITH {option}", p.peek(-1))


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
    """Parse a constant, a variable, or a name of one part with its brackets."""
    if not p.is_identifier():
        return constant(p)
    start = p.index
    p.next()
    if p.is_op("="):
        p.unsupported("A DBCC command with named arguments")
    return nodes.Literal("nvarchar", p.source_text(start))


def _dbcc_option(p: Parser) -> None:
    option = p.word()
    if option != "NO_INFOMSGS":
        p.unsupported(f"DBCC ... WITH {option}", p.peek(-1))
