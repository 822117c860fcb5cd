"""A queue under each spelling of its address: one table on the server is one queue for all that is stored about it."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path

import pytest

from airflow_sqlqueue import QueueClient
from airflow_sqlqueue.drain.request import DrainRequest
from airflow_sqlqueue.drain.streams import StreamTable
from airflow_sqlqueue.endpoint.options import ConsumeOptions
from airflow_sqlqueue.errors import (
    AddressError,
    ConfigurationError,
    NotAQueueError,
    PermissionDeniedError,
    WrongBatchError,
)
from airflow_sqlqueue.messages.message import HeaderNames, Message
from airflow_sqlqueue.messages.routing import AddressResolver, ResolvedAddress
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.queue.publishing.private_queue import private_queue, sweep_private_queues
from airflow_sqlqueue.queue.quarantine import NO_BATCH, Quarantine
from airflow_sqlqueue.queue.tables.create import create_queue
from airflow_sqlqueue.queue.tables.reading import identify
from airflow_sqlqueue.server.session import Session
from airflow_sqlqueue.server.settings import ConnectionSettings
from tests.contract.conftest import run_sql

EVENT, EPOCH = "Shop.OrderPlaced", datetime(2020, 1, 1, tzinfo=timezone.utc)


@dataclass
class Zoo:
    """Queue with its spellings by their kinds; ``table`` has the names as the catalog spells them."""

    client: QueueClient
    session: Session
    table: ResolvedAddress
    kinds: list[list[str]]

    @property
    def spellings(self) -> list[str]:
        """One of each kind."""
        return [kind[0] for kind in self.kinds]

    @property
    def name(self) -> str:
        return self.table.canonical

    def put(self, *bodies: bytes, **headers: str) -> None:
        self.client.queue(self.name).send(Message(dict(headers), body) for body in bodies)


@pytest.fixture(scope="module")
def other_catalog(settings: ConnectionSettings) -> Iterator[str]:
    """Another database, for all tests here."""
    name = f"test_{uuid.uuid4().hex[:10]}"
    client = QueueClient(settings)
    try:
        client.run_sql(f"CREATE DATABASE [{name}]")
    except PermissionDeniedError:
        pytest.skip("the login of the test server may not create databases")
    yield name
    client.run_sql(f"DROP DATABASE [{name}]")


@pytest.fixture
def zoo(
    settings: ConnectionSettings, session: Session, schema: str, other_catalog: str, server_url: str
) -> Iterator[Zoo]:
    """A queue whose name has both cases, in the test's own schema, with synonyms in this and in another database."""
    client = QueueClient(settings, AddressResolver(schema, settings.database), lock_timeout=10)
    create_queue(session, ResolvedAddress("Zoo.Orders", schema, settings.database))
    (catalog,) = run_sql(session, "SELECT DB_NAME()")[0]
    table = ResolvedAddress("Zoo.Orders", schema, catalog)
    run_sql(session, f"CREATE SYNONYM [{schema}].[near] FOR [{schema}].[Zoo.Orders]")
    with Session(replace(settings, database=other_catalog), lock_timeout=10) as there:
        run_sql(there, f"DROP SYNONYM IF EXISTS [dbo].[far]; CREATE SYNONYM [dbo].[far] FOR {table.qualified_name}")
    kinds = [
        ["Zoo.Orders", f"Zoo.Orders@{schema}", f"Zoo.Orders@[{schema}]", f"Zoo.Orders@[]@[{catalog}]"],
        [f"ZOO.ORDERS@[{schema.upper()}]", "zoo.orders", f"Zoo.Orders@{schema.upper()}"],
        [f"zoo.Orders@[{schema}]@[{catalog.upper()}]", f"Zoo.Orders@{schema}@{catalog.swapcase()}"],
        *(["Zoo.Orders@WEB01"], ["Zoo.Orders "], ["NEAR", "near"], [f"far@[dbo]@[{other_catalog}]"]),
    ]
    by_server = f"SELECT OBJECT_ID(N'{table.qualified_name}'), OBJECT_ID(N'{{}}')"

    def is_one(text: str) -> bool:
        """Whether the server takes the spelling for this object; its collation decides."""
        spelled = client.resolver.resolve(text).qualified_name
        own, found = run_sql(session, by_server.format(spelled))[0]
        return bool(own == found) or "near" in text.lower() or text.startswith("far") or text.endswith("@WEB01")

    known = [[text for text in kind if is_one(text)] for kind in kinds]
    yield Zoo(client, session, table, [kind for kind in known if kind])
    run_sql(session, f"DROP SYNONYM [{schema}].[near]")


