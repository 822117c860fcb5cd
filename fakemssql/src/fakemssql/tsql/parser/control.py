"""Parsing of control of flow, messages and transactions: BEGIN, IF, WHILE, TRY, RETURN, THROW, COMMIT, USE."""

from __future__ import annotations

from collections.abc import Callable

from fakemssql.tsql.parser import lexer, nodes
from fakemssql.tsql.parser.expressions import condition, expression
from fakemssql.tsql.parser.lexer import syntax_error
from fakemssql.tsql.parser.nodes import Expr, Statement
from fakemssql.tsql.parser.parser import Parser
from fakemssql.tsql.parser.terms import LITERALS, constant

_INTEGER = (lexer.NUMBER, lexer.VARIABLE)
_TEXT = (lexer.STRING, lexer.NSTRING, lexer.VARIABLE)

# --- Statements one after the other ----------------------------------------------------------------------------------


def statements(p: Parser, *ends: str) -> list[Statement]:
    """Parse statements up to one of the words ``ends``, which is not taken, or to the end of the text."""
    found: list[Statement] = []
    while True:
        p.skip_semicolons()
        if p.token.kind == lexer.END:
            if ends:
                p.fail()
            return found
        if p.upper in ends:
            return found
        last = p.peek(-1)
        if found and not (last.kind == lexer.OPERATOR and last.value == ";"):
            _require_end(p)
        found.append(p.statement())


def _require_end(p: Parser) -> None:
    """Refuse WITH and THROW behind a statement without a semicolon, which SQL Server reads as parts of it."""
    if p.upper == "WITH":
        raise syntax_error(
            319,
            "Incorrect syntax near the keyword 'with'. If this statement is a common table expression, an"
            " xmlnamespaces clause or a change tracking context clause, the previous statement must be terminated with"
            " a semicolon.",
            line=p.token.line,
        )
    if p.upper == "THROW":
        p.fail()


# --- Transactions ----------------------------------------------------------------------------------------------------

_TRANSACTION = ("TRAN", "TRANSACTION")


def begin_transaction(p: Parser) -> nodes.Transaction:
    """Parse BEGIN TRANSACTION behind its BEGIN."""
    p.expect_any(*_TRANSACTION)
    name = _name(p)
    if p.accept("WITH"):
        p.unsupported("BEGIN TRANSACTION WITH MARK")
    return nodes.Transaction("begin", name)


def end_transaction(p: Parser) -> nodes.Transaction:
    """COMMIT or ROLLBACK."""
    kind = p.word().lower()
    name = None
    if p.accept_any(*_TRANSACTION):
        name = _name(p)
    else:
        p.accept("WORK")
    if kind == "commit" and p.upper == "WITH" and p.peek().value == "(":
        _durability(p)
    return nodes.Transaction(kind, name)


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
        if len(token.value) > 32:
            raise syntax_error(
                103,
                f"The identifier that starts with '{token.value[:32]}' is too long. Maximum length is 32.",
                line=token.line,
            )
        p.next()
        return str(token.value)
    return None


def _durability(p: Parser) -> None:
    """``WITH (DELAYED_DURABILITY = ON)``, which has no effect here."""
    p.expect("WITH")
    p.expect_op("(")
    p.expect("DELAYED_DURABILITY")
    p.expect_op("=")
    p.switch()
    p.expect_op(")")


# --- Blocks and branches ---------------------------------------------------------------------------------------------


def begin(p: Parser) -> Statement:
    p.expect("BEGIN")
    return _BLOCKS.get(p.upper, _block)(p)


def _block(p: Parser) -> nodes.Block:
    body = statements(p, "END")
    if not body:
        p.fail()
    p.expect("END")
    return nodes.Block(body)


def _try(p: Parser) -> nodes.TryCatch:
    p.expect("TRY")
    body = statements(p, "END")
    if not body:
        p.fail()
    p.expect("END", "TRY")
    p.expect("BEGIN", "CATCH")
    handler = statements(p, "END")
    p.expect("END", "CATCH")
    return nodes.TryCatch(body, handler)


