"""No row's error ends a run: a zoo of hostile rows comes before 100 good ones, which are all handled.

Nothing of the zoo is lost: each of its rows is handled, in the error queue, in quarantine or where it was.
"""

from __future__ import annotations

import functools
import itertools
import logging
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from airflow_sqlqueue import QueueClient, untrusted
from airflow_sqlqueue.client.queues import Queue
from airflow_sqlqueue.drain.options import DrainOptions
from airflow_sqlqueue.drain.request import DrainRequest
from airflow_sqlqueue.endpoint.options import ConsumeOptions
from airflow_sqlqueue.messages.message import HeaderNames, Message
from airflow_sqlqueue.messages.routing import AddressResolver, ResolvedAddress
from airflow_sqlqueue.queue import MessageFilter, QueueCondition
from airflow_sqlqueue.queue.errors.filters import ErrorFilter
from airflow_sqlqueue.server.session import Session
from airflow_sqlqueue.server.settings import ConnectionSettings
from airflow_sqlqueue.spark.source.claims import Claims, StreamOptions
from airflow_sqlqueue.spark.source.columns import SelectedColumns
from airflow_sqlqueue.spark.source.options import ServerAccess, SourceOptions
from airflow_sqlqueue.spark.source.staged import read_share
from tests import zoo

