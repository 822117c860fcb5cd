"""Least privilege: the two roles of docs/permissions.sql are enough, and what lacks is named; on any server."""

from __future__ import annotations

import uuid
from collections import Counter
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from unittest.mock import patch

import pytest

from airflow_sqlqueue import QueueClient
from airflow_sqlqueue.drain.ledger import Ledger, ledger_definitions
from airflow_sqlqueue.drain.storage.folder import StagingFolder
from airflow_sqlqueue.errors import PermissionDeniedError, QueueNotFoundError
from airflow_sqlqueue.messages.message import HeaderNames, Message
from airflow_sqlqueue.messages.routing import AddressResolver, ResolvedAddress
from airflow_sqlqueue.queue import QueueTable, copies
from airflow_sqlqueue.queue.copies import CopyTable, QueueCopy
from airflow_sqlqueue.queue.depth import depth
from airflow_sqlqueue.queue.errors.archive import Archive
from airflow_sqlqueue.queue.inbox import Inbox
from airflow_sqlqueue.queue.inspection.inspect import fix, inspect
from airflow_sqlqueue.queue.inspection.overview import LAYOUTS_FOR, DatabaseOverview
from airflow_sqlqueue.queue.purge import purge
from airflow_sqlqueue.queue.receivers import other_receivers
from airflow_sqlqueue.queue.tables.create import create, create_queue, drop_queue
from airflow_sqlqueue.queue.tables.discovery import list_tables
from airflow_sqlqueue.queue.tables.layout import SHAPES
from airflow_sqlqueue.queue.tables.reading import exists
from airflow_sqlqueue.server.session import Session
from airflow_sqlqueue.server.settings import ConnectionSettings
from tests.contract.conftest import Exercise, LoginIn, run_sql
from tests.drains import drain


def test_the_runtime_role_archives_and_restores(
    session: Session, table: ResolvedAddress, login_in: LoginIn, settings: ConnectionSettings
) -> None:
    create_queue(session, table)
    QueueTable(session, table).send([Message({"a": "b"})] * 3)
    runtime = login_in("sqlqueue_runtime")
    create(session, Archive.definition(table.catalog))
    with runtime() as low:
        client = QueueClient(low.settings)
        errors, name = client.errors, table.canonical
        assert errors.archive(name, all_messages=True).messages == 3
        assert errors.archived.restore(name, all_messages=True).messages == 3
        assert errors.archive(name, all_messages=True).messages == 3
        assert errors.archived.delete(name, all_messages=True, confirm=True).messages == 3


def test_the_runtime_role_does_everything_at_run_time(
    session: Session, table: ResolvedAddress, login_in: LoginIn, exercise: Exercise
) -> None:
    create_queue(session, table, layout="v1")
    Ledger(session, table.catalog).create()
    runtime = login_in("sqlqueue_runtime")
    exercise(table, runtime)
    with runtime() as low:
        assert "v1" in inspect(low, table).layout.names
        assert table in [found.table for found in list_tables(low, table.catalog)]


def test_the_runtime_role_uses_an_inbox_and_does_not_create_it(
    session: Session, table: ResolvedAddress, login_in: LoginIn
) -> None:
    schema = f"s{uuid.uuid4().hex[:10]}"
    run_sql(session, f"CREATE SCHEMA [{schema}]")
    with login_in("sqlqueue_runtime")() as low:
        inbox = Inbox(low, table.catalog, schema)
        with pytest.raises(PermissionDeniedError, match="CREATE TABLE"):
            inbox.create()
        Inbox(session, table.catalog, schema).create()
        inbox.create()
        with low.transaction():
            assert [inbox.enter(table, message_id) for message_id in ("a", "b", "a")] == [True, True, False]
            inbox.leave(table, "b")
        assert not inbox.forget(table, timedelta(days=1))
        with low.transaction():
            assert [inbox.enter(table, message_id) for message_id in ("a", "b")] == [False, True]
    run_sql(session, f"DROP TABLE [{schema}].[Inbox]; DROP SCHEMA [{schema}]")


