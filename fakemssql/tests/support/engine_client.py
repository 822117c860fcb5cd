"""A session of the engine and the shortest ways to use it, with what it puts out recorded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fakemssql.contract import Parameter, ResultColumn, Rows, SqlError
from fakemssql.tsql.datatypes.codec import decode
from fakemssql.tsql.datatypes.sqltypes import oid
from fakemssql.tsql.runtime.requests import SessionEngine
from fakemssql.types import SqlType


class Recorder:
    """Collects result sets, counts, messages and events."""

    def __init__(self) -> None:
        self.results: list[list[tuple[Any, ...]]] = []
        self.shapes: list[list[ResultColumn]] = []
        self.counts: list[int | None] = []
        self.messages: list[SqlError] = []
        self.events: list[tuple[str, int]] = []
        self.databases: list[str] = []
        self.returned: dict[str, Any] = {}

    def columns(self, columns: Sequence[ResultColumn]) -> None:
        for column in columns:
            # What the encoder gets must be what the type is stored as.
            assert column.pg_oid == oid(column.type), (column.name, str(column.type), column.pg_oid)
        self.shapes.append(list(columns))
        self.results.append([])

    def rows(self, rows: Rows) -> None:
        for number in range(rows.ntuples):
            row = tuple(decode(column.type, rows.get_value(number, i)) for i, column in enumerate(self.shapes[-1]))
            self.results[-1].append(row)

    def done(self, count: int | None) -> None:
        self.counts.append(count)

    def message(self, error: SqlError) -> None:
        self.messages.append(error)

    def database(self, new: str, old: str) -> None:
        self.databases.append(new)

    def transaction(self, event: str, descriptor: int) -> None:
        assert descriptor != 0
        self.events.append((event, descriptor))

    def return_value(self, parameter: Parameter) -> None:
        self.returned[parameter.name] = parameter.value

    @property
    def errors(self) -> list[int]:
        return [message.number for message in self.messages if message.severity > 10]


class Client:
    """A session and the shortest ways to use it."""

    def __init__(self, engine: SessionEngine) -> None:
        self.engine, self.session = engine, engine.session

    def run(self, text: str, **parameters: tuple[SqlType, Any]) -> Recorder:
        """Run a batch; parameters are ``name=(type, value)``."""
        recorder = Recorder()
        if parameters:
            given = [Parameter(f"@{name}", kind, value) for name, (kind, value) in parameters.items()]
            self.engine.parameterised(text, given, recorder)
        else:
            self.engine.batch(text, recorder)
        return recorder

    def ok(self, text: str, **parameters: tuple[SqlType, Any]) -> Recorder:
        recorder = self.run(text, **parameters)
        assert recorder.errors == [], [str(message) for message in recorder.messages]
        return recorder

    def rows(self, text: str, **parameters: tuple[SqlType, Any]) -> list[tuple[Any, ...]]:
        """The rows of the last result set."""
        return self.ok(text, **parameters).results[-1]

    def value(self, text: str, **parameters: tuple[SqlType, Any]) -> Any:
        return self.rows(text, **parameters)[0][0]

    def error(self, text: str, **parameters: tuple[SqlType, Any]) -> SqlError:
        """The first error of a batch that must fail."""
        found = [message for message in self.run(text, **parameters).messages if message.severity > 10]
        assert found, "no error"
        return found[0]

    def call(self, procedure: str, **parameters: Any) -> tuple[int, Recorder]:
        recorder = Recorder()
        kinds = {
            int: SqlType("int"),
            str: SqlType("nvarchar", length=4000),
            type(None): SqlType("nvarchar", length=4000),
        }
        given = [Parameter(f"@{name}", kinds[type(value)], value) for name, value in parameters.items()]
        return self.engine.call(procedure, given, recorder), recorder
