"""Table of the statements, with the function that runs each."""

from __future__ import annotations

from fakemssql.tsql.definitions.statements import DEFINITIONS, define
from fakemssql.tsql.parser import nodes
from fakemssql.tsql.runtime.execution.interpreter import begin_implicitly, done
from fakemssql.tsql.runtime.frames import Frame
from fakemssql.tsql.runtime.session.session import Session, StatementFunction
from fakemssql.tsql.runtime.statements import control, messages, rows
from fakemssql.tsql.runtime.statements.administration import dbcc, kill
from fakemssql.tsql.runtime.statements.execute import execute
from fakemssql.tsql.runtime.statements.settings import set_option


def definition(session: Session, node: nodes.Statement, frame: Frame) -> None:
    """Run a definition in a transaction or a savepoint of its own."""
    begin_implicitly(session, node, frame)
    if isinstance(node, nodes.UpdateStatistics) and not session.transaction_count:
        # PostgreSQL counts changes up to a second late; without this it would count them after the statistics.
        session.pg.execute("SELECT pg_stat_force_next_flush()")
    session.transactions.define(lambda: define(session.definer, node))
    done(session, frame, None)


STATEMENTS: dict[type, StatementFunction] = {
    nodes.SelectStatement: rows.rows,
    nodes.Insert: rows.rows,
    nodes.Update: rows.rows,
    nodes.Delete: rows.rows,
    nodes.Merge: rows.rows,
    nodes.Truncate: rows.truncate,
    nodes.Declare: control.declare,
    nodes.DeclareTable: control.declare_table,
    nodes.SetVariable: control.set_variable,
    nodes.SetOption: set_option,
    nodes.Block: control.block,
    nodes.If: control.branch,
    nodes.While: control.loop,
    nodes.Simple: control.simple,
    nodes.TryCatch: control.try_catch,
    nodes.Return: control.returned,
    nodes.WaitFor: control.wait_for,
    nodes.Use: control.use,
    nodes.Transaction: control.transaction,
    nodes.Print: messages.print_text,
    nodes.Throw: messages.throw,
    nodes.RaiseError: messages.raise_error,
    nodes.Execute: execute,
    nodes.Dbcc: dbcc,
    nodes.Kill: kill,
    **dict.fromkeys(DEFINITIONS, definition),
}
