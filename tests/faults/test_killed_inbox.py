"""Inbox of handlers whose process is killed before and after its statements, with two copies of each message.

The effects of an id on the server are there once, with its row in the inbox, and not without it.
"""

from __future__ import annotations

from collections import Counter

import pytest

from airflow_sqlqueue import QueueClient
from airflow_sqlqueue.messages.message import HeaderNames, Message
from airflow_sqlqueue.server.session import Session
from airflow_sqlqueue.server.transactions import RECEIVE_ONLY, SENDS_ATOMIC_WITH_RECEIVE
from tests.contract.conftest import run_sql
from tests.faults.consuming import consuming_client
from tests.faults.killed_handlers import THREADS, handle_copies
from tests.faults.killing import Life, endure, live

STATEMENTS = 18
"""Statements of a run, at the least: receives, entries in the inbox, effects and COMMITs."""


class Account:
    """The account of what was sent: the copies that wait, and the effects of each id."""

    def __init__(self, client: QueueClient, session: Session, schema: str, mode: str) -> None:
        self._client, self._session, self._schema, self._mode = client, session, schema, mode
        self.sent = 0

    def top_up(self) -> None:
        """See that four messages wait: two ids, each with two copies, or the rest of earlier ones."""
        while len(self._numbers("orders")) < 4:
            message = Message({HeaderNames.MESSAGE_ID: f"id-{self.sent}"}, b"%d" % self.sent)
            self._client.queue("orders").send([message, message])
            self.sent += 1

    def check(self, *, ended: bool = False) -> None:
        """Assert what holds after any kill. Locking reads wait for the end of a dead transaction."""
        waiting, billed = Counter(self._numbers("orders")), Counter(self._numbers("billing"))
        archived = Counter(number for (number,) in self._rows("[Number]", f"[{self._schema}].[Archive]"))
        queue = self._client.resolve("orders").canonical
        entered = {int(text.removeprefix("id-")) for (text,) in self._entered(queue)}
        assert self._numbers("error") == []
        assert set(archived.values()) <= {1}, "effects twice"
        assert entered == archived.keys(), "not committed together"
        assert {number for number, copies in waiting.items() if copies == 2} == set(range(self.sent)) - entered, "lost"
        if self._mode == SENDS_ATOMIC_WITH_RECEIVE:
            assert billed == archived, "not committed together"
        else:
            assert billed.keys() >= archived.keys(), "a send is missing"
        if ended:
            assert entered

    def _entered(self, queue: str) -> list[tuple[str]]:
        table = "[sqlqueue].[Inbox]"
        if not run_sql(self._session, f"SELECT 1 WHERE OBJECT_ID(N'{table}') IS NOT NULL"):
            return []
        return self._rows("[MessageId]", table, f" WHERE [Queue] = N'{queue}'")

    def _numbers(self, name: str) -> list[int]:
        return [int(bytes(body)) for (body,) in self._rows("[Body]", self._client.resolve(name).qualified_name)]

    def _rows(self, column: str, table: str, where: str = "") -> list[tuple[str]]:
        return run_sql(self._session, f"SELECT {column} FROM {table} WITH (READCOMMITTEDLOCK){where}")


@pytest.mark.timeout(7200)
@pytest.mark.parametrize("in_batches", [False, True])
@pytest.mark.parametrize("mode", [SENDS_ATOMIC_WITH_RECEIVE, RECEIVE_ONLY])
def test_kills_at_statements(server_url: str, schema: str, mode: str, in_batches: bool) -> None:
    client = consuming_client(server_url, schema)
    for name in ("orders", "billing", "error"):
        client.tables.create(name)
    client.run_sql(f"CREATE TABLE [{schema}].[Archive] ([Number] int NOT NULL)")
    with client.session() as session:
        account = Account(client, session, schema, mode)

        def run(statement: int, moment: str) -> Life:
            work = handle_copies, server_url, schema, mode, in_batches
            return live(*work, statement=statement, moment=moment, thread=THREADS)

        endured = endure(f"inbox, {mode}, batches: {in_batches}", run, account.top_up, account.check)
        assert len(endured.statements) >= STATEMENTS, "the run has fewer statements than it must have"
        account.check(ended=True)
