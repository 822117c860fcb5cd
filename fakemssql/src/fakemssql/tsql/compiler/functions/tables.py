"""Table-valued functions: those of the schema sys."""

from __future__ import annotations

from fakemssql.contract import SqlError
from fakemssql.tsql.catalog.tables import TableFunction
from fakemssql.tsql.compiler.compilation import Compilation
from fakemssql.tsql.compiler.convert import convert
from fakemssql.tsql.compiler.functions.security import seen_id
from fakemssql.tsql.compiler.scopes import Names, Scope, Typed
from fakemssql.tsql.names import fold, quoted
from fakemssql.tsql.parser import nodes
from fakemssql.tsql.security.visibility import require_state


def table_function(c: Compilation, node: nodes.FunctionSource, names: Names) -> str:
    """Compile a call of a table-valued function in FROM."""
    name = node.name[-1].upper()
    # An argument may use the columns of sources to the left, as CROSS APPLY does.
    args = [c.scalar(arg, names) for arg in node.args]
    alias = c.fresh("t")
    if name in ("FN_HELPCOLLATIONS", "FN_MY_PERMISSIONS", "GENERATE_SERIES", "STRING_SPLIT"):
        raise SqlError(40517, f"{node.name[-1]} is not supported by fakemssql.", line=node.line)
    if len(node.name) > 1 and fold(node.name[-2]) == "sys":
        found = c.env.catalog.table_function(fold(node.name[-1]))
        if found is not None:
            return _system(c, node, found, args, alias, names)
    raise SqlError(208, f"Invalid object name '{'.'.join(node.name)}'.", line=node.line)


def _system(
    c: Compilation, node: nodes.FunctionSource, found: TableFunction, args: list[Typed], alias: str, names: Names
) -> str:
    """Compile a system function as a function of PostgreSQL with the same arguments and columns."""
    if len(args) != len(found.arguments):
        few = "An insufficient number of" if len(args) < len(found.arguments) else "Too many"
        number, word = (313, "were supplied for") if len(args) < len(found.arguments) else (8144, "specified for")
        raise SqlError(number, f"{few} arguments {word} the procedure or function {'.'.join(node.name)}.")
    values = [convert(value, kind, "cast").sql for value, kind in zip(args, found.arguments, strict=True)]
    name = fold(node.name[-1])
    if name == "dm_db_stats_properties":
        values[0] = seen_id(c, values[0])
    elif name.startswith("dm_") and c.env.security is not None:
        require_state(c.env.security, c.env.database, name)
    _add(
        names,
        node,
        [Typed(f"{alias}.{quoted(column.pg)}", column.type, name=column.name) for column in found.columns],
        alias,
    )
    return f"LATERAL {found.pg}({', '.join(values)}) AS {alias}"


def _add(names: Names, node: nodes.FunctionSource, columns: list[Typed], alias: str) -> None:
    if node.columns:
        columns = [column.with_(name=name) for column, name in zip(columns, node.columns, strict=False)]
    names.scopes.append(Scope(fold(node.alias), columns, exposed=(node.alias,)))
