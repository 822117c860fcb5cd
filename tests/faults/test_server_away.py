"""Work waits for a server that is away at its start; errors that waiting cannot fix end it at once."""

from __future__ import annotations

import logging
import re
import signal
import socket
import threading
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from airflow_sqlqueue import QueueClient
from airflow_sqlqueue.cli.signals import on_signals
from airflow_sqlqueue.endpoint.options import ConsumeOptions
from airflow_sqlqueue.errors import (
    LoginFailedError,
    ServerUnreachableError,
    SqlQueueError,
    UnknownHostError,
    UntrustedServerError,
)
from airflow_sqlqueue.messages.message import Message
from airflow_sqlqueue.server.connection import open_connection
from airflow_sqlqueue.server.settings import ConnectionSettings
from airflow_sqlqueue.spark.source.claims import Claims, StreamOptions
from airflow_sqlqueue.spark.source.options import ServerAccess, SourceOptions
from tests.contract.conftest import run_sql
from tests.faults.proxy import Proxy

Work = Callable[[QueueClient, str, Path], Any]


def consume(client: QueueClient, name: str, folder: Path, *, secondary: bool = False) -> Any:
    options = ConsumeOptions(error_queue=f"{name}.to", secondary=secondary)
    return client.queue(name).consume(lambda message: None, options)


def stream(client: QueueClient, name: str, folder: Path) -> Any:
    access = ServerAccess.of(SourceOptions({}), client.settings)
    claims = Claims(access, StreamOptions(name, f"c {uuid.uuid4()}", 10, 2, False))
    try:
        return claims.begin()
    finally:
        claims.close()


WORK: dict[str, tuple[Work, str]] = {
    "drain": (lambda client, name, folder: client.queue(name).drain(folder), "Draining "),
    "consume": (consume, "Consuming the queue "),
    "consume all": (partial(consume, secondary=True), "Consuming the queue "),
    "stream": (stream, "Reading "),
    "purge": (lambda client, name, folder: client.queue(name).purge(), "Purging the queue "),
    "forward": (lambda client, name, folder: client.queue(name).forward(f"{name}.to"), "Forwarding the queue "),
    "move": (lambda client, name, folder: client.delayed(name).move(), "Moving delayed messages of the queue "),
    "return": (
        lambda client, name, folder: client.errors.return_to_source(name, all_messages=True),
        "The action return on the queue ",
    ),
    "archive": (
        lambda client, name, folder: client.errors.archive(name, all_messages=True),
        "The action archive on the queue ",
    ),
    "restore": (
        lambda client, name, folder: client.errors.archived.restore(name, all_messages=True),
        "The action restore on the queue ",
    ),
    "park": (
        lambda client, name, folder: client.errors.park(f"{name}.to", name, all_messages=True),
        "The action park on the queue ",
    ),
    "delete": (
        lambda client, name, folder: client.errors.delete(name, all_messages=True, confirm=True),
        "The action delete on the queue ",
    ),
    "sweep": (lambda client, name, folder: client.batches.sweep(folder, name), "Sweeping"),
}


@pytest.fixture(scope="module")
def name(settings: ConnectionSettings) -> Iterator[str]:
    client, name = QueueClient(settings), f"test.{uuid.uuid4().hex[:10]}"
    for table in (name, f"{name}.to"):
        client.tables.create(table, delayed=True, ledger=True)
    yield name
    for table in (name, f"{name}.to"):
        client.tables.drop(table, force=True)