def test_the_zoo_has_every_kind_that_the_server_knows(zoo: Zoo) -> None:
    """Without a case-insensitive collation fewer spellings are one name; the others are none."""
    assert len(zoo.spellings) >= 5
    assert all(zoo.client.find(text) == zoo.table for kind in zoo.kinds for text in kind)


def copies(zoo: Zoo, tmp_path: Path) -> None:
    request = DrainRequest(copy=True, incremental=f"zoo {zoo.table.schema}")
    zoo.put(b"1", b"2")
    found = [zoo.client.queue(text).drain(tmp_path, request).batch.messages for text in zoo.spellings]
    assert found == [2, *[0] * (len(found) - 1)]
    for text in zoo.spellings:
        (info,) = zoo.client.copies.list(text)
        assert (info.queue, info.messages) == (zoo.name, 2)
    assert zoo.client.copies.reset(request.incremental or "", zoo.spellings[-1])


def inbox(zoo: Zoo, tmp_path: Path) -> None:
    zoo.client.tables.create("error")
    zoo.client.tables.create("Zoo.Orders", delayed=True)
    handled = []
    for text in zoo.spellings:
        zoo.put(text.encode(), **{HeaderNames.MESSAGE_ID: "one id"})
        done = zoo.client.queue(text).consume(
            lambda message: handled.append(message.body), ConsumeOptions(inbox=True, max_handlers=1)
        )
        assert done.handled + done.duplicates == 1
    assert handled == [zoo.spellings[0].encode()]


def an_event(zoo: Zoo, tmp_path: Path) -> None:
    events = zoo.client.subscriptions
    zoo.client.tables.create("Zoo.Orders", subscriptions=True)
    there = events.address.qualified_name
    for number, text in enumerate(zoo.spellings):
        run_sql(zoo.session, f"INSERT INTO {there} VALUES (N'{text}', N'endpoint {number}', N'{EVENT}')")
    far = zoo.spellings[-1].startswith("far")
    assert far, "the synonym in another database leads to an allowed one"
    done = events.publish([EVENT], [Message(body=b"once")])
    assert (done.queues, done.copies) == ((zoo.name,), 1)
    assert zoo.client.queue(zoo.name).depth().messages == 1


def a_batch(zoo: Zoo, tmp_path: Path) -> None:
    request = DrainRequest(batch_id=uuid.uuid4())
    zoo.put(b"1", b"2")
    for text in zoo.spellings:
        done = zoo.client.queue(text).drain(tmp_path, request)
        assert (done.batch.messages, done.batch.queue) == (2, zoo.name)
        assert [info.batch_id for info in zoo.client.batches.list(text)] == [request.batch_id]
        assert zoo.client.batches.get(uuid.UUID(done.batch.batch_id), text) == done.batch
    assert zoo.client.batches.requeue(uuid.UUID(done.batch.batch_id), zoo.spellings[-1]).batch.messages == 2


def locks(zoo: Zoo, tmp_path: Path) -> None:
    batch_id = uuid.uuid4()
    with zoo.client.batches.locks(zoo.name) as held:
        assert held.take(batch_id)
        for text in zoo.spellings:
            with zoo.client.batches.locks(text) as others:
                assert not others.take(batch_id)


def a_stream(zoo: Zoo, tmp_path: Path) -> None:
    table = StreamTable(zoo.session, zoo.table.catalog)
    table.create()
    name = f"zoo {zoo.table.schema}"
    states = [table.enter(name, zoo.client.find(text).canonical) for text in zoo.spellings]
    assert len(set(states)) == 1
    with pytest.raises(WrongBatchError):
        table.enter(name, "other@[dbo]@[sqlqueue]")
    assert all([info.name for info in zoo.client.streams.list(text)] == [name] for text in zoo.spellings)
    table.forget(states[0])


