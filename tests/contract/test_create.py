"""Creating and dropping the transport's tables, in every layout, on any server."""

from __future__ import annotations

import re
import uuid
from dataclasses import replace
from typing import Any

import pytest

from airflow_sqlqueue.errors import (
    ConfigurationError,
    LockTimeoutError,
    NotAQueueError,
    QueueNotEmptyError,
    QueueNotFoundError,
)
from airflow_sqlqueue.messages.message import Message
from airflow_sqlqueue.messages.routing import AddressResolver, ResolvedAddress
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.queue.depth import depth
from airflow_sqlqueue.queue.tables import create as module
from airflow_sqlqueue.queue.tables.create import (
    create,
    create_all,
    create_queue,
    definitions_for,
    delayed_definition,
    drop_queue,
    queue_definition,
    script,
    subscription_definition,
)
from airflow_sqlqueue.queue.tables.layout import SHAPES, shape_of
from airflow_sqlqueue.queue.tables.reading import exists, read_layout
from airflow_sqlqueue.server.session import Session
from airflow_sqlqueue.server.settings import ConnectionSettings
from tests.contract.conftest import SHAPED, Connect, run_sql
from tests.forks import CONTEXT, fork


@pytest.mark.parametrize(
    ("layout", "body_string"), [*((layout, False) for layout in SHAPED), ("v1", True), ("modern", True)]
)
def test_inspect_finds_the_layout_that_create_made(
    session: Session, table: ResolvedAddress, layout: str, body_string: bool
) -> None:
    assert create_queue(session, table, layout=layout, body_string=body_string).made
    read = read_layout(session, table)
    assert read.kind == "queue"
    assert read.shape == shape_of(layout, body_string=body_string)
    assert layout in read.names
    again = create_queue(session, table, layout=layout, body_string=body_string)
    assert (again.made, again.differences) == (False, ())


@pytest.mark.parametrize("layout", ["modern", "clustered", "v7", "v10"])
def test_a_queue_without_legacy_columns(session: Session, table: ResolvedAddress, layout: str) -> None:
    create_queue(session, table, layout=layout, legacy_columns=False)
    read = read_layout(session, table)
    assert read.shape == shape_of(layout, legacy_columns=False)
    assert set(read.columns) == {"Id", "Expires", "Headers", "Body", "RowVersion"}


def test_endpoints_before_version_7_need_the_legacy_columns(session: Session, table: ResolvedAddress) -> None:
    with pytest.raises(ConfigurationError, match="'v6' need the legacy columns"):
        create_queue(session, table, layout="v6", legacy_columns=False)
    assert not exists(session, table)


def test_a_body_is_readable(session: Session, table: ResolvedAddress) -> None:
    create_queue(session, table, body_string=True)
    QueueTable(session, table).send([Message(body=b'{"Order": 7}')])
    assert [tuple(row) for row in run_sql(session, f"SELECT BodyString FROM {table.qualified_name}")] == [
        ('{"Order": 7}',)
    ]


def test_an_existing_table_is_compared_and_left_alone(session: Session, table: ResolvedAddress) -> None:
    create_queue(session, table, layout="v1")
    run_sql(session, f"ALTER TABLE {table.qualified_name} ADD [Note] nvarchar(20) NULL")
    before = read_layout(session, table)
    created = create_queue(session, table, legacy_columns=False)
    assert created.made is False
    assert set(created.differences) == {
        "the column Headers is varchar(max) NOT NULL, not nvarchar(max) NOT NULL",
        "the column CorrelationId is not part of it",
        "the column ReplyToAddress is not part of it",
        "the column Recoverable is not part of it",
        "the column Note is not part of it",
        "the index on RowVersion is clustered, not nonclustered",
        "the index on Expires is none, not filtered",
    }
    assert read_layout(session, table) == before


def test_an_endpoints_tables(session: Session, address_of: AddressResolver, table: ResolvedAddress) -> None:
    resolver = replace(address_of, queue_schemas={"SubscriptionRouting": f"s{uuid.uuid4().hex[:8]}"})
    definitions = definitions_for(resolver, table.table, delayed=True, subscriptions=True)
    queue, delayed, subscriptions = (definition.table for definition in definitions)
    assert delayed.table == f"{table.table}.Delayed"
    try:
        for definition in definitions:
            assert create(session, definition, create_schema=True).made
            again = create(session, definition)
            assert (again.made, again.differences) == (False, ())
        kinds = [read_layout(session, found).kind for found in (queue, delayed, subscriptions)]
        assert kinds == ["queue", "delayed", "subscription"]
        with pytest.raises(NotAQueueError, match="is not a queue table"):
            create(session, queue_definition(delayed))
        with pytest.raises(NotAQueueError, match="is not a delayed table"):
            create(session, delayed_definition(subscriptions))
        with pytest.raises(NotAQueueError, match="is not a subscription table"):
            create(session, subscription_definition(queue))
    finally:
        run_sql(session, f"DROP TABLE IF EXISTS {delayed.qualified_name}, {subscriptions.qualified_name}")
        run_sql(session, f"DROP SCHEMA IF EXISTS [{subscriptions.schema}]")


@pytest.mark.parametrize("schema", ["dbo", "no such schema"])
def test_no_table_is_created_when_one_of_them_cannot_be(
    session: Session, address_of: AddressResolver, table: ResolvedAddress, schema: str
) -> None:
    resolver = replace(address_of, queue_schemas={f"{table.table}.Delayed": schema})
    queue, delayed = definitions_for(resolver, table.table, delayed=True)
    if schema == "dbo":
        create_queue(session, delayed.table)
    try:
        with pytest.raises((NotAQueueError, QueueNotFoundError), match=r"is not a delayed table|'no such schema'"):
            create_all(session, [queue, delayed])
        assert not exists(session, queue.table)
    finally:
        if schema == "dbo":
            drop_queue(session, delayed.table)


