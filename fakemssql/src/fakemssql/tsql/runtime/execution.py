"""Running EXECUTE."""

from __future__ import annotations

from fakemssql.contract import Parameter, SqlError
from fakemssql.tsql.datatypes.codec import decode, encode
from fakemssql.tsql.datatypes.sqltypes import INT
from fakemssql.tsql.parser import nodes
from fakemssql.tsql.runtime.arguments import parse_name
from fakemssql.tsql.runtime.calls import call
from fakemssql.tsql.runtime.frames import Frame
from fakemssql.tsql.runtime.interpreter import run, text_of
from fakemssql.tsql.runtime.plans import evaluate
from fakemssql.tsql.runtime.session import Session


def execute(session: Session, node: nodes.Execute, frame: Frame) -> None:
    if node.text_expr is not None:
        text = text_of(session, node.text_expr, frame, -1)
        database = session.database
        inner = session.frame(text, (), frame.output, frame)
        with session.security.dynamic():
            run(session, inner)
        if session.database != database:
            old, session.database = session.database, database
            frame.output.database(database, old)
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
    outputs: list[Parameter] = []
    count = session.transactions.count
    status = call(session, procedure, parameters, frame, outputs)
    unnamed = [target for key, target in targets.items() if key.isdigit()]
    for parameter in outputs:
        target = targets.get(parameter.name) if parameter.name else unnamed.pop(0)
        if target is not None:
            frame.values[target] = encode(frame.types[target], parameter.value)
    if node.result is not None:
        result_kind = frame.types.get(node.result)
        if result_kind is None:
            raise SqlError(137, f'Must declare the scalar variable "{node.result}".', severity=15)
        frame.values[node.result] = encode(result_kind, status)
    session.transactions.check_balance(count)
