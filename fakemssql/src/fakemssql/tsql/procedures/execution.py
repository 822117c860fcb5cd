"""sp_executesql."""

from __future__ import annotations

from typing import Any

from fakemssql.contract import Parameter, SqlError
from fakemssql.tsql.datatypes.codec import decode, encode
from fakemssql.tsql.parser import batches, nodes, types
from fakemssql.tsql.parser.lexer import VARIABLE, tokenize
from fakemssql.tsql.runtime.execution.interpreter import run
from fakemssql.tsql.runtime.execution.plans import converted
from fakemssql.tsql.runtime.frames import Frame
from fakemssql.tsql.runtime.session.arguments import Arguments
from fakemssql.tsql.runtime.session.session import Session


def declarations(text: str) -> list[nodes.Declare]:
    """The parameter list of sp_executesql: ``@a int, @b nvarchar(10) = 'x' OUTPUT``."""
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


def sp_executesql(session: Session, arguments: Arguments, frame: Frame, outputs: list[Parameter]) -> int:
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
        value = given[item.name].value if item.name in given else None
        values.append(
            Parameter(item.name, item.type, _fitting(session, item, given.get(item.name), value, frame), item.output)
        )
    inner = session.frame(text, values, frame.output, frame)
    database = session.database
    with session.security.dynamic():
        status = run(session, inner)
    if session.database != database:
        old, session.database = session.database, database
        frame.output.database(database, old)
    for item in declared:
        passed = given.get(item.name)
        if passed is not None and passed.output and item.output:
            outputs.append(Parameter(passed.name, item.type, decode(item.type, inner.values[item.name]), True))
    return status


def _fitting(session: Session, item: nodes.Declare, parameter: Parameter | None, value: Any, frame: Frame) -> Any:
    """A value as the declared type: converted by PostgreSQL where its own type is another."""
    if parameter is None or value is None or parameter.type.name == item.type.name:
        return value
    return decode(item.type, converted(session, parameter.type, encode(parameter.type, value), item.type, frame))
