"""The statements an NServiceBus endpoint runs, of every version of the transport, in other words."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest

from fakemssql.types import SqlType
from support.transport import (
    CREATE,
    MOVE_DUE,
    RECEIVE,
    SEND,
    SEND_7,
    STORE_DELAYED,
    SUBSCRIBE,
    SUBSCRIBERS,
    UNSUBSCRIBE,
)

GUID, INT, BIT = SqlType("uniqueidentifier"), SqlType("int"), SqlType("bit")
TEXT, BODY = SqlType("nvarchar", length=-1), SqlType("varbinary", length=-1)
VARCHAR = SqlType("varchar", length=255)


def send(client: Any, queue: str, body: bytes | None = b"\x00\xff", ttbr: int | None = None, text: str = "{}") -> Any:
    return client.ok(
        SEND_7.format(queue), Id=(GUID, uuid.uuid4()), Ttbr=(INT, ttbr), Headers=(TEXT, text), Body=(BODY, body)
    )


@pytest.mark.parametrize("catalog", ["", "[Other.Catalog]"])
@pytest.mark.parametrize(
    ("headers", "clustering", "body_string", "where"),
    [
        ("[varchar](max)", "CLUSTERED", "", ""),
        ("[nvarchar](max)", "CLUSTERED", "", "WHERE [Expires] IS NOT NULL"),
        ("[nvarchar](max)", "NONCLUSTERED", "BodyString as cast(Body as nvarchar(max)),", "WHERE Expires IS NOT NULL"),
    ],
)
def test_create_is_idempotent(
    client: Any, table: str, catalog: str, headers: str, clustering: str, body_string: str, where: str
) -> None:
    name = f"{catalog}.[dbo].[{table}]".lstrip(".")
    prefix = f"{catalog}." if catalog else ""
    text = CREATE.format(name, prefix, table, headers, clustering, body_string, where)
    for _ in range(2):
        client.ok(text)
        assert client.value("SELECT @@TRANCOUNT") == 0
    kinds = client.rows(
        f"SELECT name, type_desc, has_filter FROM {prefix}sys.indexes"
        f" WHERE object_id = OBJECT_ID('{name}') AND name IS NOT NULL"
        " ORDER BY name"
    )
    assert kinds == [("Index_Expires", "NONCLUSTERED", bool(where)), ("Index_RowVersion", clustering, False)]
    send(client, name, b"a\x00")
    if body_string:
        assert client.value(f"SELECT BodyString FROM {name}") == "a"


@pytest.mark.parametrize("version", sorted(RECEIVE))
def test_receive_takes_the_oldest(client: Any, queue: str, version: str) -> None:
    for number in range(3):
        send(client, queue, bytes([number]), text=f'{{"n":"{number}"}}')
    for number in range(3):
        recorder = client.ok(RECEIVE[version].format(queue))
        (row,) = recorder.results[0]
        assert row[-2:] == (f'{{"n":"{number}"}}', bytes([number]))
    recorder = client.ok(RECEIVE[version].format(queue))
    assert recorder.results == [[]]
    assert client.value("SELECT @@OPTIONS & 512") == 0


def test_receive_keeps_nocount_as_found(client: Any, queue: str) -> None:
    send(client, queue)
    client.ok("SET NOCOUNT ON")
    recorder = client.ok(RECEIVE["7"].format(queue))
    assert recorder.counts == [None]
    assert client.value("SELECT @@OPTIONS & 512") == 512


def test_expired_messages(client: Any, queue: str) -> None:
    send(client, queue, ttbr=-1000)
    send(client, queue, ttbr=60_000)
    assert [r[1] for _ in range(2) for r in client.rows(RECEIVE["7"].format(queue))] == [1, 0]
    send(client, queue, ttbr=-1000)
    send(client, queue, b"live")
    assert client.rows(RECEIVE["3"].format(queue))[0][-1] == b"live"


def test_a_lifetime_beyond_24_days_overflows_the_version_2_receive(client: Any, queue: str) -> None:
    client.ok(
        f"INSERT {queue} (Id, Recoverable, Expires, Headers) VALUES (NEWID(), 1, DATEADD(day, 25, GETUTCDATE()), '')"
    )
    assert client.error(RECEIVE["2"].format(queue)).number == 535


def test_send_of_version_6_writes_the_legacy_columns(client: Any, queue: str) -> None:
    client.ok(
        SEND.format(queue),
        Id=(GUID, uuid.UUID(int=1)), CorrelationId=(VARCHAR, "c"), ReplyToAddress=(VARCHAR, None), Ttbr=(INT, 5),
        Headers=(TEXT, "ünï \U0001f600"), Body=(BODY, None),
    )  # fmt: skip
    row = client.rows(f"SELECT * FROM {queue}")[0]
    assert (row[0], row[1], row[2], row[3], row[5], row[6]) == (
        uuid.UUID(int=1),
        "c",
        None,
        True,
        "ünï \U0001f600",
        None,
    )
    assert row[4] is not None


@pytest.mark.parametrize(
    "text",
    [
        "SELECT count(*) FROM {0} WITH (READPAST, READCOMMITTEDLOCK)",
        "SELECT count(*) FROM (SELECT TOP 10 * FROM {0} WITH (READPAST, READCOMMITTEDLOCK)) AS c",
        "SELECT isnull(cast(max([RowVersion]) - min([RowVersion]) + 1 AS int), 0) Id FROM {0} WITH (nolock)",
        "SELECT isnull(cast(max([RowVersion]) - min([RowVersion]) +"
        " 1 AS int), 0) Id FROM {0} WITH (READPAST, READCOMMITTEDLOCK)",
        "SELECT COUNT_BIG(*) FROM {0} (NOLOCK)",
        "SELECT rows FROM sys.partitions WHERE object_id = OBJECT_ID('{0}') AND index_id IN (0, 1)",
        "SELECT row_count FROM sys.dm_db_partition_stats WHERE object_id = OBJECT_ID('{0}') AND index_id < 2",
    ],
)
def test_depth(client: Any, queue: str, text: str) -> None:
    assert client.value(text.format(queue)) == 0
    for _ in range(3):
        send(client, queue)
    assert client.value(text.format(queue)) == 3


@pytest.mark.usefixtures("without_versions")
@pytest.mark.parametrize(
    "text",
    [
        "DELETE FROM {0} WHERE [Id] IN (SELECT TOP (@n) [Id] FROM {0} WITH (UPDLOCK, READPAST, ROWLOCK)"
        " WHERE [Expires] < GETUTCDATE() ORDER BY [RowVersion])",
        "DELETE FROM {0} WHERE RowVersion IN (SELECT TOP (@n) RowVersion"
        " FROM {0} WITH (NOLOCK) WHERE Expires < GETUTCDATE())",
        "DELETE FROM {0} WHERE RowVersion IN (SELECT TOP (@n) RowVersion"
        " FROM {0} WITH (READPAST) WHERE Expires < GETUTCDATE())",
        "DELETE TOP (@n) FROM {0} WITH (READPAST, ROWLOCK, READCOMMITTEDLOCK) WHERE Expires < GETUTCDATE()",
        "DELETE TOP (@n) FROM q FROM {0} AS q WITH (READPAST, INDEX(Index_Expires)) WHERE q.Expires < GETUTCDATE()",
    ],
)
def test_purge_of_expired(client: Any, queue: str, text: str) -> None:
    for ttbr in (-1000, -1000, -1000, 60_000, None):
        send(client, queue, ttbr=ttbr)
    counts = [client.ok(text.format(queue), n=(INT, 2)).counts for _ in range(3)]
    assert counts == [[2], [1], [0]]
    assert client.value(f"SELECT COUNT(*) FROM {queue}") == 2


def test_purge_of_all(client: Any, queue: str) -> None:
    send(client, queue)
    assert client.ok(f"DELETE FROM {queue}").counts == [1]


def test_delayed_delivery(client: Any, queue: str, table: str) -> None:
    delayed = f"[dbo].[{table}.Delayed]"
    client.ok(
        f"CREATE TABLE {delayed} (Headers nvarchar(max) NOT NULL, Body varbinary(max), Due datetime NOT NULL,"
        " RowVersion bigint IDENTITY(1,1) NOT NULL); CREATE NONCLUSTERED INDEX [Index_Due] ON " + delayed + " ([Due])"
    )
    zero = dict.fromkeys(("ms", "s", "n", "h", "d"), (INT, 0))
    for days, text in ((-1, "due"), (40, "later")):
        client.ok(STORE_DELAYED.format(delayed), Headers=(TEXT, text), Body=(BODY, b"b"), **{**zero, "d": (INT, days)})
    recorder = client.ok(MOVE_DUE.format(queue, delayed), BatchSize=(INT, 100))
    assert recorder.counts == [1, 1]
    now, due = recorder.results[0][0]
    assert 39 <= (due - now).days <= 40
    assert client.rows(f"SELECT Headers, Body, Recoverable FROM {queue}") == [("due", b"b", True)]
    assert client.value(f"SELECT Headers FROM {delayed}") == "later"


def test_subscriptions(client: Any, table: str) -> None:
    client.ok(
        f"CREATE TABLE [dbo].[{table}] (QueueAddress NVARCHAR(200) NOT NULL, Endpoint NVARCHAR(200) NOT NULL,"
        " Topic NVARCHAR(200) NOT NULL, PRIMARY KEY CLUSTERED (Endpoint, Topic))"
    )
    name = SqlType("nvarchar", length=200)
    counts = []
    for endpoint, address in (("Sales", "a"), ("Sales", "b"), ("SALES", "B"), ("Billing", "a")):
        recorder = client.ok(
            SUBSCRIBE.format(f"[dbo].[{table}]"),
            Endpoint=(name, endpoint),
            QueueAddress=(name, address),
            Topic=(name, "My.Event"),
        )
        counts += recorder.counts
    assert counts == [1, 1, 0, 1]
    select = SUBSCRIBERS.format(f"[dbo].[{table}]")
    assert sorted(client.rows(select, t1=(name, "System.Object"), t2=(name, "My.Event"))) == [("a",), ("b",)]
    delete = UNSUBSCRIBE.format(f"[dbo].[{table}]")
    assert client.ok(delete, e=(name, "billing"), t=(name, "My.Event")).counts == [1]


def test_recoverable_is_found_by_the_catalog(client: Any, queue: str) -> None:
    text = (
        f"IF EXISTS (SELECT * FROM sys.columns WHERE object_id = OBJECT_ID(N'{queue}') AND name = 'Recoverable')"
        " SELECT 1 ELSE SELECT 0"
    )
    assert client.value(text) == 1
    client.ok(f"ALTER TABLE {queue} DROP COLUMN Recoverable")
    assert client.value(text) == 0
    error = client.error(
        SEND_7.format(queue), Id=(GUID, uuid.uuid4()), Ttbr=(INT, None), Headers=(TEXT, ""), Body=(BODY, None)
    )
    assert error.number == 207


def test_send_to_a_queue_that_is_not_there(client: Any) -> None:
    error = client.error("INSERT INTO [no.such] (Id, Headers) VALUES (NEWID(), N'')")
    assert (error.number, error.message) == (208, "Invalid object name 'no.such'.")


def test_create_of_what_is_there(client: Any, queue: str) -> None:
    assert client.error(f"CREATE TABLE {queue} (a int)").number == 2714
    assert client.error(f"CREATE INDEX index_rowversion ON {queue} (RowVersion)").number == 1913


def test_batched_receive_bounded_by_bytes(client: Any, queue: str) -> None:
    for _ in range(6):
        send(client, queue, b"x" * 10)
    text = f"""WITH m AS (
            SELECT *, SUM(DATALENGTH(Body)) OVER (ORDER BY RowVersion ROWS UNBOUNDED PRECEDING) AS Total
            FROM (SELECT TOP (@n) * FROM {queue} WITH (UPDLOCK, READPAST, ROWLOCK) ORDER BY RowVersion) AS q)
        DELETE FROM m OUTPUT deleted.RowVersion, deleted.Total WHERE Total <= @bytes"""
    rows = client.rows(text, n=(INT, 5), bytes=(SqlType("bigint"), 30))
    assert sorted(rows) == [(1, 10), (2, 20), (3, 30)]
    assert client.value(f"SELECT COUNT(*) FROM {queue}") == 3


def test_a_receive_in_two_connections(connect: Callable[[], Any], queue: str) -> None:
    first, second = connect(), connect()
    for number in range(3):
        send(first, queue, bytes([number]))
    first.ok("BEGIN TRANSACTION")
    assert first.rows(RECEIVE["7"].format(queue))[0][-1] == b"\x00"
    assert second.rows(RECEIVE["7"].format(queue))[0][-1] == b"\x01"
    first.ok("ROLLBACK TRANSACTION")
    assert second.rows(RECEIVE["7"].format(queue))[0][-1] == b"\x00"


def test_a_receive_computes_only_what_it_returns(client: Any, queue: str) -> None:
    client.ok(f"ALTER TABLE {queue} ADD Broken AS CAST(Headers AS int)")
    send(client, queue, b"b", text="no number")
    assert client.rows(RECEIVE["7"].format(queue))[0][-1] == b"b"
    send(client, queue, text="no number")
    assert client.error(f"SELECT Broken FROM {queue}").number == 245
