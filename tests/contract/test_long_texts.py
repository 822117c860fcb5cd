"""Text parameters that are too long for ``nvarchar(4000)``: each is ``nvarchar(max)``, from every sender."""

from __future__ import annotations

import json
import uuid
from dataclasses import replace

import pytest

from airflow_sqlqueue.drain.drain import Drain
from airflow_sqlqueue.drain.ledger import Ledger
from airflow_sqlqueue.drain.request import DrainRequest
from airflow_sqlqueue.drain.stages.table import TableStage
from airflow_sqlqueue.messages.message import Message
from airflow_sqlqueue.queue import MessageFilter, QueueTable
from airflow_sqlqueue.queue.depth import depth
from airflow_sqlqueue.server.session import Session
from airflow_sqlqueue.server.settings import ConnectionSettings
from airflow_sqlqueue.server.sql import Query
from tests.conftest import Connect

TEXTS = ["x" * 2_000, "x" * 2_001, "x" * 4_001, "x" * 100_000, "😀" * 1_000, "😀" * 1_001]
LENGTH = Query("own", "measure a text", "SELECT DATALENGTH(NULLIF(?, N'')), ?", ours=True)
"""NULLIF takes no ntext (error 402)."""


@pytest.fixture(params=["yes", "no"])
def session(request: pytest.FixtureRequest, settings: ConnectionSettings) -> Session:
    """With a driver that is asked for ``(max)`` by the connection string, and one that does not know how."""
    return Session(replace(settings, keywords={**settings.keywords, "LongAsMax": request.param}))


def test_a_text_of_any_length_is_a_parameter(session: Session) -> None:
    with session:
        for text in [*TEXTS, "short", *reversed(TEXTS)]:
            assert tuple(session.run(LENGTH, text, 7)[0]) == (len(text.encode("utf-16-le")), 7)


def test_a_text_that_has_no_size_beside_ones_that_have(session: Session) -> None:
    with session:
        assert session.run(LENGTH, "x" * 5_000, 7, sizes=[None, (-5, 0, 0)])[0][0] == 10_000


def test_a_long_text_in_a_statement_of_the_callers_own(connect: Connect) -> None:
    """Lent inside a transaction, where its parameters are declared by the driver alone."""
    with connect() as session, session.transaction():
        cursor = session.enlisted_connection().cursor()
        for text in TEXTS:
            row = cursor.execute("SELECT DATALENGTH(NULLIF(?, N'')), DATALENGTH(NULLIF(?, 0x))", text, b"x" * 9_000)
            assert tuple(row.fetchone()) == (len(text.encode("utf-16-le")), 9_000)


@pytest.mark.parametrize("headers", [2, 18])
def test_a_drain_with_a_long_filter(connect: Connect, queue: QueueTable, headers: int) -> None:
    """The ledger has its text, by which a later try recognises it."""
    wanted = {f"{'h' * 100}{number}": "v" * 100 for number in range(headers)}
    where, batch_id = MessageFilter(headers=wanted), uuid.uuid4()
    queue.send([Message(wanted, b"wanted"), Message({}, b"other")])
    for _ in range(2):
        done = Drain(connect, queue.address, TableStage(), DrainRequest(where=where, batch_id=batch_id)).run()
        assert (done.batch.messages, depth(queue).messages) == (1, 1)
    with connect() as session:
        kept = Ledger(session, queue.address.catalog).find(batch_id).filter
    assert kept is not None
    assert (len(kept) > 2_000) == (headers == 18)
    assert json.loads(kept)
