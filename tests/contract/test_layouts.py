"""Every operation on every layout that is in use, on any server."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from itertools import cycle
from typing import Any

import pytest

from airflow_sqlqueue.errors import (
    LayoutChangedError,
    MessageError,
    NotAQueueError,
    QueueNotFoundError,
    SqlQueueError,
    StatementError,
)
from airflow_sqlqueue.messages.message import Message, decode_headers
from airflow_sqlqueue.messages.routing import ResolvedAddress
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.queue.depth import backlog, depth
from airflow_sqlqueue.queue.inspection.inspect import fix, inspect
from airflow_sqlqueue.queue.purge import PurgeOptions, purge
from airflow_sqlqueue.queue.tables.create import create_queue
from airflow_sqlqueue.queue.tables.discovery import list_tables
from airflow_sqlqueue.queue.tables.layout import SHAPES
from airflow_sqlqueue.queue.tables.reading import read_layout
from airflow_sqlqueue.queue.window import Window
from airflow_sqlqueue.server.session import Session
from airflow_sqlqueue.server.sql import Query
from tests.contract.conftest import HEADERS, SHAPED, Connect, Exercise, ignores_case, run_sql

ALTERATIONS: dict[str, str] = {
    "other columns": "ALTER TABLE {table} ADD [Note] nvarchar(20) NULL; "
    "ALTER TABLE {table} ADD [Number] int NOT NULL DEFAULT 1; ALTER TABLE {table} ADD [Size] AS DATALENGTH([Body])",
    "Expires as datetime2": "DROP INDEX IF EXISTS [Index_Expires] ON {table}; "
    "ALTER TABLE {table} ALTER COLUMN [Expires] datetime2 NULL",
    "Expires as datetimeoffset": "DROP INDEX IF EXISTS [Index_Expires] ON {table}; "
    "ALTER TABLE {table} ALTER COLUMN [Expires] datetimeoffset NULL",
    "no index": "DROP INDEX IF EXISTS [Index_Expires] ON {table}; DROP INDEX [Index_RowVersion] ON {table}",
    "no ReplyToAddress": "ALTER TABLE {table} DROP COLUMN [ReplyToAddress]",
    "a primary key": "ALTER TABLE {table} ADD PRIMARY KEY NONCLUSTERED ([RowVersion])",
}


@pytest.mark.parametrize("layout", SHAPED)
def test_every_layout_serves_every_call(
    session: Session, table: ResolvedAddress, layout: str, exercise: Exercise
) -> None:
    create_queue(session, table, layout=layout)
    exercise(table)


@pytest.mark.parametrize("layout", ["v1", "modern"])
def test_a_header_too_long_for_a_legacy_column_is_in_the_headers_alone(
    session: Session, table: ResolvedAddress, layout: str
) -> None:
    """The column is varchar(255): nothing is cut, no character becomes another, and the send does not fail."""
    create_queue(session, table, layout=layout)
    queue = QueueTable(session, table)
    values = ["x" * 255, "x" * 256, "x" * 5_000, "Grüße", "a😀", ""]
    queue.send(Message({"NServiceBus.CorrelationId": value, "NServiceBus.ReplyToAddress": value}) for value in values)
    for value, message in zip(values * 2, queue.peek(6) + queue.receive(6), strict=True):
        kept = (value, value) if len(value) == 255 else (None, None)
        assert (message.correlation_id, message.reply_to_address) == kept
        headers = decode_headers(message.headers).values
        assert (headers["NServiceBus.CorrelationId"], headers["NServiceBus.ReplyToAddress"]) == (value, value)


def test_columns_may_differ_in_case_where_the_collation_ignores_it(
    session: Session, table: ResolvedAddress, exercise: Exercise
) -> None:
    create = """
        CREATE TABLE {} (id uniqueidentifier NOT NULL, correlationid varchar(255), replytoaddress varchar(255),
        recoverable bit NOT NULL, expires datetime, headers nvarchar(max) NOT NULL, bodystring nvarchar(max),
        body varbinary(max), [rowversion] bigint IDENTITY(1,1) NOT NULL)"""
    run_sql(session, create.format(table.qualified_name))
    if ignores_case(session):
        exercise(table)
        assert {"CorrelationId", "BodyString"} <= {*read_layout(session, table).columns}
    else:
        with pytest.raises(SqlQueueError):
            QueueTable(session, table).receive()


def test_a_system_versioned_queue_serves_every_call(
    session: Session, table: ResolvedAddress, exercise: Exercise
) -> None:
    create_queue(session, table)
    name, history = table.qualified_name, f"[{table.schema}].[{table.table}.History]"
    start, end = (f"datetime2 GENERATED ALWAYS AS ROW {which} HIDDEN NOT NULL DEFAULT" for which in ("START", "END"))
    run_sql(session, f"ALTER TABLE {name} ADD PRIMARY KEY NONCLUSTERED ([RowVersion])")
    try:
        run_sql(
            session,
            f"ALTER TABLE {name} ADD [From] {start} SYSUTCDATETIME(), [To] {end} '9999-12-31 23:59:59.9999999', "
            "PERIOD FOR SYSTEM_TIME ([From], [To])",
        )
    except StatementError as error:
        if error.number != 40517:
            raise
        pytest.skip("fakemssql has no system-versioned tables")
    try:
        run_sql(session, f"ALTER TABLE {name} SET (SYSTEM_VERSIONING = ON (HISTORY_TABLE = {history}))")
        assert "system-versioned" in [finding.code for finding in inspect(session, table).findings]
        exercise(table)
        fix(session, table, "system-versioned")
        assert not read_layout(session, table).system_versioned
    finally:
        if read_layout(session, table).system_versioned:
            run_sql(session, f"ALTER TABLE {name} SET (SYSTEM_VERSIONING = OFF)")
        run_sql(session, f"DROP TABLE IF EXISTS {history}")


def test_a_queue_without_legacy_columns_serves_every_call(
    session: Session, table: ResolvedAddress, exercise: Exercise
) -> None:
    create_queue(session, table, legacy_columns=False, body_string=True)
    exercise(table)


@pytest.mark.parametrize(("altered", "layout"), list(zip(ALTERATIONS, cycle(["modern", "v1"]), strict=False)))
def test_altered_tables_serve_every_call(
    session: Session, table: ResolvedAddress, altered: str, layout: str, exercise: Exercise
) -> None:
    create_queue(session, table, layout=layout)
    run_sql(session, ALTERATIONS[altered].format(table=table.qualified_name))
    exercise(table)


def add_trigger(session: Session, table: ResolvedAddress, event: str = "AFTER DELETE", body: str = "SELECT 1") -> None:
    """A trigger that answers with a result set of its own, which must not be taken for ours."""
    name = f"[{table.schema}].[{table.table}.trigger]"
    run_sql(session, f"CREATE TRIGGER {name} ON [{table.schema}].[{table.table}] {event} AS {body};")


@pytest.mark.parametrize("event", ["AFTER INSERT, DELETE", "AFTER INSERT"])
def test_a_table_with_triggers(session: Session, table: ResolvedAddress, event: str, exercise: Exercise) -> None:
    create_queue(session, table)
    add_trigger(session, table, event)
    assert read_layout(session, table).output_into == ("DELETE" in event)
    exercise(table)


def test_a_disabled_trigger_is_no_obstacle(session: Session, table: ResolvedAddress, exercise: Exercise) -> None:
    create_queue(session, table)
    add_trigger(session, table, body="THROW 50000, N'no', 1")
    run_sql(session, f"ALTER TABLE {table.qualified_name} DISABLE TRIGGER [{table.table}.trigger]")
    assert read_layout(session, table).output_into is False
    exercise(table)


def test_an_instead_of_delete_trigger_is_refused(session: Session, table: ResolvedAddress) -> None:
    create_queue(session, table)
    add_trigger(session, table, "INSTEAD OF DELETE")
    with pytest.raises(NotAQueueError, match="replaces every DELETE: disable it"):
        QueueTable(session, table).receive()


def test_a_synonym_serves_as_its_base_table_does(session: Session, table: ResolvedAddress, exercise: Exercise) -> None:
    create_queue(session, table, layout="v3.0")
    synonym = replace(table, table=f"{table.table}.synonym")
    run_sql(session, f"CREATE SYNONYM [{synonym.schema}].[{synonym.table}] FOR {table.qualified_name}")
    try:
        layout = read_layout(session, synonym)
        assert (layout.object_type, layout.table, layout.shape) == ("synonym", table, SHAPES["v3.0"])
        exercise(synonym)
    finally:
        run_sql(session, f"DROP SYNONYM [{synonym.schema}].[{synonym.table}]")


def test_a_synonym_of_nothing_is_a_missing_queue(session: Session, table: ResolvedAddress) -> None:
    run_sql(session, f"CREATE SYNONYM [{table.schema}].[{table.table}] FOR [{table.schema}].[nothing at all]")
    try:
        with pytest.raises(QueueNotFoundError, match="nothing at all"):
            depth(QueueTable(session, table))
    finally:
        run_sql(session, f"DROP SYNONYM [{table.schema}].[{table.table}]")


def test_a_view_is_described_and_not_received_from(session: Session, table: ResolvedAddress) -> None:
    create_queue(session, table)
    name = f"[{table.schema}].[{table.table}.view]"
    run_sql(session, f"CREATE VIEW {name} AS SELECT * FROM {table.qualified_name}")
    view = replace(table, table=f"{table.table}.view")
    try:
        assert read_layout(session, view).object_type == "view"
        with pytest.raises(NotAQueueError, match="is a view: name the table"):
            QueueTable(session, view).receive()
    finally:
        run_sql(session, f"DROP VIEW {name}")


def test_a_send_names_the_column_that_it_cannot_fill(session: Session, table: ResolvedAddress) -> None:
    create_queue(session, table)
    run_sql(session, f"ALTER TABLE {table.qualified_name} ADD [Tenant] int NOT NULL")
    queue = QueueTable(session, table)
    with pytest.raises(NotAQueueError, match="'Tenant' takes no NULL and has no default"):
        queue.send([Message()])
    assert depth(queue).messages == 0


def test_a_send_names_an_expiry_that_takes_no_null(session: Session, table: ResolvedAddress) -> None:
    columns = "[Id] uniqueidentifier NOT NULL, [Expires] datetime NOT NULL, [Headers] nvarchar(max) NOT NULL, "
    rest = "[Body] varbinary(max), [RowVersion] bigint IDENTITY NOT NULL"
    run_sql(session, f"CREATE TABLE {table.qualified_name} ({columns}{rest})")
    queue = QueueTable(session, table)
    lives = Message(time_to_be_received=timedelta(days=1))
    with pytest.raises(NotAQueueError, match="its column 'Expires' takes no NULL"), session.transaction():
        queue.send([lives, Message()])
    assert queue.send([lives]) == 1


def test_a_send_to_a_copied_table_names_the_column_that_lost_its_identity(
    session: Session, table: ResolvedAddress
) -> None:
    types = "[Id] uniqueidentifier NOT NULL, [Expires] datetime, [Headers] nvarchar(max) NOT NULL, "
    run_sql(
        session, f"CREATE TABLE {table.qualified_name} ({types}[Body] varbinary(max), [RowVersion] bigint NOT NULL)"
    )
    queue = QueueTable(session, table)
    with pytest.raises(NotAQueueError, match="'RowVersion' takes no NULL and has no default"), session.transaction():
        queue.send([Message()])


@pytest.mark.parametrize(
    ("layout", "days", "warnings"), [("v2", 25, 1), ("v3.0", 25, 1), ("v2", 24, 0), ("v3.1", 25, 0), ("v9", 25, 0)]
)
def test_a_send_warns_of_a_life_that_stops_endpoints_of_version_2(
    session: Session, table: ResolvedAddress, caplog: pytest.LogCaptureFixture, layout: str, days: int, warnings: int
) -> None:
    create_queue(session, table, layout=layout)
    queue = QueueTable(session, table)
    with caplog.at_level("WARNING"):
        queue.send([Message(time_to_be_received=timedelta(days=days))] * 300 + [Message()])
    assert len([text for text in caplog.messages if "expire after more than 24.8 days" in text]) == warnings
    assert queue.peek(1)[0].expires is not None


def test_text_outside_ascii_survives_a_varchar_column(session: Session, table: ResolvedAddress) -> None:
    create_queue(session, table, layout="v1")
    queue = QueueTable(session, table)
    queue.send([Message(headers='{"Grüße": "☃ 😀"}')])
    assert decode_headers(queue.receive()[0].headers).values == {"Grüße": "☃ 😀"}


@pytest.mark.parametrize(
    "change",
    [
        "ALTER TABLE {table} DROP COLUMN [Recoverable]",
        "ALTER TABLE {table} DROP COLUMN [CorrelationId], [ReplyToAddress], [Recoverable]",
        "DROP TABLE {table}; CREATE TABLE {table} ([Id] uniqueidentifier NOT NULL, [Expires] datetime NULL, "
        "[Headers] varchar(max) NOT NULL, [Body] varbinary(max) NULL, [RowVersion] bigint IDENTITY NOT NULL)",
    ],
)
def test_a_table_that_is_altered_meanwhile(
    connect: Connect, session: Session, table: ResolvedAddress, change: str
) -> None:
    create_queue(session, table)
    queue = QueueTable(session, table)
    queue.send([Message(HEADERS, b"before")])
    queue.receive()
    with connect() as owner:
        run_sql(owner, change.format(table=table.qualified_name))
    queue.send([Message(HEADERS, b"after")])
    assert [message.body for message in queue.receive()] == [b"after"]


def test_a_send_fills_a_column_that_was_added_since_the_last(
    connect: Connect, session: Session, table: ResolvedAddress
) -> None:
    create_queue(session, table, legacy_columns=False)
    queue = QueueTable(session, table)
    queue.send([Message()])
    with connect() as owner:
        run_sql(owner, f"DELETE FROM {table.qualified_name}")
        run_sql(owner, f"ALTER TABLE {table.qualified_name} ADD [Recoverable] bit NOT NULL")
    queue.send([Message()])
    assert [message.recoverable for message in queue.receive(10)] == [True]


def test_a_receive_works_round_a_trigger_that_was_added_since_the_last(
    connect: Connect, session: Session, table: ResolvedAddress
) -> None:
    create_queue(session, table)
    queue = QueueTable(session, table)
    queue.send([Message(body=b"%d" % n) for n in range(4)])
    queue.receive()
    with connect() as owner:
        add_trigger(owner, table)
    assert [message.body for message in queue.receive()] == [b"1"]


def test_a_trigger_that_the_login_may_not_see_is_known_from_the_first_error(
    session: Session, table: ResolvedAddress
) -> None:
    """Another error of a table that was altered says nothing of triggers."""
    create_queue(session, table)
    numbers: list[int] = []

    class Refusing(Session):
        def results(self, statement: Query, *values: Any, **options: Any) -> Any:
            if numbers and statement.name == "queue.receive":
                raise StatementError("refused", numbers.pop())
            return super().results(statement, *values, **options)

    with Refusing(session.settings) as refusing:
        queue = QueueTable(refusing, table)
        queue.send([Message(body=b"%d" % number) for number in range(3)])
        for number, output_into in ((207, False), (334, True)):
            numbers.append(number)
            with suppress(StatementError):
                queue.receive()
            assert numbers == []
            assert QueueTable(refusing, table).layout.output_into is output_into
        assert len(QueueTable(refusing, table).receive()) == 1


INDEX_CHANGES = {
    "dropped": "DROP INDEX [Index_RowVersion] ON {table}",
    "disabled": "ALTER INDEX [Index_RowVersion] ON {table} DISABLE",
    "on another column": "DROP INDEX [Index_RowVersion] ON {table}; "
    "CREATE INDEX [Index_RowVersion] ON {table} ([Id]) INCLUDE ([RowVersion])",
    "renamed": "EXEC sp_rename N'{table}.[Index_RowVersion]', N'Index of RowVersion', N'INDEX'",
}


def _take_head(queue: QueueTable) -> list[Any]:
    """As a drain does, which runs its part again."""
    for _ in range(2):
        with suppress(LayoutChangedError), queue.session.transaction():
            return queue.delete_first_rows(2, Window(1, 3), 100)
    raise AssertionError


USES: dict[str, Callable[[QueueTable], Any]] = {
    "receive": lambda queue: queue.receive()[0].body == b"0",
    "drain": lambda queue: len(_take_head(queue)) == 2,
    "window": lambda queue: queue.window_end(1, 3, 9) == 4,
    "peek": lambda queue: queue.peek()[0].body == b"3",
    "ends": lambda queue: queue.ends() == (4, 4),
    "quick depth": lambda queue: depth(queue, "quick").messages == 1,
    "bounded depth": lambda queue: depth(queue, limit=2).messages == 1,
    "backlog": lambda queue: backlog(queue, "catalog").oldest_seconds is None,
    "count_left": lambda queue: queue.count_left(4) == 1,
    "purge": lambda queue: purge(queue, PurgeOptions(all_messages=True, confirm=True)).deleted == 1,
}


@pytest.mark.parametrize("change", INDEX_CHANGES)
def test_an_index_that_is_changed_meanwhile(
    connect: Connect, session: Session, table: ResolvedAddress, change: str
) -> None:
    create_queue(session, table)
    queues = {use: QueueTable(session, table) for use in USES}
    queues["receive"].send([Message(body=b"%d" % n) for n in range(4)])
    assert {queue.layout.seek_index for queue in queues.values()} == {"Index_RowVersion"}
    with connect() as owner:
        run_sql(owner, INDEX_CHANGES[change].format(table=table.qualified_name))
    for use, queue in queues.items():
        assert USES[use](queue), use
        assert queue.layout.seek_index == ("Index of RowVersion" if change == "renamed" else None), use


def test_an_index_that_is_dropped_under_a_transaction(
    connect: Connect, session: Session, table: ResolvedAddress
) -> None:
    create_queue(session, table)
    queue = QueueTable(session, table)
    queue.send([Message(body=b"0")])
    with connect() as owner:
        run_sql(owner, INDEX_CHANGES["dropped"].format(table=table.qualified_name))
    with pytest.raises(LayoutChangedError, match="altered during a transaction"), session.transaction():
        queue.receive()
    assert [message.body for message in queue.receive()] == [b"0"]


@pytest.mark.parametrize(
    ("hint", "condition"),
    [
        ("FORCESEEK", ""),
        ("FORCESEEK", "WHERE [CorrelationId] = 'a'"),
        ("FORCESEEK, INDEX ([Index_RowVersion])", "WHERE [Expires] = 0"),
    ],
)
def test_a_seek_that_no_index_serves_fails_with_8622(
    session: Session, table: ResolvedAddress, hint: str, condition: str
) -> None:
    """The server has no plan then: why the hint depends on the layout, and every statement with it has a condition."""
    create_queue(session, table)
    text = f"SELECT TOP (1) [RowVersion] FROM {table.qualified_name} WITH ({hint}) {condition} ORDER BY [RowVersion]"
    with pytest.raises(StatementError) as caught:
        run_sql(session, text)
    assert caught.value.number == 8622


def test_a_change_under_a_transaction_rolls_it_back(connect: Connect, session: Session, table: ResolvedAddress) -> None:
    create_queue(session, table)
    queue = QueueTable(session, table)
    queue.send([Message(body=b"%d" % n) for n in range(3)])
    queue.receive()
    with connect() as owner:
        run_sql(owner, f"ALTER TABLE {table.qualified_name} DROP COLUMN [ReplyToAddress]")
    with pytest.raises(LayoutChangedError, match="altered during a transaction"), session.transaction():
        queue.receive()
    with session.transaction():
        assert [message.body for message in queue.receive(10)] == [b"1", b"2"]


def test_a_queue_that_is_dropped_meanwhile(connect: Connect, session: Session, table: ResolvedAddress) -> None:
    create_queue(session, table)
    queue = QueueTable(session, table)
    queue.send([Message()])
    with connect() as owner:
        run_sql(owner, f"DROP TABLE {table.qualified_name}")
    with pytest.raises(QueueNotFoundError, match="does not exist"):
        queue.receive()
    with pytest.raises(QueueNotFoundError, match="does not exist"):
        depth(queue)


def test_another_error_is_not_taken_for_a_change(session: Session, table: ResolvedAddress) -> None:
    create_queue(session, table)
    with pytest.raises(MessageError):
        QueueTable(session, table).send([Message({"a": 1})])  # type: ignore[dict-item]


def test_a_queue_in_another_catalog_serves_every_call(
    session: Session, table: ResolvedAddress, other_catalog: str, exercise: Exercise
) -> None:
    """Queue and ledger are in another database than the connection's."""
    there = replace(table, catalog=other_catalog)
    assert create_queue(session, there, layout="v3.0").made
    assert read_layout(session, there).shape == SHAPES["v3.0"]
    exercise(there)
    assert [found.table for found in list_tables(session, other_catalog)] == [there]


def test_a_transaction_spans_catalogs(session: Session, table: ResolvedAddress, other_catalog: str) -> None:
    here, there = QueueTable(session, table), QueueTable(session, replace(table, catalog=other_catalog))
    create_queue(session, here.address)
    create_queue(session, there.address)
    here.send([Message(body=b"moves")])

    def move_and_fail() -> None:
        with session.transaction():
            there.send([Message(body=message.body) for message in here.receive()])
            assert depth(there).messages == 1
            raise InterruptedError

    with pytest.raises(InterruptedError):
        move_and_fail()
    assert (depth(here).messages, depth(there).messages) == (1, 0)
