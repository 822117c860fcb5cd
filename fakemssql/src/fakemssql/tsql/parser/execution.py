"""Parsing of EXECUTE."""

from __future__ import annotations

from fakemssql.tsql.parser import lexer, nodes
from fakemssql.tsql.parser.lexer import syntax_error
from fakemssql.tsql.parser.nodes import Expr
from fakemssql.tsql.parser.parser import Parser
from fakemssql.tsql.parser.sources import trigger_switch_ahead
from fakemssql.tsql.parser.terms import LITERALS, constant


def execute_statement(p: Parser) -> nodes.Execute:
    if p.peek().upper == "AS":
        p.unsupported("EXECUTE AS")
    return execute(p)


def execute(p: Parser) -> nodes.Execute:
    p.next()
    if p.is_op("("):
        p.next()
        text = _text_piece(p)
        while p.accept_op("+"):
            text = nodes.Binary("+", text, _text_piece(p))
        if p.is_op(","):
            p.unsupported("EXECUTE with pass-through parameters")
        p.expect_op(")")
        if p.upper in ("AT", "AS"):
            p.unsupported("EXECUTE ... AT and AS")
        return nodes.Execute(None, [], None, text)
    result = None
    if p.token.kind == lexer.VARIABLE and p.peek().value == "=":
        result = p.variable()
        p.next()
    return procedure_call(p, result)


def procedure_call(p: Parser, result: str | None = None) -> nodes.Execute:
    if p.token.kind == lexer.VARIABLE:
        call = nodes.Execute(None, [], result, variable=str(p.next().value).lower())
    else:
        call = nodes.Execute(p.name(), [], result)
    if p.is_op(";") and p.peek().kind == lexer.NUMBER:
        p.unsupported("The number of a procedure")
    more = _starts_argument(p)
    while more:
        name = ""
        if p.token.kind == lexer.VARIABLE and p.peek().value == "=":
            name = str(p.next().value).lower()
            p.next()
        elif not _starts_argument(p):
            p.fail()
        elif any(argument.name for argument in call.arguments):
            number = len(call.arguments) + 1
            raise syntax_error(
                119,
                f"Must pass parameter number {number} and subsequent parameters as '@name = value'. After the form"
                " '@name = value' has been used, all subsequent parameters must be passed in the form '@name ="
                " value'.",
                line=p.token.line,
            )
        value = _argument_value(p)
        token = p.token
        output = value is not None and bool(p.accept_any("OUTPUT", "OUT"))
        if output and not isinstance(value, nodes.Variable):
            raise syntax_error(
                179, "Cannot use the OUTPUT option when passing a constant to a stored procedure.", line=token.line
            )
        call.arguments.append(nodes.Argument(name, value, output))
        more = p.accept_op(",")
    if p.upper == "WITH" and p.peek().upper in ("RECOMPILE", "RESULT"):
        p.next()
        if p.accept("RESULT"):
            p.unsupported("WITH RESULT SETS")
        p.next()
    return call


def _text_piece(p: Parser) -> Expr:
    if p.token.kind not in (lexer.STRING, lexer.NSTRING, lexer.VARIABLE):
        p.fail()
    return constant(p)


def _argument_value(p: Parser) -> Expr | None:
    """A constant, a variable or a word, which is a text; None for DEFAULT."""
    if p.accept("DEFAULT"):
        return None
    if p.is_identifier():
        return nodes.Literal("nvarchar", p.identifier())
    return constant(p)


def _starts_argument(p: Parser) -> bool:
    token = p.token
    if token.kind in LITERALS:
        return True
    if token.kind == lexer.OPERATOR:
        return bool(token.value == "-")
    return token.upper in ("NULL", "DEFAULT") or (p.is_identifier() and not trigger_switch_ahead(p))
