"""Account of messages after a fault: every sent message exists exactly once, byte for byte."""

from __future__ import annotations

import random
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from io import BytesIO

import pyarrow.parquet as pq

from airflow_sqlqueue.drain.ledger import Ledger
from airflow_sqlqueue.drain.storage.folder import StagingFolder
from airflow_sqlqueue.errors import BatchNotFoundError
from airflow_sqlqueue.messages.message import Message, ReceivedMessage
from airflow_sqlqueue.messages.routing import ResolvedAddress
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.server.session import Session
from airflow_sqlqueue.server.settings import LEDGER_SCHEMA
from airflow_sqlqueue.server.sql import Query

HEADERS = (
    '{{"NServiceBus.MessageId":"{n}","NServiceBus.CorrelationId":"c-{n}"}}',
    '{{"Grüße":"☃ 😀","NServiceBus.ReplyToAddress":"Sales@[dbo]@[nsb]","n":"{n}"}}',
    '{{"n":"{n}","n":null,"long":"' + "ä" * 5000 + '"}}',
    '{{"cut off":"{n}',
    "not json {n} \u00a0\ufeff\uffff",
    " blanks, \r\n\tbreaks and \0 around {n}  ",
    "",
)
BODIES = (0, 1, 2, 255, 256, 1000, 8000, 8001, 20_000, 100_000)
WEIGHTS = (4, 4, 4, 4, 4, 8, 2, 2, 1, 1)


@dataclass(frozen=True)
class Row:
    """A message as sender and reader have to agree on it."""

    id: uuid.UUID
    headers: str = field(repr=False)
    body: bytes = field(repr=False)


class Account:
    """The account of one queue and of the batches that were drained from it."""

    def __init__(self, connect: Callable[[], Session], queue: ResolvedAddress, staging: StagingFolder) -> None:
        self._connect, self._queue, self._staging = connect, queue, staging
        self._sent: set[Row] = set()
        self._expired: set[uuid.UUID] = set()

    def send(self, count: int, *, seed: int = 0) -> None:
        """Send messages with bodies of 0 to 100,000 bytes; one of 11 has expired, one of 7 expires tomorrow."""
        chance = random.Random(seed)
        messages = []
        for n in range(count):
            headers = HEADERS[n % len(HEADERS)].format(n=n)
            body = chance.randbytes(chance.choices(BODIES, WEIGHTS)[0])
            lifetime = timedelta(seconds=-5) if n % 11 == 5 else timedelta(days=1) if n % 7 == 3 else None
            row = Row(uuid.uuid4(), headers, body)
            messages.append(Message(headers, body, lifetime, row.id))
            self._sent.add(row)
            if n % 11 == 5:
                self._expired.add(row.id)
        with self._connect() as session:
            # A process that is stopped while it makes the ledger would keep everybody from it.
            Ledger(session, self._queue.catalog).create()
            QueueTable(session, self._queue).send(messages)

    def add(self, row: Row) -> None:
        """Enter a message that was sent by other means."""
        self._sent.add(row)

    def received(self, messages: Iterable[ReceivedMessage]) -> None:
        """Strike out messages that somebody else took."""
        self._sent -= {Row(message.id, message.headers, message.body) for message in messages}

    def check(self, *batch_ids: uuid.UUID) -> None:
        """Assert that queue, quarantine and batches together hold what was sent; of open batches what the ledger says.

        Waits for transactions that dead clients left behind. What the messages hold is not in the failure.
        """
        with self._connect() as session:
            # First the queue: its rows are free only when the transactions that held them have come to an end.
            queued = list(self._queued(session))
            ledger = Ledger(session, self._queue.catalog)
            drained, dropped = [], 0
            for batch_id in batch_ids:
                rows, expired = self._drained(ledger, batch_id)
                drained += rows
                dropped += expired
            aside = list(self._quarantined(session))
        found = Counter([*queued, *drained, *aside])
        alive = {row for row in self._sent if row.id not in self._expired}
        assert [row for row, times in found.items() if times > 1] == [], "doubled"
        assert alive - found.keys() == set(), "lost or changed"
        assert found.keys() - self._sent == set(), "changed or made up"
        assert [row for row in drained if row.id in self._expired] == [], "expired, and drained all the same"
        assert sum(row.id in self._expired for row in queued) + dropped == len(self._expired), "expired and not counted"

    def queued(self) -> int:
        """Number of messages in the queue, expired ones included."""
        with self._connect() as session:
            return len(list(self._queued(session)))

    def _queued(self, session: Session) -> Iterator[Row]:
        text = f"SELECT [Id], [Headers], [Body] FROM {self._queue.qualified_name} WITH (READCOMMITTEDLOCK)"
        for identity, headers, body in session.run(Query("all", "read the whole queue", text)):
            yield Row(uuid.UUID(str(identity)), headers, body)

    def _quarantined(self, session: Session) -> Iterator[Row]:
        text = "SELECT [Id], [Headers], [Body] FROM {0} WITH (READCOMMITTEDLOCK) WHERE [Queue] = ?"
        table = ResolvedAddress("Quarantine", LEDGER_SCHEMA, self._queue.catalog).qualified_name
        for identity, headers, body in session.run(
            Query("aside", "read the quarantine", text.format(table)), self._queue.canonical
        ):
            yield Row(uuid.UUID(str(identity)), headers, body)

    def _drained(self, ledger: Ledger, batch_id: uuid.UUID) -> tuple[list[Row], int]:
        """The rows of the parts that the ledger lists, and how many it says were dropped."""
        try:
            batch = ledger.find(batch_id)
        except BatchNotFoundError:
            return [], 0
        parts = ledger.parts(batch_id)
        paths = [part.path for part in parts if part.path is not None]
        if batch.state != "open":
            assert list(ledger.manifest(batch_id).paths) == paths
        if batch.stage == "table":
            rows = list(self._in_table(ledger, batch_id))
        else:
            rows = [row for path in paths for row in self._read(path)]
        assert len(rows) == sum(part.messages for part in parts), "stage and ledger do not agree"
        return rows, sum(part.expired for part in parts)

    def _in_table(self, ledger: Ledger, batch_id: uuid.UUID) -> Iterator[Row]:
        """All rows of the batch that are committed, in a part that the ledger lists or not: none may be in another."""
        table = ResolvedAddress("BatchMessage", LEDGER_SCHEMA, self._queue.catalog).qualified_name
        text = f"SELECT [Id], [Headers], [Body] FROM {table} WITH (READCOMMITTEDLOCK) WHERE [BatchId] = ?"
        for identity, headers, body in ledger.session.run(Query("staged", "read the batch", text), str(batch_id)):
            yield Row(uuid.UUID(str(identity)), headers, body)

    def _read(self, path: str) -> Iterator[Row]:
        content = self._content(path)
        for row in pq.read_table(BytesIO(content), columns=["Id", "Headers", "Body", "BodyFile"]).to_pylist():
            body = row["Body"] if row["BodyFile"] is None else self._content(row["BodyFile"])
            yield Row(uuid.UUID(row["Id"]), row["Headers"], body)

    def _content(self, uri: str) -> bytes:
        assert uri.startswith(self._staging.uri)
        return bytes(self._staging.filesystem.cat_file(self._staging.root + uri.removeprefix(self._staging.uri)))
