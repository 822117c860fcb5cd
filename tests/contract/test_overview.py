"""Overview of all queues of a database, on any server."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest

from airflow_sqlqueue.drain.ledger import Ledger
from airflow_sqlqueue.messages.envelope.times import format_time
from airflow_sqlqueue.messages.message import HeaderNames, Message
from airflow_sqlqueue.messages.routing import AddressResolver
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.queue.browsing import browse
from airflow_sqlqueue.queue.inspection.inspect import inspect
from airflow_sqlqueue.queue.inspection.overview import COUNTED_EXPIRED, HEADS, DatabaseOverview, QueueOverview
from airflow_sqlqueue.queue.quarantine import Quarantine
from airflow_sqlqueue.queue.tables.create import create, create_queue, delayed_definition
from airflow_sqlqueue.server.session import Session
from airflow_sqlqueue.server.settings import ConnectionSettings
from airflow_sqlqueue.server.sql import Query
from tests.conftest import Connect
from tests.contract.conftest import run_sql

Look = Callable[[], dict[str, QueueOverview]]
SENT = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)


@pytest.fixture(autouse=True)
def _all_heads(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read the heads of all queues at once: tests of other modules leave queues in the database."""
    if request.function is not test_queues_take_turns:
        monkeypatch.setattr("airflow_sqlqueue.queue.inspection.overview.HEADS", 10_000)


@pytest.fixture
def overview(session: Session, resolver: AddressResolver, schema: str) -> DatabaseOverview:
    session.settings = replace(session.settings, ledger_schema=schema)
    return DatabaseOverview(resolver.resolve("audit").catalog, clock=lambda: 0.0)


@pytest.fixture
def look(session: Session, overview: DatabaseOverview, schema: str) -> Look:
    return lambda: {each.table.table: each for each in overview.read(session) if each.table.schema == schema}