@pytest.mark.parametrize("kind", WORK)
def test_a_server_that_comes_some_seconds_after_the_work_has_begun_is_waited_for(
    settings: ConnectionSettings, name: str, tmp_path: Path, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    work, what = WORK[kind]
    waited = threading.Event()

    class Noticed(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            waited.set()

    noticed = Noticed(logging.WARNING)
    logger = logging.getLogger("airflow_sqlqueue.server.reconnecting")
    logger.addHandler(noticed)
    try:
        with Proxy(settings, listening=False) as proxy, ThreadPoolExecutor(1) as pool:
            working = pool.submit(work, QueueClient(proxy.settings), name, tmp_path)
            assert waited.wait(30)
            proxy.listen()
            working.result(60)
    finally:
        logger.removeHandler(noticed)
    told = [record.getMessage() for record in caplog.records if record.name == logger.name]
    assert told[0].startswith(what)
    assert re.search(r" is tried again in [\d.]+ s: No SQL Server answers at 127\.0\.0\.1", told[0])


def wrong_password(settings: ConnectionSettings) -> ConnectionSettings:
    return replace(settings, password="not it")


def untrusted(settings: ConnectionSettings) -> ConnectionSettings:
    return replace(settings, keywords={"Encrypt": "yes", "TrustServerCertificate": "no"})


def unknown(settings: ConnectionSettings) -> ConnectionSettings:
    return replace(settings, host="sql.invalid")


@pytest.mark.parametrize(
    ("kind", "change", "error"),
    [
        *((kind, wrong_password, LoginFailedError) for kind in WORK),
        *(("drain", untrusted, UntrustedServerError), ("consume", unknown, UnknownHostError)),
    ],
)
def test_errors_that_waiting_cannot_fix_are_raised_at_once(
    settings: ConnectionSettings,
    tmp_path: Path,
    kind: str,
    change: Callable[[ConnectionSettings], ConnectionSettings],
    error: type[SqlQueueError],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """No log line announces another try; the duration of one depends on the network."""
    with pytest.raises(error):
        WORK[kind][0](QueueClient(change(settings)), "orders", tmp_path)
    assert not [record for record in caplog.records if "is tried again" in record.getMessage()]


def test_a_login_that_was_taken_at_first_is_tried_again_while_the_database_comes_up(
    settings: ConnectionSettings, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """After a failover: the login is refused, 4060 and 18456, until the database is there."""
    admin = QueueClient(settings)
    admin.queue(name).send([Message(body=b"x")] * 3)
    login = f"l_{uuid.uuid4().hex[:10]}"
    admin.run_sql(f"CREATE LOGIN [{login}] WITH PASSWORD = N'Waiting 1'")
    admin.run_sql(f"CREATE USER [{login}] FOR LOGIN [{login}]; ALTER ROLE [db_owner] ADD MEMBER [{login}]")
    refused = threading.Event()

    def handle(message: Any) -> None:
        if not refused.is_set():
            # Not enlisted in the message's transaction.
            with admin.session() as session:
                run_sql(session, f"ALTER LOGIN [{login}] DISABLE")
                text = f"SELECT [session_id] FROM sys.dm_exec_sessions WHERE [login_name] = N'{login}'"
                for (number,) in run_sql(session, text):
                    run_sql(session, f"KILL {number}")

    class Enabling(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if "refused the login" in record.getMessage() and not refused.is_set():
                refused.set()
                with admin.session() as session:
                    run_sql(session, f"ALTER LOGIN [{login}] ENABLE")

    enabling, logger = Enabling(logging.WARNING), logging.getLogger("airflow_sqlqueue.server.reconnecting")
    logger.addHandler(enabling)
    try:
        client = QueueClient(replace(settings, user=login, password="Waiting 1"))
        options = ConsumeOptions(max_handlers=1, error_queue=f"{name}.to")
        client.queue(name).consume(handle, options)
    finally:
        logger.removeHandler(enabling)
        admin.run_sql(f"DROP USER [{login}]")
    assert refused.is_set()
    assert admin.queue(name).depth().messages == admin.queue(f"{name}.to").depth().messages == 0


def test_a_server_that_stops_while_encryption_is_agreed_on_is_waited_for(settings: ConnectionSettings) -> None:
    """It is no certificate that is not trusted."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def cut() -> None:
            while True:
                try:
                    client, _ = listener.accept()
                except OSError:
                    return
                with client:
                    client.settimeout(5)
                    try:
                        client.recv(4096)
                    except OSError:
                        continue

        threading.Thread(target=cut, daemon=True).start()
        port = listener.getsockname()[1]
        there = replace(settings, host="127.0.0.1", port=port, login_timeout=5, keywords={"Encrypt": "yes"})
        with pytest.raises(ServerUnreachableError):
            QueueClient(there).ping()
        listener.shutdown(socket.SHUT_RDWR)


class _Stopped(BaseException):
    """Exception that a signal's handler raises."""


def test_a_signal_ends_a_wait_for_the_server_to_connect(settings: ConnectionSettings) -> None:
    """Within the driver its exception was dropped: the server seemed to be away."""

    def stop(*_: Any) -> None:
        raise _Stopped

    with socket.create_server(("127.0.0.1", 0)) as listener, on_signals(stop, signal.SIGUSR1):

        def begin_to_connect() -> None:
            is_begun = False
            while not is_begun:
                client, _ = listener.accept()
                with client:
                    # The first one only looks whether the port is open.
                    if is_begun := bool(client.recv(1)):
                        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)

        threading.Thread(target=begin_to_connect, daemon=True).start()
        there = replace(settings, host="127.0.0.1", port=listener.getsockname()[1], login_timeout=30)
        with pytest.raises(_Stopped):
            open_connection(there)


def test_a_transaction_whose_server_is_gone_answers_no_ping(settings: ConnectionSettings) -> None:
    refused = []

    def work(proxy: Proxy, client: QueueClient) -> None:
        with client.transaction():
            client.ping()
            proxy.stop()
            with pytest.raises(SqlQueueError) as raised:
                client.ping()
            refused.append(raised.value)

    with Proxy(settings) as proxy, pytest.raises(SqlQueueError):
        work(proxy, QueueClient(proxy.settings))
    assert len(refused) == 1
