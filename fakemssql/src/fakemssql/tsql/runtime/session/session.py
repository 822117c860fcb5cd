"""What the statements of one connection share: the context of every function that runs one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fakemssql.contract import Parameter, ResponseWriter, SqlError
from fakemssql.switches import Switches
from fakemssql.tsql.datatypes.codec import encode
from fakemssql.tsql.definitions.definer import Definer
from fakemssql.tsql.parser import batches, nodes
from fakemssql.tsql.parser.lexer import tokenize
from fakemssql.tsql.runtime.connection.activity import Activity
from fakemssql.tsql.runtime.connection.backend import Backend
from fakemssql.tsql.runtime.frames import Code, Frame
from fakemssql.tsql.runtime.session.application_locks import AppLocks
from fakemssql.tsql.runtime.session.transactions import Transactions
from fakemssql.tsql.security import errors
from fakemssql.tsql.security.accounts import ServerPrincipal
from fakemssql.tsql.state import SessionState


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
                    raise errors.too_many_arguments(self.name)
                key = names[position]
            if key not in values:
                raise SqlError(8145, f"@{key} is not a parameter for procedure {self.name}.")
            values[key] = parameter.value
        return [values[name] for name in names]


def parse_name(text: str) -> nodes.Name:
    """The parts of a procedure's name as a driver sends it."""
    return batches.Batch(text, tokenize(text)).name()


StatementFunction = Callable[["Session", Any, Frame], None]
Procedure = Callable[["Session", Arguments, Frame, list[Parameter]], int]


@dataclass(frozen=True, slots=True)
class StatementTables:
    """Which function runs which statement, and which one a system procedure of that name."""

    statements: Mapping[type, StatementFunction]
    procedures: Mapping[str, Procedure]


def signature_of(parameters: Sequence[Parameter]) -> tuple[object, ...]:
    """What of its parameters the meaning of a text depends on."""
    return tuple((p.name.lower(), p.type) for p in parameters)


class Session(SessionState):
    """The state of one connection, and the parts that keep more of it."""

    def __init__(
        self, backend: Backend, database: str, account: ServerPrincipal, switches: Switches, tables: StatementTables
    ) -> None:
        super().__init__(backend.pg, backend.catalog, database, account, switches)
        self.backend, self.codes, self.tables = backend, backend.codes, tables
        self.failing_dirty_reads = switches.failing_dirty_reads
        self.spid = backend.pid
        self.depth = 0  # how many procedures, texts and triggers run
        self.firing: list[Any] = []  # triggers that run, by object id
        self.identity_insert: tuple[str, str] = ("", "")
        self.activity = Activity(backend)
        self.applocks = AppLocks(self)
        self.transactions = Transactions(self, self.activity, self.applocks)
        self.definer = Definer(self)

    def code(self, text: str, signature: tuple[object, ...] = ()) -> Code:
        """The parsed batch for ``text``, kept for the next time."""
        return self.codes.code(text, signature, self.options.quoted_identifier)

    def frame(
        self, text: str, parameters: Sequence[Parameter], output: ResponseWriter, parent: Frame | None = None
    ) -> Frame:
        """A frame for running ``text`` with ``parameters`` as its variables."""
        signature = signature_of(parameters)
        frame = Frame(self.code(text, signature), output, signature=signature, parent=parent)
        for parameter in parameters:
            name = parameter.name.lower()
            frame.types[name] = parameter.type
            frame.values[name] = encode(parameter.type, parameter.value)
        return frame
