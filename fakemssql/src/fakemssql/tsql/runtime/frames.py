"""Frames of execution: variables and table variables of a batch or procedure call, and exceptions that leave it."""

from __future__ import annotations

from dataclasses import dataclass, field

from fakemssql.contract import ResponseWriter, SqlError
from fakemssql.tsql.catalog.tables import TableInfo
from fakemssql.tsql.compiler.plan import Plan
from fakemssql.tsql.parser import nodes
from fakemssql.types import SqlType


class BatchEnd(Exception):
    """The batch ends; its errors have been reported."""


class ScopeEnd(BatchEnd):
    """A procedure or a dynamic text ends, by an error of its compilation; its caller goes on."""


class Break(Exception):
    """BREAK leaves a loop."""


class Continue(Exception):
    """CONTINUE begins the next round of a loop."""


class Returned(Exception):
    """RETURN ends a batch or procedure, with a status."""

    def __init__(self, status: int) -> None:
        self.status = status


class Raised(SqlError):
    """Error of RAISERROR; by itself it ends neither batch nor transaction."""


class Thrown(SqlError):
    """Error of THROW; it ends the batch."""


@dataclass
class Code:
    """Parsed batch with the plans of its statements. A plan's key has the statement and the state it depends on."""

    statements: list[nodes.Statement]
    plans: dict[tuple[object, ...], Plan] = field(default_factory=dict)
    combined: dict[int, nodes.Expr] = field(default_factory=dict)  # expressions of SET @a += ..., by the statement's id


@dataclass
class Frame:
    """Level of execution. Values are in PostgreSQL's binary form."""

    code: Code
    output: ResponseWriter
    types: dict[str, SqlType] = field(default_factory=dict)
    values: dict[str, bytes | None] = field(default_factory=dict)
    tables: dict[str, TableInfo] = field(default_factory=dict)
    signature: tuple[object, ...] = ()
    procedure: str = ""
    caught: list[SqlError] = field(default_factory=list)
    parent: Frame | None = None
    kept: bool = False  # the caller made the tables and drops them

    def for_expression(self) -> Frame:
        """Frame for one expression, with the same variables and tables but its own types."""
        return Frame(
            self.code, self.output, dict(self.types), self.values, self.tables, caught=self.caught, parent=self.parent
        )
