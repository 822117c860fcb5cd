"""Staged messages of Spark's tasks, which one transaction sends: a table beside the send ledger.

No endpoint sees staged messages. A repeated task stages again, under another attempt. The driver names the attempts to
send, once for each send id. A sweep removes the messages of all other attempts by their age.

Source: docs/design.md, "A send from Spark".
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from airflow_sqlqueue.errors import TransactionError
from airflow_sqlqueue.messages.row import Row
from airflow_sqlqueue.queue.queue_table import QueueTable
from airflow_sqlqueue.queue.send_ledger import SendLedger, SendResult, seconds_before
from airflow_sqlqueue.queue.sending import chunks, restored_parameters
from airflow_sqlqueue.queue.table_access import MAX_ROWS_PER_STATEMENT
from airflow_sqlqueue.queue.tables.layout import Layout
from airflow_sqlqueue.queue.tables.own import OwnTable
from airflow_sqlqueue.server.settings import load_pyodbc
from airflow_sqlqueue.server.sql import identifier
from airflow_sqlqueue.server.sql.columns import STAGED, definitions, forwarding, restoration

_ROWS = MAX_ROWS_PER_STATEMENT // 2
"""Rows of a statement: an INSERT locks each row and its key in each index."""


@dataclass(frozen=True)
class StagedAttempt:
    """Attempt of a task, with the number of messages that it staged."""

    attempt_id: uuid.UUID
    messages: int


class OutgoingTable(OwnTable):
    """Table of staged messages of one database, through one connection."""

    name = "Outgoing"
    made_by = ("outgoing.make", "outgoing.index")
    columns = definitions(STAGED)

    def stage(self, rows: Iterable[Row]) -> StagedAttempt:
        """Stage rows under a new attempt, each statement in a transaction of its own. Their RowVersions are ignored."""
        attempt_id, staged = uuid.uuid4(), 0
        pyodbc = load_pyodbc()
        key = [(pyodbc.SQL_VARCHAR, 36, 0), (pyodbc.SQL_BIGINT, 0, 0)]
        for chunk in chunks(rows):
            values, sizes = restored_parameters(chunk, STAGED)
            statement = self.query("outgoing.stage", **restoration(STAGED, len(chunk)))
            self.session.run(statement, str(attempt_id), staged, *values, sizes=[*key, *sizes])
            staged += len(chunk)
        return StagedAttempt(attempt_id, staged)

    def send(
        self, queue: QueueTable, send_id: uuid.UUID, attempts: Sequence[StagedAttempt], origin: str = ""
    ) -> SendResult:
        """Send the staged messages of the attempts to the queue, in order, unless a send with this id was committed.

        One transaction sends all messages: it locks them, the server's log holds them, and receivers see all of them
        or no message. Afterwards the staged messages are removed, also where the send was made before. Exactly once,
        as long as the send ledger keeps the id.

        Raises :class:`TransactionError`, and sends no message, where a sweep has removed staged messages.
        """
        ledger = SendLedger(self.session, self.catalog, self.schema)
        ledger.create()
        queue.require()
        result = ledger.once(queue.address, send_id, lambda: self._publish(queue, attempts), origin)
        self.remove(attempts)
        return result

    def _publish(self, queue: QueueTable, attempts: Sequence[StagedAttempt]) -> int:
        for attempt in attempts:
            sent = sum(self._copy(queue, attempt, after) for after in range(0, attempt.messages, _ROWS))
            if sent != attempt.messages:
                raise TransactionError(
                    f"A task staged {attempt.messages} messages, and {sent} are left: a sweep removed the others. No "
                    "message is sent: run the job again, and sweep with a longer grace."
                )
        return sum(attempt.messages for attempt in attempts)

    def _copy(self, queue: QueueTable, attempt: StagedAttempt, after: int) -> int:
        def run(layout: Layout) -> int:
            moved = forwarding(STAGED, layout.types)
            columns, values = moved["columns"], moved["values"]
            statement = self.query("outgoing.publish", queue=identifier(queue.address), columns=columns, values=values)
            return int(self.session.value(statement, str(attempt.attempt_id), after, after + _ROWS))

        return queue.run_for_layout(run)

    def remove(self, attempts: Iterable[StagedAttempt]) -> None:
        """Remove the staged messages of attempts, in chunks that are committed one by one."""
        for attempt in attempts:
            key = str(attempt.attempt_id)
            self.session.sum_in_chunks(self.query("outgoing.remove"), MAX_ROWS_PER_STATEMENT, key)

    def count_older(self, than: timedelta) -> int:
        """Count the messages that :meth:`remove_older` would remove."""
        return int(self.session.value(self.query("outgoing.count_older"), seconds_before(than)))

    def remove_older(self, than: timedelta) -> int:
        """Remove messages that were staged longer ago, by attempts that died, and return how many it removed."""
        statement = self.query("outgoing.remove_older")
        return self.session.sum_in_chunks(statement, MAX_ROWS_PER_STATEMENT, seconds_before(than))
