"""Names of columns and variables: what they stand for."""

from __future__ import annotations

from fakemssql.contract import SqlError
from fakemssql.tsql.compiler.compilation import Compilation
from fakemssql.tsql.compiler.environment import SYSTEM_VARIABLES
from fakemssql.tsql.compiler.typed import Names, Scope, Typed
from fakemssql.tsql.names import fold
from fakemssql.tsql.parser import nodes


def variable(c: Compilation, node: nodes.Variable, names: Names) -> Typed:
    """A variable of the batch, or a system variable."""
    kind = c.env.variables.get(node.name) or SYSTEM_VARIABLES.get(node.name)
    if kind is None:
        raise SqlError(137, f'Must declare the scalar variable "{node.name}".', severity=15, state=2)
    return Typed(c.parameter(node.name, kind), kind)


def column(c: Compilation, node: nodes.Column, names: Names) -> Typed:
    """Look a column up in the scopes, innermost first."""
    parts = node.name
    wanted = fold(parts[-1])
    level: Names | None = names
    while level is not None:
        found: list[Typed] = []
        for scope in level.scopes:
            if len(parts) > 1 and not qualifies(parts[:-1], scope):
                continue
            found += scope.find(wanted)
            if len(parts) > 1 and not found:
                raise SqlError(207, f"Invalid column name '{parts[-1]}'.", line=node.line)
        if len(found) > 1:
            raise SqlError(209, f"Ambiguous column name '{parts[-1]}'.", line=node.line)
        if found:
            if level.grouped is not None and not level.in_aggregate and level is names:
                return grouped(found[0], level, node)
            return found[0]
        level = level.parent
    if len(parts) > 1:
        raise SqlError(4104, f'The multi-part identifier "{".".join(parts)}" could not be bound.', line=node.line)
    raise SqlError(207, f"Invalid column name '{parts[0]}'.", line=node.line)


def grouped(column: Typed, names: Names, node: nodes.Column) -> Typed:
    """A column of a grouped query; error 8120 where it is neither grouped by nor in an aggregate."""
    assert names.grouped is not None
    key = column.sql
    if key in names.grouped:
        return column.with_(sql=f"any_value({key})") if names.grouped[key] else column
    if names.grouped.get("*"):
        return column
    raise SqlError(
        8120,
        f"Column '{'.'.join(node.name)}' is invalid in the select list because it is not contained in either an"
        " aggregate function or the GROUP BY clause.",
        line=node.line,
    )


def qualifies(qualifier: tuple[str, ...], scope: Scope) -> bool:
    """Whether a qualifier names a scope."""
    last = fold(qualifier[-1])
    if last != scope.alias:
        return False
    if len(qualifier) == 1:
        return True
    exposed = tuple(fold(part) for part in scope.exposed)
    wanted = tuple(fold(part) for part in qualifier)
    return all(
        not want or not have or want == have for want, have in zip(reversed(wanted), reversed(exposed), strict=False)
    ) and bool(exposed)
