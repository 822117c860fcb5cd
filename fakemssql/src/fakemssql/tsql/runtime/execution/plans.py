"""Plans of statements and expressions: compiled once, cached, run; rows go to the client or into variables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fakemssql.contract import Attention, ClientGone, ResultColumn, SqlError
from fakemssql.faults import PLANNING, fault
from fakemssql.tsql.compiler.compilation import Compilation
from fakemssql.tsql.compiler.compiler import compilation, compile_statement
from fakemssql.tsql.compiler.convert import convert
from fakemssql.tsql.compiler.environment import Environment
from fakemssql.tsql.compiler.plan import MADE, Plan, finish
from fakemssql.tsql.compiler.scopes import Names
from fakemssql.tsql.datatypes.codec import decode, encode
from fakemssql.tsql.datatypes.sqltypes import BIGINT, INT
from fakemssql.tsql.parser import nodes
from fakemssql.tsql.pg import PgError, Request
from fakemssql.tsql.runtime.errors import STALE, translate
from fakemssql.tsql.runtime.execution.system_values import quick_condition, quick_value, system_value
from fakemssql.tsql.runtime.frames import Code, Frame
from fakemssql.tsql.runtime.session.session import Session
from fakemssql.tsql.state import MadeIdentity
from fakemssql.types import SqlType


class Receiver:
    """Receiver of a plan's rows, which sends them to the output or assigns variables."""

    def __init__(self, plan: Plan, frame: Frame) -> None:
        self.plan, self.frame, self.started, self.count = plan, frame, False, 0

    def __call__(self, result: Any) -> None:
        plan, frame = self.plan, self.frame
        self.count += result.ntuples
        if plan.assign:
            last = result.ntuples - 1
            if last >= 0:
                for index, (name, _) in enumerate(plan.assign):
                    frame.values[name] = result.get_value(last, index)
            return
        if plan.columns is None:
            return
        if not self.started:
            self.started = True
            frame.output.columns(
                [
                    ResultColumn(column.name, column.type or INT, result.ftype(index), column.nullable, column.identity)
                    for index, column in enumerate(plan.columns)
                ]
            )
        if result.ntuples:
            frame.output.rows(result)

    def finish(self, result: Any) -> None:
        if self.plan.columns is not None and not self.started:
            self(result)


Build = Callable[[Compilation], Plan]
"""Function that compiles an expression, which is not a statement."""


def environment(session: Session, frame: Frame) -> Environment:
    """Environment for the compilation of a statement in ``frame``."""
    return Environment(
        session.catalog,
        session.database,
        frame.types,
        frame.tables,
        session.options.isolation,
        session.transaction_count > 0,
        session.identity_insert[0],
        bool(frame.caught),
        session.security,
        session.switches.properties,
        session.switches.page_locks,
        session.options.quoted_identifier or bool(frame.procedure),
    )


def _plan_key(session: Session, node: object, frame: Frame) -> tuple[object, ...]:
    return (
        id(node),
        session.database,
        session.security.key,
        session.options.isolation,
        session.options.isolation == "REPEATABLE READ" and session.transaction_count > 0,
        session.identity_insert[0],
        tuple(sorted(table.pg for table in frame.tables.values())) if frame.tables else None,
    )


def plan_of(session: Session, node: nodes.Statement | nodes.Expr, frame: Frame, build: Build | None = None) -> Plan:
    """Plan of a statement or expression; a new plan is compiled."""

    def compiled() -> Plan:
        compiler = compilation(environment(session, frame))
        session.catalog.database(session.database)  # the current database is noted with the other answers
        try:
            if build is not None:
                plan = build(compiler)
            else:
                assert isinstance(node, nodes.Statement)
                plan = compile_statement(compiler, node)
        except RecursionError:
            raise SqlError(191, "Some part of your SQL statement is nested too deeply.", severity=15) from None
        except (SqlError, PgError, Attention, ClientGone, OSError):
            raise
        except Exception as error:
            raise fault(error, PLANNING) from None
        plan.node = node
        return plan

    return session.plan_cache.plan(frame.code, _plan_key(session, node, frame), compiled)


