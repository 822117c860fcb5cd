"""Findings of an inspection, and the statements that fix them, on any server."""

from __future__ import annotations

import os
import re
import uuid
from dataclasses import replace

import pytest

from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.messages.message import Message
from airflow_sqlqueue.messages.routing import AddressResolver, ResolvedAddress
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.queue.inspection.findings import ServerFacts
from airflow_sqlqueue.queue.inspection.inspect import fix, inspect
from airflow_sqlqueue.queue.tables.create import create, create_queue, delayed_definition
from airflow_sqlqueue.server.session import Session
from airflow_sqlqueue.server.settings import ConnectionSettings
from tests.contract.conftest import Connect, run_sql


def codes(session: Session, table: ResolvedAddress) -> list[str]:
    return [finding.code for finding in inspect(session, table).findings]


def fixes(session: Session, table: ResolvedAddress, code: str) -> None:
    """The finding is there, its statement runs, and it is gone; everything else stays."""
    before = codes(session, table)
    assert code in before
    found = fix(session, table, code)
    assert found.fix is not None
    assert codes(session, table) == [each for each in before if each != code]


@pytest.mark.parametrize("layout", ["modern", "clustered", "v4", "v9"])
def test_a_sound_queue_has_no_findings(session: Session, table: ResolvedAddress, layout: str) -> None:
    create_queue(session, table, layout=layout)
    QueueTable(session, table).send([Message()])
    inspection = inspect(session, table)
    assert (inspection.findings, inspection.rows) == ((), 1)


def test_an_old_queue_is_mended_one_finding_at_a_time(session: Session, table: ResolvedAddress) -> None:
    create_queue(session, table, layout="v1")
    QueueTable(session, table).send([Message({"a": "b"}, b"kept")])
    assert codes(session, table) == ["headers-not-unicode", "expires-index-missing"]
    fixes(session, table, "headers-not-unicode")
    fixes(session, table, "expires-index-missing")
    assert inspect(session, table).layout.names == ("clustered", "v3.1", "v4")
    assert [message.body for message in QueueTable(session, table).receive()] == [b"kept"]


def test_a_plain_index_becomes_filtered(session: Session, table: ResolvedAddress) -> None:
    create_queue(session, table, layout="v2")
    fixes(session, table, "expires-index-not-filtered")
    assert inspect(session, table).layout.shape.expires_index == "filtered"


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ("DROP INDEX [Index_RowVersion] ON {table}", "row-version-index-missing"),
        ("ALTER INDEX [Index_RowVersion] ON {table} DISABLE", "row-version-index-disabled"),
        ("ALTER INDEX [Index_Expires] ON {table} DISABLE", "expires-index-disabled"),
        ("DROP INDEX [Index_Expires] ON {table}", "expires-index-missing"),
    ],
)
def test_a_missing_or_disabled_index_is_found_and_made_good(
    session: Session, table: ResolvedAddress, change: str, code: str
) -> None:
    create_queue(session, table)
    run_sql(session, change.format(table=table.qualified_name))
    fixes(session, table, code)
    assert inspect(session, table).layout.names[0] == "modern"


def test_a_disabled_clustered_index_is_rebuilt(session: Session, table: ResolvedAddress) -> None:
    create_queue(session, table, layout="clustered")
    run_sql(session, f"ALTER INDEX [Index_RowVersion] ON {table.qualified_name} DISABLE")
    assert "row-version-index-disabled" in codes(session, table)
    fix(session, table, "row-version-index-disabled")
    QueueTable(session, table).send([Message()])


def test_a_trigger_on_deletes_is_found_and_disabled(session: Session, table: ResolvedAddress) -> None:
    create_queue(session, table)
    schema = f"[{table.schema}]"
    run_sql(session, f"CREATE TRIGGER {schema}.[{table.table}.a] ON {schema}.[{table.table}] AFTER INSERT AS RETURN;")
    run_sql(session, f"CREATE TRIGGER {schema}.[{table.table}.b] ON {schema}.[{table.table}] AFTER DELETE AS RETURN;")
    assert codes(session, table) == [f"trigger-{table.table}.b"]
    fixes(session, table, f"trigger-{table.table}.b")


def test_a_column_that_must_be_filled_is_found_and_left_to_its_owner(session: Session, table: ResolvedAddress) -> None:
    create_queue(session, table)
    run_sql(session, f"ALTER TABLE {table.qualified_name} ADD [Tenant] int NOT NULL")
    assert codes(session, table) == ["unfilled-Tenant"]
    with pytest.raises(ConfigurationError, match="No statement fixes 'unfilled-Tenant': The column Tenant takes"):
        fix(session, table, "unfilled-Tenant")


def test_delayed_durability_is_reported(session: Session, other_catalog: str) -> None:
    table = ResolvedAddress("audit", "dbo", other_catalog)
    create_queue(session, table)
    run_sql(session, f"ALTER DATABASE [{other_catalog}] SET DELAYED_DURABILITY = ALLOWED")
    assert codes(session, table) == []
    run_sql(session, f"ALTER DATABASE [{other_catalog}] SET DELAYED_DURABILITY = FORCED")
    (found,) = inspect(session, table).findings
    assert (found.code, found.severity, found.fix) == ("delayed-durability", "warning", None)
    assert other_catalog in found.text


