"""Sessions that are killed on the server (KILL, a database taken over) while they idle, in a transaction, and at work.

What runs long goes on: Microsoft's driver restores an idle session by itself, and all others are replaced.
"""

from __future__ import annotations

import contextlib
import logging
import os
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest

from airflow_sqlqueue import QueueClient
from airflow_sqlqueue.drain.drain import Drain
from airflow_sqlqueue.drain.options import DrainOptions
from airflow_sqlqueue.drain.request import DrainRequest
from airflow_sqlqueue.drain.stages.base import Stage
from airflow_sqlqueue.drain.stages.files import FileStage
from airflow_sqlqueue.drain.storage.folder import StagingFolder
from airflow_sqlqueue.endpoint.options import ConsumeOptions
from airflow_sqlqueue.errors import ConnectionLostError
from airflow_sqlqueue.messages.envelope import Envelope
from airflow_sqlqueue.messages.message import Message
from airflow_sqlqueue.queue import PurgeOptions, QueueTable
from airflow_sqlqueue.queue.delayed.mover import MoveOptions
from airflow_sqlqueue.queue.errors.bulk_action import ErrorQueueOptions
from airflow_sqlqueue.server.session import Session
from airflow_sqlqueue.server.settings import ConnectionSettings
from airflow_sqlqueue.server.sql import Query
from airflow_sqlqueue.spark.source.claims import Claims, StreamOptions
from airflow_sqlqueue.spark.source.columns import SelectedColumns
from airflow_sqlqueue.spark.source.options import ServerAccess, SourceOptions
from fakemssql import FakeServer
from tests.faults.account import Account
from tests.faults.proxy import DURING, Link, Proxy
from tests.faults.test_claims import MicroBatches

MESSAGES = 40
OPTIONS = DrainOptions(rows_per_statement=7, rows_per_part=20, locked_wait_seconds=20, workers=1)
WORKER = f":{os.getpid()}:"
ROUND_TRIPS = {"idle": WORKER, "in a transaction": "DELETE FROM head"}
"""Last round trip of a session before it is killed: a COMMIT, or the first statement of a transaction."""

RESTORED, NOT_RESTORED = "restored", "not restored"
AFTER_A_COMMIT = [("COMMIT TRANSACTION", RESTORED), ("COMMIT TRANSACTION", NOT_RESTORED)]
"""Sessions that idle, which a driver may restore; it restores none in a transaction."""


class Killer:
    """Kills sessions by the server's own means."""

    def __init__(self, settings: ConnectionSettings) -> None:
        self.client = QueueClient(settings)

    def session_of(self, link: Link) -> int:
        found = self.client.run_sql(
            "SELECT [session_id] FROM sys.dm_exec_connections WHERE [client_tcp_port] = ?", link.port
        )
        return int(found[0][0])

    def kill(self, number: int) -> None:
        """Return when it is gone. The server may give its number to the next session."""
        connection = "SELECT [connection_id] FROM sys.dm_exec_connections WHERE [session_id] = ?"
        ((connection_id,),) = self.client.run_sql(connection, number)
        self.client.run_sql(f"KILL {number}")
        gone = "NOT EXISTS (SELECT 1 FROM sys.dm_exec_connections WHERE [connection_id] = CONVERT(uniqueidentifier, ?))"
        self.until(gone, str(connection_id))

    def kill_link(self, link: Link) -> None:
        self.kill(self.session_of(link))

    def until(self, condition: str, *values: Any) -> None:
        deadline = time.monotonic() + 60
        while not self.client.run_sql(f"SELECT CASE WHEN {condition} THEN 1 ELSE 0 END", *values)[0][0]:
            assert time.monotonic() < deadline, "never came about"
            time.sleep(0.02)

    @contextlib.contextmanager
    def table_lock(self, table: str) -> Iterator[Callable[[], None]]:
        """Lock a table as a whole; yield a function that kills the session that waits for it, once there is one."""
        with self.client.session() as holder, holder.transaction():
            own = int(holder.value(_sql("SELECT @@SPID")))
            holder.run(_sql(f"SELECT TOP (1) [RowVersion] FROM {table} WITH (TABLOCKX, HOLDLOCK)"))

            def kill_waiting() -> None:
                waiting = "EXISTS (SELECT 1 FROM sys.dm_exec_requests WHERE [blocking_session_id] = ?)"
                self.until(waiting, own)
                text = "SELECT [session_id] FROM sys.dm_exec_requests WHERE [blocking_session_id] = ?"
                self.kill(int(self.client.run_sql(text, own)[0][0]))

            yield kill_waiting


def _sql(text: str) -> Query:
    return Query("test", "run a test's statement", text)


@pytest.fixture
def killer(settings: ConnectionSettings) -> Killer:
    return Killer(settings)


