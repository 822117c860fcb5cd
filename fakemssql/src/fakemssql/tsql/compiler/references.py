"""Names of columns and variables: what they stand for."""

from __future__ import annotations

from fakemssql.contract import SqlError
from fakemssql.tsql.compiler.environment import SYSTEM_VARIABLES, Environment
from fakemssql.tsql.compiler.typed import Names, Scope, Typed
from fakemssql.tsql.datatypes.sqltypes import (
    oid,
)
from fakemssql.tsql.names import fold
from fakemssql.tsql.parser import nodes
from fakemssql.types import SqlType


class References:
    """Looks up columns and variables."""

    def __init__(self, env: Environment) -> None:
        self.env = env
        self.parameters: list[str] = []
        self.oids: list[int] = []
        self.kinds: list[SqlType] = []
        self.serial = 0

    def fresh(self, prefix: str = "t") -> str:
        self.serial += 1
        return f"{prefix}{self.serial}"

    def parameter(self, name: str, kind: SqlType) -> str:
        """The ``$n`` of a variable or of a value that the session provides."""
        if name not in self.parameters:
            self.parameters.append(name)
            self.oids.append(oid(kind))
            self.kinds.append(kind)
        return f"${self.parameters.index(name) + 1}"

    def _variable(self, name: str) -> Typed:
        kind = self.env.variables.get(name)
        if kind is None:
            if name.startswith("@@"):
                kind = SYSTEM_VARIABLES.get(name)
                if kind is None:
                    raise SqlError(137, f'Must declare the scalar variable "{name}".', severity=15, state=2)
            elif name in self.env.tables:
                raise SqlError(137, f'Must declare the scalar variable "{name}".', severity=15, state=2)
            else:
                raise SqlError(137, f'Must declare the scalar variable "{name}".', severity=15, state=2)
        return Typed(self.parameter(name, kind), kind)

    def column(self, node: nodes.Column, names: Names) -> Typed:
        """Look a column up in the scopes, innermost first."""
        parts = node.name
        wanted = fold(parts[-1])
        level: Names | None = names
        while level is not None:
            found: list[Typed] = []
            for scope in level.scopes:
                if len(parts) > 1 and not self._qualifies(parts[:-1], scope):
                    continue
                found += scope.find(wanted)
                if len(parts) > 1 and not found:
                    raise SqlError(207, f"Invalid column name '{parts[-1]}'.", line=node.line)
            if len(found) > 1:
                raise SqlError(209, f"Ambiguous column name '{parts[-1]}'.", line=node.line)
            if found:
                if level.grouped is not None and not level.in_aggregate and level is names:
                    return self._grouped(found[0], level, node)
                return found[0]
            level = level.parent
        if len(parts) > 1:
            raise SqlError(4104, f'The multi-part identifier "{".".join(parts)}" could not be bound.', line=node.line)
        raise SqlError(207, f"Invalid column name '{parts[0]}'.", line=node.line)

    def _grouped(self, column: Typed, names: Names, node: nodes.Column) -> Typed:
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

    @staticmethod
    def _qualifies(qualifier: tuple[str, ...], scope: Scope) -> bool:
        last = fold(qualifier[-1])
        if last != scope.alias:
            return False
        if len(qualifier) == 1:
            return True
        exposed = tuple(fold(part) for part in scope.exposed)
        wanted = tuple(fold(part) for part in qualifier)
        return all(
            not want or not have or want == have
            for want, have in zip(reversed(wanted), reversed(exposed), strict=False)
        ) and bool(exposed)
