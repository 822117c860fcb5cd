"""A filtered drain whose process is killed: matching messages are in the batch once, all others in the queue."""

from __future__ import annotations

import random
import uuid
from contextlib import closing

import pytest

from airflow_sqlqueue.drain.batch_reader import batch_rows
from airflow_sqlqueue.drain.ledger import Ledger
from airflow_sqlqueue.drain.stages.base import Stage
from airflow_sqlqueue.messages.message import HeaderNames, Message
from airflow_sqlqueue.queue import MessageFilter, QueueTable
from tests.contract.conftest import Connect
from tests.faults.conftest import LONG
from tests.faults.processes import SEALED, Draining

KILLS = 100 if LONG else 4
SALES = MessageFilter(endpoint="Sales")


@pytest.mark.timeout(1800)
def test_sigkill_at_random_moments(server_url: str, connect: Connect, queue: QueueTable, stage: Stage) -> None:
    chance, kills = random.Random(1), 0
    while kills < KILLS:
        bodies = [b"%d %d" % (kills, n) for n in range(200)]
        endpoints = ["Sales" if n % 2 else "Billing" for n in range(200)]
        queue.send(Message({HeaderNames.ORIGINATING_ENDPOINT: e}, b) for e, b in zip(endpoints, bodies, strict=True))
        batch_id, outcome = uuid.uuid4(), None
        while outcome is None:
            with closing(Draining(server_url, queue.address, stage, batch_id, where=SALES)) as process:
                process.started()
                if kills == KILLS or process.ended(within=chance.uniform(0, 0.5)):
                    outcome = process.outcome()
                else:
                    process.kill()
                    kills += 1
        assert outcome == SEALED
        with connect() as session:
            rows = batch_rows(Ledger(session, queue.address.catalog), batch_id, stage.name)
            assert [bytes(row.body or b"") for row in rows] == bodies[1::2]
        assert [message.body for message in queue.receive(2_000)] == bodies[::2]
