"""What one batch or procedure call has of its own: variables, table variables, and how control leaves it."""

from __future__ import annotations

from dataclasses import dataclass, field

from fakemssql.contract import ResponseWriter, SqlError
from fakemssql.tsql.catalog.tables import TableInfo
from fakemssql.tsql.compiler.plan import Plan
from fakemssql.tsql.parser import nodes
from fakemssql.types import SqlType


class BatchEnd(Exception):
    """The batch ends; what was to be said has been said."""


class Break(Exception):
    """BREAK."""


class Continue(Exception):
    """CONTINUE."""


class Returned(Exception):
    """RETURN with a status."""

    def __init__(self, status: int) -> None:
        self.status = status


class Raised(SqlError):
    """An error of RAISERROR: it ends neither batch nor transaction by itself."""


class Thrown(SqlError):
    """An error of THROW: it ends the batch."""


@dataclass
class Code:
    """A parsed batch with the plans of its statements, by statement and by what their meaning depends on."""

    statements: list[nodes.Statement]
    plans: dict[tuple[object, ...], Plan] = field(default_factory=dict)
    combined: dict[int, nodes.Expr] = field(default_factory=dict)  # what SET @a += ... assigns, by the statement's id


@dataclass
class Frame:
    """One level of execution. Values are kept in PostgreSQL's binary form."""

    code: Code
    output: ResponseWriter
    types: dict[str, SqlType] = field(default_factory=dict)
    values: dict[str, bytes | None] = field(default_factory=dict)
    tables: dict[str, TableInfo] = field(default_factory=dict)
    signature: tuple[object, ...] = ()
    procedure: str = ""
    caught: list[SqlError] = field(default_factory=list)
    parent: Frame | None = None
    kept: bool = False  # its tables are dropped by who made them

    def for_expression(self) -> Frame:
        """A frame for one expression of this one: its variables and tables, with types of its own."""
        return Frame(
            self.code, self.output, dict(self.types), self.values, self.tables, caught=self.caught, parent=self.parent
        )
