"""A stream's claims with a reader that dies at every statement: the sink has each message once."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_sqlqueue.errors import WrongBatchError
from airflow_sqlqueue.messages.message import Message
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.queue.depth import depth
from airflow_sqlqueue.server.settings import ConnectionSettings
from airflow_sqlqueue.spark.source import claims as module
from airflow_sqlqueue.spark.source.claims import Claims, Offset, StreamOptions
from airflow_sqlqueue.spark.source.columns import SelectedColumns
from airflow_sqlqueue.spark.source.options import ServerAccess, SourceOptions
from airflow_sqlqueue.spark.source.staged import read_share
from tests.contract.conftest import Connect, run_sql
from tests.faults.conftest import LONG
from tests.faults.mortal import Killed, Mortal


class MicroBatches:
    """A query as Spark runs it, with its checkpoint and its sink in files; a sink that is keyed by the micro-batch."""

    def __init__(self, folder: Path, claims: Claims, columns: SelectedColumns) -> None:
        self._folder, self._claims, self._columns = folder, claims, columns

    def run(self) -> None:
        """All that is available, from the checkpoint on. The order of calls is Spark's."""
        claims, number = self._claims, 0
        claims.stop_at_the_end()
        while (self._folder / f"commit-{number}").exists():
            number += 1
        start = self._offset(number - 1) or claims.begin()
        while True:
            end = self._offset(number)
            if end is None:
                end = claims.claim(start, 4)
                if end == start:
                    return
                (self._folder / f"offset-{number}").write_text(json.dumps(end))
            if number:
                claims.commit(start)
            rows = [
                row["Body"].decode()
                for share in claims.shares(start, end)
                for batch in read_share(claims.access, self._columns, share)
                for row in batch.to_pylist()
            ]
            (self._folder / f"sink-{number}").write_text(json.dumps(rows))
            (self._folder / f"commit-{number}").touch()
            start, number = end, number + 1

    def _offset(self, number: int) -> Offset | None:
        path = self._folder / f"offset-{number}"
        found: Offset | None = json.loads(path.read_text()) if path.exists() else None
        return found

    def end(self) -> Offset | None:
        """The offset of the last micro-batch."""
        return self._offset(len(list(self._folder.glob("commit-*"))) - 1)

    def sink(self) -> list[str]:
        """Messages in the sink."""
        return [row for path in self._folder.glob("sink-*") for row in json.loads(path.read_text())]


@pytest.fixture
def columns() -> SelectedColumns:
    return SelectedColumns(("Body",), ("Body",), (True,))


@pytest.fixture
def claims(settings: ConnectionSettings, queue: QueueTable) -> Iterator[Any]:
    """Makes the reader of a new process; those that are open at the end are closed."""
    name = f"c {uuid.uuid4()}"
    made: list[Claims] = []

    def make(*, copy: bool = False) -> Claims:
        options = StreamOptions(queue.address.canonical, name, 4, 2, False, copy=copy)
        made.append(Claims(ServerAccess.of(SourceOptions({}), settings), options))
        return made[-1]

    yield make
    for reader in made:
        reader.close()
    run_sql(queue.session, f"DELETE FROM [sqlqueue].[Consumer] WHERE [Name] = N'{name}'")


@pytest.mark.parametrize(
    ("copy", "after"), [(False, False), (True, True), *([(False, True), (True, False)] if LONG else [])]
)
def test_a_reader_that_dies_at_every_statement(
    claims: Any,
    columns: SelectedColumns,
    queue: QueueTable,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    after: bool,
    copy: bool,
) -> None:
    mortal = Mortal(monkeypatch)
    sent, restarts, lives = 0, 0, 5
    least, step = (16, 9) if LONG else (10, 15)
    while restarts < least:
        # The queue's own session is not one of the process that dies.
        mortal.born(None)
        queue.send(Message({}, b"%d" % n) for n in range(sent, sent + 3))
        sent += 3
        mortal.born(lives, after=after)
        reader = claims(copy=copy)
        try:
            MicroBatches(tmp_path, reader, columns).run()
        except Killed:
            restarts += 1
        finally:
            mortal.born(None)
            reader.close()
        lives = lives + step if lives < 140 else 5
    last = MicroBatches(tmp_path, claims(copy=copy), columns)
    last.run()
    assert sorted(map(int, last.sink())) == list(range(sent))
    assert depth(queue).messages == (sent if copy else 0)