def test_delayed_messages_need_the_legacy_columns(session: Session, table: ResolvedAddress) -> None:
    create_queue(session, table, legacy_columns=False)
    delayed = replace(table, table=f"{table.table}.Delayed")
    assert codes(session, table) == []
    create(session, delayed_definition(delayed))
    try:
        QueueTable(session, table).send([Message(body=b"kept")])
        fixes(session, table, "delayed-needs-legacy-columns")
        assert [message.body for message in QueueTable(session, table).receive()] == [b"kept"]
        assert inspect(session, delayed).findings == ()
    finally:
        run_sql(session, f"DROP TABLE {delayed.qualified_name}")


@pytest.mark.parametrize("column", ["CorrelationId", "ReplyToAddress", "Recoverable"])
def test_delayed_messages_need_each_of_the_legacy_columns(
    session: Session, table: ResolvedAddress, column: str
) -> None:
    create_queue(session, table)
    run_sql(session, f"ALTER TABLE {table.qualified_name} DROP COLUMN [{column}]")
    delayed = replace(table, table=f"{table.table}.Delayed")
    create(session, delayed_definition(delayed))
    try:
        (found,) = inspect(session, table).findings
        assert found.code == "delayed-needs-legacy-columns"
        assert found.text.endswith(f"with the columns {column}.")
    finally:
        run_sql(session, f"DROP TABLE {delayed.qualified_name}")


def test_lock_escalation_on_a_long_queue_is_found_and_disabled(session: Session, table: ResolvedAddress) -> None:
    create_queue(session, table)
    QueueTable(session, table).send(Message() for _ in range(5_001))
    fixes(session, table, "lock-escalation")
    assert inspect(session, table).layout.lock_escalation == "DISABLE"


def test_a_finding_that_the_queue_does_not_have_is_not_fixed(session: Session, table: ResolvedAddress) -> None:
    create_queue(session, table, layout="v1")
    with pytest.raises(ConfigurationError, match=r"no finding 'heap-bloat' \(it has: headers-not-unicode, expires-"):
        fix(session, table, "heap-bloat")


def test_empty_pages_of_a_heap_are_found_and_given_back(session: Session, table: ResolvedAddress) -> None:
    """Four rows to a page, deleted row by row: a heap keeps their pages.

    The last row stays, in the last page: the local server gives pages back at the end of a table, whenever it likes.
    """
    create_queue(session, table)
    queue = QueueTable(session, table)
    queue.send(Message(body=os.urandom(1_900)) for _ in range(4_900))
    assert "heap-bloat" not in codes(session, table)
    last = f"(SELECT MAX([RowVersion]) FROM {table.qualified_name})"
    run_sql(session, f"DELETE FROM {table.qualified_name} WITH (ROWLOCK) WHERE [RowVersion] < {last}")
    (finding,) = inspect(session, table).findings
    assert finding.code == "heap-bloat"
    assert re.search(r"at least 1,[0-9]{3} pages of", finding.text)
    fixes(session, table, "heap-bloat")


@pytest.mark.parametrize("layout", ["clustered", "modern"])
def test_pages_of_a_table_and_its_indexes_are_read(session: Session, table: ResolvedAddress, layout: str) -> None:
    """Four rows to a page: pages of bodies that do not fit into a row are not counted."""
    create_queue(session, table, layout=layout)
    sent = 4_400
    QueueTable(session, table).send(Message(body=os.urandom(1_900)) for _ in range(sent))
    facts = ServerFacts(session)
    pages = {each.index: each for each in facts.pages(table)}
    rows = pages["Index_RowVersion" if layout == "clustered" else None]
    assert pages.keys() - {"Index_Expires"} == {"Index_RowVersion", rows.index}
    assert rows.records == pages["Index_RowVersion"].records == sent
    assert 1_000 <= rows.pages <= 2_000
    for each in pages.values():
        assert (each.forwarded, each.page_locks) == (0, True)
        assert each.ghosts >= 0
        assert each.version_ghosts >= 0
        assert 0 <= each.fragmentation <= 100
    if layout == "clustered":
        assert rows.fragmentation < 30, "rows that come in order keep the pages in order"
    assert codes(session, table) == []
    assert facts.pages(replace(table, table=f"{table.table}.gone")) == []


def test_another_program_consumes_the_audit_queue(
    session: Session, settings: ConnectionSettings, address_of: AddressResolver
) -> None:
    audit = address_of.resolve(f"test{uuid.uuid4().hex[:10]}.audit")
    create_queue(session, audit)
    try:
        assert codes(session, audit) == []
        endpoint = replace(settings, keywords={**settings.keywords, "APP": "ServiceControl.Audit"})
        with Session(endpoint) as other:
            QueueTable(other, audit).receive()
            finding = next(f for f in inspect(session, audit).findings if f.code == "other-consumer")
            assert "ServiceControl.Audit" in finding.text
            assert finding.fix is None
        assert codes(session, audit) == []
    finally:
        run_sql(session, f"DROP TABLE {audit.qualified_name}")


def test_our_own_sessions_are_no_other_consumers(
    connect: Connect, session: Session, address_of: AddressResolver
) -> None:
    errors = address_of.resolve(f"test{uuid.uuid4().hex[:10]}.error")
    create_queue(session, errors)
    try:
        with connect() as other:
            QueueTable(other, errors).receive()
            assert codes(session, errors) == []
    finally:
        run_sql(session, f"DROP TABLE {errors.qualified_name}")
