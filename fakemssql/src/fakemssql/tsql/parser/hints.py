"""Parsing of hints: table hints, with and without WITH, and OPTION ("Table hints", "Query hints")."""

from __future__ import annotations

from fakemssql.tsql.parser import lexer
from fakemssql.tsql.parser.lexer import syntax_error
from fakemssql.tsql.parser.nodes import Hint
from fakemssql.tsql.parser.parser import Parser

_HINTS = frozenset(
    [
        *("NOEXPAND", "INDEX", "FORCESEEK", "FORCESCAN", "HOLDLOCK", "NOLOCK", "NOWAIT", "PAGLOCK", "READCOMMITTED"),
        *("READCOMMITTEDLOCK", "READPAST", "READUNCOMMITTED", "REPEATABLEREAD", "ROWLOCK", "SERIALIZABLE", "SNAPSHOT"),
        *("TABLOCK", "TABLOCKX", "UPDLOCK", "XLOCK", "KEEPIDENTITY", "KEEPDEFAULTS", "IGNORE_CONSTRAINTS"),
        "IGNORE_TRIGGERS",
    ]
)

_OLD_HINTS = _HINTS - {"INDEX", "FORCESEEK", "FORCESCAN", "READCOMMITTEDLOCK"}
"""Hints that a table without an alias may have without WITH; behind an alias every hint may."""


def option_clause(p: Parser) -> None:
    """``OPTION (...)`` or nothing: hints for the optimizer, which change no result."""
    if p.accept("OPTION"):
        p.list_in_parentheses(_query_hint)


def _query_hint(p: Parser) -> None:
    word = p.word()
    if word in ("FAST", "MAXDOP", "MAXRECURSION"):
        if p.next().kind != lexer.NUMBER:
            p.fail(p.peek(-1))
    elif word != "RECOMPILE":
        p.unsupported(f"The query hint {word}", p.peek(-1))


def table_hints(p: Parser) -> list[Hint]:
    """``WITH ( hint [, hint ...] )``; the comma may be missing, as in old code."""
    p.expect("WITH")
    p.expect_op("(")
    found = [_hint(p)]
    while not p.accept_op(")"):
        p.accept_op(",")
        found.append(_hint(p))
    return found


def old_hint_ahead(p: Parser) -> bool:
    """Return whether a hint without WITH comes next."""
    return p.is_op("(") and p.peek().upper in _HINTS and p.peek(2).value in (")", ",", "(", "=")


def old_hint(p: Parser, *, alias: bool) -> list[Hint]:
    """``(NOLOCK)``: one hint without WITH, perhaps behind an ``alias``. Error 1018 for several hints."""
    known = _HINTS if alias else _OLD_HINTS
    p.expect_op("(")
    hint = _hint(p)
    if hint.name not in known or not p.is_op(")"):
        word = p.token.value if hint.name in known else hint.name
        raise syntax_error(
            1018,
            f"Incorrect syntax near '{word}'. If this is intended as a part of a table hint, A WITH keyword and"
            " parenthesis are now required. See SQL Server Books Online for proper syntax.",
            line=p.token.line,
        )
    p.next()
    return [hint]


def _hint(p: Parser) -> Hint:
    token = p.token
    if token.upper not in _HINTS:
        if token.kind == lexer.WORD:
            raise syntax_error(
                321,
                f'"{token.value}" is not a recognized table hints option. If it is intended as a parameter'
                " to a table-valued function or to the CHANGETABLE function, ensure that your database"
                " compatibility mode is set to 90.",
                line=token.line,
            )
        p.fail()
    p.next()
    hint = Hint(token.upper)
    if hint.name == "INDEX":
        if p.accept_op("=") and not p.is_op("("):
            hint.args = [_index(p)]
            return hint
        hint.args = p.list_in_parentheses(_index)
    elif hint.name == "FORCESEEK" and p.accept_op("("):
        hint.args = [_index(p)]
        p.column_list()
        p.expect_op(")")
    return hint


def _index(p: Parser) -> str:
    """Return an index by its name or number."""
    if p.token.kind == lexer.NUMBER and p.token.value.isdigit():
        return str(p.next().value)
    return p.identifier()
