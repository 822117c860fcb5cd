"""Parsing of OPTION: hints for SQL Server's optimizer, on which results do not depend ("Query hints")."""

from __future__ import annotations

from collections.abc import Callable

from fakemssql.tsql.parser import lexer
from fakemssql.tsql.parser.parser import Parser
from fakemssql.tsql.parser.terms import constant


def option_clause(p: Parser) -> None:
    """``OPTION (...)`` or nothing."""
    if not p.accept("OPTION"):
        return
    p.list_in_parentheses(_query_hint)


def _query_hint(p: Parser) -> None:
    word = p.word()
    if word in _FOLLOWING:
        p.expect_any(*_FOLLOWING[word])
    elif word in _RULES:
        _RULES[word](p)
    elif word not in _ALONE:
        p.fail(p.peek(-1))


def _number(p: Parser) -> None:
    if p.token.kind != lexer.NUMBER:
        p.fail()
    p.next()


def _percent(p: Parser) -> None:
    p.accept_op("=")
    _number(p)


def _use(p: Parser) -> None:
    if p.upper == "PLAN":
        p.unsupported("OPTION (USE PLAN)")
    p.expect("HINT")
    p.list_in_parentheses(Parser.string)


def _optimize(p: Parser) -> None:
    """``FOR UNKNOWN``, ``FOR (@a = 1, @b UNKNOWN)``."""
    p.expect("FOR")
    if not p.accept("UNKNOWN"):
        p.list_in_parentheses(_assumed_value)


def _assumed_value(p: Parser) -> None:
    p.variable()
    if not p.accept("UNKNOWN"):
        p.expect_op("=")
        constant(p)


def _label(p: Parser) -> None:
    p.expect_op("=")
    p.string()


def _table_hint(p: Parser) -> None:
    p.unsupported("OPTION (TABLE HINT ...)")


_ALONE = ("RECOMPILE", "IGNORE_NONCLUSTERED_COLUMNSTORE_INDEX", "NO_PERFORMANCE_SPOOL")

_FOLLOWING = {
    **dict.fromkeys(["KEEP", "KEEPFIXED", "ROBUST"], ("PLAN",)),
    "LOOP": ("JOIN",),
    "HASH": ("JOIN", "GROUP", "UNION"),
    "MERGE": ("JOIN", "UNION"),
    "CONCAT": ("UNION",),
    "ORDER": ("GROUP",),
    "FORCE": ("ORDER",),
    "EXPAND": ("VIEWS",),
    "PARAMETERIZATION": ("SIMPLE", "FORCED"),
}
"""The first words of hints of two words, and the second ones."""

_RULES: dict[str, Callable[[Parser], None]] = {
    **dict.fromkeys(["MAXDOP", "FAST", "MAXRECURSION", "QUERYTRACEON"], _number),
    **dict.fromkeys(["MIN_GRANT_PERCENT", "MAX_GRANT_PERCENT"], _percent),
    "OPTIMIZE": _optimize,
    "USE": _use,
    "LABEL": _label,
    "TABLE": _table_hint,
}
"""The first words of other hints, and what reads the rest."""