def test_without_the_right_to_definitions_a_filtered_index_counts_as_one(
    session: Session, table: ResolvedAddress, login_in: LoginIn
) -> None:
    """A login that may read and write sees that an index has a filter, not its text ("sys.indexes (Transact-SQL)")."""
    create_queue(session, table)
    QueueTable(session, table).send([Message()] * 3)
    number = f"[RowVersion.{uuid.uuid4().hex[:8]}]"
    run_sql(session, f"CREATE INDEX {number} ON {table.qualified_name} ([RowVersion]) WHERE [RowVersion] > 2")
    with login_in("sqlqueue_runtime")() as low:
        inspected = inspect(low, table)
        assert inspected.layout.shape == inspect(session, table).layout.shape == SHAPES["modern"]
        assert inspected.layout.seek_index == "Index_RowVersion"
        assert [finding.code for finding in inspected.findings] == []
        (overview,) = (each for each in DatabaseOverview(table.catalog).read(low) if each.table == table)
        assert overview.findings == ()
        queue, asked = QueueTable(low, table), list[str]()
        with patch.object(queue, "query", lambda name, **names: asked.append(name) or QueueTable.query(queue, name)):
            assert depth(queue).messages == 3
        assert asked == ["queue.depth_by_indexes"]
        assert len(queue.receive(3)) == 3


def test_the_fixed_roles_do_as_well(
    session: Session, table: ResolvedAddress, login_in: LoginIn, exercise: Exercise
) -> None:
    create_queue(session, table)
    Ledger(session, table.catalog).create()
    exercise(table, login_in("db_datareader", "db_datawriter"))


def test_a_trigger_that_the_login_may_not_see(
    session: Session, table: ResolvedAddress, login_in: LoginIn, exercise: Exercise
) -> None:
    create_queue(session, table)
    schema = f"[{table.schema}]"
    run_sql(session, f"CREATE TRIGGER {schema}.[{table.table}.t] ON {schema}.[{table.table}] AFTER DELETE AS RETURN;")
    Ledger(session, table.catalog).create()
    exercise(table, login_in("sqlqueue_runtime"))


def test_the_installer_role_creates_mends_and_drops(
    table: ResolvedAddress, login_in: LoginIn, address_of: AddressResolver
) -> None:
    with login_in("sqlqueue_installer")() as installer:
        assert create_queue(installer, table, layout="v1").made
        assert create_queue(installer, table, layout="v1").differences == ()
        for definition in ledger_definitions(table.catalog):
            create(installer, definition)
        fix(installer, table, "expires-index-missing")
        fix(installer, table, "headers-not-unicode")
        assert "v4" in inspect(installer, table).layout.names
        assert drop_queue(installer, table) == 0


def test_the_runtime_role_lacks_permissions(session: Session, table: ResolvedAddress, login_in: LoginIn) -> None:
    create_queue(session, table, layout="v1")
    with login_in("sqlqueue_runtime")() as runtime:
        other = replace(table, table=f"{table.table}.other")
        with pytest.raises(PermissionDeniedError, match="CREATE TABLE") as caught:
            create_queue(runtime, other)
        assert caught.value.permission == "CREATE TABLE"
        assert not exists(session, other)
        with pytest.raises(PermissionDeniedError, match="ALTER"):
            fix(runtime, table, "expires-index-missing")
        with pytest.raises(PermissionDeniedError):
            drop_queue(runtime, table)
    assert exists(session, table)


def test_a_reader_may_only_read(session: Session, table: ResolvedAddress, login_in: LoginIn) -> None:
    create_queue(session, table)
    QueueTable(session, table).send([Message()])
    with login_in("db_datareader")() as reader:
        queue = QueueTable(reader, table)
        assert depth(queue).messages == 1
        assert len(queue.peek()) == 1
        with pytest.raises(PermissionDeniedError, match="INSERT") as caught:
            queue.send([Message()])
        assert caught.value.permission == "INSERT"
        with pytest.raises(PermissionDeniedError, match="DELETE"):
            queue.receive()
        with pytest.raises(PermissionDeniedError, match="DELETE"):
            purge(queue)
    assert depth(QueueTable(session, table)).messages == 1


def test_a_copy_of_new_messages_needs_no_right_to_delete(
    session: Session, table: ResolvedAddress, login_in: LoginIn, tmp_path: Path
) -> None:
    create_queue(session, table)
    QueueTable(session, table).send([Message()] * 3)
    Ledger(session, table.catalog).create()
    CopyTable(session, table.catalog).create()
    role = f"copies_{uuid.uuid4().hex[:8]}"
    run_sql(session, f"CREATE ROLE [{role}]")
    run_sql(session, f"GRANT SELECT ON {table.qualified_name.partition('].')[2]} TO [{role}]")
    run_sql(session, f"GRANT SELECT, INSERT, UPDATE, DELETE ON SCHEMA::[sqlqueue] TO [{role}]")
    low = login_in(role)
    with low() as reader:
        queue, staging = QueueTable(reader, table), StagingFolder.of(str(tmp_path))
        with patch.object(copies, "CLOSING_SECONDS", 0):
            for expected in (3, 0):
                assert drain(low, queue, staging, copy=True, incremental=table.table).batch.messages == expected
        state = QueueCopy(queue, table.table).state()
        assert (state.high, state.gaps) == (3, 0)
        with pytest.raises(PermissionDeniedError, match="DELETE"):
            queue.receive()
    run_sql(session, f"ALTER ROLE [{role}] DROP MEMBER [{reader.settings.user}]; DROP ROLE [{role}]")


