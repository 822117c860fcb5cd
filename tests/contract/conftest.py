"""Fixtures for tests that run on any server: fakemssql, or the one that ``SQLQUEUE_TEST_SERVER`` names."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from airflow_sqlqueue.drain.drain import Drain
from airflow_sqlqueue.drain.ledger import Ledger
from airflow_sqlqueue.drain.manifest import Batch
from airflow_sqlqueue.drain.options import DrainOptions
from airflow_sqlqueue.drain.request import DrainRequest
from airflow_sqlqueue.drain.stages.part_file import to_arrow
from airflow_sqlqueue.drain.stages.staging_table import MessageTable
from airflow_sqlqueue.drain.stages.table import TableStage
from airflow_sqlqueue.drain.storage.folder import StagingFolder
from airflow_sqlqueue.errors import PermissionDeniedError
from airflow_sqlqueue.messages.address import quote
from airflow_sqlqueue.messages.message import Message, decode_headers
from airflow_sqlqueue.messages.routing import AddressResolver, ResolvedAddress
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.queue.depth import depth
from airflow_sqlqueue.queue.purge import PurgeOptions, purge
from airflow_sqlqueue.queue.tables.layout import SHAPES
from airflow_sqlqueue.server.session import Session
from airflow_sqlqueue.server.settings import ConnectionSettings
from airflow_sqlqueue.server.sql import Query
from fakemssql import FakeServer
from tests.conftest import Connect, make_queue
from tests.grammar import MAXDOP, Recorder, problems

SCRIPT = Path(__file__).parents[2] / "docs" / "permissions.sql"

LoginIn = Callable[..., Connect]

SHAPED = list({shape: layout for layout, shape in reversed(SHAPES.items())}.values())
"""One layout of each shape that there is."""


@pytest.fixture(scope="session")
def recorder() -> Iterator[Recorder]:
    """Of all texts that sessions send while the tests of this folder run, in this process."""
    recorder = Recorder()
    with recorder.recording():
        yield recorder


@pytest.fixture(autouse=True, scope="module")
def texts_of_module() -> Iterator[list[str]]:
    """Check that new texts of a module parse with Microsoft's grammar: a process for each test costs too much."""
    texts: list[str] = []
    yield texts
    assert not MAXDOP or problems(texts) == []


@pytest.fixture(autouse=True)
def sent_texts(recorder: Recorder, texts_of_module: list[str]) -> Iterator[Recorder]:
    """Note the new texts of a test, and check that our statements have no None.

    A test that sends something broken on purpose takes it: ``sent_texts.take()``.
    """
    recorder.undescribed.clear()
    yield recorder
    assert recorder.undescribed == set(), "write a sentinel: see docs/transport/transactions.md"
    assert recorder.limited == set(), "lift a limit of rows before it"
    texts_of_module += recorder.take()


@pytest.fixture(params=["v1", "modern"])
def any_queue(
    request: pytest.FixtureRequest, connect: Connect, address_of: AddressResolver, queue_name: str
) -> Iterator[QueueTable]:
    """An empty queue in the two layouts that differ most; test_layouts.py has the others."""
    with connect() as session:
        yield make_queue(session, address_of.resolve(queue_name), request.param)


@pytest.fixture
def fake(server: Any) -> FakeServer:
    """The stand-in, for what a real server does only now and then."""
    if not isinstance(server, FakeServer):
        pytest.skip("a real server does it when it likes")
    return server


@pytest.fixture
def session(connect: Connect) -> Iterator[Session]:
    with connect() as session:
        yield session


@pytest.fixture
def login_in(settings: ConnectionSettings, session: Session) -> Iterator[LoginIn]:
    """Makes a login whose user is in the given roles, and gives what opens its sessions."""
    made: list[str] = []

    def make(*roles: str) -> Connect:
        name, password = f"test_{uuid.uuid4().hex[:10]}", f"Pa55-{uuid.uuid4().hex}"
        try:
            run_sql(session, f"CREATE LOGIN [{name}] WITH PASSWORD = '{password}'")
        except PermissionDeniedError:
            pytest.skip("the login of the test server may not create logins")
        made.append(name)
        run_sql(session, f"CREATE USER [{name}] FOR LOGIN [{name}]")
        for role in roles:
            run_sql(session, f"ALTER ROLE [{role}] ADD MEMBER [{name}]")
        return lambda: Session(replace(settings, user=name, password=password), lock_timeout=10)

    for batch in SCRIPT.read_text("utf-8").split("\nGO\n"):
        run_sql(session, batch)
    yield make
    for name in made:
        run_sql(session, f"DROP USER IF EXISTS [{name}]; DROP LOGIN [{name}]")


@pytest.fixture
def table(address_of: AddressResolver, queue_name: str) -> ResolvedAddress:
    """Address of the test's queue; no table exists there yet."""
    return address_of.resolve(queue_name)


