"""Session: the state and parts that the statements of one connection share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from fakemssql.contract import Parameter, ResponseWriter, SqlError
from fakemssql.switches import Switches
from fakemssql.tsql.datatypes.codec import encode
from fakemssql.tsql.definitions.definer import Definer
from fakemssql.tsql.options import Options
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
    """Arguments of a call to a system procedure, by name or by position, and its output parameters."""

    def __init__(self, name: str, parameters: list[Parameter]) -> None:
        self.name, self.parameters = name, parameters
        self.outputs: list[Parameter] = []

    def take(self, *names: str) -> list[Any]:
        """Return the values of the parameters ``names`` in order; None for a missing one. Error 8145 for an unknown
        name.
        """
        values: dict[str, Any] = dict.fromkeys(names)
        given: set[str] = set()
        for position, parameter in enumerate(self.parameters):
            key = parameter.name.lower().lstrip("@")
            if not key:
                if position >= len(names):
                    raise errors.too_many_arguments(self.name)
                key = names[position]
            if key not in values:
                raise SqlError(8145, f"@{key} is not a parameter for procedure {self.name}.")
            if key in given:
                raise errors.repeated_argument(f"@{key}")
            given.add(key)
            values[key] = parameter.value
        return [values[name] for name in names]


def parse_name(text: str) -> nodes.Name:
    """Return the parts of a procedure's name as a driver sends it."""
    return batches.Batch(text, tokenize(text)).name()


StatementFunction = Callable[["Session", Any, Frame], None]
Procedure = Callable[["Session", Arguments, Frame], int]


@dataclass(frozen=True, slots=True)
class StatementTables:
    """Tables of functions: by type of statement, and by name of system procedure."""

    statements: Mapping[type, StatementFunction]
    procedures: Mapping[str, Procedure]


def signature_of(parameters: Sequence[Parameter]) -> tuple[object, ...]:
    """Names and types of parameters, on which the meaning of a text depends."""
    return tuple((p.name.lower(), p.type) for p in parameters)


class Session(SessionState):
    """State of one connection, with its transactions, application locks and session data."""

    def __init__(
        self, backend: Backend, database: str, account: ServerPrincipal, switches: Switches, tables: StatementTables
    ) -> None:
        super().__init__(backend.pg, backend.catalog, database, account, switches)
        self.backend, self.plan_cache, self.tables = backend, backend.plan_cache, tables
        self.failing_dirty_reads = switches.failing_dirty_reads
        self.spid = backend.pid
        self.depth = 0  # number of procedures, texts and triggers that run
        self.firing: list[Any] = []  # object ids of the triggers that run
        self.identity_insert: tuple[str, str] = ("", "")
        self.activity = Activity(backend)
        self.applocks = AppLocks(self)
        self.transactions = Transactions(self, self.activity, self.applocks)
        self.definer = Definer(self)

    def code(self, text: str, signature: tuple[object, ...] = ()) -> Code:
        """Parsed batch for ``text``, from the cache if possible."""
        return self.plan_cache.code(text, signature, self.options.quoted_identifier)

    @contextmanager
    def own_options(self) -> Iterator[Options]:
        """Provide SET options for a procedure, a trigger or a dynamic text: those of the caller apply again after it.

        Source: "SET statements (Transact-SQL)".
        """
        outer, inner = self.options, self.options.copy()
        self.options = inner
        try:
            yield inner
        finally:
            self.options = outer
            if inner != outer:
                with self.pg.undisturbed():
                    self._apply(inner)

    def _apply(self, former: Options) -> None:
        """Apply the options after ``former`` ones. In a failed transaction the rollback will set the lock timeout."""
        if former.lock_timeout != self.options.lock_timeout and self.pg.usable:
            self.apply_lock_timeout()
        if former.isolation != self.options.isolation:
            # Only the next statement fails where a transaction began at another level than SNAPSHOT.
            with suppress(SqlError):
                self.transactions.isolate(self.options.isolation)
        self.activity.update(self)

    def frame(
        self, text: str, parameters: Sequence[Parameter], output: ResponseWriter, parent: Frame | None = None
    ) -> Frame:
        """Frame for running ``text`` with ``parameters`` as its variables."""
        signature = signature_of(parameters)
        frame = Frame(self.code(text, signature), output, signature=signature, parent=parent)
        for parameter in parameters:
            name = parameter.name.lower()
            frame.types[name] = parameter.type
            frame.values[name] = encode(parameter.type, parameter.value)
        return frame