def test_a_login_without_any_permission(session: Session, table: ResolvedAddress, login_in: LoginIn) -> None:
    create_queue(session, table)
    with login_in()() as nobody:
        with pytest.raises(QueueNotFoundError, match="or the login has no permission on it"):
            depth(QueueTable(nobody, table))
        assert table not in [found.table for found in list_tables(nobody, table.catalog)]


def test_listing_consumers_needs_a_permission_of_its_own(
    session: Session, address_of: AddressResolver, login_in: LoginIn
) -> None:
    audit = address_of.resolve(f"test{uuid.uuid4().hex[:10]}.audit")
    create_queue(session, audit)
    try:
        with login_in("sqlqueue_runtime")() as runtime:
            (finding,) = inspect(runtime, audit).findings
            assert (finding.code, finding.severity) == ("consumers-unknown", "note")
            assert "VIEW SERVER STATE" in finding.text
            assert "Azure SQL Database VIEW DATABASE STATE" in finding.text
            assert other_receivers(runtime, audit) == []
    finally:
        run_sql(session, f"DROP TABLE {audit.qualified_name}")


def test_reading_pages_needs_a_permission_of_its_own(
    session: Session, table: ResolvedAddress, login_in: LoginIn
) -> None:
    create_queue(session, table, layout="clustered")
    QueueTable(session, table).send(Message(body=bytes(1_900)) for _ in range(4_900))
    connect = login_in("sqlqueue_runtime")
    with connect() as runtime:
        (finding,) = inspect(runtime, table).findings
        assert (finding.code, finding.severity) == ("pages-unknown", "note")
        assert "grant VIEW DATABASE STATE" in finding.text
        run_sql(session, f"GRANT VIEW DATABASE STATE TO [{runtime.settings.user}]")
        assert inspect(runtime, table).findings == ()


def test_a_queue_that_may_not_be_read_is_shown_by_its_count_and_spoils_no_other(
    session: Session, address_of: AddressResolver, login_in: LoginIn
) -> None:
    role = f"looks_{uuid.uuid4().hex[:10]}"
    may, may_not = (address_of.resolve(f"{name}.{role}") for name in ("may", "may.not"))
    sent = {HeaderNames.TIME_SENT: "2026-01-01 12:00:00:000000 Z"}
    run_sql(session, f"CREATE ROLE [{role}]")
    for table in (may, may_not):
        create_queue(session, table)
        QueueTable(session, table).send([Message(sent)] * 3)
        run_sql(session, f"GRANT VIEW DEFINITION ON {in_database(table)} TO [{role}]")
    run_sql(session, f"GRANT SELECT ON {in_database(may)} TO [{role}]")
    try:
        now = [0.0]
        database, asked = DatabaseOverview(may.catalog, clock=lambda: now[0]), Counter[int]()
        queries = database._head_queries
        counted = patch.object(database, "_head_queries", lambda each: asked.update([each]) or queries(each))
        with login_in(role)() as reader, counted:
            for _ in range(3):
                found = {each.table: each for each in database.read(reader)}
                assert [found[table].rows for table in (may, may_not)] == [3, 3]
            assert found[may].oldest is not None
            assert found[may_not].oldest is None
            assert min(asked.values()) == 2, "with the others and by itself, and not again"
            run_sql(session, f"GRANT SELECT ON {in_database(may_not)} TO [{role}]")
            for moment, is_seen in ((LAYOUTS_FOR - 1, False), (LAYOUTS_FOR, False), (LAYOUTS_FOR, True)):
                now[0] = moment
                found = {each.table: each for each in database.read(reader)}
                assert (found[may].oldest is not None, found[may_not].oldest is not None) == (True, is_seen)
    finally:
        for table in (may, may_not):
            drop_queue(session, table, force=True)


def in_database(table: ResolvedAddress) -> str:
    """Permissions are given in the database of an object."""
    return f"[{table.schema}].[{table.table}]"