_BLOCKS: dict[str, Callable[[Parser], Statement]] = {
    **dict.fromkeys(["TRAN", "TRANSACTION"], begin_transaction),
    **dict.fromkeys(["DIALOG", "CONVERSATION"], Parser.refusing("Service Broker")),
    "DISTRIBUTED": Parser.refusing("BEGIN DISTRIBUTED TRANSACTION"),
    "TRY": _try,
}
"""Rules for the words behind BEGIN that do not begin a block of statements."""


def if_(p: Parser) -> nodes.If:
    p.expect("IF")
    checked = condition(p)
    then = p.statement()
    mark = p.index
    p.skip_semicolons()
    if p.accept("ELSE"):
        return nodes.If(checked, then, p.statement())
    p.move(mark)
    return nodes.If(checked, then, None)


def while_(p: Parser) -> nodes.While:
    p.expect("WHILE")
    return nodes.While(condition(p), p.statement())


def simple(p: Parser) -> nodes.Simple:
    """Parse a statement of one word."""
    return nodes.Simple(p.word().lower())


def return_(p: Parser) -> nodes.Return:
    line = p.expect("RETURN").line
    if not _expression_ahead(p):
        return nodes.Return(None)
    if not p.in_module:
        raise syntax_error(178, "A RETURN statement with a return value cannot be used in this context.", line=line)
    return nodes.Return(expression(p))


def _expression_ahead(p: Parser) -> bool:
    token = p.token
    if token.kind in LITERALS:
        return True
    if token.kind == lexer.OPERATOR:
        return token.value in ("-", "+", "~", "(")
    return token.upper in ("CASE", "CAST", "CONVERT", "COALESCE", "NULL", "NULLIF") or (
        p.is_identifier() and token.upper != "THROW"
    )


# --- Messages, and what is between sessions --------------------------------------------------------------------------


def print_(p: Parser) -> nodes.Print:
    p.expect("PRINT")
    return nodes.Print(expression(p))


def throw(p: Parser) -> nodes.Throw:
    p.expect("THROW")
    if p.token.kind not in (lexer.NUMBER, lexer.VARIABLE):
        return nodes.Throw(None, None, None)
    number = _one_of(p, *_INTEGER)
    p.expect_op(",")
    message = _one_of(p, *_TEXT)
    p.expect_op(",")
    return nodes.Throw(number, message, _one_of(p, *_INTEGER))


def _one_of(p: Parser, *kinds: int, signed: bool = False) -> Expr:
    """Return a constant of one of these kinds, or a variable."""
    ahead = p.peek() if signed and p.is_op("-") else p.token
    if ahead.kind not in kinds or (ahead.kind == lexer.NUMBER and not ahead.value.isdigit()):
        p.fail(ahead)
    return constant(p)


def raiserror(p: Parser) -> nodes.RaiseError:
    p.expect("RAISERROR")
    p.expect_op("(")
    message = _one_of(p, *_INTEGER, *_TEXT, signed=True)
    p.expect_op(",")
    severity = _one_of(p, *_INTEGER, signed=True)
    p.expect_op(",")
    state = _one_of(p, *_INTEGER, signed=True)
    arguments = p.list_of(constant) if p.accept_op(",") else []
    p.expect_op(")")
    options = p.list_of(_raiserror_option) if p.accept("WITH") else []
    return nodes.RaiseError(message, severity, state, arguments, options)


def _raiserror_option(p: Parser) -> str:
    option = p.next().upper
    if option not in ("NOWAIT", "LOG", "SETERROR"):
        p.fail(p.peek(-1))
    return option


def waitfor(p: Parser) -> nodes.WaitFor:
    p.expect("WAITFOR")
    kind = p.next().upper
    if kind not in ("DELAY", "TIME"):
        p.unsupported("WAITFOR of a statement", p.peek(-1))
    return nodes.WaitFor(kind.lower(), _one_of(p, *_TEXT))


def use(p: Parser) -> nodes.Use:
    p.expect("USE")
    return nodes.Use(p.identifier())
