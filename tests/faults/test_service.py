"""``sqlqueue consume`` under load, killed and started again, stopped and started again.

Some messages are sent twice. Each id has its effect once. ``SQLQUEUE_FAULTS=long`` runs it for five minutes.
"""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from airflow_sqlqueue import QueueClient
from airflow_sqlqueue.messages.message import HeaderNames, Message
from tests.cli.service import Service
from tests.contract.conftest import run_sql
from tests.faults.conftest import LONG
from tests.faults.consuming import consuming_client

log = logging.getLogger(__name__)

SECONDS = 300.0 if LONG else 3.0
"""Seconds of load, in three parts: to the kill, to SIGTERM, to the end."""

BACKLOG = 400
"""Messages that wait, about, so that the service is never idle."""

WAIT = 120

HANDLERS = """
from airflow_sqlqueue import MessageHandlers

handlers = MessageHandlers()
failed = set()


@handlers.default
def archive(message, client):
    number = int(message.body)
    client.run_sql("INSERT INTO [SCHEMA].[Archive] ([Number]) VALUES (?)", number)
    if number % 50 == 7 and number not in failed:
        failed.add(number)
        raise ValueError("not yet")
"""


class Load:
    """Sender that keeps messages waiting; every tenth is sent twice."""

    def __init__(self, client: QueueClient) -> None:
        self._client = client
        self.sent = self.copies = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        orders = self._client.queue("orders")
        while not self._stop.wait(0.1):
            if orders.depth(kind="catalog").messages > BACKLOG:
                continue
            numbers = range(self.sent, self.sent + 100)
            messages = [Message({HeaderNames.MESSAGE_ID: f"id-{n}"}, b"%d" % n) for n in numbers]
            orders.send([*messages, *messages[::10]])
            self.sent, self.copies = numbers.stop, self.copies + 10

    def close(self) -> None:
        self._stop.set()
        self._thread.join()


@pytest.mark.timeout(1200)
def test_each_message_has_its_effect_once(server_url: str, schema: str, tmp_path: Path) -> None:
    client = consuming_client(server_url, schema)
    for name in ("orders", "error"):
        client.tables.create(name, delayed=name == "orders")
    client.run_sql(f"CREATE TABLE [{schema}].[Archive] ([Number] int NOT NULL)")
    (tmp_path / "archive_handlers.py").write_text(HANDLERS.replace("SCHEMA", schema), "utf-8")
    queues = ("--queue", f"orders@[{schema}]", "--error-queue", f"error@[{schema}]")
    options = (*queues, "--transaction-mode", "receive_only", "--inbox", "--poll-seconds", "0.1")

    def service() -> Service:
        return Service(tmp_path, server_url, "archive_handlers:handlers", *options)

    def archived() -> int:
        return int(client.run_sql(f"SELECT COUNT(*) FROM [{schema}].[Archive] WITH (NOLOCK)")[0][0])

    def goes_on(seconds: float) -> None:
        """Let the load go on, at least until the service has handled something."""
        until, before = time.monotonic() + seconds, archived()
        while time.monotonic() < until or archived() == before:
            assert time.monotonic() < until + WAIT
            time.sleep(0.1)

    with closing(Load(client)) as load:
        with service() as killed:
            goes_on(SECONDS / 3)
            killed.signal(signal.SIGKILL)
            assert killed.ended() == -signal.SIGKILL
        with service() as stopped:
            goes_on(SECONDS / 3)
            asked = time.monotonic()
            stopped.signal()
            first = stopped.result()
            took = time.monotonic() - asked
        with service() as last:
            goes_on(SECONDS / 3)
            load.close()
            until = time.monotonic() + WAIT
            while client.queue("orders").backlog().depth.messages:
                assert time.monotonic() < until
                time.sleep(0.1)
            last.signal()
            second = last.result()
    with client.session() as session:
        rows = run_sql(session, f"SELECT [Number] FROM [{schema}].[Archive] WITH (READCOMMITTEDLOCK)")
    effects = Counter(number for (number,) in rows)
    assert [number for number, times in effects.items() if times > 1] == [], "twice"
    assert effects.keys() == set(range(load.sent)), "lost"
    assert client.queue("error").depth().messages == 0
    assert first["handled"] > 0
    assert second["handled"] > 0
    log.info(
        "%d ids, %d of them sent twice, %d effects; %d handled before SIGTERM at %.0f per second, %d afterwards; "
        "SIGTERM took %.1f s; %d duplicates, %d rolled back",
        *(load.sent, load.copies, len(rows), first["handled"], first["handled"] / first["seconds"], second["handled"]),
        *(took, first["duplicates"] + second["duplicates"], first["rolled_back"] + second["rolled_back"]),
    )
