"""Parsing of transactions: BEGIN, COMMIT, ROLLBACK, SAVE."""

from __future__ import annotations

from fakemssql.tsql.parser import lexer, nodes
from fakemssql.tsql.parser.parser import Parser

_TRANSACTION = ("TRAN", "TRANSACTION")


def begin_transaction(p: Parser) -> nodes.Transaction:
    """What follows BEGIN."""
    p.expect_any(*_TRANSACTION)
    name = _name(p)
    if p.accept("WITH"):
        p.unsupported("BEGIN TRANSACTION WITH MARK")
    return nodes.Transaction("begin", name)


def end_transaction(p: Parser) -> nodes.Transaction:
    """COMMIT or ROLLBACK."""
    kind = p.word().lower()
    name, work = None, not p.accept_any(*_TRANSACTION)
    if work:
        p.accept("WORK")
    else:
        name = _name(p)
    if kind == "commit" and p.upper == "WITH" and p.peek().value == "(":
        _durability(p)
    return nodes.Transaction(kind, name, work)


def save_transaction(p: Parser) -> nodes.Transaction:
    p.expect("SAVE")
    p.expect_any(*_TRANSACTION)
    name = _name(p)
    if name is None:
        p.fail()
    return nodes.Transaction("save", name)


def _name(p: Parser) -> str | None:
    token = p.token
    if token.kind == lexer.VARIABLE:
        return p.variable()
    if p.is_identifier() and token.upper not in ("THROW", "GO"):
        p.next()
        return str(token.value)
    return None


def _durability(p: Parser) -> None:
    """``WITH (DELAYED_DURABILITY = ON)``, which changes nothing here."""
    p.expect("WITH")
    p.expect_op("(")
    p.expect("DELAYED_DURABILITY")
    p.expect_op("=")
    p.switch()
    p.expect_op(")")
