# ruff: noqa: S608 - names go through names.quoted, values through names.literal or as parameters
"""System stored procedures, and user procedures whose stored text is run."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from airflow_sqlqueue.localdb.contract import Output, Parameter, SqlError
from airflow_sqlqueue.localdb.tsql.datatypes.codec import decode, encode
from airflow_sqlqueue.localdb.tsql.datatypes.sqltypes import NMAX, nvarchar
from airflow_sqlqueue.localdb.tsql.names import fold, quoted
from airflow_sqlqueue.localdb.tsql.parser import batches, nodes
from airflow_sqlqueue.localdb.tsql.runtime.cursors import converted
from airflow_sqlqueue.localdb.tsql.runtime.frames import Code, Frame, Raised
from airflow_sqlqueue.localdb.types import SqlType

if TYPE_CHECKING:
    from airflow_sqlqueue.localdb.tsql.runtime.session import Session

Procedure = Callable[["Session", "Arguments", Frame, list[Parameter]], int]
PROCEDURES: dict[str, Procedure] = {}


def procedure(*names: str) -> Callable[[Procedure], Procedure]:
    """Register a system procedure."""

    def register(function: Procedure) -> Procedure:
        for name in names:
            PROCEDURES[name] = function
        return function

    return register


class Arguments:
    """The arguments of a call, by name or position as the procedure's parameter list tells."""

    def __init__(self, name: str, parameters: list[Parameter]) -> None:
        self.name, self.parameters = name, parameters

    def take(self, *names: str) -> list[Any]:
        """The values of the parameters ``names`` in order; None for what is missing. Error 8145 for unknown ones."""
        values: dict[str, Any] = dict.fromkeys(names)
        for position, parameter in enumerate(self.parameters):
            key = parameter.name.lower().lstrip("@")
            if not key:
                if position >= len(names):
                    raise SqlError(
                        8144, f"Procedure or function {self.name} has too many arguments specified.", state=2
                    )
                key = names[position]
            if key not in values:
                raise SqlError(8145, f"@{key} is not a parameter for procedure {self.name}.")
            values[key] = parameter.value
        return [values[name] for name in names]


def parse_name(text: str) -> nodes.Name:
    """The parts of a procedure's name as a driver sends it."""
    from airflow_sqlqueue.localdb.tsql.parser.lexer import tokenize

    cursor = batches.Batch(text, tokenize(text))
    return cursor.name()


def call(
    session: Session, name: nodes.Name, parameters: list[Parameter], frame: Frame, outputs: list[Parameter]
) -> int:
    """Run the procedure ``name``; output parameters are appended to ``outputs``. Returns the status."""
    from airflow_sqlqueue.localdb.tsql.procedures import catalog as procedures_catalog  # noqa: F401
    from airflow_sqlqueue.localdb.tsql.procedures import describe as procedures_describe  # noqa: F401

    key = fold(name[-1])
    system = len(name) == 1 or fold(name[-2]) in ("sys", "dbo", "")
    function = PROCEDURES.get(key) if system else None
    if function is not None:
        database = session.database
        if len(name) == 3 and name[0]:
            entry = session.catalog.database(name[0])
            if entry is None:
                raise SqlError(
                    911, f"Database '{name[0]}' does not exist. Make sure that the name is entered correctly."
                )
            session.database = entry[1]
        try:
            return function(session, Arguments(name[-1], parameters), frame, outputs)
        finally:
            session.database = database
    return _user(session, name, parameters, frame, outputs)