@pytest.mark.parametrize("layout", ["modern", "v3.0"])
def test_the_script_makes_the_same_and_can_be_run_twice(session: Session, table: ResolvedAddress, layout: str) -> None:
    schema = f"it's {uuid.uuid4().hex[:8]}"
    table = replace(table, schema=schema)
    text = script([queue_definition(table, layout=layout)], create_schema=True)
    try:
        for batch in (text + text).split("\nGO\n"):
            if batch.strip():
                run_sql(session, batch)
        assert read_layout(session, table).shape == SHAPES[layout]
    finally:
        run_sql(session, f"DROP TABLE IF EXISTS {table.qualified_name}")
        run_sql(session, f"DROP SCHEMA IF EXISTS [{schema}]")


def create_when_told(url: str, address: str, orders: Any) -> None:
    settings = ConnectionSettings.from_url(url)
    table = AddressResolver(default_catalog=settings.database).resolve(address)
    with Session(settings) as session:
        orders.send("ready")
        orders.recv()
        orders.send(create_queue(session, table, create_schema=True).made)


def test_ten_processes_create_one_queue(
    server_url: str, session: Session, address_of: AddressResolver, queue_name: str
) -> None:
    """Schema included: one process creates it, nine find it, and all succeed."""
    schema = f"s{uuid.uuid4().hex[:8]}"
    table = address_of.resolve(f"{queue_name}@[{schema}]")
    pipes = [CONTEXT.Pipe() for _ in range(10)]
    processes = [fork(create_when_told, server_url, str(table), there) for _, there in pipes]
    try:
        assert [here.poll(60) and here.recv() for here, _ in pipes] == ["ready"] * 10
        for here, _ in pipes:
            here.send("now")
        assert sorted(here.poll(60) and here.recv() for here, _ in pipes) == [False] * 9 + [True]
        assert read_layout(session, table).shape == SHAPES["modern"]
    finally:
        for process in processes:
            process.kill()
        run_sql(session, f"DROP TABLE IF EXISTS {table.qualified_name}")
        run_sql(session, f"DROP SCHEMA IF EXISTS [{schema}]")


@pytest.mark.parametrize("first", [0, 1], ids=["table", "index"])
def test_a_table_that_another_session_made_without_the_lock_is_found(
    session: Session, table: ResolvedAddress, monkeypatch: pytest.MonkeyPatch, first: int
) -> None:
    """It was not there when this one looked."""
    definition = queue_definition(table)
    create(session, definition)
    answers = iter([False, True])
    monkeypatch.setattr(module, "exists", lambda *_: next(answers))
    found = create(session, replace(definition, statements=definition.statements[first:]))
    assert (found.made, found.differences, next(answers, None)) == (False, (), None)


def test_a_dropped_queue_is_gone(session: Session, table: ResolvedAddress) -> None:
    create_queue(session, table)
    assert drop_queue(session, table) == 0
    assert not exists(session, table)
    with pytest.raises(QueueNotFoundError):
        drop_queue(session, table)


def test_a_creation_waits_for_another_one_only_so_long(
    connect: Connect, session: Session, table: ResolvedAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LOCK_TIMEOUT", 0.1)
    says = rf"{re.escape(table.canonical)}: another holds it for too long"
    with connect() as other, module.create_lock(other, table), pytest.raises(LockTimeoutError, match=says):
        create_queue(session, table)


def test_drop_refuses_a_queue_with_messages(session: Session, table: ResolvedAddress) -> None:
    create_queue(session, table)
    QueueTable(session, table).send([Message(), Message()])
    with pytest.raises(QueueNotEmptyError, match="holds messages"):
        drop_queue(session, table)
    assert depth(QueueTable(session, table)).messages == 2
    assert drop_queue(session, table, force=True) == 2


def test_drop_waits_for_a_transaction_that_holds_a_message(connect: Connect, table: ResolvedAddress) -> None:
    with connect() as session, connect() as other:
        create_queue(session, table)
        QueueTable(session, table).send([Message()])
        with other.transaction():
            QueueTable(other, table).receive()
            with session.lock_timeout(0.1), pytest.raises(LockTimeoutError):
                drop_queue(session, table, force=True)
        assert drop_queue(session, table) == 0


def test_drop_refuses_a_table_that_is_no_queue(
    session: Session, settings: ConnectionSettings, table: ResolvedAddress
) -> None:
    run_sql(session, f"CREATE TABLE {table.qualified_name} (Id int NOT NULL)")
    with pytest.raises(NotAQueueError, match="is not a queue table"):
        drop_queue(session, table, force=True)
    assert exists(session, table)


def test_drop_refuses_a_synonym(session: Session, table: ResolvedAddress) -> None:
    create_queue(session, table)
    synonym = replace(table, table=f"{table.table}.synonym")
    run_sql(session, f"CREATE SYNONYM [{synonym.schema}].[{synonym.table}] FOR {table.qualified_name}")
    try:
        with pytest.raises(NotAQueueError, match="is a synonym: drop the table"):
            drop_queue(session, synonym)
        assert exists(session, table)
    finally:
        run_sql(session, f"DROP SYNONYM [{synonym.schema}].[{synonym.table}]")
