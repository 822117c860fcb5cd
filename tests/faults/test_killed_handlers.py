"""Audit copies, acknowledgements and sends of handlers whose process is killed before and after its statements.

In the mode ``sends_atomic_with_receive`` all of them are there with the handling, once, and none without. In
``receive_only`` this holds for copies and acknowledgements; sends may be doubled. In ``none`` a kill may lose one
message, or the copy and the acknowledgement of one.
"""

from __future__ import annotations

from collections import Counter

import pytest

from airflow_sqlqueue import QueueClient
from airflow_sqlqueue.messages.envelope import Envelope
from airflow_sqlqueue.messages.message import HeaderNames, Message
from airflow_sqlqueue.server.session import Session
from airflow_sqlqueue.server.transactions import MODES, NONE, RECEIVE_ONLY, SENDS_ATOMIC_WITH_RECEIVE
from tests.contract.conftest import run_sql
from tests.faults.consuming import consuming_client
from tests.faults.killed_handlers import THREADS, handle_two
from tests.faults.killing import Life, endure, live

QUEUES = ("orders", "billing", "audit", "acknowledged", "error")

STATEMENTS = {SENDS_ATOMIC_WITH_RECEIVE: 20, RECEIVE_ONLY: 20, NONE: 16}
"""Statements of a run, at the least: the layouts of three queues, and of each attempt the receive, the effects, the
copy, the acknowledgement and the COMMIT."""


class Account:
    """The account of what was sent: where each message is, and what there is of its handling."""

    def __init__(self, client: QueueClient, session: Session, schema: str, mode: str) -> None:
        self._client, self._session, self._schema, self._mode = client, session, schema, mode
        self.sent = self.kills = 0

    def top_up(self) -> None:
        """See that four messages wait, each of them retried by ServiceControl."""
        missing = 4 - len(self._numbers("orders"))
        address = self._client.resolve("acknowledged").canonical
        self._client.queue("orders").send(
            Message(
                {
                    HeaderNames.MESSAGE_ID: f"id-{n}",
                    HeaderNames.RETRY_UNIQUE_MESSAGE_ID: str(n),
                    HeaderNames.RETRY_ACKNOWLEDGEMENT_QUEUE: address,
                },
                b"%d" % n,
            )
            for n in range(self.sent, self.sent + missing)
        )
        self.sent += missing

    def check(self) -> None:
        """Assert what holds in the mode after any kill. Locking reads wait for the end of a dead transaction."""
        waiting, archived = Counter(self._numbers("orders")), Counter(self._archived())
        billed, audited, failed = (Counter(self._numbers(name)) for name in ("billing", "audit", "error"))
        acknowledged = Counter(self._acknowledged())
        everywhere = set(range(self.sent))
        assert audited == acknowledged, "a copy without an acknowledgement, or the other way"
        assert set(audited.values()) <= {1}, "copied twice"
        assert not audited.keys() & (waiting.keys() | failed.keys()), "copied and not handled"
        if self._mode == NONE:
            assert audited.keys() <= archived.keys(), "copied and not handled"
            assert len(archived.keys() - failed.keys() - audited.keys()) <= self.kills, "a copy is missing"
            assert len(everywhere - waiting.keys() - archived.keys()) <= self.kills, "lost"
            return
        assert audited == archived, "not committed together"
        assert waiting + archived + failed == Counter(everywhere), "lost or duplicated"
        assert billed.keys() >= archived.keys(), "a send is missing"
        if self._mode == SENDS_ATOMIC_WITH_RECEIVE:
            assert billed == archived, "not committed together"
        else:
            # The first attempt of an odd number fails, and has sent.
            assert sum(billed.values()) <= 2 * len(archived) + 2 * self.kills, "sent too often"

    def _numbers(self, name: str) -> list[int]:
        return [int(bytes(body)) for body, _ in self._rows(name)]

    def _acknowledged(self) -> list[int]:
        found = [Envelope.of(headers).headers for _, headers in self._rows("acknowledged")]
        return [int(each[HeaderNames.RETRY_UNIQUE_MESSAGE_ID] or "") for each in found]

    def _rows(self, name: str) -> list[tuple[bytes, str]]:
        table = self._client.resolve(name).qualified_name
        return run_sql(self._session, f"SELECT [Body], [Headers] FROM {table} WITH (READCOMMITTEDLOCK)")

    def _archived(self) -> list[int]:
        text = f"SELECT [Number] FROM [{self._schema}].[Archive] WITH (READCOMMITTEDLOCK)"
        return [number for (number,) in run_sql(self._session, text)]


@pytest.mark.timeout(7200)
@pytest.mark.parametrize("mode", MODES)
def test_kills_at_statements(server_url: str, schema: str, mode: str) -> None:
    client = consuming_client(server_url, schema)
    for name in QUEUES:
        client.tables.create(name)
    client.run_sql(f"CREATE TABLE [{schema}].[Archive] ([Number] int NOT NULL)")
    with client.session() as session:
        account = Account(client, session, schema, mode)

        def run(statement: int, moment: str) -> Life:
            life = live(handle_two, server_url, schema, mode, statement=statement, moment=moment, thread=THREADS)
            account.kills += life.killed
            return life

        endured = endure(f"consume, {mode}", run, account.top_up, account.check)
        assert len(endured.statements) >= STATEMENTS[mode], "the run has fewer statements than it must have"
