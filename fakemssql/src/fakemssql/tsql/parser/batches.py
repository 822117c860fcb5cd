"""Parsing of whole batches. :func:`parse` is the entry."""

from __future__ import annotations

from fakemssql.contract import SqlError
from fakemssql.tsql.parser import control, expressions, lexer, queries, statements
from fakemssql.tsql.parser.nodes import Statement
from fakemssql.tsql.parser.parser import Parser


class Batch(Parser):
    """A parser with the rules in their places: of a batch, or of any part of one."""

    expression = expressions.expression
    condition = expressions.condition
    predicate = expressions.predicate
    nested_query = queries.nested_query
    statement = statements.statement


def parse(text: str, quoted_identifier: bool = True) -> list[Statement]:
    """The statements of a batch. Raises :class:`SqlError` for what is no T-SQL or not supported."""
    try:
        return control.statements(Batch(text, lexer.tokenize(text, quoted_identifier)))
    except RecursionError:
        raise SqlError(191, "Some part of your SQL statement is nested too deeply.", severity=15) from None