def test_a_consumer_has_one_query(claims: Any, queue: QueueTable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LOCK_SECONDS", 0.0)
    first, second = claims(), claims()
    first.begin()
    with pytest.raises(WrongBatchError, match="Another query reads as the stream"):
        second.begin()
    first.close()
    assert second.begin()["number"] == 0
    second.close()


def test_a_stream_that_keeps_reads_late_messages_once(
    claims: Any, columns: SelectedColumns, connect: Connect, queue: QueueTable, tmp_path: Path
) -> None:
    with connect() as late:
        with late.transaction():
            QueueTable(late, queue.address).send([Message({}, b"0")])
            queue.send(Message({}, b"%d" % n) for n in range(1, 6))
            query = MicroBatches(tmp_path, claims(copy=True), columns)
            query.run()
            assert sorted(query.sink()) == ["1", "2", "3", "4", "5"]
        query.run()
    assert sorted(query.sink()) == ["0", "1", "2", "3", "4", "5"]
    before = query.end()
    query.run()
    assert query.end() == before, "no message is new, so there is no claim"
    assert depth(queue).messages == 6


def test_messages_sent_later_are_left(claims: Any, columns: SelectedColumns, queue: QueueTable) -> None:
    reader = claims()
    queue.send(Message({}, b"%d" % n) for n in range(3))
    reader.stop_at_the_end()
    queue.send(Message({}, b"%d" % n) for n in range(3, 5))
    start = reader.begin()
    end = reader.claim(start, None)
    batches = [batch for share in reader.shares(start, end) for batch in read_share(reader.access, columns, share)]
    assert sum(batch.num_rows for batch in batches) == 3
    assert reader.claim(end, None) == end
    assert depth(queue).messages == 2
    reader.close()


def test_a_claim_has_about_as_many_bytes_as_the_limit(claims: Any, columns: SelectedColumns, queue: QueueTable) -> None:
    """A message that is larger than the limit is a claim too. After a crash, taken messages count against the limit."""
    reader = claims()
    bodies = [100, 900, 100, 100, 5000, 100, 100]
    queue.send(Message({}, b"x" * size) for size in bodies)
    start, found = reader.begin(), []
    while (end := reader.claim(start, None, 1000)) != start:
        shares = reader.shares(start, end)
        batches = [batch for share in shares for batch in read_share(reader.access, columns, share)]
        found.append([len(body) for batch in batches for body in batch.column("Body").to_pylist()])
        start = end
    reader.close()
    assert [size for claim in found for size in claim] == bodies
    assert len(found) > 2
    for claim in found:
        # The statement that reaches the limit brings a quarter of it at most, and one message.
        assert sum(claim[:-1]) <= 1250


def test_a_stale_checkpoint_is_refused(
    claims: Any, columns: SelectedColumns, queue: QueueTable, tmp_path: Path
) -> None:
    reader = claims()
    queue.send(Message({}, b"%d" % n) for n in range(12))
    query = MicroBatches(tmp_path, reader, columns)
    query.run()
    end = query.end()
    assert end is not None
    assert end["number"] == 3
    with pytest.raises(WrongBatchError, match="the checkpoint ends with claim 1, and 2 are done"):
        reader.claim({**end, "number": 1}, 4)
    with pytest.raises(WrongBatchError, match="the claim 7 of the checkpoint is not there"):
        reader.claim({**end, "number": 7}, 4)
    with pytest.raises(WrongBatchError, match="that of another stream or database"):
        reader.claim({**end, "generation": str(uuid.uuid4())}, 4)
    reader.commit(end)
    reader.commit(end)
    staged = (
        "SELECT COUNT(*) FROM [sqlqueue].[BatchMessage] AS m JOIN [sqlqueue].[Batch] AS b ON b.[BatchId] = m.[BatchId]"
    )
    assert run_sql(queue.session, f"{staged} WHERE b.[Queue] = N'{queue.address.canonical[:400]}'")[0][0] == 0
    assert reader.begin()["number"] == 3
    assert reader.claim(end, 4) == end
    reader.close()
