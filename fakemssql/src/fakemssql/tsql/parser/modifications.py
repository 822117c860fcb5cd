"""Parsing of INSERT, UPDATE, DELETE, MERGE and TRUNCATE with OUTPUT clauses and hints."""

from __future__ import annotations

from collections.abc import Callable

from fakemssql.tsql.parser import lexer, nodes
from fakemssql.tsql.parser.expressions import condition, expression
from fakemssql.tsql.parser.hints import option_clause, table_hints
from fakemssql.tsql.parser.lexer import syntax_error
from fakemssql.tsql.parser.nodes import Cte, Expr, Hint, Name, Output
from fakemssql.tsql.parser.parser import ASSIGNMENTS, Parser
from fakemssql.tsql.parser.procedures import execute
from fakemssql.tsql.parser.queries import query, select_item, top_clause
from fakemssql.tsql.parser.sources import alias, from_clause, join, new_value, values


def insert(p: Parser, ctes: list[Cte]) -> nodes.Insert:
    line = p.expect("INSERT").line
    if top_clause(p, changing=True) is not None:
        p.unsupported("INSERT TOP")
    p.accept("INTO")
    target = _target(p, columns=True)
    hints = _hints(p)
    columns = _insert_columns(p) if p.is_op("(") and not p.query_ahead() else []
    outputs = _output_clauses(p)
    source: nodes.Query | nodes.Execute | None
    if p.accept("DEFAULT"):
        p.expect("VALUES")
        source = None
        option_clause(p)
    elif p.upper in ("EXEC", "EXECUTE"):
        source = execute(p)
        option_clause(p)
    elif p.upper == "VALUES":
        source = nodes.Query(values(p))
        option_clause(p)
    else:
        source = query(p, [])
    return nodes.Insert(target, columns, hints, source, outputs, ctes, line=line)


def update(p: Parser, ctes: list[Cte]) -> nodes.Update:
    line = p.expect("UPDATE").line
    top = top_clause(p, changing=True)
    target = _target(p)
    hints = _hints(p)
    assignments = _set_clause(p)
    outputs = _output_clauses(p)
    sources = from_clause(p)
    where = _where_clause(p)
    return nodes.Update(target, hints, assignments, outputs, sources, where, ctes, top, line=line)


def delete(p: Parser, ctes: list[Cte]) -> nodes.Delete:
    line = p.expect("DELETE").line
    top = top_clause(p, changing=True)
    p.accept("FROM")
    target = _target(p)
    hints = _hints(p)
    outputs = _output_clauses(p)
    sources = from_clause(p)
    where = _where_clause(p)
    return nodes.Delete(target, hints, outputs, sources, where, ctes, top, line=line)


def merge(p: Parser, ctes: list[Cte]) -> nodes.Merge:
    line = p.expect("MERGE").line
    if top_clause(p, changing=True) is not None:
        p.unsupported("MERGE TOP")
    p.accept("INTO")
    target = _target(p)
    hints = _hints(p)
    named = "" if p.upper == "USING" else alias(p) or ""
    p.expect("USING")
    source = join(p)
    p.expect("ON")
    on = condition(p)
    actions = []
    while p.accept("WHEN"):
        actions.append(_merge_action(p))
    if not actions:
        p.fail()
    outputs = _output_clauses(p)
    option_clause(p)
    if not p.is_op(";"):
        raise syntax_error(10713, "A MERGE statement must be terminated by a semi-colon (;).", line=p.token.line)
    return nodes.Merge(target, named, hints, source, on, actions, outputs, ctes, line=line)


CHANGES: dict[str, Callable[[Parser, list[Cte]], nodes.Statement]] = {
    "INSERT": insert,
    "UPDATE": update,
    "DELETE": delete,
    "MERGE": merge,
}
"""Rules of the statements that, besides SELECT, take common table expressions."""


def truncate(p: Parser) -> nodes.Truncate:
    line = p.expect("TRUNCATE").line
    p.expect("TABLE")
    target = p.name()
    if p.upper == "WITH":
        p.unsupported("TRUNCATE TABLE ... WITH (PARTITIONS)")
    return nodes.Truncate(target, line=line)