def _user(
    session: Session, name: nodes.Name, parameters: list[Parameter], frame: Frame, outputs: list[Parameter]
) -> int:
    found = session.catalog.find(name, session.database)
    if found is None or found.type != "P":
        raise SqlError(2812, f"Could not find stored procedure '{'.'.join(name)}'.", state=62)
    module = batches.parse(found.definition)[0]
    assert isinstance(module, nodes.CreateModule)
    assert module.body is not None
    inner = Frame(Code(module.body), frame.output, procedure=found.name, parent=frame)
    given: dict[str, Parameter] = {}
    for position, parameter in enumerate(parameters):
        key = parameter.name.lower()
        if not key:
            if position >= len(module.parameters):
                raise SqlError(8144, f"Procedure or function {found.name} has too many arguments specified.", state=2)
            key = module.parameters[position].name
        elif key not in {p.name for p in module.parameters}:
            raise SqlError(8145, f"{key} is not a parameter for procedure {found.name}.")
        given[key] = parameter
    for declared in module.parameters:
        inner.types[declared.name] = declared.type
        if declared.name in given:
            inner.values[declared.name] = _argument(session, given[declared.name], declared.type, frame)
        elif declared.value is not None:
            inner.values[declared.name] = session.evaluate(declared.value, declared.type, inner)[1]
        else:
            raise SqlError(
                201,
                f"Procedure or function '{found.name}' expects parameter '{declared.name}', which was not supplied.",
                state=4,
            )
    database, nocount = session.database, session.options.nocount
    session.database = found.database
    try:
        status = session.interpreter.run(inner)
    finally:
        session.database = database
        (session.options.on.add if nocount else session.options.on.discard)("NOCOUNT")
    for declared in module.parameters:
        passed = given.get(declared.name)
        if passed is not None and passed.output and declared.output:
            outputs.append(
                Parameter(passed.name, declared.type, decode(declared.type, inner.values[declared.name]), True)
            )
    return status


def _argument(session: Session, parameter: Parameter, kind: SqlType, frame: Frame) -> bytes | None:
    """An argument as the type of the procedure's parameter."""
    try:
        return converted(session, parameter.type, encode(parameter.type, parameter.value), kind, frame)
    except SqlError as error:
        if error.number not in (241, 242, 245, 248, 8114, 8169):
            raise
        raise SqlError(
            8114, f"Error converting data type {parameter.type.name} to {kind.name}.", state=1 if frame.procedure else 5
        ) from None


# --- execution -------------------------------------------------------------------------------------------------------


def declarations(text: str) -> list[nodes.Declare]:
    """The parameter list of sp_executesql: ``@a int, @b nvarchar(10) = 'x' OUTPUT``."""
    from airflow_sqlqueue.localdb.tsql.parser.lexer import VARIABLE, tokenize

    cursor = batches.Batch(text, tokenize(text))
    found: list[nodes.Declare] = []
    while cursor.token.kind == VARIABLE:
        name = cursor.variable()
        cursor.accept("AS")
        kind = cursor.type()
        value = cursor.expression() if cursor.accept_op("=") else None
        output = bool(cursor.accept_any("OUTPUT", "OUT"))
        found.append(nodes.Declare(name, kind, value, output))
        if not cursor.accept_op(","):
            break
    if cursor.token.value != "":
        cursor.fail()
    return found


@procedure("sp_executesql")
def _executesql(session: Session, arguments: Arguments, frame: Frame, outputs: list[Parameter]) -> int:
    parameters = arguments.parameters
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
    status = session.interpreter.run(inner)
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
    box = Frame(Code([]), frame.output, {"@v": parameter.type}, {"@v": encode(parameter.type, value)})
    return decode(item.type, session.evaluate(nodes.Variable("@v"), item.type, box)[1])


# --- application locks -----------------------------------------------------------------------------------------------


def _userlock(session: Session, frame: Frame, number: int, message: str) -> int:
    """An error of the lock procedures: in a TRY it is caught, elsewhere the call returns -999."""
    error = Raised(number, message, procedure="xp_userlock")
    if session.interpreter.trying:
        raise error
    session.error_number = number
    frame.output.message(error)
    return -999


@procedure("sp_getapplock")
def _getapplock(session: Session, arguments: Arguments, frame: Frame, outputs: list[Parameter]) -> int:
    resource, mode, owner, timeout, _ = arguments.take(
        "resource", "lockmode", "lockowner", "locktimeout", "dbprincipal"
    )
    owner = (owner or "Transaction").lower()
    if resource is None:
        raise SqlError(
            201, "Procedure or function 'sp_getapplock' expects parameter '@Resource', which was not supplied.", state=4
        )
    if mode is None:
        raise SqlError(
            201, "Procedure or function 'sp_getapplock' expects parameter '@LockMode', which was not supplied.", state=4
        )
    modes = ("shared", "update", "exclusive", "intentexclusive", "intentshared")
    if mode.lower() not in modes or owner not in ("transaction", "session"):
        return -999
    if owner == "transaction" and not session.transactions.count:
        return _userlock(
            session,
            frame,
            50000,
            "You attempted to acquire a transactional application lock without an active transaction.",
        )
    if timeout is not None and timeout < -1:
        return -999
    if timeout is None:
        timeout = session.options.lock_timeout
    session.transactions.start()
    return session.applocks.get(resource[:255], mode, owner, timeout)


