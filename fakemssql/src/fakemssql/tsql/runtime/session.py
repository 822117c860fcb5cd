"""What the statements of one connection share: the context of every function that runs one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fakemssql.contract import Parameter, ResponseWriter, SqlError
from fakemssql.switches import Switches
from fakemssql.tsql.catalog.tables import TableInfo
from fakemssql.tsql.datatypes.codec import encode
from fakemssql.tsql.definitions.definer import Definer
from fakemssql.tsql.runtime.activity import Activity
from fakemssql.tsql.runtime.applock import AppLocks
from fakemssql.tsql.runtime.arguments import Arguments
from fakemssql.tsql.runtime.backend import Backend
from fakemssql.tsql.runtime.frames import Code, Frame
from fakemssql.tsql.runtime.identities import MadeIdentity, identity_value
from fakemssql.tsql.runtime.options import Options
from fakemssql.tsql.runtime.temporary import Temporary
from fakemssql.tsql.runtime.transactions import Transactions
from fakemssql.tsql.security.accounts import ServerPrincipal
from fakemssql.tsql.security.context import SecurityContext

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


class Session:
    """The state of one connection, and the parts that keep more of it."""

    def __init__(
        self, backend: Backend, database: str, account: ServerPrincipal, switches: Switches, tables: StatementTables
    ) -> None:
        self.pg, self.catalog, self.codes = backend.pg, backend.catalog, backend.codes
        self.home = self.database = database
        self.switches, self.tables = switches, tables
        self.failing_dirty_reads = switches.failing_dirty_reads
        self.spid = backend.pid
        self.security = SecurityContext(self.pg, self.catalog, account)
        self.options = Options()
        self.output: ResponseWriter | None = None
        self.rowcount = 0
        self.error_number = 0
        self.trying = 0  # how many TRY blocks run
        self.depth = 0  # how many procedures, texts and triggers run
        self.firing: list[Any] = []  # triggers that run, by object id
        self.inserting = 0
        self.identity: MadeIdentity | None = None  # of @@IDENTITY
        self.scope_identity: MadeIdentity | None = None  # of SCOPE_IDENTITY()
        self.identity_insert: tuple[str, str] = ("", "")
        self.created_tables: list[str] = []
        self.dropped_tables: list[TableInfo] = []
        self.activity = Activity(backend)
        self.applocks = AppLocks(self)
        self.transactions = Transactions(self)
        self.definer = Definer(self)
        self.temporary = Temporary(self)

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

    def keep_identities(self) -> None:
        """Read the identity values that are still to be read: their tables or their scope go away."""
        if self.pg.usable:
            identity_value(self.pg, self.identity)
            identity_value(self.pg, self.scope_identity)

    def info(self, message: SqlError) -> None:
        """A message to the client of the running request."""
        if self.output is not None:
            self.output.message(message)