def _target(p: Parser, *, columns: bool = False) -> Name:
    """Parse the target of a change: table, view, CTE, alias or ``@variable``. ``columns``: a column list may follow."""
    if p.token.kind == lexer.VARIABLE:
        return (p.variable(),)
    if p.upper in ("OPENROWSET", "OPENQUERY", "OPENDATASOURCE"):
        p.unsupported(p.upper)
    name = p.name()
    if p.is_op("(") and not p.query_ahead() and not (columns and p.is_identifier(p.peek())):
        p.unsupported("A function as a target")
    return name


def _hints(p: Parser) -> list[Hint]:
    """Parse the hints on a target: WITH is required, and hints on indexes are refused (error 1069)."""
    line = p.token.line
    if p.upper != "WITH" or p.peek().value != "(":
        return []
    if p.peek(-1).kind == lexer.VARIABLE:
        p.fail(p.peek())
    hints = table_hints(p)
    if any(hint.name == "INDEX" for hint in hints):
        raise syntax_error(1069, "Index hints are only allowed in a FROM or OPTION clause.", line=line)
    return hints


def _output_clauses(p: Parser) -> list[Output]:
    """Up to two OUTPUT clauses: INTO first, then to the client."""
    found: list[Output] = []
    while len(found) < 2 and p.accept("OUTPUT"):
        output = Output(p.list_of(_output_item))
        if not found and p.accept("INTO"):
            output.into = _target(p, columns=True)
            if p.is_op("("):
                output.columns = p.column_list()
        found.append(output)
        if output.into is None:
            break
    return found


def _output_item(p: Parser) -> nodes.SelectItem:
    return select_item(p, renamed=False)


def _column(p: Parser) -> str:
    """Parse a column that gets a value, and skip the qualifier before its name."""
    name = p.identifier()
    while p.accept_op("."):
        name = p.identifier()
    return name


def _insert_columns(p: Parser) -> list[str]:
    return p.list_in_parentheses(_column)


def _set_clause(p: Parser) -> list[nodes.Assignment]:
    """``SET a = 1, @v = b = 2, c += 3``."""
    p.expect("SET")
    return p.list_of(_assignment)


def _assignment(p: Parser) -> nodes.Assignment:
    if p.token.kind != lexer.VARIABLE:
        while p.accept_op("."):
            pass
        column = _column(p)
        if p.is_op("("):
            p.unsupported("A method in SET")
        return nodes.Assignment(column, None, p.assignment(), new_value(p))
    variable, op = p.variable(), p.assignment()
    following = p.peek()
    if not p.is_identifier() or following.kind != lexer.OPERATOR or following.value not in ASSIGNMENTS:
        return nodes.Assignment(None, variable, op, expression(p))
    if op != "=":
        p.fail(following)
    return nodes.Assignment(p.identifier(), variable, p.assignment(), new_value(p))


def _where_clause(p: Parser) -> Expr | None:
    """``WHERE ...`` or nothing, and OPTION."""
    where = None
    if p.accept("WHERE"):
        if p.accept("CURRENT"):
            p.unsupported("WHERE CURRENT OF")
        where = condition(p)
    option_clause(p)
    return where


def _merge_action(p: Parser) -> nodes.MergeAction:
    negated = p.accept("NOT")
    if p.next().upper != "MATCHED":
        p.fail(p.peek(-1))
    matched = "matched"
    if negated:
        matched = "target"
        if p.accept("BY"):
            word = p.next().upper
            if word not in ("TARGET", "SOURCE"):
                p.fail(p.peek(-1))
            matched = word.lower()
    also = condition(p) if p.accept("AND") else None
    p.expect("THEN")
    action = nodes.MergeAction(matched, also, "", [], [], None)
    if matched == "target":
        p.expect("INSERT")
        action.action = "insert"
        if p.is_op("("):
            action.columns = _insert_columns(p)
        if p.accept("DEFAULT"):
            p.expect("VALUES")
        else:
            rows = values(p).rows
            if len(rows) > 1:
                p.fail()
            action.values = rows[0]
    elif p.accept("DELETE"):
        action.action = "delete"
    else:
        p.expect("UPDATE")
        action.action = "update"
        action.assignments = _set_clause(p)
    return action
