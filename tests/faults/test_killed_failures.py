"""Work on failed messages whose process is killed before and after its statements: nothing is lost or duplicated."""

from __future__ import annotations

from collections import Counter

import pytest

from airflow_sqlqueue import QueueClient
from airflow_sqlqueue.server.session import Session
from tests.contract.conftest import run_sql
from tests.contract.return_to_source.conftest import failed
from tests.faults.killed_failures import ACTIONS, act, client_of
from tests.faults.killing import Life, endure, live

MESSAGES = 10
STATEMENTS = 8
"""Statements of a run, at the least: the end of the scan, a page, and two for each of three transactions."""

PLACES = {
    "return": ("error", "orders"),
    "archive": ("error", "Archive"),
    "park": ("error", "parked"),
    "delete": ("error", None),
    "restore": ("Archive", "error"),
    "delete archived": ("Archive", None),
}
"""Table that each action takes messages from, and the one that it puts them into."""


class Account:
    """The account of numbered messages: which tables have them now, and which had them before."""

    def __init__(self, client: QueueClient, session: Session, schema: str, action: str) -> None:
        self._client, self._session, self._schema = client, session, schema
        self._origin, self._goal = PLACES[action]
        self.sent = 0

    def top_up(self) -> None:
        """See that the action has messages to work on."""
        missing = MESSAGES - sum(self._numbers(self._origin).values())
        numbers = range(self.sent, self.sent + missing)
        self._client.queue("error").send(failed("orders", b"%d" % n) for n in numbers)
        self.sent += missing
        if self._origin == "Archive":
            self._client.errors.archive(filters={"failed_queue": "orders", "row_versions": self._rows(numbers)})

    def check(self) -> int:
        """Assert that each message is in one place, and return how many are where they were."""
        origin = self._numbers(self._origin)
        if self._goal is None:
            assert set(origin.values()) <= {1}
            return sum(origin.values())
        assert origin + self._numbers(self._goal) == Counter(range(self.sent)), "lost or duplicated"
        return sum(origin.values())

    def _numbers(self, table: str) -> Counter[int]:
        # A locking read waits until the server has rolled back what a dead process held.
        found = run_sql(self._session, f"SELECT [Body] FROM [{self._schema}].[{table}] WITH (READCOMMITTEDLOCK)")
        return Counter(int(bytes(body)) for (body,) in found)

    def _rows(self, numbers: range) -> list[int]:
        return [m.row_version for m in self._client.queue("error").peek(1000) if int(m.body) in numbers]


@pytest.mark.timeout(7200)
@pytest.mark.parametrize("action", ACTIONS)
def test_kills_at_statements(server_url: str, schema: str, action: str) -> None:
    client = client_of(server_url, schema)
    for name in ("error", "orders", "parked"):
        client.tables.create(name)
    # The archive exists before, so that every run has the same statements.
    client.queue("error").send([failed("orders", b"0")])
    client.errors.archive(all_messages=True)
    client.errors.archived.delete(all_messages=True, confirm=True)
    with client.session() as session:
        account, left = Account(client, session, schema, action), set[int]()

        def run(statement: int, moment: str) -> Life:
            return live(act, server_url, schema, action, statement=statement, moment=moment)

        endured = endure(action, run, account.top_up, lambda: left.add(account.check()))
        assert len(endured.statements) >= STATEMENTS, "the run has fewer statements than it must have"
        assert account.check() == 0
        if endured.rounds:
            assert MESSAGES in left, "no run was killed before its first COMMIT"
            assert left & {2, 6}, "no run was killed between two transactions"
