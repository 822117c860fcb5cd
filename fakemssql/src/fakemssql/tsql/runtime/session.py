"""The session of one connection: requests come in, statements run, results go to the output."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fakemssql.contract import Attention, Client, ClientGone, Output, Parameter, SqlError
from fakemssql.faults import PLANNING, fault
from fakemssql.switches import Switches
from fakemssql.tsql.compiler.compiler import Compiler
from fakemssql.tsql.compiler.convert import convert
from fakemssql.tsql.compiler.environment import Environment
from fakemssql.tsql.compiler.plan import MADE, Plan
from fakemssql.tsql.compiler.typed import Names
from fakemssql.tsql.datatypes.codec import decode, encode
from fakemssql.tsql.datatypes.sqltypes import BIGINT, INT
from fakemssql.tsql.definitions.definer import Definer
from fakemssql.tsql.parser import nodes
from fakemssql.tsql.pg import PgError, Request
from fakemssql.tsql.runtime import calls, settings
from fakemssql.tsql.runtime.activity import Activity
from fakemssql.tsql.runtime.applock import AppLocks
from fakemssql.tsql.runtime.backend import Backend
from fakemssql.tsql.runtime.errors import STALE, translate
from fakemssql.tsql.runtime.frames import BatchEnd, Code, Frame, Identity
from fakemssql.tsql.runtime.interpreter import Interpreter
from fakemssql.tsql.runtime.receiver import Receiver
from fakemssql.tsql.runtime.temporary import Temporary
from fakemssql.tsql.runtime.transactions import Transactions
from fakemssql.tsql.security.accounts import Account
from fakemssql.tsql.security.context import Security
from fakemssql.types import SqlType


class Session:
    """Implements :class:`contract.Engine`. ``let_go`` takes the backend in the end."""

    def __init__(
        self,
        backend: Backend,
        database: str,
        account: Account,
        switches: Switches,
        let_go: Callable[[Backend], None],
    ) -> None:
        self._backend, self._let_go = backend, let_go
        self.pg, self.database, self.switches = backend.pg, database, switches
        self._failing_dirty_reads = switches.failing_dirty_reads
        self.catalog = backend.catalog
        self.security = Security(self.pg, self.catalog, account)
        self.options = settings.Options()
        self.transactions = Transactions(self)
        self.definer = Definer(self)
        self.temporary = Temporary(self)
        self.applocks = AppLocks(self)
        self.interpreter = Interpreter(self)
        self.rowcount = 0
        self.error_number = 0
        self.firing: list[Any] = []  # triggers that run, by object id
        self.inserting = 0
        self.identity: Identity | None = None  # of @@IDENTITY
        self.scope_identity: Identity | None = None  # of SCOPE_IDENTITY()
        self.identity_insert: tuple[str, str] = ("", "")
        self.created_tables: list[str] = []
        self.dropped_tables: list[Any] = []
        self.output: Output | None = None
        self._codes = backend.codes
        self.home = database
        self.activity = Activity(backend)
        self.spid = backend.pid
        self.activity.update(self)

    # --- contract.Engine -------------------------------------------------------------------------------------------

    @property
    def transaction_descriptor(self) -> int:
        return self.transactions.descriptor

    def introduce(self, client: Client) -> None:
        """Who the client is; see :class:`contract.Engine`."""
        self.activity.introduce(client)
        self.activity.update(self)

    def batch(self, text: str, output: Output) -> None:
        """Run a batch; see :class:`contract.Engine`."""
        self._top(text, (), output, procedure=False)

    def parameterised(self, text: str, parameters: Sequence[Parameter], output: Output) -> None:
        """Run a batch with declared variables."""
        self._top(text, parameters, output, procedure=True)

    def _top(self, text: str, parameters: Sequence[Parameter], output: Output, *, procedure: bool) -> None:
        self.output = output
        self.activity.begin(self, text, parameters)
        try:
            self._run(text, parameters, output, procedure)
        finally:
            self.activity.end(self)

    def _run(self, text: str, parameters: Sequence[Parameter], output: Output, procedure: bool) -> None:
        self._refresh()
        self.transactions.lose(output)
        count = self.transactions.count
        try:
            frame = self.frame(text, parameters, output)
            self.interpreter.run(frame)
            for parameter in parameters:
                if parameter.output:
                    name = parameter.name.lower()
                    kind = frame.types[name]
                    value = decode(kind, frame.values[name])
                    output.return_value(Parameter(parameter.name, kind, value, True))
            if procedure:
                self.transactions.check_balance(count)
        except SqlError as error:
            self.interpreter.report(error, output)
        except BatchEnd:
            pass
        finally:
            self.output = None
        self.transactions.end_of_batch(output)

    def _refresh(self) -> None:
        if not self.security.powerful and not self.pg.in_transaction:
            # An empty round trip: what was revoked before this request is known before it runs.
            self.pg.run([])
        if self.pg.notified():
            self.catalog.forget()
        if not self.pg.in_transaction:
            self._codes.collect()

    def call(self, procedure: str, parameters: Sequence[Parameter], output: Output) -> int:
        """Run a stored procedure by name."""
        self.output = output
        self.activity.begin(self, procedure)
        try:
            return self._call(procedure, parameters, output)
        finally:
            self.activity.end(self)

    def _call(self, procedure: str, parameters: Sequence[Parameter], output: Output) -> int:
        self._refresh()
        self.transactions.lose(output)
        status = 0
        try:
            frame = Frame(Code([]), output)
            outputs: list[Parameter] = []
            status = calls.call(self, calls.parse_name(procedure), list(parameters), frame, outputs)
            for parameter in outputs:
                output.return_value(parameter)
        except SqlError as error:
            # A procedure's error is one of a statement: under XACT_ABORT it takes the transaction along.
            self.interpreter.report(error, output, self.transactions.doom if self.options.xact_abort else None)
            status = -6 if error.number != 2812 else 0
        except BatchEnd:
            status = -6
        finally:
            self.output = None
        self.transactions.end_of_batch(output)
        return status

    def prepare(self, text: str, parameters: Sequence[Parameter]) -> None:
        """Parse a text; compile its statements as far as their tables are known."""
        self._refresh()
        self.code(text, self._signature(parameters))

    def transaction_request(self, kind: str, isolation: int, name: str, output: Output) -> None:
        """A request of the TDS transaction manager."""
        self.output = output
        try:
            if kind == "begin":
                if isolation:
                    self.options.isolation = settings.ISOLATION_BY_NUMBER[isolation]
                self.transactions.begin(name or None, output)
            elif kind == "commit":
                self.transactions.commit(output)
            elif kind == "rollback":
                self.transactions.rollback(name or None, output)
            else:
                self.transactions.save(name)
        except SqlError as error:
            self.interpreter.report(error, output)
        finally:
            self.output = None

    def reset(self, keep_transaction: bool) -> None:
        """Settings, temporary tables and session locks back to their start."""
        if not keep_transaction and self.transactions.count:
            self.transactions.rollback_all(None)
        self.applocks.release_all()
        if not keep_transaction:
            for table in list(self.catalog.temporary.values()):
                self.pg.execute(f"DROP TABLE IF EXISTS {table.pg}")
            self.catalog.temporary.clear()
        self.options = settings.Options()
        self.pg.execute("SET lock_timeout = 0")
        self.database = self.home
        self.rowcount = self.error_number = 0
        self.identity = self.scope_identity = None
        self.activity.update(self)

    def close(self) -> None:
        """Roll back what is open and let go of the connection to PostgreSQL."""
        self.activity.close()
        self._let_go(self._backend)

    # --- frames and code -------------------------------------------------------------------------------------------

    @staticmethod
    def _signature(parameters: Sequence[Parameter]) -> tuple[object, ...]:
        return tuple((p.name.lower(), p.type) for p in parameters)

    def code(self, text: str, signature: tuple[object, ...] = ()) -> Code:
        """The parsed batch for ``text``, kept for the next time."""
        return self._codes.code(text, signature, self.options.quoted_identifier)

    def frame(self, text: str, parameters: Sequence[Parameter], output: Output, parent: Frame | None = None) -> Frame:
        """A frame for running ``text`` with ``parameters`` as its variables."""
        signature = self._signature(parameters)
        frame = Frame(self.code(text, signature), output, signature=signature, parent=parent)
        for parameter in parameters:
            name = parameter.name.lower()
            frame.types[name] = parameter.type
            frame.values[name] = encode(parameter.type, parameter.value)
        return frame

    def keep_identities(self) -> None:
        """Read the identity values that are still to be read: their tables or their scope go away."""
        if self.pg.usable:
            settings.identity_value(self, self.identity)
            settings.identity_value(self, self.scope_identity)

    def info(self, message: SqlError) -> None:
        """A message to the client of the running request."""
        if self.output is not None:
            self.output.message(message)

    # --- plans -----------------------------------------------------------------------------------------------------

    def environment(self, frame: Frame) -> Environment:
        return Environment(
            self.catalog,
            self.database,
            frame.types,
            frame.tables,
            self.options.isolation,
            self.transactions.count > 0,
            self.identity_insert[0],
            bool(frame.caught),
            self.security,
            self.switches.properties,
            self.switches.page_locks,
        )

    def plan_key(self, node: object, frame: Frame) -> tuple[object, ...]:
        return (
            id(node),
            self.database,
            self.catalog.version,
            self.security.key,
            self.options.isolation,
            self.options.isolation == "REPEATABLE READ" and self.transactions.count > 0,
            self.identity_insert[0],
            tuple(sorted(table.pg for table in frame.tables.values())) if frame.tables else None,
        )

    def plan(self, node: Any, frame: Frame, build: Any = None) -> Plan:
        """The plan of a statement or expression, compiled when it is new."""

        def compiled() -> Plan:
            compiler = Compiler(self.environment(frame))
            try:
                plan = compiler.compile(node) if build is None else build(compiler)
            except RecursionError:
                raise SqlError(191, "Some part of your SQL statement is nested too deeply.", severity=15) from None
            except (SqlError, PgError, Attention, ClientGone, OSError):
                raise
            except Exception as error:
                raise fault(error, PLANNING) from None
            assert isinstance(plan, Plan)
            plan.node = node
            return plan

        return self._codes.plan(frame.code, self.plan_key(node, frame), compiled)

    def values(self, plan: Plan, frame: Frame) -> list[bytes | None]:
        found: list[bytes | None] = []
        for name, kind in zip(plan.parameters, plan.kinds, strict=True):
            if name.startswith("@@") and name not in frame.types:
                found.append(encode(kind, settings.system_value(self, name, frame)))
            else:
                found.append(frame.values[name])
        return found

    # --- running plans ---------------------------------------------------------------------------------------------

    def execute(self, node: Any, frame: Frame, build: Any = None) -> int:
        """Run a statement: rows go to the output, assigned values to variables. Returns the row count."""
        for attempt in (1, 2):
            plan = self.plan(node, frame, build)
            try:
                return self.run_plan(plan, frame)
            except PgError as error:
                stale = error.sqlstate in STALE and attempt == 1
                if not stale or (self.transactions.count and self.options.xact_abort):
                    raise translate(self.pg, error, type(node).__name__.upper()) from None
                self.catalog.forget()
                self._codes.forget(frame.code)
        raise AssertionError

    def run_plan(self, plan: Plan, frame: Frame) -> int:
        if plan.writes:
            self.transactions.check_usable()
        receiver = Receiver(plan, frame)
        request = Request(
            plan.sql, self.values(plan, frame), plan.oids, plan.name, receiver, plan.chunk if plan.columns else 0
        )
        middle = self._dirty_read() if plan.dirty else []
        middle += [Request(text) for text in plan.before]
        if plan.prelock:
            middle.append(Request(plan.prelock, request.values, plan.oids))
        output = plan.writes and plan.columns is not None
        results = self.transactions.run([*middle, request], plan.transient, output)
        receiver.finish(results)
        count = receiver.count if receiver.count else int(results.command_tuples or 0)
        if plan.identity is not None and count:
            column = plan.identity.identity
            assert column is not None
            made = frame.values.pop(MADE, None)
            if made is not None or self.identity_insert[0] != plan.identity.pg:
                value = decode(BIGINT, made)
                self.identity = self.scope_identity = Identity((plan.identity.pg, column.pg), value)
        return count

    def _dirty_read(self) -> list[Request]:
        if not self._failing_dirty_reads:
            return []
        self._failing_dirty_reads -= 1
        return [Request("SELECT mssql.raise(601, 'Could not continue scan with NOLOCK due to data movement.')")]

    def evaluate(self, node: nodes.Expr, kind: SqlType | None, frame: Frame) -> tuple[SqlType, bytes | None]:
        """The value of an expression, as ``kind`` if that is given."""
        quick = settings.quick_value(node, kind, frame)
        if quick is not None:
            return quick

        def build(compiler: Compiler) -> Plan:
            value = compiler.scalar(node, Names())
            target = kind or value.type or INT
            value = convert(value, target, "assign")
            return compiler.finish(f"SELECT {value.sql}", assign=[("@", target)])

        box = Frame(
            frame.code,
            frame.output,
            dict(frame.types),
            frame.values,
            frame.tables,
            caught=frame.caught,
            parent=frame.parent,
        )
        self.execute(node, box, build)
        plan = self.plan(node, box, build)
        return plan.assign[0][1], box.values.pop("@", None)

    def condition(self, node: nodes.Expr, frame: Frame) -> bool:
        """Whether a search condition is true."""

        def build(compiler: Compiler) -> Plan:
            text = compiler.predicate(node, Names())
            return compiler.finish(f"SELECT ({text}) IS TRUE", assign=[("@", SqlType("bit"))])

        box = Frame(
            frame.code, frame.output, frame.types, frame.values, frame.tables, caught=frame.caught, parent=frame.parent
        )
        self.execute(node, box, build)
        return box.values.pop("@", None) == b"\x01"