@pytest.fixture
def restoring(request: pytest.FixtureRequest, server: Any) -> Iterator[str]:
    """Whether the server lets the driver restore sessions, as it does from SQL Server 2014 on."""
    if request.param == RESTORED:
        yield request.param
        return
    if not isinstance(server, FakeServer):
        pytest.skip("a real server restores what it can")
    with server.switched(refuse_recovery=True):
        yield request.param


@pytest.mark.parametrize(
    ("state", "restoring", "stage"),
    [("idle", RESTORED, "files"), ("idle", NOT_RESTORED, "table"), ("in a transaction", RESTORED, "table")],
    indirect=["restoring", "stage"],
)
def test_a_drain_goes_on_whose_session_is_killed(
    proxy: Proxy,
    killer: Killer,
    queue: QueueTable,
    stage: Stage,
    account: Account,
    batch_id: uuid.UUID,
    state: str,
    restoring: str,
) -> None:
    account.send(MESSAGES)
    proxy.set_trap(ROUND_TRIPS[state], DURING, killer.kill_link)
    result = Drain(
        lambda: Session(proxy.settings, lock_timeout=10),
        queue.address,
        stage,
        DrainRequest(batch_id=batch_id, options=OPTIONS),
    ).run()
    assert proxy.left == 0
    assert (result.batch.state, result.locked) == ("sealed", 0)
    account.check(batch_id)
    assert account.queued() == 0


