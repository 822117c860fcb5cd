"""Parsing of batches and their statements. :func:`parse` is the entry."""

from __future__ import annotations

from collections.abc import Callable

from fakemssql.tsql.parser import (
    control,
    definitions,
    expressions,
    indexes,
    lexer,
    maintenance,
    nodes,
    procedures,
    queries,
    security,
    tables,
    variables,
)
from fakemssql.tsql.parser.lexer import syntax_error
from fakemssql.tsql.parser.modifications import CHANGES, truncate
from fakemssql.tsql.parser.nodes import Statement
from fakemssql.tsql.parser.parser import Parser
from fakemssql.tsql.parser.procedures import execute_statement, procedure_call
from fakemssql.tsql.parser.queries import query, with_clause

Rule = Callable[[Parser], Statement]


def any_statement(p: Parser) -> Statement:
    start = p.index
    found = _STATEMENTS.get(p.upper, _other)(p)
    found.line = p.tokens[start].line
    found.text = p.source_text(start)
    return found


def _other(p: Parser) -> Statement:
    """Parse a query in parentheses, or a call without EXECUTE; the call must be the first statement of its batch."""
    token = p.token
    if p.is_op("("):
        return _select(p)
    if token.upper in _REFUSED:
        p.unsupported(_REFUSED[token.upper])
    if p.is_identifier() and p.peek().value == ":" and token.kind == lexer.WORD:
        p.unsupported("A label")
    if (p.is_identifier() or token.kind == lexer.VARIABLE or p.is_op(".")) and _is_first(p, p.index):
        return procedure_call(p)
    p.fail()


def _is_first(p: Parser, index: int) -> bool:
    """Return whether only semicolons come before the token at ``index``."""
    return all(token.kind == lexer.OPERATOR and token.value == ";" for token in p.tokens[:index])


def _select(p: Parser) -> Statement:
    return nodes.SelectStatement(query(p, [], alone=True))


def _change(p: Parser) -> Statement:
    return CHANGES[p.upper](p, [])


def _update(p: Parser) -> Statement:
    return maintenance.update_statistics(p) if p.peek().upper == "STATISTICS" else _change(p)


def _with(p: Parser) -> Statement:
    ctes = with_clause(p)
    if p.upper in CHANGES:
        return CHANGES[p.upper](p, ctes)
    if p.upper != "SELECT" and not p.is_op("("):
        p.fail()
    return nodes.SelectStatement(query(p, ctes, alone=True))


# --- CREATE, ALTER, DROP ---------------------------------------------------------------------------------------------


def _create(p: Parser) -> Statement:
    start, mode = p.index, "create"
    p.expect("CREATE")
    if p.accept("OR"):
        p.expect("ALTER")
        mode = "create or alter"
    return _definition(p, start, "CREATE", mode)


def _alter(p: Parser) -> Statement:
    start = p.index
    p.expect("ALTER")
    return _definition(p, start, "ALTER", "alter")


def _definition(p: Parser, start: int, verb: str, mode: str) -> Statement:
    word = p.upper
    alone = None if (verb, word) == ("ALTER", "SCHEMA") else _ALONE.get(word)
    if alone is not None:
        if not _is_first(p, start):
            what = "PROCEDURE" if word == "PROC" else word
            raise syntax_error(
                111, f"'{verb} {what}' must be the first statement in a query batch.", line=p.tokens[start].line
            )
        return alone(p, mode)
    rule = (_CREATES if verb == "CREATE" else _ALTERS).get(word)
    if rule is None:
        p.unsupported(f"{verb} {p.token.value}")
    return rule(p)


def _drop(p: Parser) -> Statement:
    if p.peek().upper in ("LOGIN", "USER", "ROLE"):
        return security.drop_principal(p)
    return definitions.drop(p)


_CREATES: dict[str, Rule] = {
    **dict.fromkeys(["UNIQUE", "CLUSTERED", "NONCLUSTERED", "INDEX", "COLUMNSTORE"], indexes.create_index),
    "TABLE": tables.create_table,
    "DATABASE": definitions.create_database,
    "SYNONYM": definitions.create_synonym,
    "LOGIN": security.create_login,
    "USER": security.create_user,
    "ROLE": security.create_role,
}

_ALTERS: dict[str, Rule] = {
    **dict.fromkeys(["ROLE", "SERVER"], security.alter_role),
    "TABLE": tables.alter_table,
    "INDEX": indexes.alter_index,
    "DATABASE": definitions.alter_database,
    "LOGIN": security.alter_login,
    "USER": security.alter_user,
}

_ALONE: dict[str, Callable[[Parser, str], Statement]] = {
    **dict.fromkeys(["PROCEDURE", "PROC"], procedures.procedure),
    "TRIGGER": procedures.trigger,
    "FUNCTION": procedures.function,
    "VIEW": definitions.view,
    "SCHEMA": definitions.schema,
}
"""Rules of the CREATE and ALTER statements that must be alone in their batch, by the kind of object."""

# --- By the first word -----------------------------------------------------------------------------------------------

_STATEMENTS: dict[str, Rule] = {
    **dict.fromkeys(["BREAK", "CONTINUE", "CHECKPOINT"], control.simple),
    **dict.fromkeys(["COMMIT", "ROLLBACK"], control.end_transaction),
    **dict.fromkeys(["ENABLE", "DISABLE"], procedures.trigger_state),
    **dict.fromkeys(["EXEC", "EXECUTE"], execute_statement),
    **dict.fromkeys(["GRANT", "DENY", "REVOKE"], security.permission),
    **dict.fromkeys(["INSERT", "DELETE", "MERGE"], _change),
    "ALTER": _alter,
    "BEGIN": control.begin,
    "CREATE": _create,
    "DBCC": maintenance.dbcc,
    "DECLARE": variables.declare,
    "DROP": _drop,
    "IF": control.if_,
    "KILL": maintenance.kill,
    "PRINT": control.print_,
    "RAISERROR": control.raiserror,
    "RETURN": control.return_,
    "SAVE": control.save_transaction,
    "SELECT": _select,
    "SET": variables.set_,
    "THROW": control.throw,
    "TRUNCATE": truncate,
    "UPDATE": _update,
    "USE": control.use,
    "WAITFOR": control.waitfor,
    "WHILE": control.while_,
    "WITH": _with,
}

_REFUSED = {
    **{word: word for word in ("BACKUP", "RESTORE", "RECONFIGURE", "SHUTDOWN", "GOTO", "SETUSER", "REVERT")},
    **{word: word for word in ("READTEXT", "WRITETEXT", "UPDATETEXT")},
    **dict.fromkeys(["OPEN", "FETCH", "CLOSE", "DEALLOCATE"], "A cursor"),
    **dict.fromkeys(["MOVE", "SEND", "RECEIVE"], "Service Broker"),
    "BULK": "BULK INSERT",
}
"""Features that are not supported, by the first word of the statement."""


class Batch(Parser):
    """Parser of a batch, or of a part of one, with the rules that lower rules call."""

    expression = expressions.expression
    condition = expressions.condition
    predicate = expressions.predicate
    nested_query = queries.nested_query
    statement = any_statement


def parse(text: str, quoted_identifier: bool = True) -> list[Statement]:
    """Return the statements of a batch. Raises :class:`SqlError` for a text that is not T-SQL or is not supported."""
    try:
        return control.statements(Batch(text, lexer.tokenize(text, quoted_identifier)))
    except RecursionError:
        raise syntax_error(191, "Some part of your SQL statement is nested too deeply.") from None
