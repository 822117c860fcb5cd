"""Running control of flow, transactions and USE."""

from __future__ import annotations

import time

from fakemssql.contract import SqlError
from fakemssql.tsql.datatypes.codec import decode
from fakemssql.tsql.datatypes.sqltypes import INT
from fakemssql.tsql.parser import nodes
from fakemssql.tsql.pg import Request
from fakemssql.tsql.runtime.errors import is_compile
from fakemssql.tsql.runtime.frames import BatchEnd, Break, Continue, Frame, Returned
from fakemssql.tsql.runtime.steps import Steps


class Control(Steps):
    """Runs control of flow."""

    def _run_block(self, node: nodes.Block, frame: Frame) -> None:
        self.statements(node.body, frame)

    def _run_if(self, node: nodes.If, frame: Frame) -> None:
        if self.session.condition(node.condition, frame):
            self.step(node.then, frame)
        elif node.otherwise is not None:
            self.step(node.otherwise, frame)

    def _run_while(self, node: nodes.While, frame: Frame) -> None:
        while self.session.condition(node.condition, frame):
            try:
                self.step(node.body, frame)
            except Break:
                return
            except Continue:
                continue

    def _run_simple(self, node: nodes.Simple, frame: Frame) -> None:
        if node.kind == "break":
            raise Break
        if node.kind == "continue":
            raise Continue
        self.quiet()

    def _run_trycatch(self, node: nodes.TryCatch, frame: Frame) -> None:
        self.trying += 1
        try:
            try:
                self.statements(node.body, frame)
            finally:
                self.trying -= 1
        except SqlError as error:
            if error.severity >= 20 or (is_compile(error) and getattr(error, "_seen", None) is frame):
                if not self.trying:
                    self.report(error, frame.output)
                    raise BatchEnd from None
                raise
            frame.caught.append(error)
            try:
                self.statements(node.handler, frame)
            finally:
                frame.caught.pop()

    def _run_return(self, node: nodes.Return, frame: Frame) -> None:
        status = 0
        if node.value is not None:
            status = decode(INT, self.session.evaluate(node.value, INT, frame)[1]) or 0
        raise Returned(status)

    def _run_waitfor(self, node: nodes.WaitFor, frame: Frame) -> None:
        kind, raw = self.session.evaluate(node.value, None, frame)
        value = decode(kind, raw)
        if node.kind == "time":
            raise SqlError(40517, "WAITFOR TIME is not supported by fakemssql.")
        try:
            clock = str(value.time() if hasattr(value, "time") else value).split(":")
            seconds = int(clock[0]) * 3600 + int(clock[1]) * 60 + (float(clock[2]) if len(clock) > 2 else 0.0)
        except (ValueError, IndexError):
            raise SqlError(
                148, f"Incorrect time syntax in time string '{value}' used with WAITFOR.", severity=15
            ) from None
        # PostgreSQL sleeps: so the wait ends at once when the client cancels.
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            self.session.transactions.run([Request(f"SELECT pg_sleep({left})")])
        self.quiet()

    def _run_use(self, node: nodes.Use, frame: Frame) -> None:
        session = self.session
        entry = session.catalog.database(node.database)
        if entry is None:
            raise SqlError(
                911, f"Database '{node.database}' does not exist. Make sure that the name is entered correctly."
            )
        session.security.identity(entry[1])
        old, session.database = session.database, entry[1]
        session.activity.update(session)
        frame.output.database(entry[1], old)
        frame.output.message(SqlError(5701, f"Changed database context to '{entry[1]}'.", severity=0, state=1))
        self.quiet()

    def _run_transaction(self, node: nodes.Transaction, frame: Frame) -> None:
        transactions = self.session.transactions
        name = node.name
        if name is not None and name.startswith("@"):
            name = self.text(nodes.Variable(name), frame, 128)
        if node.kind == "begin":
            transactions.begin(name, frame.output)
        elif node.kind == "commit":
            transactions.commit(frame.output)
        elif node.kind == "rollback":
            transactions.rollback(name, frame.output)
        else:
            assert name is not None
            transactions.save(name)
        self.quiet()
