"""The entry to the interpreter: one statement to the method that runs it."""

from __future__ import annotations

from fakemssql.tsql.definitions.statements import define
from fakemssql.tsql.parser import nodes
from fakemssql.tsql.runtime.control import Control
from fakemssql.tsql.runtime.execution import Execution
from fakemssql.tsql.runtime.frames import Frame
from fakemssql.tsql.runtime.messages import Messages
from fakemssql.tsql.runtime.rows import Rows
from fakemssql.tsql.runtime.variables import Variables

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
    nodes.TriggerState,
    nodes.UpdateStatistics,
    nodes.SecurityDefinition,
)


class Interpreter(Rows, Variables, Control, Messages, Execution):
    """Runs parsed statements for one session."""

    def _dispatch(self, node: nodes.Statement, frame: Frame) -> None:
        session = self.session
        if isinstance(node, nodes.SelectStatement | nodes.Insert | nodes.Update | nodes.Delete | nodes.Merge):
            self._rows(node, frame)
            return
        if isinstance(node, _DEFINITIONS):
            self.begin_implicitly(node, frame)
            if isinstance(node, nodes.UpdateStatistics) and not session.transactions.count:
                # PostgreSQL reports changes up to a second late, and would take them for later than the statistics.
                session.pg.execute("SELECT pg_stat_force_next_flush()")
            session.transactions.define(lambda: define(session.definer, node))
            self.done(frame, None)
            return
        method = getattr(self, "_run_" + type(node).__name__.lower())
        method(node, frame)
