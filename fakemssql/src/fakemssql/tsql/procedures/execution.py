"""Procedure sp_executesql, and its list of parameters."""

from __future__ import annotations

from typing import Any

from fakemssql.contract import Parameter, SqlError
from fakemssql.tsql.datatypes.codec import decode, encode
from fakemssql.tsql.parser import batches, nodes, types
from fakemssql.tsql.parser.lexer import VARIABLE, tokenize
from fakemssql.tsql.runtime.execution.plans import converted, evaluate
from fakemssql.tsql.runtime.frames import Frame
from fakemssql.tsql.runtime.session.session import Arguments, Session
from fakemssql.tsql.runtime.statements.execute import final_values, run_text


def declarations(text: str) -> list[nodes.Declare]:
    """Parse the list of parameters of sp_executesql: ``@a int, @b nvarchar(10) = 'x' OUTPUT``."""
    cursor = batches.Batch(text, tokenize(text))
    found: list[nodes.Declare] = []
    while cursor.token.kind == VARIABLE:
        name = cursor.variable()
        cursor.accept("AS")
        kind = types.data_type(cursor)
        value = cursor.expression() if cursor.accept_op("=") else None
        output = bool(cursor.accept_any("OUTPUT", "OUT"))
        found.append(nodes.Declare(name, kind, value, output))
        if not cursor.accept_op(","):
            break
    if cursor.token.value != "":
        cursor.fail()
    return found


def sp_executesql(session: Session, arguments: Arguments, frame: Frame) -> int:
    parameters = arguments.parameters
    if parameters and parameters[0].value is None:
        return 0
    if not parameters or not isinstance(parameters[0].value, str) or not parameters[0].type.is_string:
        raise SqlError(214, "Procedure expects parameter '@statement' of type 'ntext/nchar/nvarchar'.", state=2)
    text = parameters[0].value
    declared = declarations(parameters[1].value or "") if len(parameters) > 1 else []
    given: dict[str, Parameter] = {}
    for position, parameter in enumerate(parameters[2:]):
        key = parameter.name.lower()
        if not key:
            if position >= len(declared):
                raise SqlError(8144, "Procedure or function has too many arguments specified.", state=2)
            key = declared[position].name
        if not parameter.default:
            given[key] = parameter
    values = []
    for item in declared:
        if item.name not in given and item.value is None:
            raise SqlError(
                8178,
                f"The parameterized query '{text[:50]}' expects the parameter '{item.name}', which was not supplied.",
            )
        value = _converted(session, item, given.get(item.name), frame)
        if item.value is not None and item.name not in given:
            value = decode(item.type, evaluate(session, item.value, item.type, frame)[1])
        values.append(Parameter(item.name, item.type, value, item.output))
    status, inner = run_text(session, text, values, frame)
    arguments.outputs += final_values(declared, given, inner)
    return status


def _converted(session: Session, item: nodes.Declare, given: Parameter | None, frame: Frame) -> Any:
    """Return a given value as the declared type; PostgreSQL converts it if its own type is another."""
    if given is None or given.value is None or given.type == item.type:
        return None if given is None else given.value
    return decode(item.type, converted(session, given.type, encode(given.type, given.value), item.type, frame))
