"""Own tables of older versions: the installer adds the columns that they lack, and until then readers say so."""

from __future__ import annotations

import re
import uuid
from collections.abc import Collection, Iterator
from dataclasses import replace

import pytest

from airflow_sqlqueue import QueueClient
from airflow_sqlqueue.client import tables as client_tables
from airflow_sqlqueue.drain.ledger import Ledger
from airflow_sqlqueue.drain.streams import StreamTable
from airflow_sqlqueue.errors import PermissionDeniedError, StatementError, WrongBatchError
from airflow_sqlqueue.messages.message import Message
from airflow_sqlqueue.messages.routing import ResolvedAddress
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.queue.send_ledger import SendLedger
from airflow_sqlqueue.queue.tables.create import Definition, create, create_queue, script
from airflow_sqlqueue.queue.tables.own import OwnTable, stored_name
from airflow_sqlqueue.queue.tables.reading import read_layout
from airflow_sqlqueue.server.session import Session
from airflow_sqlqueue.server.settings import ConnectionSettings
from airflow_sqlqueue.untrusted import units
from tests.contract.conftest import LoginIn, run_sql

assert client_tables
OWN_TABLES = sorted(OwnTable.__subclasses__(), key=lambda table: table.name)


def test_a_long_address_fits_into_its_column() -> None:
    smileys = ResolvedAddress("\U0001f600" * 64, "]" * 128, "]" * 128)
    stored = stored_name(smileys.canonical)
    assert units(stored) == 400
    assert smileys.canonical.startswith(stored)


ALWAYS = {
    "Archive": "ArchiveId Queue ArchivedAt ArchivedBy Reason",
    "Batch": "BatchId Queue Origin State OpenedAt",
    "BatchMessage": "BatchId PartId",
    "Consumer": "Name Queue Generation Done ChangedAt",
    "Copy": "CopyId Name Queue TableId High Gaps Messages ChangedAt",
    "CopyGap": "CopyId Low High",
    "Inbox": "MessageKey Queue MessageId HandledAt",
    "Outgoing": "AttemptId StagedAt",
    "Part": "PartId BatchId Messages Expired Bytes MinRowVersion MaxRowVersion Worker CommittedAt",
    "Quarantine": "QuarantineId BatchId Queue Reason QuarantinedAt",
    "Send": "SendId Queue Origin SentAt",
}
"""Columns that each version of a table has had."""


@pytest.fixture
def own_schema(session: Session) -> Iterator[str]:
    """Schema without tables for those of this package."""
    name = f"own_{uuid.uuid4().hex[:10]}"
    run_sql(session, f"CREATE SCHEMA [{name}]")
    yield name
    for table in OWN_TABLES:
        run_sql(session, f"DROP TABLE IF EXISTS [{name}].[{table.name}]")
    run_sql(session, f"DROP SCHEMA [{name}]")


def make_older(session: Session, definition: Definition, lacking: Collection[str]) -> None:
    """Make a table as a version did that had none of these columns, nor the indexes."""
    text = definition.statements[0].text
    for name in lacking:
        text, found = re.subn(rf"^    \[{name}\] .+\n", "", text, flags=re.MULTILINE)
        assert found == 1
    run_sql(session, f"DROP TABLE IF EXISTS {definition.table.qualified_name}")
    run_sql(session, re.sub(r",\s*\n\)", "\n)", text))


def columns(session: Session, definition: Definition) -> dict[str, str]:
    return {name: str(column) for name, column in read_layout(session, definition.table).columns.items()}


def added_later(definition: Definition) -> list[str]:
    """Columns that an older table can lack."""
    return re.findall(r"ADD \[(\w+)\]", definition.additions.text)