def _values(session: Session, plan: Plan, frame: Frame) -> list[bytes | None]:
    found: list[bytes | None] = []
    for name, kind in zip(plan.parameters, plan.kinds, strict=True):
        if name.startswith("@@") and name not in frame.types:
            found.append(encode(kind, system_value(session, name, frame)))
        else:
            found.append(frame.values[name])
    return found


def run_planned(session: Session, node: nodes.Statement | nodes.Expr, frame: Frame, build: Build | None = None) -> int:
    """Run a statement: rows go to the output, assigned values to variables. Returns the row count."""
    for attempt in (1, 2):
        plan = plan_of(session, node, frame, build)
        try:
            return _run_plan(session, plan, frame)
        except PgError as error:
            stale = error.sqlstate in STALE and attempt == 1
            if error.sqlstate == "42P01" and any(
                table.pg.split('"')[1] in error.message for table in frame.tables.values()
            ):
                raise SqlError(
                    40517,
                    "A table variable after the ROLLBACK of the transaction that declared it is not supported by"
                    " fakemssql.",
                ) from None
            if not stale or (session.transaction_count and session.options.xact_abort):
                raise translate(session.pg, error, type(node).__name__.upper()) from None
            session.catalog.forget()
            session.plan_cache.renew(frame.code)
    raise AssertionError


def _run_plan(session: Session, plan: Plan, frame: Frame) -> int:
    if plan.writes:
        session.transactions.check_usable()
    receiver = Receiver(plan, frame)
    request = Request(
        plan.sql, _values(session, plan, frame), plan.oids, plan.name, receiver, plan.chunk if plan.columns else 0
    )
    middle = _dirty_read(session) if plan.dirty else []
    middle += [Request(text) for text in plan.before]
    if plan.prelock:
        middle.append(Request(plan.prelock, request.values, plan.oids))
    output = plan.writes and plan.columns is not None
    results = session.transactions.run([*middle, request], plan.transient, output)
    receiver.finish(results)
    count = receiver.count if receiver.count else int(results.command_tuples or 0)
    if plan.identity is not None and count:
        column = plan.identity.identity
        assert column is not None
        made = frame.values.pop(MADE, None)
        if made is not None or session.identity_insert[0] != plan.identity.pg:
            value = decode(BIGINT, made)
            session.identity = session.scope_identity = MadeIdentity((plan.identity.pg, column.pg), value)
    return count


def _dirty_read(session: Session) -> list[Request]:
    if not session.failing_dirty_reads:
        return []
    session.failing_dirty_reads -= 1
    return [Request("SELECT mssql.raise(601, 'Could not continue scan with NOLOCK due to data movement.')")]


def evaluate(session: Session, node: nodes.Expr, kind: SqlType | None, frame: Frame) -> tuple[SqlType, bytes | None]:
    """Type and value of an expression, converted to ``kind`` if it is given."""
    quick = quick_value(node, kind, frame)
    if quick is not None:
        return quick

    def build(compiler: Compilation) -> Plan:
        value = compiler.scalar(node, Names())
        target = kind or value.type or INT
        value = convert(value, target, "assign")
        return finish(compiler, f"SELECT {value.sql}", assign=[("@", target)])

    box = frame.for_expression()
    run_planned(session, node, box, build)
    plan = plan_of(session, node, box, build)
    return plan.assign[0][1], box.values.pop("@", None)


def condition(session: Session, node: nodes.Expr, frame: Frame) -> bool:
    """Return whether a search condition is true."""
    quick = quick_condition(session, node, frame)
    if quick is not None:
        return quick

    def build(compiler: Compilation) -> Plan:
        text = compiler.predicate(node, Names())
        return finish(compiler, f"SELECT ({text}) IS TRUE", assign=[("@", SqlType("bit"))])

    box = frame.for_expression()
    run_planned(session, node, box, build)
    return box.values.pop("@", None) == b"\x01"


def converted(session: Session, given: SqlType, value: bytes | None, kind: SqlType, frame: Frame) -> bytes | None:
    """Convert a value from the type ``given`` to ``kind``, as an assignment does."""
    if value is None or given == kind:
        return value
    box = Frame(Code([]), frame.output, {"@v": given}, {"@v": value})
    return evaluate(session, nodes.Variable("@v"), kind, box)[1]