@procedure("sp_releaseapplock")
def _releaseapplock(session: Session, arguments: Arguments, frame: Frame, outputs: list[Parameter]) -> int:
    resource, owner, _ = arguments.take("resource", "lockowner", "dbprincipal")
    owner = (owner or "Transaction").lower()
    if resource is None or owner not in ("transaction", "session"):
        return -999
    if owner == "transaction" and not session.transactions.count:
        return _userlock(
            session,
            frame,
            50000,
            "You attempted to release a transactional application lock without an active transaction.",
        )
    if not session.applocks.release(resource[:255], owner):
        return _userlock(
            session,
            frame,
            1223,
            f"Cannot release the application lock (Database Principal: 'public', Resource: '{resource[:32]}')"
            " because it is not currently held.",
        )
    return 0


# --- small ones ------------------------------------------------------------------------------------------------------


@procedure("sp_flush_log", "sp_reset_connection", "sp_updatestats", "sp_recompile", "sp_refreshview")
def _nothing(session: Session, arguments: Arguments, frame: Frame, outputs: list[Parameter]) -> int:
    return 0


@procedure("sp_set_session_context")
def _session_context(session: Session, arguments: Arguments, frame: Frame, outputs: list[Parameter]) -> int:
    key, value, _ = arguments.take("key", "value", "read_only")
    session.pg.query(
        "SELECT set_config('mssql_context.k' || md5(lower($1)), $2, false)",
        str(key),
        "" if value is None else str(value),
    )
    return 0


def dbcc(session: Session, node: nodes.Dbcc, frame: Frame) -> None:
    """DBCC CHECKIDENT, and the commands that change nothing here."""
    if node.command in (
        "FREEPROCCACHE",
        "DROPCLEANBUFFERS",
        "TRACEON",
        "TRACEOFF",
        "UPDATEUSAGE",
        "CHECKDB",
        "CHECKTABLE",
    ):
        return
    if node.command == "USEROPTIONS" or node.command != "CHECKIDENT":
        raise SqlError(40517, f"DBCC {node.command} is not supported by the local server.")

    def text(expr: nodes.Expr) -> str:
        return decode(NMAX, session.evaluate(expr, NMAX, frame)[1]) or ""

    name = parse_name(text(node.arguments[0]))
    table = session.catalog.find(name, session.database)
    if table is None or table.type != "U":
        raise SqlError(
            2501, f'Cannot find a table or object with the name "{".".join(name)}". Check the system catalog.', state=45
        )
    column = table.identity
    if column is None:
        raise SqlError(7997, f"'{table.name}' does not contain an identity column.")
    mode = text(node.arguments[1]).upper() if len(node.arguments) > 1 else "RESEED"
    current = session.pg.query("SELECT mssql.ident_last($1::int)", table.object_id)[0][0]
    frame.output.message(
        SqlError(7998, f"Checking identity information: current identity value '{current or 'NULL'}'.", severity=10)
    )
    if mode == "NORESEED":
        return
    sequence = session.pg.query("SELECT pg_get_serial_sequence($1, $2)", table.pg, column.pg)[0][0]
    session.transactions.start()
    if len(node.arguments) > 2:
        value = int(text(node.arguments[2]))
        fresh = current is None
        session.pg.query("SELECT setval($1::regclass, $2::bigint, $3::bool)", sequence, value, "f" if fresh else "t")
    else:
        session.pg.query(
            f"SELECT setval($1::regclass, greatest((SELECT max({quoted(column.pg)}) FROM {table.pg}), 1))", sequence
        )


def result_set(output: Output, session: Session, sql: str, columns: list[tuple[str, Any]], *texts: Any) -> int:
    """Send the rows of a PostgreSQL query over text parameters as a result set; returns their number."""
    from airflow_sqlqueue.localdb.contract import Column
    from airflow_sqlqueue.localdb.tsql.pg import Request

    session.transactions.start()
    values = [None if text is None else encode(nvarchar(4000), str(text)) for text in texts]
    result = session.transactions.run([Request(sql, values, [25] * len(values))])
    output.columns([Column(name, kind, result.ftype(i)) for i, (name, kind) in enumerate(columns)])
    if result.ntuples:
        output.rows(result)
    session.rowcount = result.ntuples
    output.done(None if session.options.nocount else result.ntuples)
    return int(result.ntuples)
