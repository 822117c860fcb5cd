"""Registry of built-in functions by name.

Source: the pages of "Transact-SQL functions". A name that is not in the registry is error 195, as on SQL Server.
"""

from __future__ import annotations

from collections.abc import Callable

from fakemssql.contract import SqlError
from fakemssql.tsql.compiler.compilation import Compilation
from fakemssql.tsql.compiler.functions import aggregates
from fakemssql.tsql.compiler.scopes import Names, Typed
from fakemssql.tsql.parser import nodes
from fakemssql.tsql.parser.lexer import syntax_error
from fakemssql.types import SqlType

Implementation = Callable[[Compilation, list[Typed]], Typed]
Special = Callable[[Compilation, nodes.Function, Names], Typed]


def _refuse(c: Compilation, node: nodes.Function, names: Names) -> Typed:
    raise SqlError(40517, f"{node.name[-1].upper()} is not supported by fakemssql.", line=node.line)


_REFUSED = """
    COLUMNPROPERTY COL_NAME DATABASEPROPERTYEX IDENT_INCR IDENT_SEED INDEXKEY_PROPERTY INDEXPROPERTY INDEX_COL
    OBJECTPROPERTY OBJECTPROPERTYEX STATS_DATE
    ABS ACOS APPLOCK_TEST APPROX_COUNT_DISTINCT ASCII ASIN ATAN ATN2 BINARY_CHECKSUM CEILING CHAR CHECKSUM
    CHECKSUM_AGG CHOOSE COLLATIONPROPERTY COMPRESS CONCAT CONCAT_WS CONTEXT_INFO COS COT CUME_DIST DATABASEPROPERTY
    DATEFROMPARTS DATENAME DATETIMEFROMPARTS DATETRUNC DECOMPRESS DEGREES DIFFERENCE EOMONTH EXP FILEGROUP_ID
    FILEGROUP_NAME FILE_ID FILE_NAME FIRST_VALUE FLOOR FORMAT FORMATMESSAGE FULLTEXTSERVICEPROPERTY GENERATE_SERIES
    GETANSINULL GREATEST GROUPING HASHBYTES HAS_PERMS_BY_NAME HOST_ID ISDATE ISNUMERIC JSON_MODIFY LAG LAST_VALUE
    LEAD LEAST APPLOCK_MODE COLUMNS_UPDATED DATETIME2FROMPARTS DATETIMEOFFSETFROMPARTS SMALLDATETIMEFROMPARTS
    TIMEFROMPARTS LOG LOG10 NTILE PATINDEX PERCENT_RANK PI POWER RADIANS RAND REVERSE ROUND ROWCOUNT_BIG
    SESSIONPROPERTY SESSION_CONTEXT SIGN SIN SOUNDEX SPACE SQRT SQUARE STDEV STDEVP STR STRING_AGG STRING_ESCAPE
    SQL_VARIANT_PROPERTY STUFF SUSER_SID TAN TODATETIMEOFFSET TRANSLATE TRIGGER_NESTLEVEL TYPEPROPERTY TYPE_ID
    UNICODE VAR VARP
"""
"""Functions of SQL Server that are not supported, because none of the users of fakemssql needs them."""

_FUNCTIONS: dict[str, Special] = {
    **dict.fromkeys(_REFUSED.split(), _refuse),
    **dict.fromkeys([*aggregates.AGGREGATES, *aggregates.RANKINGS], aggregates.call),
}


def special(name: str) -> Callable[[Special], Special]:
    """Register a function that compiles its arguments itself."""

    def register(function: Special) -> Special:
        _FUNCTIONS[name] = function
        return function

    return register


def define(name: str, least: int, most: int | None = None) -> Callable[[Implementation], Implementation]:
    """Register a function under its names, with its least and greatest number of arguments (-1: any)."""
    greatest = least if most is None else most

    def register(function: Implementation) -> Implementation:
        def compile_(c: Compilation, node: nodes.Function, names: Names) -> Typed:
            _check_arguments(node, least, greatest)
            return function(c, [c.scalar(arg, names) for arg in node.args])

        for each in name.split():
            _FUNCTIONS[each] = compile_
        return function

    return register


def provided(name: str, variable: str, kind: SqlType) -> None:
    """Register a function without arguments whose value the session provides as the parameter ``variable``."""
    define(name, 0)(lambda c, a: Typed(c.parameter(variable, kind), kind))


def _check_arguments(node: nodes.Function, least: int, most: int) -> None:
    name = node.name[-1].lower()
    if node.star or node.distinct:
        raise syntax_error(102, f"Incorrect syntax near '{'*' if node.star else 'DISTINCT'}'.")
    if len(node.args) < least or (most >= 0 and len(node.args) > most):
        if least == most:
            raise syntax_error(174, f"The {name} function requires {least} argument(s).")
        raise syntax_error(189, f"The {name} function requires {least} to {most} arguments.")


def call(c: Compilation, node: nodes.Function, names: Names) -> Typed:
    """Compile a function call."""
    name = node.name[-1].upper()
    if len(node.name) > 1:
        if len(node.name) == 2 and node.name[0].lower() in ("sys", "dbo") and name.startswith("FN_"):
            raise SqlError(40517, f"{'.'.join(node.name)} is not supported by fakemssql.", line=node.line)
        raise SqlError(
            4121,
            f'Cannot find either column "{node.name[0]}" or the user-defined function or aggregate'
            f' "{".".join(node.name)}", or the name is ambiguous.',
            line=node.line,
        )
    function = _FUNCTIONS.get(name)
    if node.over is not None and function is not _refuse:
        return aggregates.call(c, node, names)
    if function is None:
        raise syntax_error(195, f"'{node.name[-1]}' is not a recognized built-in function name.", state=10)
    return function(c, node, names)