@pytest.fixture
def other_catalog(session: Session) -> Iterator[str]:
    """Another database of the same server."""
    name = f"test_{uuid.uuid4().hex[:10]}"
    try:
        run_sql(session, f"CREATE DATABASE [{name}]")
    except PermissionDeniedError:
        pytest.skip("the login of the test server may not create databases")
    yield name
    run_sql(session, f"DROP DATABASE [{name}]")


@pytest.fixture
def schema(session: Session) -> Iterator[str]:
    """A schema of the test's own; it goes with all its tables."""
    name = f"s{uuid.uuid4().hex[:10]}"
    run_sql(session, f"CREATE SCHEMA [{name}]")
    yield name
    drop_schema(session, name)


@pytest.fixture
def resolver(address_of: AddressResolver, schema: str) -> AddressResolver:
    return replace(address_of, default_schema=schema)


HEADERS = {"NServiceBus.CorrelationId": "c-1", "NServiceBus.ReplyToAddress": "Sales@[dbo]@[nsb]", "Grüße": "☃ 😀"}


Exercise = Callable[..., None]


@pytest.fixture
def exercise(connect: Connect, tmp_path: Path) -> Exercise:
    """Send, peek, depth, receive, purge and drain, with what each must give; as another login where one is given."""

    def run(table: ResolvedAddress, connect: Connect = connect) -> None:
        with connect() as session:
            queue = QueueTable(session, table)
            expired = [Message(body=b"late", time_to_be_received=timedelta(seconds=-5))] * 3
            alive = [Message(HEADERS, b"%d" % n, timedelta(hours=1) if n % 2 else None) for n in range(200)]
            assert queue.send([*expired, *alive]) == 203
            counted = depth(queue)
            assert (counted.messages, counted.expired) == (200, 3)
            assert [message.body for message in queue.peek(5)] == [b"late", b"late", b"late", b"0", b"1"]
            assert purge(queue, PurgeOptions(chunk=2)).deleted == 3
            first, second = queue.receive(2)
            assert (first.body, second.body) == (b"0", b"1")
            assert (first.expires, second.expired) == (None, False)
            assert second.expires is not None
            assert decode_headers(first.headers).values == HEADERS
            with session.transaction():
                assert [message.body for message in queue.receive(1)] == [b"2"]
            assert queue.receive(2000)[-1].body == b"199"
            queue.send([*expired, *alive])
            queue.send([*expired, *alive])
        in_table = (
            Drain(connect, table, TableStage(), DrainRequest(origin="test", options=DrainOptions(max_messages=203)))
            .run()
            .batch
        )
        assert (in_table.messages, in_table.expired) == (200, 3)
        drained = Drain(connect, table, StagingFolder.of(tmp_path), DrainRequest(origin="test")).run()
        assert (drained.batch.messages, drained.batch.expired, drained.locked) == (200, 3, 0)
        rows = [row for path in drained.batch.paths for row in pq.read_table(path.removeprefix("file://")).to_pylist()]
        assert [row["Body"] for row in rows] == [b"%d" % n for n in range(200)]
        assert {row["Headers"] for row in rows} == {first.headers}
        staged = staged_rows(connect, table, in_table)
        own = {"Id": None, "RowVersion": None}
        assert [{**row, **own, "Expires": bool(row["Expires"])} for row in staged] == [
            {**row, **own, "Expires": bool(row["Expires"])} for row in rows
        ]
        with connect() as session:
            assert QueueTable(session, table).count_left(2**62) == 0

    return run


def staged_rows(connect: Connect, queue: ResolvedAddress, batch: Batch) -> list[dict[str, Any]]:
    """The rows of a batch in the table of staged messages, part by part, as Spark gets them."""
    batch_id = uuid.UUID(batch.batch_id)
    with connect() as session:
        table = MessageTable(session, queue.catalog)
        parts = Ledger(session, queue.catalog).parts(batch_id)
        pages = [page for part in parts for page in table.part(batch_id, part.id, part.messages)]
        return [row for page in pages for row in to_arrow(page).to_pylist()]


def run_sql(session: Session, text: str) -> list[Any]:
    """Run a statement of a test's own; the test is responsible for its text."""
    return session.run(Query("test", "run a test's statement", text))


def ignores_case(session: Session) -> bool:
    """Whether two spellings of a name are one in the session's database."""
    return "_CI" in str(run_sql(session, "SELECT collation_name FROM sys.databases WHERE name = DB_NAME()")[0][0])


def drop_schema(session: Session, name: str) -> None:
    """Drop a schema of a test's own, if it is there, with all its tables."""
    found = run_sql(session, f"SELECT [name] FROM sys.tables WHERE [schema_id] = SCHEMA_ID(N'{name}')")
    drops = [f"DROP TABLE [{name}].{quote(table)};" for (table,) in found]
    run_sql(session, f"{' '.join(drops)} DROP SCHEMA IF EXISTS [{name}]")