@pytest.fixture
def round_trips(session: Session, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that the session sends from now on, one for each round trip."""
    texts: list[str] = []
    results = Session.results

    def noted(self: Session, statement: Query, *values: object, **options: object) -> list[list[object]]:
        texts.append(statement.text)
        return results(self, statement, *values, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(Session, "results", noted)
    return texts


def test_a_queue_is_shown_with_its_neighbouring_tables(
    session: Session, resolver: AddressResolver, schema: str, look: Look
) -> None:
    audit = resolver.resolve("audit")
    create_queue(session, audit)
    create_queue(session, resolver.resolve("unused"))
    create(session, delayed_definition(resolver.resolve("audit.Delayed")))
    Ledger(session, audit.catalog).create()
    queue = QueueTable(session, audit)
    first = {HeaderNames.TIME_SENT: format_time(SENT)}
    queue.send([Message(first), Message(time_to_be_received=timedelta(seconds=-1)), Message(), Message()])
    run_sql(session, f"INSERT [{schema}].[audit.Delayed] ([Headers], [Due]) VALUES ('{{}}', GETUTCDATE())")
    (last,) = browse(queue, 1, after=browse(queue, 3)[-1].row_version)
    assert Quarantine(session, audit.catalog).move(queue, uuid.uuid4(), {last.row_version: "no text"}) == 1
    look()
    found = look()
    assert found.keys() == {"audit", "audit.Delayed", "unused"}
    assert (found["unused"].rows, found["unused"].inserted, found["unused"].quarantined) == (0, 0, 0)
    assert found["audit"].rows == 3
    assert found["audit"].inserted == 4
    assert found["audit"].delayed == found["audit.Delayed"].rows == 1
    assert found["audit"].quarantined == 1
    assert found["audit"].expired == 1
    assert found["audit"].oldest == SENT
    assert found["audit"].findings == ()
    assert found["audit.Delayed"].kind == "delayed"


def test_an_overview_takes_one_round_trip(
    session: Session, resolver: AddressResolver, look: Look, round_trips: list[str]
) -> None:
    for number in range(3):
        create_queue(session, resolver.resolve(f"q{number}"))
    for _ in range(3):
        round_trips.clear()
        assert look().keys() == {"q0", "q1", "q2"}
        assert len(round_trips) == 1
    create_queue(session, resolver.resolve("q3"))
    round_trips.clear()
    assert "q3" in look()
    # Once more, for what the new table looks like.
    assert len(round_trips) == 2


def test_only_seeks_and_the_catalog_are_asked(
    session: Session, resolver: AddressResolver, schema: str, look: Look, round_trips: list[str]
) -> None:
    """Only two kinds of statements name a queue: seeks of its first row, and counts of expired rows with a limit."""
    create_queue(session, resolver.resolve("audit"))
    look()
    round_trips.clear()
    look()
    statements = [text for text in round_trips[0].split(";") if f"[{schema}]" in text]
    assert len(statements) == 2
    assert "TOP (1)" in statements[0]
    assert "FORCESEEK" in statements[0]
    assert "TOP (?) [Expires]" in statements[1]


def test_findings_are_those_of_an_inspection(
    session: Session, resolver: AddressResolver, schema: str, look: Look
) -> None:
    slow, deaf = resolver.resolve("slow"), resolver.resolve("deaf")
    create_queue(session, slow)
    create_queue(session, deaf, legacy_columns=False)
    create(session, delayed_definition(resolver.resolve("deaf.Delayed")))
    run_sql(session, f"DROP INDEX [Index_RowVersion] ON [{schema}].[slow]")
    run_sql(session, f"CREATE TRIGGER [{schema}].[watch] ON [{schema}].[slow] AFTER DELETE AS RETURN")
    found = look()
    for table in (slow, deaf):
        assert found[table.table].findings == inspect(session, table).findings
    assert {finding.code for finding in found["slow"].findings} == {"row-version-index-missing", "trigger-watch"}
    assert {finding.code for finding in found["deaf"].findings} == {"delayed-needs-legacy-columns"}


def test_a_table_dropped_during_an_overview_is_left_out(
    session: Session, resolver: AddressResolver, schema: str, look: Look
) -> None:
    for name in ("kept", "gone"):
        create_queue(session, resolver.resolve(name))
        QueueTable(session, resolver.resolve(name)).send([Message({HeaderNames.TIME_SENT: format_time(SENT)})])
    assert look().keys() == {"kept", "gone"}
    run_sql(session, f"DROP TABLE [{schema}].[gone]")
    found = look()
    assert found.keys() == {"kept"}
    assert found["kept"].oldest == SENT


def test_a_table_that_is_locked_is_shown_as_such_and_spoils_no_other(
    settings: ConnectionSettings,
    connect: Connect,
    resolver: AddressResolver,
    schema: str,
    overview: DatabaseOverview,
    round_trips: list[str],
) -> None:
    """READPAST steps over rows and pages that are locked, not over tables ("Table hints (Transact-SQL)")."""
    with connect() as other, Session(settings, lock_timeout=0.5) as session:

        def look() -> dict[str, QueueOverview]:
            round_trips.clear()
            return {each.table.table: each for each in overview.read(session) if each.table.schema == schema}

        for name in ("free", "locked"):
            create_queue(other, resolver.resolve(name))
            QueueTable(other, resolver.resolve(name)).send([Message({HeaderNames.TIME_SENT: format_time(SENT)})] * 2)
        assert [each.oldest for each in (*look().values(), *look().values())][2:] == [SENT, SENT]
        other.begin()
        run_sql(other, f"SELECT TOP (1) 1 FROM [{schema}].[locked] WITH (TABLOCKX)")
        for turn in range(3):
            found = look()
            assert (found["free"].oldest, found["free"].expired, found["free"].findings) == (SENT, 0, ())
            assert (found["locked"].oldest, found["locked"].expired) == (None, None)
            assert [finding.code for finding in found["locked"].findings] == ["locked"]
            together = [text for text in round_trips if "[locked]" in text and "[free]" in text]
            assert len(together) == (1 if turn == 0 else 0), "the table was waited for again"
        other.roll_back()
        look()
        assert (look()["locked"].oldest, look()["locked"].findings) == (SENT, ())


def test_expired_messages_are_counted_up_to_a_limit(
    session: Session, resolver: AddressResolver, look: Look, schema: str
) -> None:
    audit = resolver.resolve("audit")
    create_queue(session, audit)
    gone = timedelta(seconds=-1)
    QueueTable(session, audit).send([Message(time_to_be_received=gone)] * (COUNTED_EXPIRED + 5))
    look()
    assert look()["audit"].expired == COUNTED_EXPIRED
    assert look()["audit"].oldest is None


def test_queues_take_turns(session: Session, resolver: AddressResolver, look: Look) -> None:
    names = [f"q{number:03}" for number in range(HEADS + 2)]
    for name in names:
        create_queue(session, resolver.resolve(name))
    look()
    first = {name for name, each in look().items() if each.expired is not None}
    assert len(first) <= HEADS
    for _ in range(3):
        last = {name for name, each in look().items() if each.expired is not None}
    assert last == set(names)
