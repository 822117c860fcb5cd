"""Control of flow: runs the statements of a batch one after another, with errors as SQL Server has them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from airflow_sqlqueue.localdb.contract import Column, Output, Parameter, SqlError
from airflow_sqlqueue.localdb.tsql.datatypes.codec import decode
from airflow_sqlqueue.localdb.tsql.datatypes.sqltypes import INT, nvarchar, oid
from airflow_sqlqueue.localdb.tsql.parser import nodes
from airflow_sqlqueue.localdb.tsql.runtime import calls, cursors, settings, triggers
from airflow_sqlqueue.localdb.tsql.runtime.dbcc import dbcc
from airflow_sqlqueue.localdb.tsql.runtime.errors import dooms, ends_batch, is_compile
from airflow_sqlqueue.localdb.tsql.runtime.frames import BatchEnd, Break, Continue, Frame, Raised, Returned, Thrown

if TYPE_CHECKING:
    from airflow_sqlqueue.localdb.tsql.runtime.session import Session

_DEFINITIONS = (
    nodes.CreateTable,
    nodes.AlterTable,
    nodes.IndexDefinition,
    nodes.AlterIndex,
    nodes.Drop,
    nodes.CreateSchema,
    nodes.CreateDatabase,
    nodes.AlterDatabase,
    nodes.CreateSynonym,
    nodes.CreateView,
    nodes.CreateModule,
    nodes.CreateSequence,
    nodes.TriggerState,
)


class Interpreter:
    """Runs parsed statements for one session."""

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
            self.report(error, frame.output)
            thrown = isinstance(error, Thrown)
            if fatal and (not is_compile(error) or session.options.xact_abort):
                transactions.doom(frame.output)
            if ends_batch(error) or thrown or (session.options.xact_abort and not raised) or error.number == 1205:
                raise BatchEnd from None

    def report(self, error: SqlError, output: Output) -> None:
        """An error to the client."""
        self.session.error_number = error.number
        output.message(error)
        output.done(None)

    def _done(self, frame: Frame, count: int | None) -> None:
        self.session.error_number = 0
        self.session.rowcount = count or 0
        frame.output.done(None if self.session.options.nocount else count)

    def _quiet(self, count: int = 0) -> None:
        self.session.error_number = 0
        self.session.rowcount = count

    # --- dispatch --------------------------------------------------------------------------------------------------

    def _dispatch(self, node: nodes.Statement, frame: Frame) -> None:
        session = self.session
        if isinstance(node, nodes.SelectStatement | nodes.Insert | nodes.Update | nodes.Delete | nodes.Merge):
            self._implicit(node, frame)
            if isinstance(node, nodes.SelectStatement) and self._into(node, frame):
                return
            if session.options.fmtonly:
                self._shape(node, frame)
                return
            if isinstance(node, nodes.Insert) and isinstance(node.source, nodes.Execute):
                self._done(frame, cursors.insert_results(session, node, frame))
                return
            if isinstance(node, nodes.Insert | nodes.Update | nodes.Delete):
                self._done(frame, triggers.execute(session, node, frame))
                return
            count = session.execute(node, frame)
            plan = session.plan(node, frame) if isinstance(node, nodes.SelectStatement) else None
            if plan is not None and plan.assign:
                self._quiet(count)
            else:
                self._done(frame, count)
            return
        if isinstance(node, _DEFINITIONS):
            self._implicit(node, frame)
            session.transactions.define(lambda: session.definer.execute(node))
            self._done(frame, None)
            return
        method = getattr(self, "_run_" + type(node).__name__.lower())
        method(node, frame)

    def _implicit(self, node: nodes.Statement, frame: Frame) -> None:
        session = self.session
        if session.options.implicit and session.transactions.count == 0:
            if isinstance(node, nodes.SelectStatement):
                body = node.query.body
                if isinstance(body, nodes.Select) and not body.sources:
                    return
            session.transactions.begin(None, frame.output)

    def _shape(self, node: nodes.Statement, frame: Frame) -> None:
        plan = self.session.plan(node, frame)
        if plan.columns is not None:
            frame.output.columns(
                [Column(c.name, c.type or INT, oid(c.type or INT), c.nullable, c.identity) for c in plan.columns]
            )
        self._done(frame, 0)

    def _into(self, node: nodes.SelectStatement, frame: Frame) -> bool:
        """SELECT ... INTO: make the table of the query's columns, then insert."""
        body = node.query.body
        while isinstance(body, nodes.SetOperation):
            body = body.left
        if not isinstance(body, nodes.Select) or body.into is None:
            return False
        session = self.session
        name, body.into = body.into, None
        try:
            from airflow_sqlqueue.localdb.tsql.compiler.compiler import Compiler

            compiler = Compiler(session.environment(frame))
            columns = compiler.compile_query(node.query, None).columns
            definitions = []
            for i, column in enumerate(columns, 1):
                if not column.name:
                    raise SqlError(
                        1038,
                        "An object or column name is missing or empty. For SELECT"
                        f" INTO statements, verify each column has a name (column {i}).",
                        severity=15,
                    )
                identity = (1, 1) if column.identity and column.origin else None
                definitions.append(nodes.ColumnDefinition(column.name, column.type or INT, column.nullable, identity))
            create = nodes.CreateTable(name, definitions, [], [])
            session.transactions.define(lambda: session.definer.execute(create))
            old = session.identity_insert
            table = session.catalog.find(name, session.database)
            assert table is not None
            session.identity_insert = (table.pg, table.name)
            insert = nodes.Insert(name, [d.name for d in definitions], [], node.query, [], [], line=node.line)
            try:
                count = session.execute(insert, frame)
            except SqlError:
                drop = nodes.Drop("TABLE", [name], True)
                if not session.transactions.doomed:
                    session.transactions.define(lambda: session.definer.execute(drop))
                raise
            finally:
                session.identity_insert = old
            self._done(frame, count)
        finally:
            body.into = name
        return True

    def _run_truncate(self, node: nodes.Truncate, frame: Frame) -> None:
        session = self.session
        self._implicit(node, frame)

        def action() -> None:
            table = session.catalog.find(node.target, session.database)
            if table is None or table.type != "U":
                raise SqlError(
                    4701,
                    f'Cannot find the object "{node.target[-1]}" because'
                    " it does not exist or you do not have permissions.",
                )
            try:
                session.pg.execute(f"TRUNCATE {table.pg} RESTART IDENTITY")
            except Exception as error:
                if getattr(error, "sqlstate", "") == "0A000":
                    raise SqlError(
                        4712,
                        f"Cannot truncate table '{table.name}' because it"
                        " is being referenced by a FOREIGN KEY constraint.",
                    ) from None
                raise

        session.transactions.define(action)
        self._done(frame, None)

    # --- cursors ---------------------------------------------------------------------------------------------------

    def _run_declarecursor(self, node: nodes.DeclareCursor, frame: Frame) -> None:
        cursors.declare(self.session, node, frame)
        self._quiet()

    def _run_cursoraction(self, node: nodes.CursorAction, frame: Frame) -> None:
        cursors.run(self.session, node, frame)
        self._quiet()

    def _run_fetch(self, node: nodes.Fetch, frame: Frame) -> None:
        count = cursors.fetch(self.session, node, frame)
        if node.into:
            self._quiet(count)
        else:
            self._done(frame, count)

    # --- variables -------------------------------------------------------------------------------------------------

    def _run_declare(self, node: nodes.Declare, frame: Frame) -> None:
        if node.name in frame.tables:
            raise SqlError(134, f"The variable name '{node.name}' has already been declared.", severity=15)
        frame.types[node.name] = node.type
        frame.values.setdefault(node.name, None)
        if node.value is not None:
            frame.values[node.name] = self.session.evaluate(node.value, node.type, frame)[1]
            self._quiet(1)

    def _run_declaretable(self, node: nodes.DeclareTable, frame: Frame) -> None:
        session = self.session
        if node.name in frame.tables:
            return
        session.transactions.define(lambda: frame.tables.__setitem__(node.name, session.temporary.create(node.table)))

    def _run_setvariable(self, node: nodes.SetVariable, frame: Frame) -> None:
        kind = frame.types.get(node.name)
        if kind is None:
            raise SqlError(137, f'Must declare the scalar variable "{node.name}".', severity=15, state=1)
        value = node.value
        if node.op != "=":
            cached = getattr(node, "_combined", None)
            if cached is None:
                cached = nodes.Binary(node.op[0], nodes.Variable(node.name), value)
                node._combined = cached  # type: ignore[attr-defined]
            value = cached
        frame.values[node.name] = self.session.evaluate(value, kind, frame)[1]
        self._quiet(1)

    def _run_setoption(self, node: nodes.SetOption, frame: Frame) -> None:
        settings.set_option(self.session, node, frame)
        self._quiet()

    # --- control of flow -------------------------------------------------------------------------------------------

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
        self._quiet()

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

    def _text(self, node: nodes.Expr, frame: Frame, length: int = 4000) -> str:
        value = self.session.evaluate(node, nvarchar(length), frame)[1]
        return decode(nvarchar(length), value) or ""

    def _integer(self, node: nodes.Expr, frame: Frame) -> int:
        return decode(INT, self.session.evaluate(node, INT, frame)[1]) or 0

    def _run_print(self, node: nodes.Print, frame: Frame) -> None:
        text = self._text(node.value, frame)
        frame.output.message(SqlError(0, text, severity=0, line=node.line, procedure=frame.procedure))
        self._quiet()

    def _run_throw(self, node: nodes.Throw, frame: Frame) -> None:
        if node.number is None:
            if not frame.caught:
                raise SqlError(
                    10704, "To rethrow an error, a THROW statement must be used inside a CATCH block.", severity=15
                )
            old = frame.caught[-1]
            raise Thrown(
                old.number, old.message, severity=old.severity, state=old.state, line=old.line, procedure=old.procedure
            )
        assert node.message is not None
        assert node.state is not None
        number = self._integer(node.number, frame)
        if number < 50000:
            raise SqlError(
                35100,
                f"Error number {number} in the THROW statement is outside the valid range."
                " Specify an error number in the valid range of 50000 to 2147483647.",
            )
        raise Thrown(
            number, self._text(node.message, frame), state=self._integer(node.state, frame) % 256, line=node.line
        )

    def _run_raiseerror(self, node: nodes.RaiseError, frame: Frame) -> None:
        session = self.session
        kind, raw = session.evaluate(node.message, None, frame)
        number, text = 50000, ""
        if kind.name in ("int", "smallint", "tinyint", "bigint"):
            number = decode(kind, raw)
            raise SqlError(
                18054,
                f"Error {number}, severity 16, state 1 was raised, but no"
                " message with that error number was found in sys.messages.",
            )
        text = decode(kind, raw) or ""
        severity, state = self._integer(node.severity, frame), self._integer(node.state, frame)
        values = []
        for argument in node.arguments:
            argument_kind, value = session.evaluate(argument, None, frame)
            values.append(decode(argument_kind, value))
        text = _format(text, values)
        if severity <= 10:
            frame.output.message(
                SqlError(number, text, severity=severity, state=state, line=node.line, procedure=frame.procedure)
            )
            session.error_number = number if "SETERROR" in node.options else 0
            session.rowcount = 0
            return
        if severity > 18 and "LOG" not in node.options:
            raise SqlError(
                2754,
                "Error severity levels greater than 18 can only be specified"
                " by members of the sysadmin role, using the WITH LOG option.",
            )
        raise Raised(number, text, severity=severity, state=state, line=node.line, procedure=frame.procedure)

    def _run_waitfor(self, node: nodes.WaitFor, frame: Frame) -> None:
        kind, raw = self.session.evaluate(node.value, None, frame)
        value = decode(kind, raw)
        if node.kind == "time":
            raise SqlError(40517, "WAITFOR TIME is not supported by the local server.")
        try:
            clock = str(value.time() if hasattr(value, "time") else value).split(":")
            seconds = int(clock[0]) * 3600 + int(clock[1]) * 60 + (float(clock[2]) if len(clock) > 2 else 0.0)
        except (ValueError, IndexError):
            raise SqlError(
                148, f"Incorrect time syntax in time string '{value}' used with WAITFOR.", severity=15
            ) from None
        # PostgreSQL sleeps: so the wait ends at once when the client cancels.
        from airflow_sqlqueue.localdb.tsql.pg import Request

        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            self.session.transactions.run([Request(f"SELECT pg_sleep({left})")])
        self._quiet()

    def _run_use(self, node: nodes.Use, frame: Frame) -> None:
        session = self.session
        entry = session.catalog.database(node.database)
        if entry is None:
            raise SqlError(
                911, f"Database '{node.database}' does not exist. Make sure that the name is entered correctly."
            )
        old, session.database = session.database, entry[1]
        frame.output.database(entry[1], old)
        frame.output.message(SqlError(5701, f"Changed database context to '{entry[1]}'.", severity=0, state=1))
        self._quiet()

    # --- transactions ----------------------------------------------------------------------------------------------

    def _run_transaction(self, node: nodes.Transaction, frame: Frame) -> None:
        transactions = self.session.transactions
        name = node.name
        if name is not None and name.startswith("@"):
            name = self._text(nodes.Variable(name), frame, 128)
        if node.kind == "begin":
            transactions.begin(name, frame.output)
        elif node.kind == "commit":
            transactions.commit(frame.output)
        elif node.kind == "rollback":
            transactions.rollback(name, frame.output)
        else:
            assert name is not None
            transactions.save(name)
        self._quiet()

    # --- EXECUTE ---------------------------------------------------------------------------------------------------

    def _run_execute(self, node: nodes.Execute, frame: Frame) -> None:
        session = self.session
        if node.text_expr is not None:
            text = self._text(node.text_expr, frame, -1)
            database = session.database
            inner = session.frame(text, (), frame.output, frame)
            self.run(inner)
            if session.database != database:
                old, session.database = session.database, database
                frame.output.database(database, old)
            return
        procedure = node.procedure
        if node.variable is not None:
            procedure = calls.parse_name(self._text(nodes.Variable(node.variable), frame))
        assert procedure is not None
        parameters: list[Parameter] = []
        targets: dict[str, str] = {}
        for position, argument in enumerate(node.arguments):
            if argument.value is None:
                continue
            kind, raw = session.evaluate(argument.value, None, frame)
            name = argument.name
            parameters.append(Parameter(name, kind, decode(kind, raw), argument.output))
            if argument.output:
                if not isinstance(argument.value, nodes.Variable):
                    raise SqlError(
                        179, "Cannot use the OUTPUT option when passing a constant to a stored procedure.", severity=15
                    )
                targets[name or str(position)] = argument.value.name
        outputs: list[Parameter] = []
        count = session.transactions.count
        status = calls.call(session, procedure, parameters, frame, outputs)
        unnamed = [target for key, target in targets.items() if key.isdigit()]
        for parameter in outputs:
            target = targets.get(parameter.name) if parameter.name else unnamed.pop(0)
            if target is not None:
                from airflow_sqlqueue.localdb.tsql.datatypes.codec import encode

                frame.values[target] = encode(frame.types[target], parameter.value)
        if node.result is not None:
            result_kind = frame.types.get(node.result)
            if result_kind is None:
                raise SqlError(137, f'Must declare the scalar variable "{node.result}".', severity=15)
            from airflow_sqlqueue.localdb.tsql.datatypes.codec import encode

            frame.values[node.result] = encode(result_kind, status)
        after = session.transactions.count
        if after != count and session.transactions.state() != -1:
            raise SqlError(
                266,
                "Transaction count after EXECUTE indicates a mismatching"
                " number of BEGIN and COMMIT statements. Previous count ="
                f" {count}, current count = {after}.",
                state=2,
            )

    def _run_dbcc(self, node: nodes.Dbcc, frame: Frame) -> None:
        dbcc(self.session, node, frame)
        self._quiet()


def _format(text: str, values: list[object]) -> str:
    """RAISERROR's %s %d %i %u %x %o with flags and widths."""
    import re

    rest = list(values)

    def replace(match: re.Match[str]) -> str:
        if match[0] == "%%":
            return "%"
        flags, width, precision, kind = match[1], match[2], match[3], match[4]
        if width == "*":
            width = str(rest.pop(0))
        value = rest.pop(0) if rest else "(null)"
        if value is None:
            value = "(null)"
        spec = f"%{flags}{width or ''}{precision or ''}"
        if isinstance(value, int) and not isinstance(value, bool):
            return (spec + {"i": "d", "u": "d", "s": "s"}.get(kind, kind)) % value
        return (spec + "s") % value

    return re.sub(r"%%|%([-+0# ]*)(\d+|\*)?(\.\d+)?(?:I64|l|h)?([sdiuxXo])", replace, text)[:2047]
