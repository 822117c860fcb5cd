"""A drain says who else receives from its queue, and takes none of its own for another; on any server."""

from __future__ import annotations

import uuid
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_sqlqueue.drain.drain import Drain
from airflow_sqlqueue.drain.options import DrainOptions
from airflow_sqlqueue.drain.request import DrainRequest
from airflow_sqlqueue.drain.storage.folder import StagingFolder
from airflow_sqlqueue.errors import PermissionDeniedError
from airflow_sqlqueue.messages.message import Message
from airflow_sqlqueue.messages.routing import AddressResolver
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.queue.depth import depth
from airflow_sqlqueue.queue.receivers import other_receivers
from airflow_sqlqueue.queue.tables.create import create_queue
from airflow_sqlqueue.server.session import Session
from airflow_sqlqueue.server.settings import ConnectionSettings
from tests.conftest import Connect
from tests.contract.conftest import run_sql

OPTIONS = DrainOptions(rows_per_part=10, workers=2)


def named(settings: ConnectionSettings, program: str) -> ConnectionSettings:
    return replace(settings, keywords={**settings.keywords, "APP": program})


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if "receives from" in record.getMessage()]


def test_a_drain_warns_of_an_endpoint_on_the_same_queue(
    connect: Connect, settings: ConnectionSettings, queue: QueueTable, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    queue.send([Message({}, b"x")] * 30)
    with Session(named(settings, "Sales endpoint")) as endpoint:
        taken = QueueTable(endpoint, queue.address).receive(3)
        batch = Drain(connect, queue.address, StagingFolder.of(tmp_path), DrainRequest(options=OPTIONS)).run().batch
    assert batch.messages == 30 - len(taken) == 27
    (warning,) = warnings(caplog)
    assert warning.startswith("Sales endpoint")
    assert f"receives from {queue.address.canonical} as well: the batch has only the messages that it left" in warning


def test_another_receiver_is_seen_whatever_the_database_is_called(
    settings: ConnectionSettings, session: Session, address_of: AddressResolver
) -> None:
    """Statements of others name the queue with or without the database; a dot in its name is no end of it."""
    catalog = f"test.{uuid.uuid4().hex[:8]}.nsb"
    try:
        run_sql(session, f"CREATE DATABASE [{catalog}]")
    except PermissionDeniedError:
        pytest.skip("the login of the test server may not create databases")
    queue = replace(address_of.resolve("audit"), catalog=catalog)
    create_queue(session, queue)
    for table in (queue.qualified_name, f"[{queue.schema}].[{queue.table}]"):
        with Session(replace(named(settings, "Sales endpoint"), database=catalog)) as endpoint:
            run_sql(endpoint, f"DELETE TOP (1) FROM {table} OUTPUT deleted.[Id]")
            (found,) = other_receivers(session, queue)
        assert found.startswith("Sales endpoint")
    run_sql(session, f"DROP DATABASE [{catalog}]")


def test_a_drain_does_not_warn_of_its_workers_senders_or_readers(
    connect: Connect, settings: ConnectionSettings, queue: QueueTable, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    queue.send([Message({}, b"x")] * 60)
    ours = named(settings, "our own Airflow")
    with Session(ours) as same, connect() as package, Session(named(settings, "Monitoring")) as monitoring:
        for receiver in (same, package):
            QueueTable(receiver, queue.address).receive(1)
        sender = QueueTable(monitoring, queue.address)
        sender.send([Message()])
        depth(sender)
        Drain(lambda: Session(ours), queue.address, StagingFolder.of(tmp_path), DrainRequest(options=OPTIONS)).run()
        assert other_receivers(same, queue.address) == []
    assert warnings(caplog) == []