GOOD = [b"good-%d" % number for number in range(100)]
ONCE = ConsumeOptions(immediate_retries=0, delayed_retries=0)
FEW = settings(max_examples=settings().max_examples // 20, suppress_health_check=list(HealthCheck))

ALL, SHORT = len(zoo.ROWS), len(zoo.SHORT)
WITH_A_LONG_ONE = SHORT + 1
"""Number of rows with one that is too long to be read."""

IN_TWO_WAYS = [(None, True, WITH_A_LONG_ONE), ("2", False, SHORT), ("3.0", True, SHORT)]
"""Versions whose addresses are read differently, each with one of the two ways of a test, and numbers of rows."""

_numbers = itertools.count()


@pytest.fixture(autouse=True)
def log_of_one_line_each(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """The log has values of a row in quotes, on one line, and cut."""
    caplog.set_level(logging.DEBUG, "airflow_sqlqueue")
    yield
    for when in ("setup", "call"):
        for record in caplog.get_records(when):  # type: ignore[arg-type]
            text = record.getMessage()
            assert untrusted.sentence(text) == text, record.msg
            assert len(text) < 3_000, record.msg


class Estate:
    """The queues of one test, new for each example: ``orders`` with delayed messages, ``billing``, ``error``."""

    def __init__(
        self, settings: ConnectionSettings, schema: str, kept: ResolvedAddress, version: str | None = None
    ) -> None:
        self._name = f"zoo{next(_numbers)}"
        # Versions 1 and 2 read no schema in an address: the queues stand in the default one.
        resolver = AddressResolver(schema, settings.database, transport_version=version)
        self.client = QueueClient(replace(settings, ledger_schema=schema), resolver, lock_timeout=10)
        for name in ("orders", "billing", "error"):
            self.client.tables.create(f"{self._name}.{name}", delayed=name == "orders")
        self.error_name, self._kept = f"{self._name}.error", kept

    def queue(self, name: str) -> Queue:
        return self.client.queue(f"{self._name}.{name}")

    def table(self, name: str) -> ResolvedAddress:
        return self.client.resolve(f"{self._name}.{name}")

    def good(self, **headers: str) -> list[Message]:
        return [Message({HeaderNames.MESSAGE_ID: body.decode(), **headers}, body) for body in GOOD]

    def quarantined(self, name: str = "orders") -> int:
        return len(self.client.quarantine.list(f"{self._name}.{name}"))

    def put(self, name: str, rows: int | Sequence[str], columns: dict[str, str] = zoo.QUEUE) -> int:
        """Insert so many rows of the zoo, or these."""
        with self.session() as session:
            if isinstance(rows, int):
                return zoo.copy(session, self._kept, rows, self.table(name), **columns)
            return zoo.insert(session, self.table(name), rows, **columns)

    def left(self, *names: str) -> int:
        """Rows of the zoo in some of the queues, and in quarantine."""
        with self.session() as session:
            return sum(zoo.count(session, self.table(name)) for name in names) + self.quarantined()

    def session(self) -> Session:
        return Session(self.client.settings, lock_timeout=10)


MakeEstate = Callable[..., Estate]


@pytest.fixture(scope="module")
def kept(settings: ConnectionSettings) -> Iterator[ResolvedAddress]:
    """A queue with all rows of the zoo, from which the others are filled: the server has read their texts once."""
    client = QueueClient(settings)
    name = f"zoo {uuid.uuid4()}"
    client.tables.create(name)
    with client.session() as session:
        zoo.insert(session, client.resolve(name), zoo.ROWS, **zoo.QUEUE)
    yield client.resolve(name)
    client.run_sql(f"DROP TABLE [{name}]")


@pytest.fixture
def estate(settings: ConnectionSettings, schema: str, kept: ResolvedAddress) -> MakeEstate:
    return functools.partial(Estate, settings, schema, kept)


def consume(estate: Estate, rows: int | Sequence[str], fails: bool) -> None:
    """``fails``: the function fails for the rows of the zoo that it gets."""
    sent = estate.put("orders", rows)
    estate.queue("orders").send(estate.good())
    seen: list[bytes] = []

    def handle(message: object) -> None:
        body: bytes = message.body  # type: ignore[attr-defined]
        if body == b"zoo" and fails:
            raise ValueError("This one is not for me.")
        seen.append(body)

    estate.queue("orders").consume(handle, replace(ONCE, max_handlers=2, error_queue=estate.error_name))
    assert sorted(body for body in seen if body != b"zoo") == sorted(GOOD)
    assert seen.count(b"zoo") + estate.left("orders", "error", "billing") == sent
    with estate.session() as session:
        assert zoo.count(session, estate.table("orders")) == 0


@pytest.mark.parametrize(("version", "fails", "rows"), IN_TWO_WAYS)
def test_consuming_handles_messages_behind_the_zoo(
    estate: MakeEstate, version: str | None, fails: bool, rows: int
) -> None:
    consume(estate(version), rows, fails)


@given(rows=zoo.random_rows())
@FEW
def test_consuming_handles_messages_behind_any_rows(estate: MakeEstate, rows: list[str]) -> None:
    consume(estate(), rows, fails=True)


@pytest.mark.parametrize(("version", "has_error_queue", "rows"), IN_TWO_WAYS)
def test_the_mover_moves_messages_behind_the_zoo(
    estate: MakeEstate, version: str | None, has_error_queue: bool, rows: int
) -> None:
    move(estate(version), rows, has_error_queue)


@given(rows=zoo.random_rows())
@FEW
def test_the_mover_moves_messages_behind_any_rows(estate: MakeEstate, rows: list[str]) -> None:
    move(estate(), rows, has_error_queue=True)


def move(estate: Estate, rows: int | Sequence[str], has_error_queue: bool) -> None:
    orders, delayed = estate.table("orders"), estate.table("orders.Delayed")
    sent = estate.put("orders.Delayed", rows, zoo.DELAYED)
    manager = estate.client.delayed(orders.table)
    manager.send(estate.good(), due=_now())
    moved = manager.move(error_queue=estate.error_name if has_error_queue else None)
    assert moved.complete
    with estate.session() as session:
        assert sorted(zoo.other_bodies(session, orders)) == sorted(GOOD)
        found = [zoo.count(session, table) for table in (orders, delayed, estate.table("error"))]
    assert sum(found) == sent
    assert not (has_error_queue and found[1])


def _now() -> datetime:
    return datetime.now(timezone.utc)


@pytest.mark.parametrize(
    ("version", "redirected", "rows"),
    # A redirect reads no address.
    [(None, True, WITH_A_LONG_ONE), *((version, False, SHORT) for version in (None, "2", "3.0"))],
)
def test_a_return_moves_messages_behind_the_zoo(
    estate: MakeEstate, version: str | None, redirected: bool, rows: int
) -> None:
    give_back(estate(version), rows, redirected)


@given(rows=zoo.random_rows())
@FEW
def test_a_return_moves_messages_behind_any_rows(estate: MakeEstate, rows: list[str]) -> None:
    give_back(estate(), rows, redirected=False)


def give_back(estate: Estate, rows: int | Sequence[str], redirected: bool) -> None:
    sent = estate.put("error", rows)
    estate.queue("error").send(estate.good(**{HeaderNames.FAILED_Q: estate.table("orders").table}))
    errors, name = estate.client.errors, estate.error_name
    if redirected:
        done = errors.redirect(estate.table("orders").table, name, malformed=True, all_messages=True)
    else:
        done = errors.return_to_source(name, all_messages=True)
    assert done.complete
    with estate.session() as session:
        assert zoo.other_bodies(session, estate.table("orders")) == GOOD
    assert estate.left("orders", "error") == sent
    if redirected:
        # Those with half a pair in JSON, which no header may have, stay.
        assert done.messages > len(GOOD) + len(zoo.TEXTS) // 2


def test_the_archive_keeps_the_zoo_as_it_was(estate: MakeEstate) -> None:
    """No text of a row leaves the server: archived, counted in groups, restored and parked, all rows are the same."""
    mine = estate()
    sent = mine.put("error", WITH_A_LONG_ONE)
    mine.queue("error").send(mine.good(**{HeaderNames.FAILED_Q: "orders"}))
    errors, name = mine.client.errors, mine.error_name
    before = [(head.id, head.headers, head.body_bytes) for head in mine.queue("error").browse(1_000)]
    archived = errors.archive(name, all_messages=True)
    assert (archived.messages, archived.left, archived.complete) == (sent + len(GOOD), {}, True)
    by = ["kind", "exception_type", "endpoint", "message_type", "failed_queue", "hour", "reason"]
    found = errors.archived.triage(name, by=by)
    assert found.matched == sent + len(GOOD)
    for group in found.groups[:20]:
        assert errors.archived.show(name, number=group.example, with_body=True).body is not None
    restored = errors.archived.restore(name, all_messages=True)
    assert (restored.messages, restored.left) == (sent + len(GOOD), {})
    after = [(head.id, head.headers, head.body_bytes) for head in mine.queue("error").browse(1_000)]
    assert sorted(after) == sorted(before)
    parked = errors.park(mine.table("billing").table, name, all_messages=True)
    assert (parked.messages, parked.left) == (sent + len(GOOD), {})
    deleted = errors.delete(mine.table("billing").table, all_messages=True, confirm=True)
    assert (deleted.messages, mine.left("billing")) == (sent + len(GOOD), 0)


def test_errors_are_counted_shown_and_filtered_past_the_zoo(estate: MakeEstate) -> None:
    """Unreadable texts do not make triage, filters or views fail."""
    mine = estate()
    sent = mine.put("error", WITH_A_LONG_ONE)
    mine.queue("error").send(mine.good(**{HeaderNames.FAILED_Q: "orders"}))
    errors = mine.client.errors
    by = ["kind", "exception_type", "endpoint", "message_type", "failed_queue", "hour"]
    assert errors.triage(mine.error_name, by=by).matched == sent + len(GOOD)
    found = errors.triage(mine.error_name, filters=ErrorFilter(message_ids=frozenset([GOOD[7].decode()])))
    assert found.matched == 1
    for head in mine.queue("error").browse(20):
        assert errors.show(mine.error_name, row_version=head.row_version, with_body=True).body == b"zoo"


def test_a_forward_moves_messages_behind_the_zoo(estate: MakeEstate) -> None:
    mine = estate()
    sent = mine.put("orders", ALL)
    mine.queue("orders").send(mine.good())
    forwarded = mine.queue("orders").forward(mine.table("billing").table)
    assert (forwarded.messages, forwarded.refused) == (sent + len(GOOD), 0)
    with mine.session() as session:
        assert zoo.other_bodies(session, mine.table("billing")) == GOOD


@pytest.mark.parametrize("stage", ["files", "table"])
def test_a_drain_and_its_requeue_leave_nothing_of_the_zoo_behind(
    estate: MakeEstate, tmp_path: Path, stage: str
) -> None:
    mine = estate()
    sent = mine.put("orders", WITH_A_LONG_ONE)
    mine.queue("orders").send(mine.good())
    batch_id = uuid.uuid4()
    staging = None if stage == "table" else tmp_path
    options = DrainOptions(rows_per_part=50)
    batch = mine.queue("orders").drain(staging, DrainRequest(batch_id=batch_id, options=options), stage=stage).batch
    assert batch.messages + batch.quarantined == sent + len(GOOD)
    mine.client.batches.requeue(batch_id, mine.table("orders").table)
    with mine.session() as session:
        assert zoo.other_bodies(session, mine.table("orders")) == GOOD
    assert mine.left("orders") == sent


def test_a_stream_reads_messages_behind_the_zoo(estate: MakeEstate) -> None:
    mine = estate()
    sent = mine.put("orders", WITH_A_LONG_ONE)
    mine.queue("orders").send(mine.good())
    client, name = mine.client, mine.table("orders").canonical
    access = ServerAccess.of(SourceOptions({}), client.settings)
    claims = Claims(access, StreamOptions(name, f"c {uuid.uuid4()}", 1_000, 2, False))
    try:
        start = claims.begin()
        end = claims.claim(start, 1_000)
        columns = SelectedColumns(("Body", "Headers"), ("Body", "Headers"), (True, False))
        batches = [batch for share in claims.shares(start, end) for batch in read_share(access, columns, share)]
        claims.commit(end)
    finally:
        claims.close()
    bodies = [row["Body"] for batch in batches for row in batch.to_pylist()]
    assert [body for body in bodies if body != b"zoo"] == GOOD
    assert bodies.count(b"zoo") + mine.quarantined() == sent


def test_searches_conditions_and_replies_see_messages_behind_the_zoo(estate: MakeEstate) -> None:
    mine = estate()
    sent = mine.put("orders", WITH_A_LONG_ONE)
    mine.queue("orders").send(mine.good(**{HeaderNames.CORRELATION_ID: "mine"}))
    orders = mine.queue("orders")
    where = MessageFilter(correlation_id="mine")
    assert orders.check(QueueCondition(min_messages=100, filters=where)).met  # type: ignore[arg-type]
    assert not orders.check(QueueCondition(min_messages=101, filters=where)).met  # type: ignore[arg-type]
    assert len(orders.find(where, 200)) == len(GOOD)
    assert orders.find_reply("mine") is not None
    reply = orders.take_reply("mine")
    assert reply is not None
    assert reply.body == GOOD[0]
    assert len(list(_pages(orders))) == sent + len(GOOD) - 1
    assert orders.backlog().depth.messages == sent + len(GOOD) - 1


def _pages(queue: Queue) -> Iterator[int]:
    after = -1
    while page := queue.browse(100, after=after):
        yield from (head.row_version for head in page)
        after = page[-1].row_version
