"""Engine of one connection: runs its requests and sends the results to the output."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext

from fakemssql.contract import Client, Parameter, ResponseWriter, SqlError
from fakemssql.switches import Switches
from fakemssql.tsql.datatypes.codec import decode
from fakemssql.tsql.options import ISOLATION_BY_NUMBER, Options
from fakemssql.tsql.runtime.connection.backend import Backend
from fakemssql.tsql.runtime.execution.interpreter import report, run
from fakemssql.tsql.runtime.frames import BatchEnd, Code, Frame
from fakemssql.tsql.runtime.session.session import Session, StatementTables, parse_name, signature_of
from fakemssql.tsql.runtime.statements.execute import STOPPED, call
from fakemssql.tsql.security.accounts import ServerPrincipal


class SessionEngine:
    """Implements :class:`contract.Engine`. ``let_go`` takes the backend when the session ends."""

    def __init__(
        self,
        backend: Backend,
        database: str,
        account: ServerPrincipal,
        switches: Switches,
        tables: StatementTables,
        let_go: Callable[[Backend], None],
    ) -> None:
        self._backend, self._let_go = backend, let_go
        self.session = Session(backend, database, account, switches, tables)
        self.session.activity.update(self.session)

    @property
    def database(self) -> str:
        """Name of the current database."""
        return self.session.database

    @property
    def transaction_descriptor(self) -> int:
        return self.session.transaction_descriptor

    def session_state(self) -> tuple[bytes, bool]:
        """SET options, and whether the session has no state that cannot be restored ("Connection resiliency")."""
        session = self.session
        bound = session.transaction_count or session.applocks.held or session.catalog.temporary
        return session.options.to_bytes(), not bound and session.identity_insert == ("", "")

    def restore(self, state: bytes) -> bool:
        """Take over the SET options of a session whose connection was lost; False if the server refuses."""
        session = self.session
        if session.switches.refuse_recovery:
            return False
        if state:
            session.options = Options.of_bytes(state)
            session.apply_lock_timeout()
            session.activity.update(session)
        return True

    def introduce(self, client: Client) -> None:
        """Record the client; see :class:`contract.Engine`."""
        self.session.activity.introduce(client)
        self.session.activity.update(self.session)

    def batch(self, text: str, output: ResponseWriter) -> None:
        """Run a batch; see :class:`contract.Engine`."""
        self._run(text, (), output, procedure=False)

    def parameterised(self, text: str, parameters: Sequence[Parameter], output: ResponseWriter) -> None:
        """Run a batch with declared variables."""
        self._run(text, parameters, output, procedure=True)

    def _run(self, text: str, parameters: Sequence[Parameter], output: ResponseWriter, *, procedure: bool) -> None:
        session = self.session
        with self._request(output, text, parameters):
            count = session.transaction_count
            try:
                frame = session.frame(text, parameters, output)
                with session.own_options() if procedure else nullcontext(session.options) as options:
                    run(session, frame)
                for parameter in parameters:
                    if parameter.output:
                        name = parameter.name.lower()
                        kind = frame.types[name]
                        output.return_value(Parameter(parameter.name, kind, decode(kind, frame.values[name]), True))
                if procedure:
                    session.transactions.check_balance(count, options)
            except SqlError as error:
                report(session, error, output)
            except BatchEnd:
                pass

    @contextmanager
    def _request(self, output: ResponseWriter, text: str, parameters: Sequence[Parameter] = ()) -> Iterator[None]:
        session = self.session
        session.output = output
        session.activity.begin(session, text, parameters)
        try:
            self._refresh()
            session.transactions.lose(output)
            yield
            session.transactions.end_of_batch(output)
        finally:
            session.output = None
            session.transactions.end_failed(output)
            session.backend.note_changes()
            session.activity.end(session)

    def _refresh(self) -> None:
        session = self.session
        session.backend.refresh()
        if not session.pg.in_transaction:
            session.plan_cache.collect()

    def call(self, procedure: str, parameters: Sequence[Parameter], output: ResponseWriter) -> int:
        """Run a stored procedure by name."""
        session = self.session
        with self._request(output, procedure):
            try:
                with session.own_options():
                    status, outputs = call(session, parse_name(procedure), list(parameters), Frame(Code([]), output))
                for parameter in outputs:
                    output.return_value(parameter)
            except SqlError as error:
                # A procedure's error is the error of a statement: under XACT_ABORT it rolls the transaction back.
                report(session, error, output, session.transactions.doom if session.options.xact_abort else None)
                status = STOPPED if error.number != 2812 else 0
            except BatchEnd:
                status = STOPPED
        return status

    def prepare(self, text: str, parameters: Sequence[Parameter]) -> None:
        """Parse a text, and cache it for its execution."""
        self.session.code(text, signature_of(parameters))

    def transaction_request(self, kind: str, isolation: int, name: str, output: ResponseWriter) -> None:
        """Run a request of the TDS transaction manager."""
        session = self.session
        session.output = output
        try:
            if kind == "begin":
                if isolation:
                    session.options.isolation = ISOLATION_BY_NUMBER[isolation]
                session.transactions.begin(name or None, output)
            elif kind == "commit":
                session.transactions.commit(output)
            elif kind == "rollback":
                session.transactions.rollback(name or None, output)
            else:
                session.transactions.save(name)
        except SqlError as error:
            report(session, error, output)
        finally:
            session.backend.note_changes()
            session.output = None

    def reset(self, keep_transaction: bool) -> None:
        """Reset settings, temporary tables and locks of the session to their initial state."""
        session = self.session
        if not keep_transaction and session.transaction_count:
            session.transactions.rollback_all(None)
        session.applocks.release_all()
        if not keep_transaction:
            for table in list(session.catalog.temporary.values()):
                session.pg.execute(f"DROP TABLE IF EXISTS {table.pg}")
            session.catalog.temporary.clear()
        session.options = Options()
        session.pg.execute("SET lock_timeout = 0")
        session.database = session.home
        session.rowcount = session.error_number = 0
        session.identity = session.scope_identity = None
        session.activity.update(session)

    def close(self) -> None:
        """Roll back an open transaction and return the connection to PostgreSQL."""
        self.session.activity.close()
        self._let_go(self._backend)
