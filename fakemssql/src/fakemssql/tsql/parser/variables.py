"""Parsing of DECLARE and SET."""

from __future__ import annotations

from collections.abc import Callable

from fakemssql.tsql.parser import lexer, nodes
from fakemssql.tsql.parser.expressions import expression
from fakemssql.tsql.parser.lexer import syntax_error
from fakemssql.tsql.parser.nodes import Statement
from fakemssql.tsql.parser.parser import Parser
from fakemssql.tsql.parser.tables import table_elements
from fakemssql.tsql.parser.terms import constant
from fakemssql.tsql.parser.types import data_type

_SWITCHES = frozenset(
    [
        *("ANSI_DEFAULTS", "ANSI_NULLS", "ANSI_NULL_DFLT_OFF", "ANSI_NULL_DFLT_ON", "ANSI_PADDING", "ANSI_WARNINGS"),
        *("ARITHABORT", "ARITHIGNORE", "CONCAT_NULL_YIELDS_NULL", "CURSOR_CLOSE_ON_COMMIT", "FMTONLY", "FORCEPLAN"),
        *("IMPLICIT_TRANSACTIONS", "NOCOUNT", "NOEXEC", "NO_BROWSETABLE", "NUMERIC_ROUNDABORT", "PARSEONLY"),
        *("QUOTED_IDENTIFIER", "REMOTE_PROC_TRANSACTIONS", "SHOWPLAN_ALL", "SHOWPLAN_TEXT", "SHOWPLAN_XML"),
        "XACT_ABORT",
    ]
)
"""Options that are ON or OFF ("SET statements")."""

_VALUES = frozenset(
    [
        *("CONTEXT_INFO", "DATEFIRST", "DATEFORMAT", "DEADLOCK_PRIORITY", "ERRLVL", "FIPS_FLAGGER", "LANGUAGE"),
        *("LOCK_TIMEOUT", "QUERY_GOVERNOR_COST_LIMIT", "ROWCOUNT", "TEXTSIZE"),
    ]
)
"""Options that have a value."""


def declare(p: Parser) -> Statement:
    p.expect("DECLARE")
    line, name = p.token.line, _declared(p)
    if p.accept("TABLE"):
        table = nodes.CreateTable((name,), [], [], [], line=line)
        table_elements(p, table, variable=True)
        return nodes.DeclareTable(name, table, line=line)
    found: list[Statement] = [_variable(p, name, line)]
    while p.accept_op(","):
        line, name = p.token.line, _declared(p)
        found.append(_variable(p, name, line))
    return found[0] if len(found) == 1 else nodes.Block(found)


def _declared(p: Parser) -> str:
    """Parse the name of a variable that is declared here, and AS behind it. Error 134 for a second declaration."""
    line = p.token.line
    if p.is_identifier() and p.peek().upper in ("CURSOR", "INSENSITIVE", "SCROLL"):
        p.unsupported("A cursor")
    name = p.variable()
    if name in p.declared:
        raise syntax_error(
            134,
            f"The variable name '{name}' has already been declared. Variable names must be unique within a query batch"
            " or stored procedure.",
            line=line,
        )
    p.declared.add(name)
    p.accept("AS")
    return name


def _variable(p: Parser, name: str, line: int) -> Statement:
    if p.upper == "CURSOR":
        p.unsupported("A cursor")
    kind = data_type(p)
    if p.upper in ("NULL", "NOT"):
        p.unsupported("NULL or NOT NULL in the declaration of a variable")
    value = expression(p) if p.accept_op("=") else None
    return nodes.Declare(name, kind, value, line=line)


def set_(p: Parser) -> Statement:
    p.expect("SET")
    if p.token.kind == lexer.VARIABLE:
        return _set_variable(p)
    rule = _RULES.get(p.upper)
    if rule is not None:
        p.next()
        return rule(p)
    name = p.word()
    if name in _VALUES:
        return nodes.SetOption([name], _value(p, name))
    names = [name]
    while p.accept_op(","):
        names.append(p.word())
    unknown = next((each for each in names if each not in _SWITCHES), None)
    if unknown is not None:
        raise syntax_error(195, f"'{unknown}' is not a recognized SET option.", state=5, line=p.token.line)
    return nodes.SetOption(names, p.switch())


def _set_variable(p: Parser) -> Statement:
    name = p.variable()
    if p.is_op("."):
        p.unsupported("A method of a variable")
    op = p.assignment()
    if p.upper == "CURSOR":
        p.unsupported("A cursor")
    return nodes.SetVariable(name, op, expression(p))


def _isolation(p: Parser) -> Statement:
    """``TRANSACTION ISOLATION LEVEL READ COMMITTED``."""
    if not p.accept("ISOLATION") or not p.accept("LEVEL"):
        p.fail()
    words = [p.next().upper]
    if words[0] in ("READ", "REPEATABLE"):
        words.append(p.next().upper)
    level = " ".join(words)
    if level not in ("READ UNCOMMITTED", "READ COMMITTED", "REPEATABLE READ", "SNAPSHOT", "SERIALIZABLE"):
        p.fail(p.peek(-1))
    return nodes.SetOption(["ISOLATION"], level)


def _identity_insert(p: Parser) -> Statement:
    table = p.name()
    return nodes.SetOption(["IDENTITY_INSERT"], (table, p.switch()))


def _statistics(p: Parser) -> Statement:
    names = [p.next().upper]
    while p.accept_op(","):
        names.append(p.next().upper)
    if not set(names) <= {"IO", "TIME", "XML", "PROFILE"}:
        p.fail(p.peek(-1))
    on = p.switch()
    if on and (shown := {"PROFILE", "XML"}.intersection(names)):
        p.unsupported(f"SET STATISTICS {min(shown)}")
    return nodes.SetOption([f"STATISTICS {name}" for name in names], on)


_RULES: dict[str, Callable[[Parser], Statement]] = {
    "TRANSACTION": _isolation,
    "IDENTITY_INSERT": _identity_insert,
    "STATISTICS": _statistics,
}
"""Rules for the words behind SET that need more than ON, OFF or a value."""


def _value(p: Parser, name: str) -> object:
    """Parse a constant, a variable, or a word, which counts as text."""
    token = p.token
    if name == "FIPS_FLAGGER" and p.accept("OFF"):
        return False
    if p.is_identifier():
        return nodes.Literal("varchar", p.identifier())
    whole = token.kind == lexer.NUMBER and token.value.isdigit()
    if name == "ROWCOUNT" and not whole and token.kind != lexer.VARIABLE:
        p.fail()
    if name == "TEXTSIZE" and not whole and not p.is_op("-"):
        p.fail()
    return constant(p)
