"""Parsing of FROM: tables, joins, derived tables, VALUES, table functions ("FROM clause")."""

from __future__ import annotations

from fakemssql.contract import SqlError
from fakemssql.tsql.parser import lexer, nodes
from fakemssql.tsql.parser.expressions import condition, expression
from fakemssql.tsql.parser.hints import old_hint, old_hint_ahead, table_hints
from fakemssql.tsql.parser.nodes import Expr, Source
from fakemssql.tsql.parser.parser import Parser

_JOINS = ("JOIN", "INNER", "LEFT", "RIGHT", "FULL")

_ROWSETS = (*("OPENROWSET", "OPENQUERY", "OPENXML", "OPENJSON", "OPENDATASOURCE", "CONTAINSTABLE", "FREETEXTTABLE"),)


def alias(p: Parser, *, strings: bool = False, words: bool = False) -> str | None:
    """Parse an alias, ``[AS] name``, or nothing; ``words``: also one that is the first word of a clause elsewhere."""
    named = p.accept("AS")
    if strings and p.is_string():
        return p.string()
    if named:
        return p.identifier()
    if not p.is_identifier() or (not words and _clause_ahead(p)) or trigger_switch_ahead(p):
        return None
    return str(p.next().value)


def trigger_switch_ahead(p: Parser) -> bool:
    return p.upper in ("ENABLE", "DISABLE") and p.peek().upper == "TRIGGER"


def _clause_ahead(p: Parser) -> bool:
    """Return whether a clause or a statement starts here with a word that is not a reserved keyword."""
    return p.upper in ("OUTPUT", "OFFSET", "USING", "WINDOW", "THROW") or (p.upper == "AT" and p.peek().upper == "TIME")


def from_clause(p: Parser) -> list[Source]:
    """``FROM a, b JOIN c ON ...`` or nothing."""
    return p.list_of(join) if p.accept("FROM") else []


def join(p: Parser) -> Source:
    """Parse a table and its joins."""
    left = _table_source(p)
    while True:
        word, following = p.upper, p.peek().upper
        if word == "CROSS" and following == "JOIN":
            p.expect("CROSS", "JOIN")
            left = nodes.Join("cross", left, _table_source(p), None)
        elif word in ("CROSS", "OUTER") and following == "APPLY":
            p.expect(word, "APPLY")
            left = nodes.Join(word.lower() + "_apply", left, _table_source(p), None)
        elif word in _JOINS:
            kind = _join_kind(p, hinted=True)
            right = _right_side(p)
            p.expect("ON")
            left = nodes.Join(kind, left, right, condition(p))
        elif word in ("PIVOT", "UNPIVOT"):
            p.unsupported(word)
        else:
            return left


def _right_side(p: Parser) -> Source:
    """Parse the right side of a join; ``a JOIN b JOIN c ON .. ON ..`` nests to the right."""
    source = _table_source(p)
    while p.upper in _JOINS:
        mark = p.index
        kind = _join_kind(p, hinted=False)
        right = _right_side(p)
        if not p.accept("ON"):
            p.move(mark)
            return source
        source = nodes.Join(kind, source, right, condition(p))
    return source


def _join_kind(p: Parser, *, hinted: bool) -> str:
    """``[INNER | LEFT [OUTER] ...] [hint] JOIN``."""
    word = p.word()
    if word == "JOIN":
        return "inner"
    if word != "INNER":
        p.accept("OUTER")
    if hinted:
        p.accept_any("LOOP", "HASH", "MERGE", "REMOTE")
    p.expect("JOIN")
    return word.lower()


def _table_source(p: Parser) -> Source:
    token = p.token
    if token.kind == lexer.VARIABLE:
        name = p.variable()
        if p.is_op("."):
            p.unsupported("A method of a variable")
        return nodes.VariableSource(name, alias(p) or name)
    if p.is_op("("):
        return _parenthesised(p)
    if p.upper in _ROWSETS:
        p.unsupported(p.upper)
    table = p.name()
    if p.is_op("(") and not old_hint_ahead(p):
        return _function_source(p, table, token.line)
    if p.upper == "FOR" and p.peek().upper == "SYSTEM_TIME":
        p.unsupported("FOR SYSTEM_TIME")
    found = old_hint(p, alias=False) if old_hint_ahead(p) else []
    named = alias(p) or ""
    if p.upper == "TABLESAMPLE":
        p.unsupported("TABLESAMPLE")
    if not found:
        if p.upper == "WITH" and p.peek().value == "(":
            found = table_hints(p)
        elif old_hint_ahead(p):
            found = old_hint(p, alias=bool(named))
        elif named and p.is_op("(") and p.peek().kind == lexer.NUMBER:
            p.unsupported("An index as a hint without INDEX")
    if p.upper == "TABLESAMPLE":
        p.unsupported("TABLESAMPLE")
    return nodes.TableSource(table, named, found, token.line)


def _parenthesised(p: Parser) -> Source:
    p.expect_op("(")
    if p.upper == "VALUES":
        return _derived(p, nodes.Query(values(p, new=False)))
    if p.query_ahead():
        mark = p.index
        try:
            query = p.nested_query()
        except SqlError:
            if p.tokens[mark].upper == "SELECT":
                raise
        else:
            if p.is_op(")"):
                return _derived(p, query)
        p.move(mark)
    if p.upper in ("INSERT", "UPDATE", "DELETE", "MERGE"):
        p.unsupported("A data modification as a table source")
    inner = join(p)
    if not isinstance(inner, nodes.Join):
        p.fail()
    p.expect_op(")")
    return inner


def _derived(p: Parser, query: nodes.Query) -> Source:
    p.expect_op(")")
    name = alias(p)
    if name is None:
        p.fail()
    columns = p.column_list() if p.is_op("(") else []
    return nodes.QuerySource(query, name, columns)


def _function_source(p: Parser, name: nodes.Name, line: int) -> Source:
    p.expect_op("(")
    args = [] if p.is_op(")") else p.list_of(_function_argument)
    p.expect_op(")")
    named = alias(p) or name[-1]
    columns = p.column_list() if p.is_op("(") else []
    return nodes.FunctionSource(name, args, named, columns, line)


def _function_argument(p: Parser) -> Expr:
    """Parse an argument; DEFAULT is NULL for system functions."""
    return nodes.Literal("null", None) if p.accept("DEFAULT") else expression(p)


def new_value(p: Parser) -> Expr:
    """Parse the value for a column: an expression or DEFAULT."""
    return nodes.Literal("default", None) if p.accept("DEFAULT") else expression(p)


def values(p: Parser, *, new: bool = True) -> nodes.Values:
    """``VALUES (1, 2), (3, 4)``; ``new``: the values are for columns, so that DEFAULT is allowed."""
    p.expect("VALUES")
    return nodes.Values(p.list_of(_new_row if new else _row))


def _new_row(p: Parser) -> list[Expr]:
    return p.list_in_parentheses(new_value)


def _row(p: Parser) -> list[Expr]:
    return p.list_in_parentheses(expression)
