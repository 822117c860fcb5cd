"""Interface between the TDS front and the T-SQL engine; they share nothing else.

One process serves one client connection. The front decodes requests and calls an :class:`Engine`; the engine runs
T-SQL and reports the results, in order, to a :class:`ResponseWriter` that writes TDS tokens. Result rows stay in
PostgreSQL's binary format from libpq to the encoder: a large body never becomes a Python value on its way out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from fakemssql.types import SqlType

SERVER_VERSION = (16, 0, 4135, 4)
"""Version of SQL Server 2022. Clients adapt to the major version."""


class Parameter(NamedTuple):
    """A parameter of a request: its name with ``@`` (empty for a positional one), type, Python value, direction.

    A parameter with ``default`` takes its declared default: it has no value, and its type has no meaning.

    Values are ``None``, ``bool``, ``int``, ``float``, ``decimal.Decimal``, ``str``, ``bytes``, ``uuid.UUID`` and the
    ``datetime`` module's classes (naive for all types but ``datetimeoffset``).
    """

    name: str
    type: SqlType
    value: Any
    output: bool = False
    default: bool = False


@dataclass(frozen=True)
class ResultColumn:
    """Column of a result set. Its values arrive in the binary format of the PostgreSQL type ``pg_oid``."""

    name: str
    type: SqlType
    pg_oid: int
    nullable: bool = True
    identity: bool = False


@dataclass(frozen=True)
class Client:
    """Names, process and settings that a client sends in its login, and its remote address."""

    login: str = ""
    host: str = ""
    program: str = ""
    library: str = ""
    process: int = 0
    address: str = ""
    port: int = 0
    packet_size: int = 4096
    encrypted: bool = False
    tds_version: int = 0x74000004


class SqlError(Exception):
    """An error or message with SQL Server's number, severity (class) and state. Class 10 and below is information."""

    def __init__(
        self,
        number: int,
        message: str,
        *,
        severity: int = 16,
        state: int = 1,
        line: int = 1,
        procedure: str = "",
        then: SqlError | None = None,
    ) -> None:
        super().__init__(f"Msg {number}, Level {severity}, State {state}: {message}")
        self.number, self.message, self.severity, self.state = number, message, severity, state
        self.line, self.procedure = line, procedure
        self.seen: object | None = None  # set by the engine: the frame that raised it
        self.then = then  # the error that SQL Server reports after it; ERROR_NUMBER() shows that one


class Attention(Exception):
    """The client asked to cancel the request that is running."""


class ClientGone(Exception):
    """The connection of the client is closed."""


class Rows(Protocol):
    """The part of ``psycopg.pq.PGresult`` that an encoder reads."""

    @property
    def ntuples(self) -> int: ...
    def get_value(self, row_number: int, column_number: int) -> bytes | None: ...


class ResponseWriter(Protocol):
    """Receives the results of a request in order. Implemented by the TDS front."""

    def columns(self, columns: Sequence[ResultColumn]) -> None:
        """Begin a result set."""

    def rows(self, rows: Rows) -> None:
        """Take rows of the current result set, in PostgreSQL's binary format; called once or many times."""

    def done(self, count: int | None) -> None:
        """End a statement; ``count`` is the number of rows affected or returned, None under SET NOCOUNT ON."""

    def message(self, error: SqlError) -> None:
        """Take an error (severity 11 and above) or a message (PRINT, RAISERROR of severity 10 and below)."""

    def database(self, new: str, old: str) -> None:
        """USE changed the current database."""

    def transaction(self, event: str, descriptor: int) -> None:
        """``event`` is ``begin``, ``commit`` or ``rollback``; ``descriptor`` names the transaction, never 0."""

    def return_value(self, parameter: Parameter) -> None:
        """Take the final value of an OUTPUT parameter of a procedure call."""


class Engine(Protocol):
    """Runs requests for one connection. Implemented by ``tsql.runtime.requests.SessionEngine``.

    Every method reports errors of statements through ``output`` and does not raise for them; it raises
    :class:`Attention` or :class:`ClientGone` when ``wait`` did, after the statement was cancelled on PostgreSQL.
    """

    @property
    def database(self) -> str:
        """The current database."""

    @property
    def transaction_descriptor(self) -> int:
        """Descriptor of the open transaction; 0 if no transaction is open."""

    def session_state(self) -> tuple[bytes, bool]:
        """Return the settings of the session without its database, and whether the session has no further state."""

    def restore(self, state: bytes) -> bool:
        """Take over the settings of a session whose connection was lost; False if the server refuses."""

    def introduce(self, client: Client) -> None:
        """Record the client, for the views and functions that show sessions."""

    def batch(self, text: str, output: ResponseWriter) -> None:
        """Run a SQL batch."""

    def parameterised(self, text: str, parameters: Sequence[Parameter], output: ResponseWriter) -> None:
        """Run a batch with declared variables, as sp_executesql and the execution of a prepared handle do.

        Output parameters are reported through ``output.return_value`` at the end.
        """

    def call(self, procedure: str, parameters: Sequence[Parameter], output: ResponseWriter) -> int:
        """Run a stored procedure by name (sp_getapplock, sp_columns, sp_describe_undeclared_parameters ...).

        Returns its status. Error 2812 if there is no such procedure.
        """

    def prepare(self, text: str, parameters: Sequence[Parameter]) -> None:
        """Check a text as sp_prepare does; raises :class:`SqlError`."""

    def transaction_request(self, kind: str, isolation: int, name: str, output: ResponseWriter) -> None:
        """Run a TDS transaction manager request: ``begin``, ``commit``, ``rollback``, ``save``.

        ``isolation`` is 0 (unchanged), 1 read uncommitted, 2 read committed, 3 repeatable read, 4 serializable,
        5 snapshot.
        """

    def reset(self, keep_transaction: bool) -> None:
        """Reset the session to its initial settings, as the header bit of a pooled connection asks."""

    def close(self) -> None:
        """Roll back an open transaction and release all resources."""


Wait = Callable[[int], None]
"""``wait(fd)`` blocks until ``fd`` is readable; raises :class:`Attention` or :class:`ClientGone` if the client cancels
or leaves first. The front gives it to the engine, which uses it for every wait on PostgreSQL."""

OpenEngine = Callable[[str, str, Wait, str | None], Engine]
"""``open_engine(database, login, wait, password)``; ``password`` is None for the administrator, whose password the
front has checked, and ``database`` is empty for the login's default. Raises :class:`SqlError` 18456 or 18470 for a
login that fails, 4060 or 4064 for a database that it cannot enter."""
