"""Bodies that are too large for a row of a part file: each goes to a file of its own, piece by piece."""

from __future__ import annotations

import random
import uuid
from datetime import timedelta
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from airflow_sqlqueue.drain.drain import Drain
from airflow_sqlqueue.drain.ledger import Ledger
from airflow_sqlqueue.drain.manifest import Batch
from airflow_sqlqueue.drain.options import DrainOptions, SweepOptions
from airflow_sqlqueue.drain.request import DrainRequest
from airflow_sqlqueue.drain.requeue import requeue
from airflow_sqlqueue.drain.storage.folder import StagingFolder
from airflow_sqlqueue.drain.sweep import sweep
from airflow_sqlqueue.errors import StagingError
from airflow_sqlqueue.messages.message import Message
from airflow_sqlqueue.queue import QueueTable, large_messages
from airflow_sqlqueue.queue.depth import depth
from tests.contract.conftest import Connect
from tests.drains import drain

LIMIT = 100
SMALL = DrainOptions(inline_body_bytes=LIMIT, rows_per_statement=4, rows_per_part=10)


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_messages, "PIECE", 64)


def content(uri: str) -> bytes:
    return Path(uri.removeprefix("file://")).read_bytes()


def body_by_headers(batch: Batch) -> dict[str, tuple[bytes | None, str | None]]:
    """Body and the file's, by the message's headers."""
    return {
        row["Headers"]: (row["Body"], row["BodyFile"])
        for path in batch.paths
        for row in pq.read_table(path.removeprefix("file://")).to_pylist()
    }


@pytest.mark.parametrize("workers", [1, 4])
def test_every_body_is_whole_wherever_it_is(
    connect: Connect, queue: QueueTable, staging: StagingFolder, workers: int
) -> None:
    chance = random.Random(7)
    sizes = [LIMIT, LIMIT + 1, 0, 1, 63, 64, 65, 127, 128, 129, 192, 5000, *(chance.randrange(300) for _ in range(60))]
    sent = {f'{{"n":"{n}"}}': chance.randbytes(size) for n, size in enumerate(sizes)}
    queue.send(Message(headers, body) for headers, body in sent.items())
    batch = drain(connect, queue, staging, DrainOptions(**{**vars(SMALL), "workers": workers})).batch
    found = body_by_headers(batch)
    assert {headers: content(file) if file else body for headers, (body, file) in found.items()} == sent
    assert {headers for headers, (_, file) in found.items() if file} == {
        headers for headers, body in sent.items() if len(body) > LIMIT
    }
    assert all(body is None for body, file in found.values() if file)
    assert batch.bytes == sum(len(headers) + len(body) for headers, body in sent.items())
    assert batch.messages == len(sent)


def test_an_expired_large_message_is_dropped_or_kept(
    connect: Connect, queue: QueueTable, staging: StagingFolder
) -> None:
    def send() -> None:
        queue.send([Message({}, b"x" * 500, timedelta(seconds=-1)), Message({}, b"y" * 500)])

    send()
    batch = drain(connect, queue, staging, SMALL).batch
    assert (batch.messages, batch.expired, batch.bytes) == (1, 1, 500 + len("{}"))
    send()
    kept = drain(connect, queue, staging, DrainOptions(inline_body_bytes=LIMIT, keep_expired=True)).batch
    assert (kept.messages, kept.expired) == (2, 0)


def test_a_held_large_message_is_left_and_counted(connect: Connect, queue: QueueTable, staging: StagingFolder) -> None:
    queue.send([Message({"n": "0"}, b"x" * 500), Message({"n": "1"}, b"y" * 500)])
    with connect() as other, other.transaction():
        assert len(QueueTable(other, queue.address).receive()) == 1
        options = DrainOptions(inline_body_bytes=LIMIT, locked_wait_seconds=0)
        result = Drain(connect, queue.address, staging, DrainRequest(options=options)).run()
    assert (result.batch.messages, result.locked) == (1, 1)


def test_a_batch_with_large_bodies_goes_back_whole(connect: Connect, queue: QueueTable, staging: StagingFolder) -> None:
    sent = [bytes([n]) * (500 if n % 3 == 1 else 10) for n in range(20)]
    queue.send(Message({}, body) for body in sent)
    batch = drain(connect, queue, staging, SMALL).batch
    with connect() as session:
        requeue(Ledger(session, queue.address.catalog), uuid.UUID(batch.batch_id))
    assert [message.body for message in queue.peek(100)] == sent


def test_a_missing_body_stops_the_requeue(connect: Connect, queue: QueueTable, staging: StagingFolder) -> None:
    queue.send([Message({}, b"x" * 500)])
    batch = drain(connect, queue, staging, SMALL).batch
    ((_, file),) = body_by_headers(batch).values()
    Path(str(file).removeprefix("file://")).unlink()
    with connect() as session, pytest.raises(StagingError, match=r"body-.*cannot be read"):
        requeue(Ledger(session, queue.address.catalog), uuid.UUID(batch.batch_id))
    assert depth(queue).total == 0


def test_bodies_are_swept_with_their_part_and_not_before(
    connect: Connect, queue: QueueTable, staging: StagingFolder
) -> None:
    queue.send([Message({}, b"x" * 500)])
    batch = drain(connect, queue, staging, SMALL).batch
    ((_, file),) = body_by_headers(batch).values()
    orphan = Path(staging.root, batch.folder, f"body-{uuid.uuid4()}-000001.bin")
    orphan.write_bytes(b"of a part that was undone")
    now = SweepOptions(retain=timedelta(0), grace=timedelta(0))
    with connect() as session:
        ledger = Ledger(session, queue.address.catalog)
        assert sweep(ledger, staging, now).orphans == 1
        assert not orphan.exists()
        assert content(str(file)) == b"x" * 500
        ledger.consume(batch)
        sweep(ledger, staging, now)
    assert not Path(staging.root, batch.folder).exists()
