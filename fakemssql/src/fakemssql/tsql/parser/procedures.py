"""Parsing of EXECUTE, of procedures and triggers, and of ENABLE and DISABLE TRIGGER."""

from __future__ import annotations

from fakemssql.tsql.parser import lexer, nodes
from fakemssql.tsql.parser.control import statements
from fakemssql.tsql.parser.lexer import syntax_error
from fakemssql.tsql.parser.nodes import Expr
from fakemssql.tsql.parser.parser import Parser
from fakemssql.tsql.parser.sources import trigger_switch_ahead
from fakemssql.tsql.parser.terms import LITERALS, constant
from fakemssql.tsql.parser.types import data_type


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
    """Parse a constant, a variable, or a word, which counts as text; None for DEFAULT."""
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


def procedure(p: Parser, mode: str) -> nodes.CreateModule:
    line = p.next().line
    module = nodes.CreateModule("PROCEDURE", p.name(2), mode, line=line)
    p.declared, p.in_module = set(), True
    if p.is_op(";"):
        p.unsupported("The number of a procedure")
    enclosed = p.accept_op("(")
    if enclosed or p.token.kind == lexer.VARIABLE:
        module.parameters = p.list_of(_parameter)
    if enclosed:
        p.expect_op(")")
    if p.accept("WITH"):
        _options(p, "ENCRYPTION", "SCHEMABINDING", "RECOMPILE")
    if p.upper == "FOR":
        p.unsupported("A procedure for replication")
    p.expect("AS")
    module.body = statements(p)
    return module


def _parameter(p: Parser) -> nodes.Declare:
    name = p.variable()
    p.accept("AS")
    p.declared.add(name)
    parameter = nodes.Declare(name, data_type(p), None)
    if p.upper in ("VARYING", "NULL", "NOT"):
        p.unsupported(f"A parameter with {p.upper}")
    if p.accept_op("="):
        parameter.value = nodes.Literal("nvarchar", p.identifier()) if p.is_identifier() else constant(p)
    if p.upper == "READONLY":
        p.unsupported("A table-valued parameter")
    parameter.output = bool(p.accept_any("OUTPUT", "OUT"))
    return parameter


def trigger(p: Parser, mode: str) -> nodes.CreateModule:
    line = p.expect("TRIGGER").line
    module = nodes.CreateModule("TRIGGER", p.name(2), mode, line=line)
    p.declared, p.in_module = set(), False
    module.table = _table(p)
    if p.accept("WITH"):
        _options(p, "ENCRYPTION", "SCHEMABINDING")
    module.instead = p.accept("INSTEAD", "OF")
    if not module.instead:
        p.expect_any("FOR", "AFTER")
    while True:
        event = p.expect_any("INSERT", "UPDATE", "DELETE")
        if event in module.events:
            p.fail(p.peek(-1))
        module.events.append(event)
        if not p.accept_op(","):
            break
    p.accept("NOT", "FOR", "REPLICATION")
    p.expect("AS")
    module.body = statements(p)
    if not module.body:
        p.fail()
    return module


def _table(p: Parser) -> nodes.Name:
    """``ON t``: the table of a trigger."""
    p.expect("ON")
    if p.upper in ("DATABASE", "ALL"):
        p.unsupported("A DDL trigger")
    return p.name()


def function(p: Parser, _: str) -> nodes.CreateModule:
    p.next()
    p.unsupported("CREATE FUNCTION")


def _options(p: Parser, *known: str) -> None:
    """``WITH RECOMPILE, EXECUTE AS CALLER``: options without effect, because every text is compiled when it runs."""
    while True:
        if p.accept_any("EXECUTE", "EXEC"):
            p.expect("AS")
            token = p.next()
            if token.upper in ("SELF", "OWNER") or token.kind in (lexer.STRING, lexer.NSTRING):
                p.unsupported("EXECUTE AS", token)
            if token.upper != "CALLER":
                p.fail(token)
        else:
            p.expect_any(*known)
        if not p.accept_op(","):
            return


def trigger_state(p: Parser) -> nodes.TriggerState:
    enabled = p.next().upper == "ENABLE"
    p.expect("TRIGGER")
    name = "" if p.accept("ALL") else p.name()[-1]
    if p.is_op(","):
        p.unsupported(f"{'ENABLE' if enabled else 'DISABLE'} TRIGGER of several")
    return nodes.TriggerState(name, _table(p), enabled)
