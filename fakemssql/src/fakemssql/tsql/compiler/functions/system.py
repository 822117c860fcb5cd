"""Functions of the server, the session and the catalog ("System functions", "Metadata functions")."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from fakemssql.contract import SERVER_VERSION
from fakemssql.tsql.compiler.compilation import Compilation
from fakemssql.tsql.compiler.functions.registry import define, provided, special
from fakemssql.tsql.compiler.functions.security import in_default_schema, seen_id, seen_name
from fakemssql.tsql.compiler.operators import as_integer, as_text
from fakemssql.tsql.compiler.scopes import Names, Typed
from fakemssql.tsql.datatypes.sqltypes import BIGINT, INT, NMAX, SYSNAME, nvarchar
from fakemssql.tsql.names import literal
from fakemssql.tsql.parser import nodes
from fakemssql.tsql.parser.lexer import syntax_error
from fakemssql.types import SqlType

VERSION = ".".join(map(str, SERVER_VERSION))
_SERVER = {
    "PRODUCTVERSION": VERSION,
    "PRODUCTMAJORVERSION": "16",
    "PRODUCTMINORVERSION": "0",
    "PRODUCTBUILD": "4135",
    "PRODUCTLEVEL": "RTM",
    "EDITION": "Developer Edition (64-bit)",
    "ENGINEEDITION": 3,
    "EDITIONID": -2117995310,
    "SERVERNAME": "fakemssql",
    "MACHINENAME": "fakemssql",
    "INSTANCENAME": None,
    "COLLATION": "SQL_Latin1_General_CP1_CI_AS",
    "ISHADRENABLED": 0,
    "ISINTEGRATEDSECURITYONLY": 0,
    "ISSINGLEUSER": 0,
    "ISXTPSUPPORTED": 0,
    "SQLSORTORDER": 52,
}


def _value(value: object) -> Typed:
    if value is None:
        return Typed("NULL::text", nvarchar(128))
    if isinstance(value, int):
        return Typed(f"({value})::int4", INT)
    return Typed(literal(str(value)) + "::text", nvarchar(128))


def _serverproperty(c: Compilation, node: nodes.Function, names: Names) -> Typed:
    properties: dict[str, object] = {**_SERVER, **{name.upper(): value for name, value in c.env.properties.items()}}
    if len(node.args) != 1:
        raise syntax_error(174, "The serverproperty function requires 1 argument(s).")
    name = node.args[0]
    if isinstance(name, nodes.Literal) and isinstance(name.value, str):
        return _value(properties.get(name.value.upper()))
    text = as_text(c.scalar(name, names)).sql
    parts = " ".join(f"WHEN '{key}' THEN {literal(str(v))}" for key, v in properties.items() if v is not None)
    return Typed(f"(CASE upper({text}) {parts} END)::text", nvarchar(128))


def _object_id(c: Compilation, node: nodes.Function, names: Names) -> Typed:
    first = node.args[0] if node.args else None
    if isinstance(first, nodes.Literal) and isinstance(first.value, str):
        name = first.value.strip()
        if name.lower().startswith("tempdb..") or name.startswith("#"):
            last = name.split(".")[-1].strip("[]")
            table = c.env.catalog.named((last,), c.env.database) if last.startswith("#") else None
            return Typed(f"{table.object_id}::int4" if table is not None else "NULL::int4", INT)
    args = [as_text(c.scalar(arg, names)).sql for arg in node.args]
    kind = args[1] if len(args) > 1 else "NULL::text"
    sql = seen_id(c, f"mssql.object_id({_db(c)}, {in_default_schema(c, args[0])}, {kind})")
    # Once for the statement, as on SQL Server: PostgreSQL would search the name again for each row.
    if all(isinstance(each, nodes.Literal | nodes.Variable) for each in node.args):
        sql = f"(SELECT {sql})"
    return Typed(sql, INT)


def _db(c: Compilation) -> str:
    return c.parameter("@@db_id", INT)


special("SERVERPROPERTY")(_serverproperty)
special("OBJECT_ID")(_object_id)


def _catalog(
    name: str,
    function: str,
    kind: SqlType,
    least: int,
    most: int,
    text: tuple[int, ...] = (),
    guard: Callable[[Compilation, str], str] | None = None,
) -> None:
    """Register a function of the catalog; PostgreSQL's function takes the current database as first argument.

    ``guard`` turns the first argument into NULL if it is an object that the user may not see.
    """

    def implementation(c: Compilation, a: list[Typed]) -> Typed:
        args = [_db(c)]
        for index in range(most):
            if index >= len(a):
                args.append("NULL")
            else:
                args.append(as_text(a[index]).sql if index in text else as_integer(a[index]))
        if guard is not None:
            args[1] = guard(c, args[1])
        return Typed(f"mssql.{function}({', '.join(args)})", kind)

    define(name, least, most)(implementation)


_catalog("OBJECT_NAME", "object_name", SYSNAME, 1, 2, (), seen_id)
_catalog("OBJECT_SCHEMA_NAME", "object_schema_name", SYSNAME, 1, 2, (), seen_id)
_catalog("OBJECT_DEFINITION", "object_definition", NMAX, 1, 1, (), partial(seen_id, source=True))
_catalog("COL_LENGTH", "col_length", SqlType("smallint"), 2, 2, (0, 1), seen_name)
_catalog("IDENT_CURRENT", "ident_current", SqlType("numeric", precision=38, scale=0), 1, 1, (0,), seen_name)
_catalog("DB_ID", "db_id", SqlType("smallint"), 0, 1, (0,))
_catalog("DB_NAME", "db_name", SYSNAME, 0, 1)
_catalog("TYPE_NAME", "type_name", SYSNAME, 1, 1)


def _of_schema(name: str, kind: SqlType, text: bool) -> None:
    """Register SCHEMA_ID or SCHEMA_NAME; without an argument it is about the user's default schema."""

    def implementation(c: Compilation, a: list[Typed]) -> Typed:
        default = literal(c.env.catalog.default_schema(c.env.database)) + "::text"
        if not a:
            return Typed(default if not text else f"mssql.schema_id({_db(c)}, {default})", kind)
        argument = as_text(a[0]).sql if text else as_integer(a[0])
        return Typed(f"mssql.{name.lower()}({_db(c)}, {argument})", kind)

    define(name, 0, 1)(implementation)


_of_schema("SCHEMA_ID", INT, True)
_of_schema("SCHEMA_NAME", SYSNAME, False)


provided("SCOPE_IDENTITY", "@@scope_identity", SqlType("numeric", precision=38, scale=0))
provided("XACT_STATE", "@@xact_state", SqlType("smallint"))
provided("ERROR_NUMBER", "@@error_number", INT)
provided("ERROR_MESSAGE", "@@error_message", nvarchar(4000))
provided("ERROR_SEVERITY", "@@error_severity", INT)
provided("ERROR_STATE", "@@error_state", INT)
provided("ERROR_LINE", "@@error_line", INT)
provided("ERROR_PROCEDURE", "@@error_procedure", nvarchar(128))
provided("APP_NAME", "@@app_name", SYSNAME)
provided("HOST_NAME", "@@host_name", SYSNAME)
provided("CURRENT_TRANSACTION_ID", "@@transaction_id", BIGINT)


@define("CONNECTIONPROPERTY", 1)
def _connectionproperty(c: Compilation, a: list[Typed]) -> Typed:
    return Typed(f"mssql.connectionproperty({as_text(a[0]).sql})", nvarchar(128))
