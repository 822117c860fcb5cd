"""Interpreter: runs the statements of a frame; an error is caught or reported, and may end the batch."""

from __future__ import annotations

from collections.abc import Callable

from fakemssql.contract import ResponseWriter, SqlError
from fakemssql.tsql.catalog.tables import TableInfo
from fakemssql.tsql.datatypes.codec import decode
from fakemssql.tsql.datatypes.sqltypes import INT, nvarchar
from fakemssql.tsql.definitions.temporary import drop
from fakemssql.tsql.parser import nodes
from fakemssql.tsql.pg import Request
from fakemssql.tsql.runtime.errors import dooms, ends_batch, is_compile
from fakemssql.tsql.runtime.execution.plans import evaluate
from fakemssql.tsql.runtime.frames import BatchEnd, Break, Continue, Frame, Raised, Returned, ScopeEnd, Thrown
from fakemssql.tsql.runtime.session.session import Session


def run(session: Session, frame: Frame) -> int:
    """Run the statements of a frame; returns the status of its RETURN, 0 without one."""
    if session.depth >= 32:
        raise SqlError(217, "Maximum stored procedure, function, trigger, or view nesting level exceeded (limit 32).")
    session.depth += 1
    scoped = frame.parent is not None or bool(frame.signature)
    before, outer, outer_tables = dict(session.catalog.temporary), session.scope_identity, session.outer_tables
    if scoped:
        if session.scope_identity is not None:
            session.keep_identities()
        session.scope_identity = None
        session.outer_tables = frozenset(table.pg for table in before.values())
    try:
        run_all(session, frame.code.statements, frame)
    except Returned as returned:
        return returned.status
    except (Break, Continue) as error:
        number, word = (135, "BREAK") if isinstance(error, Break) else (136, "CONTINUE")
        raise SqlError(
            number, f"Cannot use a {word} statement outside the scope of a WHILE statement.", severity=15
        ) from None
    finally:
        session.depth -= 1
        if frame.tables and not frame.kept:
            discard(session, frame)
        if scoped:
            _leave(session, before)
            session.scope_identity, session.outer_tables = outer, outer_tables
    return 0


def discard(session: Session, frame: Frame) -> None:
    """Drop the table variables of an ended frame; in a failed transaction they stay until the connection ends."""
    outer = frame.parent.tables.values() if frame.parent is not None else ()
    own = [table for table in frame.tables.values() if table not in outer]
    if session.pg.usable:
        if any(table.identity is not None for table in own):
            session.keep_identities()
        session.pg.run([Request(f"DROP TABLE IF EXISTS {table.pg}") for table in own])
    frame.tables.clear()


def _leave(session: Session, before: dict[str, TableInfo]) -> None:
    """Drop the temporary tables that a procedure or a dynamic text made; tables ``before`` it stay."""
    outer = {table.pg for table in before.values()}
    own = {name: table for name, table in session.catalog.temporary.items() if table.pg not in outer}

    def action() -> None:
        for name in own:
            drop(session.definer, (name,), True)
            if name in before:
                session.catalog.temporary[name] = before[name]

    if own and session.pg.usable and not session.transactions.doomed:
        session.transactions.define(action)
        session.transactions.forget(list(own.values()))


def run_all(session: Session, items: list[nodes.Statement], frame: Frame) -> None:
    """Run statements in order."""
    for statement in items:
        step(session, statement, frame)


def step(session: Session, statement: nodes.Statement, frame: Frame) -> None:
    """Run a statement; an error outside TRY is reported here, and may end the batch."""
    try:
        session.tables.statements[type(statement)](session, statement, frame)
    except SqlError as error:
        if error.seen is None:
            error.seen = frame
            if error.line <= 1:
                error.line = statement.line
            if frame.procedure and not error.procedure:
                error.procedure = frame.procedure
            if error.then is not None:
                error.then.line, error.then.procedure = error.line, error.procedure
        session.error_number = (error.then or error).number
        session.rowcount = 0
        raised = isinstance(error, Raised)
        transactions = session.transactions
        # RAISERROR does not heed XACT_ABORT ("SET XACT_ABORT"), but under it a CATCH finds the transaction doomed.
        fatal = dooms(error) or (session.options.xact_abort and (session.trying > 0 or not raised))
        if session.trying:
            if fatal and not is_compile(error):
                transactions.doom(frame.output)
            raise
        thrown = isinstance(error, Thrown)
        doomed = fatal and (not is_compile(error) or session.options.xact_abort)
        report(session, error, frame.output, transactions.doom if doomed else None)
        if is_compile(error) and not session.options.xact_abort:
            if error.seen is frame:
                raise ScopeEnd from None
        elif ends_batch(error) or thrown or (session.options.xact_abort and not raised) or error.number == 1205:
            raise BatchEnd from None


def report(
    session: Session, error: SqlError, output: ResponseWriter, doom: Callable[[ResponseWriter], None] | None = None
) -> None:
    """Report an error to the client, apply its effect on the transaction, and then report the statement's end.

    The order matters: a driver takes its statement as finished when it has the error and the end of the batch.
    """
    session.error_number = (error.then or error).number
    output.message(error)
    if error.then is not None:
        output.message(error.then)
    if doom is not None:
        doom(output)
    output.done(None)


def done(session: Session, frame: Frame, count: int | None) -> None:
    """End a statement and report its number of rows."""
    session.error_number = 0
    session.rowcount = count or 0
    frame.output.done(None if session.options.nocount else count)


def quiet(session: Session, count: int = 0) -> None:
    """End a statement that reports no number of rows."""
    session.error_number = 0
    session.rowcount = count


def begin_implicitly(session: Session, node: nodes.Statement, frame: Frame) -> None:
    """Begin a transaction if IMPLICIT_TRANSACTIONS is ON and no transaction is open."""
    if session.options.implicit and session.transaction_count == 0:
        if isinstance(node, nodes.SelectStatement):
            body = node.query.body
            if isinstance(body, nodes.Select) and not body.sources:
                return
        session.transactions.begin(None, frame.output)


def text_of(session: Session, node: nodes.Expr, frame: Frame, length: int = 4000) -> str:
    """Return the value of an expression as text."""
    value = evaluate(session, node, nvarchar(length), frame)[1]
    return decode(nvarchar(length), value) or ""


def integer_of(session: Session, node: nodes.Expr, frame: Frame) -> int:
    """Return the value of an expression as a whole number; NULL is 0."""
    return decode(INT, evaluate(session, node, INT, frame)[1]) or 0
