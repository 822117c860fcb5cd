"""EXECUTE, and calls of procedures: a function runs a system procedure, the interpreter a user's procedure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress

from fakemssql.contract import Parameter, SqlError
from fakemssql.tsql.datatypes.codec import decode, encode
from fakemssql.tsql.datatypes.sqltypes import INT
from fakemssql.tsql.names import fold
from fakemssql.tsql.parser import batches, nodes
from fakemssql.tsql.runtime.execution.interpreter import run, text_of
from fakemssql.tsql.runtime.execution.plans import converted, evaluate
from fakemssql.tsql.runtime.frames import Code, Frame, ScopeEnd
from fakemssql.tsql.runtime.session.session import Arguments, Session, parse_name
from fakemssql.tsql.security import errors
from fakemssql.types import SqlType

STOPPED = -6
"""Status of a procedure that an error has ended."""


def call(session: Session, name: nodes.Name, parameters: list[Parameter], frame: Frame) -> tuple[int, list[Parameter]]:
    """Run the procedure ``name`` and return its status and its output parameters."""
    system = len(name) == 1 or fold(name[-2]) in ("sys", "dbo", "")
    function = session.tables.procedures.get(fold(name[-1])) if system else None
    if function is None:
        return _user(session, name, parameters, frame)
    arguments, database = Arguments(name[-1], parameters), session.database
    if len(name) == 3 and name[0]:
        entry = session.catalog.database(name[0])
        if entry is None:
            raise errors.no_database(name[0])
        session.security.identity(entry[1])
        session.database = entry[1]
    try:
        return function(session, arguments, frame), arguments.outputs
    finally:
        session.database = database


def _user(session: Session, name: nodes.Name, parameters: list[Parameter], frame: Frame) -> tuple[int, list[Parameter]]:
    found = session.catalog.find(name, session.database)
    if found is None or found.type != "P":
        raise SqlError(2812, f"Could not find stored procedure '{'.'.join(name)}'.", state=62)
    session.security.require(found, "EXECUTE")
    module = batches.parse(found.definition)[0]
    assert isinstance(module, nodes.CreateModule)
    assert module.body is not None
    inner = Frame(Code(module.body), frame.output, procedure=found.name, parent=frame)
    given: dict[str, Parameter] = {}
    for position, parameter in enumerate(parameters):
        key = parameter.name.lower()
        if not key:
            if not module.parameters:
                raise SqlError(8146, f"Procedure {found.name} has no parameters and arguments were supplied.", state=2)
            if position >= len(module.parameters):
                raise errors.too_many_arguments(found.name)
            key = module.parameters[position].name
        elif key not in {p.name for p in module.parameters}:
            raise SqlError(8145, f"{key} is not a parameter for procedure {found.name}.")
        if key in given:
            raise errors.repeated_argument(key)
        if not parameter.default:
            given[key] = parameter
    for declared in module.parameters:
        inner.types[declared.name] = declared.type
        if declared.name in given:
            if given[declared.name].output and not declared.output:
                raise errors.no_output(declared.name)
            inner.values[declared.name] = _argument(session, given[declared.name], declared.type, frame)
        elif declared.value is not None:
            inner.values[declared.name] = evaluate(session, declared.value, declared.type, inner)[1]
        else:
            raise errors.missing_argument(found.name, declared.name)
    database = session.database
    session.database = found.database
    try:
        with session.security.module(found.database, found.owner, found.schema):
            status = run(session, inner)
    finally:
        session.database = database
    return status, final_values(module.parameters, given, inner)


def run_text(session: Session, text: str, parameters: Sequence[Parameter], frame: Frame) -> tuple[int, Frame]:
    """Run a text that a statement made, with its own variables; its status and frame. A USE in it ends with it."""
    database = session.database
    try:
        inner = session.frame(text, parameters, frame.output, frame)
    except SqlError as error:
        error.seen = text  # not the caller, whose CATCH catches it
        raise
    with session.security.dynamic():
        status = run(session, inner)
    if session.database != database:
        old, session.database = session.database, database
        frame.output.database(database, old)
    return status, inner


def final_values(declared: Sequence[nodes.Declare], given: Mapping[str, Parameter], frame: Frame) -> list[Parameter]:
    """OUTPUT parameters of a call that has ended, by the names that the caller gave them; error 8162."""
    for item in declared:
        if item.name in given and given[item.name].output and not item.output:
            raise errors.no_output(item.name)
    return [
        Parameter(passed.name, item.type, decode(item.type, frame.values[item.name]), True)
        for item in declared
        if (passed := given.get(item.name)) is not None and passed.output and item.output
    ]


def _argument(session: Session, parameter: Parameter, kind: SqlType, frame: Frame) -> bytes | None:
    """Convert an argument to the type of the procedure's parameter; error 8114."""
    try:
        return converted(session, parameter.type, encode(parameter.type, parameter.value), kind, frame)
    except SqlError as error:
        if error.number not in (241, 242, 245, 248, 8114, 8169):
            raise
        raise SqlError(
            8114, f"Error converting data type {parameter.type.name} to {kind.name}.", state=1 if frame.procedure else 5
        ) from None


def execute(session: Session, node: nodes.Execute, frame: Frame) -> None:
    if node.text_expr is not None:
        text = text_of(session, node.text_expr, frame, -1)
        with suppress(ScopeEnd), session.own_options():
            run_text(session, text, (), frame)
        return
    procedure = node.procedure
    if node.variable is not None:
        procedure = parse_name(text_of(session, nodes.Variable(node.variable), frame))
    assert procedure is not None
    parameters: list[Parameter] = []
    targets: dict[str, str] = {}
    for position, argument in enumerate(node.arguments):
        if argument.value is None:
            parameters.append(Parameter(argument.name, INT, None, default=True))
            continue
        kind, raw = evaluate(session, argument.value, None, frame)
        name = argument.name
        parameters.append(Parameter(name, kind, decode(kind, raw), argument.output))
        if argument.output:
            if not isinstance(argument.value, nodes.Variable):
                raise SqlError(
                    179, "Cannot use the OUTPUT option when passing a constant to a stored procedure.", severity=15
                )
            targets[name or str(position)] = argument.value.name
    count = session.transaction_count
    status, outputs = STOPPED, list[Parameter]()
    with session.own_options() as options, suppress(ScopeEnd):
        status, outputs = call(session, procedure, parameters, frame)
    unnamed = [target for key, target in targets.items() if key.isdigit()]
    for parameter in outputs:
        target = targets.get(parameter.name) if parameter.name else unnamed.pop(0)
        if target is not None:
            raw = encode(parameter.type, parameter.value)
            frame.values[target] = converted(session, parameter.type, raw, frame.types[target], frame)
    if node.result is not None:
        result_kind = frame.types.get(node.result)
        if result_kind is None:
            raise SqlError(137, f'Must declare the scalar variable "{node.result}".', severity=15)
        frame.values[node.result] = converted(session, INT, encode(INT, status), result_kind, frame)
    session.transactions.check_balance(count, options)
