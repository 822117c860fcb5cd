"""Query plans: the index on RowVersion finds the head of a queue, without a sort, in every layout that has it.

Only a real server has plans. On fakemssql the same statements run, and all but the assertions about plans.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from airflow_sqlqueue.drain.ledger import Ledger
from airflow_sqlqueue.drain.options import DrainOptions
from airflow_sqlqueue.drain.stages.base import PartPlan
from airflow_sqlqueue.drain.stages.staging_table import MessageTable
from airflow_sqlqueue.messages.message import Message
from airflow_sqlqueue.messages.routing import ResolvedAddress
from airflow_sqlqueue.messages.row import ROW_VERSION
from airflow_sqlqueue.queue import QueueTable, browsing
from airflow_sqlqueue.queue.browsing import browse, hold
from airflow_sqlqueue.queue.copies import CopyGaps, CopyTable, QueueCopy
from airflow_sqlqueue.queue.depth import backlog, depth
from airflow_sqlqueue.queue.errors.archive import Archive
from airflow_sqlqueue.queue.errors.filters import ErrorFilter
from airflow_sqlqueue.queue.errors.scan import window_of
from airflow_sqlqueue.queue.filters import MessageFilter
from airflow_sqlqueue.queue.forwarding import lock, transfer
from airflow_sqlqueue.queue.large_messages import lock_large, read_body, read_heads, take_large
from airflow_sqlqueue.queue.purge import PurgeOptions, purge
from airflow_sqlqueue.queue.quarantine import Quarantine
from airflow_sqlqueue.queue.table_access import FIRST, LAST
from airflow_sqlqueue.queue.tables.create import create_queue
from airflow_sqlqueue.queue.window import Window
from airflow_sqlqueue.server import sql
from airflow_sqlqueue.server.session import Session
from airflow_sqlqueue.server.settings import ConnectionSettings
from airflow_sqlqueue.server.sql import Fragment, identifier, readpast
from airflow_sqlqueue.server.sql.columns import copied_page, forwarding
from tests.contract.conftest import HEADERS, SHAPED, run_sql
from tests.plans import Operator, PlanSession, heads, sorted_heads

ROWS = 3_000
"""So many that the head is a small part of the queue, whatever is taken."""

SEEKING = {name for name, query in sql._queries().items() if "{seek}" in query.text}
"""The statements that ask for the index."""

GAPS = {name for name, query in sql._queries().items() if "{gap}" in query.text and name in SEEKING}
"""Queries that find rows by ranges of RowVersions, which a table has."""

NAMED = GAPS | {name for name in SEEKING if "TOP" not in sql._queries()[name].text}
"""Queries that find rows by their RowVersions, or by ranges of these."""

UNASKED = {"errors.end"}
"""Queries that find an end of the queue by the index without a hint."""

SCANNING = (
    "queue.peek",
    "queue.receive",
    "queue.delete_first_rows",
    "queue.first_left",
    "queue.high_water",
    "queue.ends",
)
"""Queries that sort a table without the index."""

TRIGGER = "EXEC('CREATE TRIGGER [{schema}].[{name}.trigger] ON [{schema}].[{name}] AFTER DELETE AS SELECT 1')"
PRIMARY_KEY = (
    "DROP INDEX [Index_RowVersion] ON {table}; "
    "ALTER TABLE {table} ADD CONSTRAINT [Key]]s of {name}] PRIMARY KEY NONCLUSTERED ([RowVersion])"
)
TABLES = {
    **{layout: (layout, "") for layout in SHAPED},
    "modern with a trigger": ("modern", TRIGGER),
    "clustered with a trigger": ("clustered", TRIGGER),
    "a primary key for the index": ("modern", PRIMARY_KEY),
}
"""Each shape that there is among the layouts, and what else makes other statements."""


@pytest.fixture
def planning(settings: ConnectionSettings) -> Iterator[PlanSession]:
    with PlanSession(settings, lock_timeout=10) as session:
        yield session


def fill_with_statistics(session: Session, table: ResolvedAddress) -> None:
    """Messages, and statistics about them: their number decides about the plan."""
    QueueTable(session, table).send([Message(HEADERS, b"%d" % number) for number in range(ROWS)])
    run_sql(session, f"UPDATE STATISTICS {table.qualified_name}")


def use(planning: PlanSession, table: ResolvedAddress) -> dict[str, list[Operator]]:
    """Run every statement that has to do with the head of a queue, and give their plans."""
    queue = QueueTable(planning, table)
    Ledger(planning, table.catalog).create()
    CopyTable(planning, table.catalog).create()
    Archive(planning, table.catalog).create()
    planning.watch()
    queue.peek(1_000)
    browse(queue, 1_000)
    assert len(browsing.read(queue, ("Id", "Body"), Window(), rows=500, max_bytes=2**40)) == 500
    queue.window_end(1_000, FIRST, LAST)
    fragments, passing = copied_page(queue.layout.types, 2**20), readpast(True)
    window = Window().condition
    (first, *_) = queue.rows("queue.peek_page", 500, FIRST, LAST, 2**40, **fragments, window=window, readpast=passing)
    assert queue.rows("queue.copy_body", 1, 100, first[ROW_VERSION], str(first[0]), readpast=passing)[0][0] == b"0"
    where = MessageFilter(headers={"NServiceBus.CorrelationId": "c-1"})
    assert browsing.search(queue, where, Window()) != []
    assert browsing.search(queue, where, Window(), wait=True) != []
    queue.mean_bytes()
    depth(queue, "quick")
    queue.rows("queue.depth_up_to", 1_000, FIRST)
    queue.rows("queue.depth_up_to_by_indexes", 1_000, FIRST, FIRST, 1_000)
    backlog(queue, "catalog")
    queue.count_left(LAST)
    window_of(queue, ErrorFilter())
    queue.rows("overview.head", FIRST)
    with planning.transaction():
        large = lock_large(queue, Window(), 3)
        assert large is not None
        assert read_heads(queue, large)[1] == 4
        assert b"".join(read_body(queue, large)) == b"1000"
        take_large(queue, large)
    (first, *_) = browse(queue, 1)
    # Undone again: what is staged without a ledger row would stay for good, and so would what is in quarantine.
    planning.begin()
    assert Quarantine(planning, table.catalog).move(queue, uuid.uuid4(), {first.row_version: "a test"}) == 1
    planning.roll_back()
    planning.begin()
    archive = Archive(planning, table.catalog)
    assert archive.put(queue, [first.row_version], "a test", "a test") == 1
    planning.roll_back()
    planning.begin()
    assert transfer(queue, queue, [first.row_version]) == len(lock(queue, [first.row_version + 1])) == 1
    planning.roll_back()
    planning.begin()
    assert len(hold(queue, 100)) == 100
    planning.roll_back()
    planning.begin()
    assert len(queue.take([first.row_version])) == 1
    planning.roll_back()
    assert queue.rows("queue.purge_these", first.row_version, row_versions=Fragment("?"))[0][0] == 1
    planning.begin()
    plan = PartPlan(queue, DrainOptions(bytes_per_statement=2**30), uuid.uuid4(), uuid.uuid4(), "batch", Window())
    staged = MessageTable(planning, table.catalog)
    moved = staged.take(plan, 500, plan.window)
    assert moved is not None
    assert moved[0].rows == 500
    planning.roll_back()
    planning.begin()
    copied = staged.copy(plan, 500, plan.window, passes=True)
    assert copied is not None
    copy = QueueCopy(queue, "plans")
    copy.advance(copy.lock(), copied[2][100::2], None)
    assert len(copy.in_gaps(500, LAST)) > 200
    assert (
        len(
            queue.rows(
                "copies.first_in_gaps", str(copy.lock().id), LAST, gap=identifier(CopyGaps.address_in(table.catalog))
            )
        )
        == 1
    )
    if queue.layout.seek_index is not None:
        assert queue.rows("copies.no_writers", FIRST) == []
    counted = copy.count(1_000)
    assert counted is not None
    assert counted.total >= 1_000
    planning.roll_back()
    planning.begin()
    fragments = forwarding(queue.layout.types, queue.layout.types)
    moved_rows = queue.rows("queue.forward", 500, FIRST, LAST, target=identifier(table), window=window, **fragments)
    assert moved_rows[0][0] == 500
    planning.roll_back()
    planning.begin()
    assert len(queue.delete_first_rows(500, Window(), 2**40)) == 500
    planning.roll_back()
    assert len(queue.receive(500)) == 500
    # Most of them stay: of a queue that is nearly empty, a scan is as good a way to find the head.
    assert purge(queue, PurgeOptions(all_messages=True, confirm=True, chunk=250, max_messages=500)).deleted == 500
    return planning.plans


@pytest.mark.parametrize(("layout", "change"), TABLES.values(), ids=TABLES)
def test_the_head_is_found_by_the_index(
    planning: PlanSession, table: ResolvedAddress, layout: str, change: str
) -> None:
    create_queue(planning, table, layout=layout)
    if change:
        run_sql(planning, change.format(table=table.qualified_name, schema=table.schema, name=table.table))
    fill_with_statistics(planning, table)
    index = QueueTable(planning, table).layout.seek_index
    assert index is not None
    plans = use(planning, table)
    assert plans.keys() >= SEEKING | UNASKED
    if planning.has_plans:
        check_seeks(plans, index)


def check_seeks(plans: dict[str, list[Operator]], index: str) -> None:
    """Check that each statement seeks its rows in the index, without a sort."""
    for name in NAMED:
        assert any(each.seeks and each.index == index for plan in plans[name] for each in plan), name
    for name in GAPS:
        read = sum(each.rows_read for plan in plans[name] for each in plan if each.index == index)
        # Each gap of one number is a seek of its own; with another end of the seek each would read to the end.
        assert 0 < read < ROWS, name
    for name in (SEEKING | UNASKED) - NAMED:
        found = heads(plans[name])
        assert found, name
        for head in found:
            readers = [operator for operator in head if operator.index == index]
            assert readers, (name, plans[name])
            assert all(reader.seeks if name in SEEKING else reader.reads_by_index for reader in readers), name
        assert sorted_heads(plans[name]) == [], name


@pytest.mark.parametrize(
    "change",
    [
        "DROP INDEX [Index_RowVersion] ON {table}",
        "ALTER INDEX [Index_RowVersion] ON {table} DISABLE",
        "DROP INDEX [Index_RowVersion] ON {table}; CREATE INDEX [Index_RowVersion] ON {table} ([RowVersion]) "
        "WHERE [Expires] IS NOT NULL",
        "DROP INDEX [Index_RowVersion] ON {table}; CREATE INDEX [Index_RowVersion] ON {table} ([Id], [RowVersion])",
    ],
)
def test_without_the_index_the_plans_tell(planning: PlanSession, table: ResolvedAddress, change: str) -> None:
    """The check of the test above finds a plan that breaks it."""
    create_queue(planning, table)
    run_sql(planning, change.format(table=table.qualified_name))
    fill_with_statistics(planning, table)
    assert QueueTable(planning, table).layout.seek_index is None
    plans = use(planning, table)
    for name in SCANNING:
        assert name in plans
        if planning.has_plans:
            assert sorted_heads(plans[name]), name
            assert not any(operator.seeks for head in heads(plans[name]) for operator in head), name
