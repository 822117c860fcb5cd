"""Payloads of a drained batch: by the client, through the ledger, until the sweep."""

from __future__ import annotations

import uuid
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from airflow_sqlqueue import QueueClient
from airflow_sqlqueue.drain.options import DrainOptions, SweepOptions
from airflow_sqlqueue.drain.request import DrainRequest
from airflow_sqlqueue.drain.storage.folder import StagingFolder
from airflow_sqlqueue.errors import BatchError
from airflow_sqlqueue.messages.message import Message
from airflow_sqlqueue.messages.routing import AddressResolver
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.server.settings import ConnectionSettings
from tests.payloads import KEY, names, new_key, put


@pytest.fixture
def client(settings: ConnectionSettings, address_of: AddressResolver) -> QueueClient:
    return QueueClient(replace(settings, ledger_schema=f"ledger_{uuid.uuid4().hex[:8]}"), address_of, lock_timeout=10)


def test_payloads_stay_with_their_batch_until_it_is_swept(
    client: QueueClient, queue: QueueTable, staging: StagingFolder, tmp_path: Path
) -> None:
    share, count = tmp_path / "share", 30
    keys = [put(share, new_key(), b"%d" % number) for number in range(count)]
    name = queue.address.canonical
    client.queue(name).send(Message(names(Picture=key), b"{}") for key in [*keys, KEY])
    request = DrainRequest(options=DrainOptions(rows_per_part=7, rows_per_statement=7, workers=2))
    batch = client.queue(name).drain(staging, request).batch
    result = client.batches.fetch_payloads(batch, share)
    assert (result.fetched, result.gone, batch.parts) == (count, 1, 5)
    found = {row.row_version: row.content for row in client.batches.payloads(batch)}
    messages = {message.row_version: message for message in client.batches.messages(batch)}
    assert found.keys() == messages.keys()
    assert sorted(content for content in found.values() if content is not None) == sorted(
        b"%d" % number for number in range(count)
    )
    options = SweepOptions(retain=timedelta(0), grace=timedelta(0))
    folder = Path(staging.root, batch.folder)
    folder.joinpath(f"payloads-{uuid.uuid4()}.parquet").write_bytes(b"of a killed try")
    client.batches.sweep(staging, options=options)
    assert len(list(client.batches.payloads(batch))) == count + 1
    client.batches.mark_consumed(batch)
    assert len(list(client.batches.payloads(batch))) == count + 1
    swept = client.batches.sweep(staging, options=options)
    assert (swept.files, swept.orphans) == (batch.parts + 3, 0)
    assert not folder.exists()


def test_the_ledger_decides_on_the_state_and_the_files(
    client: QueueClient, queue: QueueTable, staging: StagingFolder, tmp_path: Path
) -> None:
    share, name = tmp_path / "share", queue.address.canonical
    client.queue(name).send([Message(names(Picture=put(share, new_key(), b"1")), b"{}")])
    batch = client.queue(name).drain(staging).batch
    forged = replace(batch, paths=(batch.paths[0].replace(str(staging.root), str(tmp_path / "elsewhere")),))
    assert client.batches.fetch_payloads(forged, share, staging=staging).fetched == 1
    assert [row.content for row in client.batches.payloads(forged)] == [b"1"]
    client.batches.requeue(uuid.UUID(batch.batch_id))
    with pytest.raises(BatchError, match="requeued"):
        client.batches.fetch_payloads(batch, share)
    with pytest.raises(BatchError, match="requeued"):
        list(client.batches.payloads(batch))
    again = client.queue(name).drain(staging).batch
    assert client.batches.fetch_payloads(again, share).fetched == 1