def a_send(zoo: Zoo, tmp_path: Path) -> None:
    send_id = uuid.uuid4()
    found = [zoo.client.queue(text).send_once(send_id, [Message()]).repeated for text in zoo.spellings]
    assert found == [False, *[True] * (len(found) - 1)]
    assert zoo.client.queue(zoo.name).depth().messages == 1


def the_archive(zoo: Zoo, tmp_path: Path) -> None:
    for text in zoo.spellings:
        zoo.put(b"failed")
        assert zoo.client.errors.archive(text, all_messages=True).messages == 1
    for text in zoo.spellings:
        assert zoo.client.errors.archived.triage(text).matched == len(zoo.spellings)
    assert zoo.client.errors.archived.restore(zoo.spellings[-1], all_messages=True).messages == len(zoo.spellings)


def the_quarantine(zoo: Zoo, tmp_path: Path) -> None:
    quarantine = Quarantine(zoo.session, zoo.table.catalog)
    quarantine.create()
    for text in zoo.spellings:
        zoo.put(b"odd")
        queue = zoo.client.queue(text).open_in(zoo.session)
        assert quarantine.move(queue, NO_BATCH, {queue.peek()[0].row_version: "a test"}) == 1
    for left, text in zip(range(len(zoo.spellings), 0, -1), zoo.spellings, strict=True):
        found = zoo.client.quarantine.list(text)
        assert len(found) == left
        zoo.client.quarantine.requeue(text, [found[0].number])


def itself(zoo: Zoo, tmp_path: Path) -> None:
    zoo.put(b"1")
    for text in zoo.spellings:
        with pytest.raises(ConfigurationError, match="cannot be forwarded to itself"):
            zoo.client.queue(zoo.name).forward(text)
        with pytest.raises(ConfigurationError, match="already: name another queue"):
            zoo.client.errors.park(text, zoo.name, all_messages=True)
        with pytest.raises(ConfigurationError, match="already: name another queue"):
            zoo.client.errors.redirect(text, zoo.name, all_messages=True)
        options = ConsumeOptions(audit_queue=text, error_queue=text)
        with pytest.raises(ConfigurationError, match="is its own error queue"):
            zoo.client.queue(zoo.name).consume(lambda message: None, options)


def its_own_destination(zoo: Zoo, tmp_path: Path) -> None:
    """A delayed message with the queue itself as its destination is handled here, not sent here once more."""
    zoo.client.tables.create("error")
    zoo.client.tables.create("Zoo.Orders", delayed=True)
    for text in zoo.spellings:
        zoo.put(text.encode(), **{HeaderNames.FORWARD_DESTINATION: text})
    done = zoo.client.queue(zoo.name).consume(lambda message: None, ConsumeOptions(max_handlers=1))
    assert (done.handled, done.forwarded) == (len(zoo.spellings), 0)
    delayed = zoo.client.delayed(zoo.name)
    delayed.send([Message({HeaderNames.FORWARD_DESTINATION: text}, text.encode()) for text in zoo.spellings], due=EPOCH)
    moved = delayed.move()
    assert (moved.moved, moved.forwarded) == (len(zoo.spellings), 0)


def a_private_queue(zoo: Zoo, tmp_path: Path) -> None:
    """A sweep under another spelling of the schema finds the queue locked, as long as its process waits there."""
    schemas = {zoo.table.schema}
    if run_sql(zoo.session, f"SELECT SCHEMA_ID(N'{zoo.table.schema.upper()}')")[0][0] is not None:
        schemas.add(zoo.table.schema.upper())
    with private_queue(zoo.session, zoo.client.resolver) as queue, zoo.client.session() as other:
        for schema in schemas:
            assert sweep_private_queues(other, replace(zoo.client.resolver, default_schema=schema)) == []
        assert identify(other, queue.address) == queue.address