def test_a_drain_goes_on_whose_statement_is_killed(
    settings: ConnectionSettings,
    killer: Killer,
    queue: QueueTable,
    staging: StagingFolder,
    account: Account,
    batch_id: uuid.UUID,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """As where a database is taken over: error 596."""
    account.send(MESSAGES)

    def drain() -> Any:
        connect = lambda: Session(settings, lock_timeout=30)  # noqa: E731
        return Drain(connect, queue.address, FileStage(staging), DrainRequest(batch_id=batch_id, options=OPTIONS)).run()

    with ThreadPoolExecutor(1) as pool, caplog.at_level(logging.WARNING):
        with killer.table_lock(queue.address.qualified_name) as kill_waiting:
            draining = pool.submit(drain)
            kill_waiting()
        result = draining.result(60)
    assert result.batch.state == "sealed"
    account.check(batch_id)
    assert account.queued() == 0
    assert f"Draining {queue.address.canonical} into batch" in caplog.text
    assert "the connection to the server was lost" in caplog.text


@pytest.fixture
def queues(settings: ConnectionSettings, queues: dict[str, str]) -> dict[str, str]:
    """The orders have a table of delayed messages as well."""
    QueueClient(settings).tables.create(queues["orders"], delayed=True)
    return queues


@pytest.mark.parametrize(
    ("text", "restoring"),
    [("DELETE FROM head", RESTORED), *AFTER_A_COMMIT],
    indirect=["restoring"],
)
def test_an_endpoint_goes_on_whose_session_is_killed(
    settings: ConnectionSettings, proxy: Proxy, killer: Killer, queues: dict[str, str], text: str, restoring: str
) -> None:
    client, through = QueueClient(settings), QueueClient(proxy.settings)
    client.queue(queues["orders"]).send(Message(body=b"%d" % n) for n in range(12))
    proxy.set_trap(text, DURING, killer.kill_link)

    def handle(message: Envelope) -> None:
        through.queue(queues["billing"]).send([Message(body=message.body)])

    through.queue(queues["orders"]).consume(handle, ConsumeOptions(max_handlers=1, error_queue=queues["error"]))
    assert proxy.left == 0
    assert sorted(int(message.body) for message in client.queue(queues["billing"]).peek(100)) == list(range(12))
    assert client.queue(queues["orders"]).depth().messages == 0


@pytest.mark.parametrize("restoring", [RESTORED, NOT_RESTORED], indirect=True)
def test_an_endpoint_goes_on_whose_session_for_sends_is_killed(
    settings: ConnectionSettings, proxy: Proxy, killer: Killer, queues: dict[str, str], restoring: str
) -> None:
    """One attempt fails, and the next one sends through another session."""
    client, through = QueueClient(settings), QueueClient(proxy.settings)
    client.queue(queues["orders"]).send(Message(body=b"%d" % n) for n in range(12))
    proxy.set_trap("INSERT INTO", DURING, killer.kill_link)

    def handle(message: Envelope) -> None:
        through.queue(queues["billing"]).send([Message(body=message.body)])

    options = ConsumeOptions(max_handlers=1, error_queue=queues["error"], transaction_mode="receive_only")
    done = through.queue(queues["orders"]).consume(handle, options)
    assert proxy.left == 0
    assert (done.handled, done.failed, done.rolled_back) == (12, 0, 1)
    assert sorted(int(message.body) for message in client.queue(queues["billing"]).peek(100)) == list(range(12))


@pytest.mark.parametrize(
    ("text", "restoring"), [("UPDLOCK, READPAST", RESTORED), AFTER_A_COMMIT[1]], indirect=["restoring"]
)
def test_a_mover_goes_on_whose_session_is_killed(
    settings: ConnectionSettings, proxy: Proxy, killer: Killer, queues: dict[str, str], text: str, restoring: str
) -> None:
    client = QueueClient(settings)
    client.delayed(queues["orders"]).send([Message(body=b"%d" % n) for n in range(12)], delay=timedelta(0))
    proxy.set_trap(text, DURING, killer.kill_link)
    moved = QueueClient(proxy.settings).delayed(queues["orders"]).move(MoveOptions(chunk=5))
    assert proxy.left == 0
    assert moved.complete
    assert sorted(int(message.body) for message in client.queue(queues["orders"]).peek(100)) == list(range(12))


@pytest.mark.parametrize("restoring", [RESTORED, NOT_RESTORED], indirect=True)
def test_a_purge_goes_on_whose_session_is_killed(
    settings: ConnectionSettings, proxy: Proxy, killer: Killer, queues: dict[str, str], restoring: str
) -> None:
    """The yielding of its session to others, and its lock timeout, go with it to the new connection."""
    client = QueueClient(settings)
    client.queue(queues["orders"]).send([Message(time_to_be_received=timedelta(seconds=-5))] * 12)
    proxy.set_trap("DELETE", DURING, killer.kill_link)
    done = QueueClient(proxy.settings).queue(queues["orders"]).purge(PurgeOptions(chunk=5))
    assert proxy.left == 0
    assert (done.remaining, done.complete) == (0, True)
    assert client.queue(queues["orders"]).depth().total == 0


@pytest.mark.parametrize(
    ("text", "restoring"), [("OUTPUT @queue", NOT_RESTORED), AFTER_A_COMMIT[0]], indirect=["restoring"]
)
def test_an_archive_goes_on_whose_session_is_killed(
    settings: ConnectionSettings, proxy: Proxy, killer: Killer, queues: dict[str, str], text: str, restoring: str
) -> None:
    client, error = QueueClient(settings), queues["error"]
    client.queue(error).send(Message(body=b"%d" % n) for n in range(12))
    proxy.set_trap(text, DURING, killer.kill_link)
    options = ErrorQueueOptions(rows_per_transaction=5)
    done = QueueClient(proxy.settings).errors.archive(error, all_messages=True, options=options)
    assert proxy.left == 0
    assert done.complete
    # After a COMMIT whose answer is lost the messages of its transaction are where they should be, and not counted.
    assert done.messages in (7, 12)
    assert client.queue(error).depth().total == 0
    assert client.errors.archived.restore(error, all_messages=True).messages == 12
    assert sorted(int(message.body) for message in client.queue(error).peek(100)) == list(range(12))


@pytest.mark.parametrize(
    ("text", "restoring"),
    [("'open', @P", RESTORED), AFTER_A_COMMIT[1], ("[Consumer]", RESTORED)],
    indirect=["restoring"],
)
def test_a_stream_goes_on_whose_session_is_killed(
    settings: ConnectionSettings,
    proxy: Proxy,
    killer: Killer,
    queue: QueueTable,
    tmp_path: Any,
    text: str,
    restoring: str,
) -> None:
    """Of its consumer and of its claims alike."""
    queue.send(Message(body=b"%d" % n) for n in range(10))
    name = f"c {uuid.uuid4()}"
    access = ServerAccess.of(SourceOptions({}), proxy.settings)
    claims = Claims(access, StreamOptions(queue.address.canonical, name, 4, 2, False))
    proxy.set_trap(text, DURING, killer.kill_link)
    stream = MicroBatches(tmp_path, claims, SelectedColumns(("Body",), ("Body",), (True,)))
    try:
        stream.run()
    finally:
        claims.close()
    assert proxy.left == 0
    assert sorted(map(int, stream.sink())) == list(range(10))
    killer.client.run_sql("DELETE FROM [sqlqueue].[Consumer] WHERE [Name] = ?", name)


def test_a_lost_session_runs_no_further_statement_until_it_is_opened_again(
    proxy: Proxy, killer: Killer, server: Any
) -> None:
    """The driver would try for its login timeout to restore the session, at each statement."""
    if not isinstance(server, FakeServer):
        pytest.skip("a real server restores what it can")
    with server.switched(refuse_recovery=True), Session(proxy.settings) as session:
        proxy.set_trap("SELECT N'asked'", DURING, killer.kill_link)
        session.run(_sql("SELECT N'asked'"))
        with pytest.raises(ConnectionLostError, match="lost; run it again"):
            session.run(_sql("SELECT 1"))
        with pytest.raises(ConnectionLostError, match="lost before"):
            session.run(_sql("SELECT 1"))
        session.open()
        assert session.value(_sql("SELECT 1")) == 1
