"""The core with FreeTDS, the driver of last resort."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pyodbc
import pytest

from airflow_sqlqueue.drain.drain import Drain
from airflow_sqlqueue.drain.storage.folder import StagingFolder
from airflow_sqlqueue.message import Message, decode_headers
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.queue.depth import depth
from airflow_sqlqueue.routing import AddressResolver
from airflow_sqlqueue.server.settings import ConnectionSettings
from airflow_sqlqueue.session import Session
from airflow_sqlqueue.tables.create import create_queue

pytestmark = pytest.mark.skipif("FreeTDS" not in pyodbc.drivers(), reason="FreeTDS is not installed (package tdsodbc)")


def test_send_receive_and_drain(
    settings: ConnectionSettings, address_of: AddressResolver, queue_name: str, tmp_path: Path
) -> None:
    freetds = replace(settings, driver="FreeTDS")
    address = address_of.resolve(queue_name)
    headers = {"Grüße": "☃ 😀", "none": None}
    with Session(freetds) as session:
        create_queue(session, address)
        queue = QueueTable(session, address)
        queue.send(Message(headers, bytes([n % 256]) * n) for n in range(200))
        queue.send([Message(body=b"late", time_to_be_received=timedelta(seconds=-1))])
        first, second = queue.receive(2)
        assert (first.body, second.body) == (b"", b"\x01")
        assert decode_headers(first.headers).values == headers
        assert depth(queue).expired == 1
    batch = Drain(lambda: Session(freetds), address, StagingFolder.of(tmp_path)).run().batch
    assert (batch.messages, batch.expired) == (198, 1)
