"""Finding queues in a database, and the one that an ambiguous address means, on any server."""

from __future__ import annotations

import importlib
import logging
from dataclasses import replace
from pathlib import Path

import pytest

import airflow_sqlqueue
from airflow_sqlqueue import QueueClient
from airflow_sqlqueue.errors import NotAQueueError, QueueNotFoundError
from airflow_sqlqueue.messages.message import Message
from airflow_sqlqueue.messages.routing import AddressResolver, ResolvedAddress
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.queue.depth import depth
from airflow_sqlqueue.queue.inspection.overview import DatabaseOverview
from airflow_sqlqueue.queue.tables.create import create, create_queue, delayed_definition, subscription_definition
from airflow_sqlqueue.queue.tables.discovery import find_queue, list_tables, secondary_queues
from airflow_sqlqueue.queue.tables.own import OwnTable
from airflow_sqlqueue.server.session import Session
from airflow_sqlqueue.server.settings import ConnectionSettings
from tests.contract.conftest import run_sql


def test_the_transports_tables_are_listed_by_kind(
    session: Session, resolver: AddressResolver, schema: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A table whose name holds an @ has no address."""
    audit, old = resolver.resolve("audit"), resolver.resolve("old")
    create_queue(session, audit, legacy_columns=False, body_string=True)
    create_queue(session, old, layout="v1")
    create(session, delayed_definition(resolver.resolve("old.Delayed")))
    create(session, subscription_definition(resolver.resolve("SubscriptionRouting")))
    run_sql(session, f"CREATE TABLE [{schema}].[HttpLog] ([Id] int NOT NULL, [Headers] nvarchar(max) NULL)")
    run_sql(session, f"SELECT * INTO [{schema}].[old@WEB01] FROM [{schema}].[old]")
    run_sql(session, f"CREATE TABLE [{schema}].[Forum] ([Topic] nvarchar(200) NOT NULL)")
    QueueTable(session, old).send([Message(), Message()])
    tables = [found for found in list_tables(session, audit.catalog) if found.table.schema == schema]
    assert sorted((found.table.table, found.kind, found.rows) for found in tables) == [
        ("SubscriptionRouting", "subscription", 0),
        ("audit", "queue", 0),
        ("old", "queue", 2),
        ("old.Delayed", "delayed", 0),
    ]
    assert "The table 'old@WEB01' has no address" in caplog.text


def own_tables() -> list[type[OwnTable]]:
    """Return the class of each own table, whichever module of the package defines it."""
    root = Path(airflow_sqlqueue.__file__).parent
    for file in root.rglob("*.py"):
        if "(OwnTable)" in file.read_text():
            importlib.import_module(".".join(file.relative_to(root.parent).with_suffix("").parts))
    return OwnTable.__subclasses__()


@pytest.mark.parametrize("with_queues", [True, False])
def test_own_tables_are_nowhere_shown_as_queues(
    session: Session,
    settings: ConnectionSettings,
    resolver: AddressResolver,
    schema: str,
    queue: QueueTable,
    with_queues: bool,
) -> None:
    """Whichever schema they are in, and that of queues too. A user's queue in their schema is shown, whatever its name.

    The connection need not know their schema: another one's ledger may have it.
    """
    catalog = queue.address.catalog
    client = QueueClient(replace(settings, ledger_schema=schema) if with_queues else settings, resolver)
    users = [resolver.resolve(name) for name in ("Mine", "Mine.WEB01", "Archived")]
    for table in users:
        create_queue(session, table)
    run_sql(session, f"ALTER TABLE [{schema}].[Archived] ADD [BatchId] uniqueidentifier NULL, [Expired] bit NULL")
    own = own_tables()
    assert len({table.name for table in own}) > 8
    for table in own:
        create(session, table.definition(catalog, schema))

    def here(tables: list[ResolvedAddress]) -> set[ResolvedAddress]:
        return {table for table in tables if table.schema == schema}

    assert here([found.table for found in list_tables(session, catalog)]) == set(users)
    assert here([found.layout.table for found in client.tables.inspect_all()]) == set(users)
    overview = DatabaseOverview(catalog)
    with client.session() as mine:
        assert here([found.table for found in overview.read(mine)]) == set(users)
    assert client.tables.with_secondary_queues("Mine") == [table.canonical for table in users[:2]]
    QueueTable(session, users[2]).receive()
    for table in own:
        with pytest.raises(NotAQueueError):
            QueueTable(session, table.address_in(catalog, schema)).receive()


def test_secondary_queues_are_found_by_their_primary(session: Session, resolver: AddressResolver) -> None:
    names = [
        "Sales",
        "Sales.WEB01",
        "Sales.instance-1",
        "Sales.Retries",
        "Sales.Timeouts",
        "Sales.TimeoutsDispatcher",
        "Sales.Api",
        "Sales.Api.WEB01",
        "SalesToo",
    ]
    for name in names:
        create_queue(session, resolver.resolve(name))
    create(session, delayed_definition(resolver.resolve("Sales.Delayed")))
    tables = list_tables(session, resolver.resolve("Sales").catalog)
    found = secondary_queues(tables, resolver.resolve("Sales"))
    assert sorted(table.table for table in found) == ["Sales.WEB01", "Sales.instance-1"]
    assert [table.table for table in secondary_queues(tables, resolver.resolve("Sales.Api"))] == ["Sales.Api.WEB01"]
    assert secondary_queues(tables, resolver.resolve("Sales.WEB01")) == []


def find(session: Session, resolver: AddressResolver, text: str, machines: tuple[str, ...] = ()) -> ResolvedAddress:
    return find_queue(session, resolver, text, machines)


def test_a_machine_name_is_distinguished_from_a_schema(
    session: Session, resolver: AddressResolver, schema: str, caplog: pytest.LogCaptureFixture
) -> None:
    bare = resolver.resolve("Sales")
    create_queue(session, bare)
    with caplog.at_level(logging.WARNING):
        assert find(session, resolver, "Sales@WEB01") == bare
    assert "'WEB01' is a machine's name" in caplog.text
    caplog.clear()
    assert find(session, resolver, "Sales@[WEB01]") == resolver.resolve("Sales@[WEB01]")
    assert find(session, resolver, f"Sales@{schema}") == resolver.resolve(f"Sales@{schema}")
    assert find(session, resolver, "Sales@dbo") == resolver.resolve("Sales@dbo")
    assert find(session, resolver, "Nothing@WEB01") == resolver.resolve("Nothing@WEB01")
    assert caplog.text == ""
    assert find(session, resolver, f"Sales@{schema}", (schema,)) == bare
    assert "machine's name" in caplog.text


def test_a_setting_of_the_queue_beats_the_machine(
    session: Session, resolver: AddressResolver, schema: str, caplog: pytest.LogCaptureFixture
) -> None:
    configured = replace(resolver, queue_schemas={"Sales": schema})
    create_queue(session, configured.resolve("Sales"))
    assert find(session, configured, "Sales@WEB01") == configured.resolve("Sales@[anything]")
    assert caplog.text == ""


@pytest.mark.parametrize("form", ["{schema}.audit", "[{schema}].[audit]", "[{database}].[{schema}].[audit]"])
def test_a_name_as_sql_writes_it_gets_a_hint(
    session: Session, resolver: AddressResolver, schema: str, form: str
) -> None:
    audit = resolver.resolve("audit")
    create_queue(session, audit)
    name = form.format(schema=schema, database=audit.catalog)
    with pytest.raises(QueueNotFoundError) as caught:
        depth(QueueTable(session, resolver.resolve(name)))
    assert f"write {audit.canonical} for the table" in str(caught.value)
    with pytest.raises(QueueNotFoundError, match="does not exist, or the login"):
        depth(QueueTable(session, resolver.resolve(f"{schema}.nothing")))
