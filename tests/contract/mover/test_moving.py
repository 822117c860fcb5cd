"""The mover: due messages go to the queue, on any server."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest

from airflow_sqlqueue.errors import ConfigurationError, TransactionError
from airflow_sqlqueue.messages.message import HeaderNames, Message, decode_headers
from airflow_sqlqueue.queue.tables.create import create_queue
from tests.contract.conftest import run_sql
from tests.contract.mover.conftest import HEADERS, NOW, TOMORROW, Endpoint


@pytest.mark.parametrize("layout", ["v1", "v3.0", "v4", "modern"])
def test_due_messages_arrive_whole_in_every_layout(endpoint: Endpoint, layout: str) -> None:
    run_sql(endpoint.session, f"DROP TABLE {endpoint.queue.address.qualified_name}")
    create_queue(endpoint.session, endpoint.queue.address, layout=layout)
    endpoint.delayed.store([Message(HEADERS, b"\0\xff"), Message({}, b"")], delay=NOW)
    endpoint.delayed.store([Message(body=b"later")], delay=TOMORROW)
    moved = endpoint.move()
    assert (moved.moved, moved.forwarded, moved.failed, moved.left, moved.complete) == (2, 0, 0, 0, True)
    assert moved.next_due == endpoint.delayed.peek()[0].due
    first, second = endpoint.queue.receive(5)
    assert decode_headers(first.headers).values == HEADERS
    assert (first.body, first.recoverable, first.expires) == (b"\0\xff", True, None)
    assert (first.correlation_id, first.reply_to_address) == ("c-1", "Sales@[dbo]@[nsb]")
    assert (second.body, second.correlation_id, second.reply_to_address) == (b"", None, None)
    assert first.id != second.id


def test_headers_of_endpoints_survive_as_they_are(endpoint: Endpoint) -> None:
    texts = [
        '{"a" : "x\\/y", "Grüße":"☃ 😀"}',
        "",
        "not JSON",
        '{"n": 1}',
        f'{{"{HeaderNames.FORWARD_DESTINATION}": null}}',
    ]
    endpoint.delayed.store([Message(text) for text in texts], delay=NOW)
    assert endpoint.move().moved == 5
    assert [message.headers for message in endpoint.queue.receive(5)] == texts


def test_text_outside_ascii_survives_a_varchar_column(endpoint: Endpoint) -> None:
    run_sql(endpoint.session, f"DROP TABLE {endpoint.queue.address.qualified_name}")
    create_queue(endpoint.session, endpoint.queue.address, layout="v3.0")
    endpoint.delayed.store([Message('{"Grüße": "☃ 😀"}')], delay=NOW)
    endpoint.move()
    assert decode_headers(endpoint.queue.receive()[0].headers).values == {"Grüße": "☃ 😀"}


def test_messages_are_moved_from_the_first_moment_of_the_columns_type_on(endpoint: Endpoint) -> None:
    endpoint.delayed.store([Message(body=b"old")], delay=NOW)
    run_sql(endpoint.session, f"UPDATE {endpoint.delayed.address.qualified_name} SET [Due] = '17530101'")
    assert endpoint.move().moved == 1
    assert endpoint.bodies() == [b"old"]


@pytest.mark.parametrize(
    "alteration",
    [
        "ALTER TABLE {queue} DROP COLUMN [CorrelationId], [ReplyToAddress], [Recoverable]",
        "ALTER TABLE {queue} DROP COLUMN [ReplyToAddress]",
        "ALTER TABLE {queue} ADD [Note] int NOT NULL DEFAULT 1",
        "ALTER TABLE {queue} ADD CONSTRAINT {check} CHECK ([Recoverable] = 1)",
        "ALTER TABLE {queue} ADD PRIMARY KEY ([RowVersion])",
        "ALTER TABLE {delayed} ALTER COLUMN [Headers] nvarchar(max) COLLATE Latin1_General_CS_AS NOT NULL",
    ],
)
def test_a_queue_whose_columns_were_altered_is_moved_to(endpoint: Endpoint, alteration: str) -> None:
    queue = endpoint.queue.address
    tables = {"queue": queue.qualified_name, "delayed": endpoint.delayed.address.qualified_name}
    run_sql(endpoint.session, alteration.format(**tables, check=f"[check.{queue.table}]"))
    endpoint.delayed.store((Message(body=b"%d" % n) for n in range(9)), delay=NOW)
    assert endpoint.move(chunk=4).moved == 9
    assert endpoint.bodies() == [b"%d" % n for n in range(9)]


def test_triggers_on_both_tables_are_no_obstacle(endpoint: Endpoint) -> None:
    for address, event in ((endpoint.queue.address, "INSERT"), (endpoint.delayed.address, "DELETE")):
        name = f"[{address.table}.trigger]"
        run_sql(endpoint.session, f"CREATE TRIGGER {name} ON [{address.table}] AFTER {event} AS SELECT 1, 2, 3;")
    endpoint.delayed.store((Message(body=b"%d" % n) for n in range(9)), delay=NOW)
    assert endpoint.move(chunk=4).moved == 9
    assert endpoint.bodies() == [b"%d" % n for n in range(9)]


def test_a_foreign_key_is_no_obstacle(endpoint: Endpoint) -> None:
    queue = endpoint.queue.address
    kinds = replace(queue, table=f"{queue.table}.Kinds")
    endpoint.others.append(kinds)
    run_sql(endpoint.session, f"CREATE TABLE {kinds.qualified_name} ([Kind] int NOT NULL PRIMARY KEY)")
    run_sql(endpoint.session, f"INSERT INTO {kinds.qualified_name} VALUES (1)")
    key = f"CONSTRAINT [key.{queue.table}] REFERENCES [{kinds.table}] ([Kind])"
    run_sql(endpoint.session, f"ALTER TABLE {queue.qualified_name} ADD [Kind] int NOT NULL DEFAULT 1 {key}")
    endpoint.delayed.store([Message(body=b"a")], delay=NOW)
    assert endpoint.move().moved == 1
    assert endpoint.bodies() == [b"a"]
    run_sql(endpoint.session, f"ALTER TABLE {queue.qualified_name} DROP CONSTRAINT [key.{queue.table}]")


def test_the_order_is_by_due_then_row_version(endpoint: Endpoint) -> None:
    long_ago = datetime(2020, 1, 1, tzinfo=timezone.utc)
    for n in (3, 1, 2, 0):
        endpoint.delayed.store([Message(body=b"%d%d" % (n, m)) for m in range(2)], due=long_ago + timedelta(days=n))
    assert endpoint.move(chunk=4).moved == 8
    assert endpoint.bodies() == [b"00", b"01", b"10", b"11", b"20", b"21", b"30", b"31"]


def test_bodies_of_all_sizes_arrive_whole(endpoint: Endpoint) -> None:
    sent = [b"", bytes(range(256)), b"x" * 8001, b"y" * 3_000_000]
    endpoint.delayed.store((Message(body=body) for body in sent), delay=NOW)
    endpoint.move()
    assert endpoint.bodies() == sent


def test_a_move_ends_with_its_limits_and_says_that_more_is_due(endpoint: Endpoint) -> None:
    endpoint.delayed.store((Message() for _ in range(10)), delay=NOW)
    limited = endpoint.move(chunk=3, max_messages=7)
    assert (limited.moved, limited.complete) == (7, False)
    assert limited.next_due is not None
    assert limited.next_due <= datetime.now(timezone.utc) + timedelta(minutes=5)
    assert endpoint.move(max_seconds=1e-9).moved == 0
    rest = endpoint.move()
    assert (rest.moved, rest.complete, rest.next_due) == (3, True, None)


def test_a_move_in_a_transaction_is_refused(endpoint: Endpoint) -> None:
    endpoint.delayed.store([Message()], delay=NOW)
    with endpoint.session.transaction(), pytest.raises(TransactionError, match="call it outside the transaction"):
        endpoint.move()
    assert endpoint.move().moved == 1


@pytest.mark.parametrize("chunk", [0, 1_001])
def test_a_chunk_that_would_let_locks_escalate_is_refused(endpoint: Endpoint, chunk: int) -> None:
    with pytest.raises(ConfigurationError, match="chunk must be 1 to 1,000"):
        endpoint.move(chunk=chunk)
