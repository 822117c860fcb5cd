"""A database of the handlers' effects that is down in the middle of many messages, while that of the queues is not.

The short form counts attempts; ``SQLQUEUE_FAULTS=long`` has 10,000 messages, the pauses of the default and ten minutes
without the database.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Iterator
from dataclasses import replace

import pytest

from airflow_sqlqueue import QueueClient
from airflow_sqlqueue.endpoint.options import ConsumeOptions
from airflow_sqlqueue.messages.envelope import Envelope
from airflow_sqlqueue.messages.message import Message
from airflow_sqlqueue.server.session import Session
from airflow_sqlqueue.server.settings import ConnectionSettings
from airflow_sqlqueue.server.sql import Query
from tests.faults.conftest import LONG
from tests.faults.proxy import Proxy

log = logging.getLogger(__name__)

MESSAGES, FIRST_PAUSE = (10_000, 1.0) if LONG else (150, 0.001)
BEFORE_THE_OUTAGE = MESSAGES // 2 if LONG else 30
FAILURES, DOWN_SECONDS = 10, 600.0 if LONG else 0.0
"""The database comes back after so many failed attempts, and not before this many seconds."""

HANDLERS = 4


class Effects:
    """Database of effects: reached through a proxy, which stops in the middle and comes back later."""

    def __init__(self, settings: ConnectionSettings, table: str) -> None:
        self._settings, self._table = settings, table
        self._lock = threading.Lock()
        self._proxy = Proxy(settings)
        self._is_back = False
        self._back_at = 0.0
        self.attempts = self.failures = 0

    def write(self, number: int) -> None:
        with self._lock:
            self.attempts += 1
            if self.attempts == BEFORE_THE_OUTAGE:
                self._proxy.stop()
                self._back_at = time.monotonic() + DOWN_SECONDS
            if self.failures >= FAILURES and time.monotonic() >= self._back_at and not self._is_back:
                self._is_back, self._proxy = True, Proxy(self._settings)
            settings = replace(self._proxy.settings, login_timeout=2)
        try:
            with Session(settings) as session:
                session.run(Query("effect", "write the effect", f"INSERT INTO {self._table} VALUES ({number})"))
        except Exception:
            with self._lock:
                self.failures += 1
            raise

    def stays_down(self) -> None:
        self._is_back = True

    def close(self) -> None:
        self._proxy.stop()


@pytest.fixture
def table(settings: ConnectionSettings) -> Iterator[str]:
    name, client = f"[Effects {uuid.uuid4().hex[:10]}]", QueueClient(settings)
    client.run_sql(f"CREATE TABLE {name} ([Number] int NOT NULL)")
    yield name
    client.run_sql(f"DROP TABLE {name}")


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("retries", [0, 2])
def test_a_slow_consumer_keeps_the_messages_for_a_database_that_comes_back(
    settings: ConnectionSettings, queues: dict[str, str], table: str, retries: int
) -> None:
    client, effects = QueueClient(settings), Effects(settings, table)
    orders, error = client.queue(queues["orders"]), client.queue(queues["error"])
    orders.send(Message(body=b"%d" % n) for n in range(MESSAGES))

    def handle(message: Envelope) -> None:
        effects.write(int(message.body))

    options = ConsumeOptions(
        max_handlers=HANDLERS,
        immediate_retries=retries,
        delayed_retries=0,
        error_queue=queues["error"],
        max_consecutive_failures=3,
        on_consecutive_failures="slow_down",
        slow_down_seconds=FIRST_PAUSE,
    )
    done = orders.consume(handle, options)
    effects.close()
    given_up = {int(message.body) for message in error.peek(1_000)}
    written = {number for (number,) in client.run_sql(f"SELECT [Number] FROM {table}")}
    log.info("%d messages, %d failed attempts, %d messages in the error queue", MESSAGES, effects.failures, done.failed)
    # Other handlers may be at work when the database comes back, and fail. Pauses grow to a minute.
    assert FAILURES <= effects.failures <= FAILURES + HANDLERS + 2 * DOWN_SECONDS / 60
    assert done.failed == len(given_up) <= effects.failures // (retries + 1)
    assert written | given_up == set(range(MESSAGES))
    assert orders.depth().messages == 0


def test_without_a_limit_the_outage_empties_the_queue(
    settings: ConnectionSettings, queues: dict[str, str], table: str
) -> None:
    """The error queue has all messages then."""
    client, effects = QueueClient(settings), Effects(settings, table)
    orders = client.queue(queues["orders"])
    orders.send(Message(body=b"%d" % n) for n in range(BEFORE_THE_OUTAGE + 20))
    effects.stays_down()
    options = ConsumeOptions(immediate_retries=0, delayed_retries=0, error_queue=queues["error"])
    done = orders.consume(lambda message: effects.write(int(message.body)), options)
    effects.close()
    assert done.failed >= 20
    assert orders.depth().messages == 0