@pytest.mark.parametrize("own", OWN_TABLES, ids=lambda own: own.name)
def test_older_tables_get_the_columns_that_they_lack(session: Session, own_schema: str, own: type[OwnTable]) -> None:
    """The first and the last column alone, and all together: these by the script for an administrator as well."""
    definition = own.definition(session.settings.database, own_schema)
    create(session, definition)
    today = columns(session, definition)
    assert list(today) == list(definition.columns)
    later = added_later(definition)
    for lacking in (later[:1], later[-1:], later):
        make_older(session, definition, lacking)
        found = definition.differences(read_layout(session, definition.table))
        assert found == [f"the column {name} is missing" for name in definition.columns if name in lacking]
        result = create(session, definition)
        assert (result.made, result.differences) == (False, ())
        assert columns(session, definition) == today
    make_older(session, definition, later)
    for batch in 2 * script([definition]).split("\nGO\n"):
        if batch:
            run_sql(session, batch)
    assert columns(session, definition) == today


def test_columns_without_null_and_default_are_those_of_the_first_version() -> None:
    """Rows of an older table could not have another one: CREATE TABLE gives a new column NULL, or a default."""
    for table in OWN_TABLES:
        definition = table.definition("db")
        later = added_later(definition)
        assert [name for name in definition.columns if name not in later] == ALWAYS[table.name].split(), table.name


def test_the_command_and_the_script_have_every_own_table(settings: ConnectionSettings) -> None:
    text = QueueClient(settings).tables.script("orders", ledger=True)
    for table in OWN_TABLES:
        assert f"CREATE TABLE [{settings.database}].[sqlqueue].[{table.name}]" in text


def test_rows_of_an_older_table_stay(session: Session, own_schema: str) -> None:
    definition = Ledger.definition(session.settings.database, own_schema)
    make_older(session, definition, added_later(definition))
    name, values = definition.table.qualified_name, f"'{uuid.uuid4()}', 'orders', '', 'open', SYSUTCDATETIME()"
    run_sql(session, f"INSERT INTO {name} ([BatchId], [Queue], [Origin], [State], [OpenedAt]) VALUES ({values})")
    create(session, definition)
    rows = run_sql(session, f"SELECT [Queue], [Stage], [Kept], [Redacted] FROM {name}")
    assert [tuple(row) for row in rows] == [("orders", "files", False, None)]


@pytest.mark.parametrize(("own", "column"), [(Ledger, "Erased"), (SendLedger, "MessageId")])
def test_the_installer_adds_what_the_runtime_misses(
    session: Session, table: ResolvedAddress, own_schema: str, login_in: LoginIn, own: type[OwnTable], column: str
) -> None:
    create_queue(session, table)
    for each in OWN_TABLES:
        create(session, each.definition(table.catalog, own_schema))
    definition = own.definition(table.catalog, own_schema)
    make_older(session, definition, [column])
    run_sql(session, f"GRANT SELECT, INSERT, UPDATE, DELETE ON SCHEMA::[{own_schema}] TO [sqlqueue_runtime]")
    run_sql(session, f"GRANT ALTER ON SCHEMA::[{own_schema}] TO [sqlqueue_installer]")

    def work() -> object:
        with login_in("sqlqueue_runtime")() as low:
            if own is Ledger:
                return QueueClient(replace(low.settings, ledger_schema=own_schema)).batches.list()
            return SendLedger(low, table.catalog, own_schema).send(QueueTable(low, table), uuid.uuid4(), [Message()])

    with pytest.raises(StatementError, match="as an older version made it; run 'sqlqueue create <queue> --ledger'"):
        work()
    with login_in("sqlqueue_runtime")() as low, pytest.raises(PermissionDeniedError):
        create(low, definition)
    with login_in("sqlqueue_installer")() as installer:
        assert create(installer, definition).differences == ()
    work()
    with login_in("sqlqueue_runtime")() as low:
        assert create(low, definition).differences == ()


def test_a_claim_of_a_stream_is_done_once(session: Session, own_schema: str) -> None:
    table = StreamTable(session, run_sql(session, "SELECT DB_NAME()")[0][0], own_schema)
    table.create()
    state = table.enter("orders", "orders@[dbo]@[sqlqueue]")
    table.advance(state, 1)
    with pytest.raises(WrongBatchError, match="'orders' has advanced meanwhile"):
        table.advance(state, 1)
    assert table.enter("orders", "orders@[dbo]@[sqlqueue]").done == 1