Use = Callable[[Zoo, Path], None]
USES: list[Use] = [
    *(copies, inbox, an_event, a_batch, locks, a_stream, a_send, the_archive, the_quarantine, itself),
    *(its_own_destination, a_private_queue),
]


@pytest.mark.parametrize("use", USES, ids=lambda use: use.__name__)
def test_every_spelling_is_the_same_queue(zoo: Zoo, tmp_path: Path, use: Use) -> None:
    use(zoo, tmp_path)


def test_headers_lead_to_allowed_names_in_every_spelling_of_them(zoo: Zoo) -> None:
    """The server compares the names of the settings too; two names that it tells apart are never one here."""
    own, others = zoo.table, ["nsb", f"{zoo.table.schema}x"]
    spelled = [own.schema, f"[{own.schema}]"]
    if run_sql(zoo.session, f"SELECT SCHEMA_ID(N'{own.schema.upper()}')")[0][0] is not None:
        spelled.append(own.schema.upper())
    for text in zoo.spellings:
        queue = QueueTable(zoo.session, zoo.client.resolver.resolve(text))
        if text.endswith("@WEB01"):
            continue
        for allowed in spelled:
            queue.require_allowed(replace(zoo.client.resolver, allowed_schemas=[*others, allowed]))
        with pytest.raises(AddressError, match="outside of the allowed"):
            queue.require_allowed(replace(zoo.client.resolver, allowed_schemas=others))


def test_two_names_that_differ_in_case_are_one_only_if_the_server_says_so(zoo: Zoo) -> None:
    """In a database that tells cases apart, the name of another schema must not pass for the allowed one."""
    resolver = replace(zoo.client.resolver, allowed_schemas=["Sales"])
    assert not resolver.allows(ResolvedAddress("t", "SALES", zoo.client.settings.database))
    assert resolver.allows(ResolvedAddress("t", "Sales", zoo.client.settings.database))


def test_synonyms_that_lead_to_each_other_end_the_search(zoo: Zoo) -> None:
    one, other = (replace(zoo.table, table=name) for name in ("one", "other"))
    for synonym, base in ((one, other), (other, one)):
        run_sql(zoo.session, f"CREATE SYNONYM [{one.schema}].[{synonym.table}] FOR {base.qualified_name}")
    assert identify(zoo.session, one) == other
    with pytest.raises(NotAQueueError, match="is not a queue table"):
        zoo.client.queue("one").peek()
    for synonym in (one, other):
        run_sql(zoo.session, f"DROP SYNONYM [{one.schema}].[{synonym.table}]")


def test_a_drop_does_not_go_through_a_synonym(zoo: Zoo) -> None:
    with pytest.raises(NotAQueueError, match=r"is a synonym: drop the table Zoo\.Orders"):
        zoo.client.tables.drop("near", force=True)
    assert zoo.client.tables.inspect("near").layout.object_type == "synonym"


def test_an_address_without_a_table_stays_as_it_is(zoo: Zoo, other_catalog: str) -> None:
    for text in ("nothing", f"nothing@[gone]@[{other_catalog}]", "x@[dbo]@[no such database]"):
        assert zoo.client.find(text) == zoo.client.resolve(text)
    run_sql(zoo.session, f"CREATE SYNONYM [{zoo.table.schema}].[away] FOR [server].[db].[dbo].[t]")
    run_sql(zoo.session, f"CREATE SYNONYM [{zoo.table.schema}].[dangling] FOR [{zoo.table.schema}].[none]")
    with zoo.session.transaction():
        assert identify(zoo.session, zoo.client.resolve("AWAY")).table in {"away", "AWAY"}
        assert identify(zoo.session, zoo.client.resolve("dangling")).table == "none"
        assert identify(zoo.session, zoo.client.resolve("x@[dbo]@[no such database]")).table == "x"
        assert run_sql(zoo.session, "SELECT @@TRANCOUNT")[0][0] == 1, "the look-up ends no transaction"
    for name in ("away", "dangling"):
        run_sql(zoo.session, f"DROP SYNONYM [{zoo.table.schema}].[{name}]")
