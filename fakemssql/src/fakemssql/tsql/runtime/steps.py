"""One statement after another, with errors as SQL Server has them: caught, reported, ending the batch or not."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from fakemssql.contract import Output, SqlError
from fakemssql.tsql.datatypes.codec import decode
from fakemssql.tsql.datatypes.sqltypes import INT, nvarchar
from fakemssql.tsql.parser import nodes
from fakemssql.tsql.runtime.errors import dooms, ends_batch, is_compile
from fakemssql.tsql.runtime.frames import BatchEnd, Break, Continue, Frame, Raised, Returned, Thrown
from fakemssql.tsql.security.context import Refused

if TYPE_CHECKING:
    from fakemssql.tsql.runtime.session import Session


class Steps:
    """What the interpreter needs for every statement."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.trying = 0
        self.depth = 0

    def run(self, frame: Frame) -> int:
        """Run a frame's statements; the status of its RETURN, 0 without one."""
        if self.depth >= 32:
            raise SqlError(
                217, "Maximum stored procedure, function, trigger, or view nesting level exceeded (limit 32)."
            )
        self.depth += 1
        session = self.session
        scoped = frame.parent is not None or bool(frame.signature)
        before, outer = set(session.catalog.temporary), session.scope_identity
        if scoped:
            if session.scope_identity is not None:
                session.keep_identities()
            session.scope_identity = None
        try:
            self.statements(frame.code.statements, frame)
        except Returned as returned:
            return returned.status
        except (Break, Continue):
            raise SqlError(
                135, "Cannot use a BREAK statement outside the scope of a WHILE statement.", severity=15
            ) from None
        finally:
            self.depth -= 1
            if frame.tables and not frame.kept:
                session.temporary.discard(frame)
            if scoped and len(session.catalog.temporary) > len(before):
                session.temporary.leave(before)
            if scoped:
                session.scope_identity = outer
        return 0

    def statements(self, items: list[nodes.Statement], frame: Frame) -> None:
        for statement in items:
            self.step(statement, frame)

    def step(self, statement: nodes.Statement, frame: Frame) -> None:
        """Run one statement; an error outside TRY is reported here, and ends the batch or not."""
        try:
            self._dispatch(statement, frame)
        except SqlError as error:
            if getattr(error, "_seen", None) is None:
                error._seen = frame  # type: ignore[attr-defined]
                if error.line <= 1:
                    error.line = statement.line
                if frame.procedure and not error.procedure:
                    error.procedure = frame.procedure
            session = self.session
            session.error_number = error.number
            session.rowcount = 0
            raised = isinstance(error, Raised)
            transactions = session.transactions
            fatal = dooms(error) or (session.options.xact_abort and not raised)
            if self.trying:
                if fatal and not is_compile(error):
                    transactions.doom(frame.output)
                raise
            thrown = isinstance(error, Thrown)
            doomed = fatal and (not is_compile(error) or session.options.xact_abort)
            self.report(error, frame.output, transactions.doom if doomed else None)
            if ends_batch(error) or thrown or (session.options.xact_abort and not raised) or error.number == 1205:
                raise BatchEnd from None

    def _dispatch(self, node: nodes.Statement, frame: Frame) -> None:
        raise NotImplementedError

    def report(self, error: SqlError, output: Output, doom: Callable[[Output], None] | None = None) -> None:
        """An error to the client, and what it does to the transaction, before the statement's end is told.

        A driver that was given an error and the end of the batch in one counts its statement as over.
        """
        self.session.error_number = error.number
        output.message(error)
        if isinstance(error, Refused):
            output.message(error.then)
        if doom is not None:
            doom(output)
        output.done(None)

    def done(self, frame: Frame, count: int | None) -> None:
        self.session.error_number = 0
        self.session.rowcount = count or 0
        frame.output.done(None if self.session.options.nocount else count)

    def quiet(self, count: int = 0) -> None:
        self.session.error_number = 0
        self.session.rowcount = count

    def begin_implicitly(self, node: nodes.Statement, frame: Frame) -> None:
        session = self.session
        if session.options.implicit and session.transactions.count == 0:
            if isinstance(node, nodes.SelectStatement):
                body = node.query.body
                if isinstance(body, nodes.Select) and not body.sources:
                    return
            session.transactions.begin(None, frame.output)

    def text(self, node: nodes.Expr, frame: Frame, length: int = 4000) -> str:
        value = self.session.evaluate(node, nvarchar(length), frame)[1]
        return decode(nvarchar(length), value) or ""

    def integer(self, node: nodes.Expr, frame: Frame) -> int:
        return decode(INT, self.session.evaluate(node, INT, frame)[1]) or 0
