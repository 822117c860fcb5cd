"""Filters: rows that the server leaves out, and receivers of matching messages, on any server."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.messages.envelope.times import format_time
from airflow_sqlqueue.messages.message import HeaderNames, Message
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.queue.browsing import browse, find
from airflow_sqlqueue.queue.condition import QueueCondition, check_condition
from airflow_sqlqueue.queue.depth import depth
from airflow_sqlqueue.queue.filters import MessageFilter
from airflow_sqlqueue.queue.purge import PurgeOptions, purge
from tests.contract.conftest import Connect, run_sql

NOON = datetime(2026, 1, 31, 12, tzinfo=timezone.utc)
GENERIC = "Shop.Changed`1[[Shop.Order, Shop.Messages]]"


def headers(**given: str | None) -> dict[str, str | None]:
    return {
        HeaderNames.ENCLOSED_MESSAGE_TYPES: "Shop.PlaceOrder, Shop;Shop.ICommand, Shop",
        HeaderNames.ORIGINATING_ENDPOINT: "Sales",
        HeaderNames.TIME_SENT: format_time(NOON),
        **given,
    }


def escaped(values: dict[str, str | None]) -> str:
    """JSON with every character escaped, as no serializer writes it and any reads it."""

    def text(value: str) -> str:
        units = memoryview(value.encode("utf-16-le")).cast("H")
        return '"' + "".join(f"\\u{unit:04x}" for unit in units) + '"'

    return "{" + ",".join(f"{text(k)}:{'null' if v is None else text(v)}" for k, v in values.items()) + "}"


EARLY = '{"NServiceBus.TimeSent":"2020-01-01 00:00:00:000000 Z",'
WRITERS = {
    "ours": lambda values: json.dumps(values, separators=(",", ":")),
    "raw": lambda values: json.dumps(values, ensure_ascii=False),
    "slashes": lambda values: json.dumps(values, ensure_ascii=False).replace("/", "\\/"),
    "pretty": lambda values: json.dumps(values, indent=4),
    "escaped": escaped,
    "twice": lambda values: EARLY + json.dumps(values)[1:],
    "twice, escaped": lambda values: EARLY + escaped(values)[1:],
}
"""Ways of writing headers. The last ones have a name twice, and its last value counts."""

ODD = "50% [of] a_b \"c\" 'd' <e>/\\ + é ☃ 😀"
MATCHING = {
    "type": MessageFilter(message_type="Shop.PlaceOrder"),
    "second type": MessageFilter(message_type="Shop.ICommand", endpoint="Sales"),
    "since": MessageFilter(since=NOON),
    "until": MessageFilter(until=NOON + timedelta(microseconds=1)),
    "between": MessageFilter(since=NOON, until=NOON + timedelta(seconds=1), endpoint="Sales"),
    "header": MessageFilter(headers={ODD: ODD}),
    "null": MessageFilter(headers={"none": None}),
    "long": MessageFilter(headers={"long": "ä" * 600}),
}


@pytest.mark.parametrize("where", MATCHING.values(), ids=MATCHING)
def test_a_filter_finds_every_way_of_writing_a_header(any_queue: QueueTable, where: MessageFilter) -> None:
    values = headers(**{ODD: ODD, "none": None, "long": "ä" * 600})
    is_unicode = any_queue.layout.types["Headers"] == "nvarchar"
    texts = [write(values) for name, write in WRITERS.items() if is_unicode or name not in {"raw", "slashes"}]
    any_queue.send(Message(text, b"%d" % number) for number, text in enumerate(texts))
    assert len(find(any_queue, where)) == len(texts)
    assert [message.body for message in any_queue.receive(9, where=where)] == [b"%d" % n for n in range(len(texts))]


NEAR = {
    "part of a type": (MessageFilter(message_type="Shop.PlaceOrder"), headers(**{
        HeaderNames.ENCLOSED_MESSAGE_TYPES: "Shop.PlaceOrderNow, Shop;Old.Shop.PlaceOrder, Shop.PlaceOrder"})),
    "another case": (MessageFilter(endpoint="Sales"), headers(**{HeaderNames.ORIGINATING_ENDPOINT: "sales"})),
    "another header": (MessageFilter(endpoint="Sales"), {"NServiceBus.ProcessingEndpoint": "Sales"}),
    "within a value": (MessageFilter(headers={"a": "b"}), {"c": '{"a":"b"}'}),
    "a moment before": (MessageFilter(since=NOON), headers(**{
        HeaderNames.TIME_SENT: format_time(NOON - timedelta(microseconds=1))})),
    "the moment itself": (MessageFilter(until=NOON), headers()),
    "no time": (MessageFilter(until=NOON), {"a": "b"}),
    "a trailing blank": (MessageFilter(headers={"a": "b"}), {"a": "b "}),
    "an argument of a generic type": (MessageFilter(message_type="Shop.Order"), headers(**{
        HeaderNames.ENCLOSED_MESSAGE_TYPES: f"{GENERIC}, Shop"})),
}  # fmt: skip


@pytest.mark.parametrize(("where", "other"), NEAR.values(), ids=NEAR)
def test_similar_values_do_not_match(queue: QueueTable, where: MessageFilter, other: dict[str, Any]) -> None:
    queue.send([Message(other)])
    assert find(queue, where) == []


def test_a_generic_type_is_one_type(queue: QueueTable) -> None:
    queue.send([Message(headers(**{HeaderNames.ENCLOSED_MESSAGE_TYPES: f"Shop.A, Shop;{GENERIC}, Shop, Version=1"}))])
    assert len(find(queue, MessageFilter(message_type=GENERIC))) == 1


@pytest.mark.parametrize(
    "text", ['{"NServiceBus.OriginatingEndpoint":"Sales"', '{"NServiceBus.OriginatingEndpoint":"Sales","n":1}']
)
def test_malformed_headers_match_no_filter(queue: QueueTable, text: str) -> None:
    queue.send([Message(text)])
    assert find(queue, MessageFilter(endpoint="Sales")) == []
    purged = purge(queue, PurgeOptions(where=MessageFilter(endpoint="Sales"), confirm=True))
    assert (purged.deleted, purged.complete) == (0, True)


def test_the_server_leaves_out_rows_that_cannot_match(queue: QueueTable) -> None:
    """The headers of the others do not come to the client."""
    queue.send(
        Message(headers(**{HeaderNames.ORIGINATING_ENDPOINT: "Sales" if n == 7 else "Billing"})) for n in range(20)
    )
    read = []
    plain = queue.session.run

    def counted(statement: Any, *values: Any, **options: Any) -> list[Any]:
        rows = plain(statement, *values, **options)
        read.extend(rows if statement.name == "queue.search" else [])
        return rows

    queue.session.run = counted  # type: ignore[method-assign]
    assert len(find(queue, MessageFilter(endpoint="Sales", since=NOON))) == 1
    assert len(read) == 1


def test_a_purge_by_a_filter(connect: Connect, queue: QueueTable) -> None:
    queue.send(
        Message(headers(**{HeaderNames.ORIGINATING_ENDPOINT: "Sales" if n % 3 else "Billing"})) for n in range(30)
    )
    where = MessageFilter(endpoint="Sales")
    counted = purge(queue, PurgeOptions(where=where, dry_run=True))
    assert (counted.deleted, counted.remaining) == (0, 20)
    some = purge(queue, PurgeOptions(where=where, confirm=True, chunk=4, max_messages=6))
    assert (some.deleted, some.remaining, some.complete) == (6, None, False)
    old = purge(queue, PurgeOptions(where=where, older_than=timedelta(0), confirm=True))
    assert (old.deleted, old.remaining, old.complete, old.undated) == (14, 0, True, 0)
    assert depth(queue).messages == 10
    with connect() as other, other.transaction():
        one = f"{queue.address.qualified_name} WITH (XLOCK, ROWLOCK)"
        run_sql(other, f"UPDATE {one} SET [Recoverable] = 1 WHERE [RowVersion] = {browse(queue, 1)[0].row_version}")
        assert purge(queue, PurgeOptions(where=MessageFilter(endpoint="Billing"), confirm=True)).deleted == 9
    assert depth(queue).messages == 1


def test_a_filter_and_an_age_must_both_hold(queue: QueueTable) -> None:
    now = datetime.now(timezone.utc)
    for days, endpoint in ((9, "Sales"), (1, "Sales"), (9, "Billing")):
        sent = format_time(now - timedelta(days=days))
        queue.send([Message({HeaderNames.TIME_SENT: sent, HeaderNames.ORIGINATING_ENDPOINT: endpoint})])
    queue.send([Message({HeaderNames.ORIGINATING_ENDPOINT: endpoint}) for endpoint in ("Sales", "Billing")])
    options = PurgeOptions(where=MessageFilter(endpoint="Sales"), older_than=timedelta(days=7), confirm=True)
    purged = purge(queue, options)
    assert (purged.deleted, purged.undated) == (1, 1)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({}, "matches every message"),
        ({"type": "A"}, "There is no filter 'type'"),
        ({"message_type": 1}, "takes text"),
        ({"message_type": "Shop.PlaceOrder, Shop"}, "'Shop.PlaceOrder, Shop' is no message type: give the full name"),
        ({"since": "soon"}, "is not a time"),
        ({"since": datetime(2026, 1, 1)}, "has no time zone"),  # noqa: DTZ001
        ({"headers": "a=b"}, "takes names and values"),
        ({"headers": {"a": 1}}, "takes text, or None"),
        ("a=b", "is a mapping"),
    ],
)
def test_a_wrong_filter_is_refused(wrong: Any, sentence: str) -> None:
    with pytest.raises(ConfigurationError, match=sentence):
        MessageFilter.of(wrong)


def test_a_purge_takes_a_filter_or_all() -> None:
    with pytest.raises(ConfigurationError, match="choose one"):
        PurgeOptions(all_messages=True, where=MessageFilter(endpoint="Sales"), confirm=True)
    with pytest.raises(ConfigurationError, match="confirm"):
        PurgeOptions(where=MessageFilter(endpoint="Sales"))


def test_filters_that_mean_the_same_have_one_text() -> None:
    values = {"headers": {"b": "1", "a": None}, "since": "2026-01-31T13:00:00+01:00"}
    one, other = MessageFilter.of(values), MessageFilter(headers={"a": None, "b": "1"}, since=NOON)
    assert one.canonical == other.canonical
    assert MessageFilter.of(one.to_dict()).canonical == one.canonical


def test_a_condition_counts_matching_messages(queue: QueueTable) -> None:
    late = timedelta(seconds=-5)
    for number in range(30):
        endpoint = "Sales" if number % 3 == 0 else "Billing"
        values = headers(**{HeaderNames.ORIGINATING_ENDPOINT: endpoint})
        queue.send([Message(values, time_to_be_received=late if number == 0 else None)])
    sales = {"endpoint": "Sales"}

    def look(**condition: Any) -> tuple[bool, int | None, bool]:
        found = check_condition(queue, QueueCondition.of({**condition, "filters": sales}))
        return found.met, found.messages, found.counted_all

    assert look(min_messages=9) == (True, 9, False)
    assert look(min_messages=10) == (False, 9, True)
    assert look() == (True, 1, False)
    assert look(max_messages=9) == (True, 9, True)
    assert look(max_messages=8) == (False, 9, False)


def test_a_condition_with_a_filter_says_which_and_keeps_its_values_to_itself() -> None:
    given = {"filters": {"headers": {"a": "hush"}, "since": "2026-01-31"}, "min_messages": "3"}
    condition = QueueCondition.of(given)
    assert QueueCondition.of(condition.to_dict()) == condition
    assert str(condition) == "min_messages=3, filters on headers, since"
    for wrong in ({"oldest_seconds": 3}, {"kind": "quick"}, {"min_delayed": 1}):
        with pytest.raises(ConfigurationError, match="counted exactly"):
            QueueCondition.of({**given, **wrong})
