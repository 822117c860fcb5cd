"""Messages found and received by their headers, on any server."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.messages.message import HeaderNames, Message, ReceivedMessage
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.queue.browsing import PAGE, Search, browse, find
from airflow_sqlqueue.queue.depth import depth
from airflow_sqlqueue.queue.filters import MessageFilter
from tests.contract.conftest import Connect

ORDER = "Shop.PlaceOrder, Shop.Messages, Version=1.0.0.0;Shop.ICommand, Shop.Messages"


def order(number: int) -> Message:
    headers = {
        "NServiceBus.MessageId": f"m-{number}",
        "NServiceBus.CorrelationId": f"c-{number % 3}",
        "NServiceBus.EnclosedMessageTypes": ORDER if number % 2 else "Shop.Bill, Shop.Messages",
        "Größe": f"{number % 4}",
    }
    return Message(headers, b"%d" % number)


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        (MessageFilter(message_id="m-7"), [7]),
        (MessageFilter(message_type="Shop.PlaceOrder"), [1, 3, 5, 7, 9]),
        (MessageFilter(message_type="Shop.ICommand", correlation_id="c-0"), [3, 9]),
        (MessageFilter(message_type="Shop.Place"), []),
        (MessageFilter(headers={"Größe": "2"}), [2, 6]),
        (MessageFilter(headers={"größe": "2"}), []),
        (MessageFilter(headers={"Größe": None}), []),
        (MessageFilter(message_id="M-7"), []),
    ],
)
def test_receive_matching_messages(any_queue: QueueTable, where: MessageFilter, expected: list[int]) -> None:
    any_queue.send(order(number) for number in range(10))
    assert [head.decoded.values["NServiceBus.MessageId"] for head in find(any_queue, where)] == [
        f"m-{number}" for number in expected
    ]
    assert [int(message.body) for message in any_queue.receive(100, where=where)] == expected
    assert [int(message.body) for message in any_queue.receive(100)] == [n for n in range(10) if n not in expected]


def test_receive_stops_at_its_limit(queue: QueueTable) -> None:
    queue.send(order(number) for number in range(10))
    where = MessageFilter(message_type="Shop.PlaceOrder")
    assert [int(message.body) for message in queue.receive(2, where=where)] == [1, 3]
    assert depth(queue).messages == 8


def test_a_receive_goes_on_behind_what_others_took_meanwhile(connect: Connect, queue: QueueTable) -> None:
    queue.send(order(number) for number in range(8))
    where, searched = MessageFilter(message_type="Shop.PlaceOrder"), []

    class Overtaken(QueueTable):
        def take(self, row_versions: Sequence[int] = (), **options: Any) -> list[ReceivedMessage]:
            searched.append(len(row_versions))
            if len(searched) < 3:
                with connect() as other:
                    QueueTable(other, self.address).take(row_versions)
            return super().take(row_versions, **options)

    mine = Overtaken(queue.session, queue.address)
    assert [int(message.body) for message in mine.receive(1, where=where)] == [5]
    assert mine.receive(9, where=MessageFilter(message_type="Shop.Bill"), window=1) != []
    assert searched == [1, 1, 1, 1]


def test_a_search_ends_with_its_window(queue: QueueTable) -> None:
    count = PAGE + 20
    queue.send(order(number) for number in range(count))
    last = MessageFilter(message_id=f"m-{count - 1}")
    assert queue.receive(1, where=last, window=count - 1) == []
    assert find(queue, last, window=count) != []
    assert [int(message.body) for message in queue.receive(1, where=last)] == [count - 1]


@pytest.mark.parametrize("wait", [None, 0.5])
def test_a_search_of_a_number_of_rows_reads_no_more(queue: QueueTable, wait: float | None) -> None:
    queue.send(order(number) for number in range(3))
    search = Search(MessageFilter(correlation_id="c-1"), rows=1)
    assert (search.page(queue, wait=wait), search.page(queue, wait=wait), search.is_at_end) == ([], None, False)


def test_a_search_gives_each_message_once_over_several_pages(queue: QueueTable) -> None:
    count = 2 * PAGE + 20
    queue.send(Message({"a": "b"}) for _ in range(count))
    found = [head.row_version for head in find(queue, MessageFilter(headers={"a": "b"}), count + 5)]
    assert len(found) == len(set(found)) == count


@pytest.mark.parametrize(
    "where",
    [
        MessageFilter(message_id="m-7"),
        MessageFilter(correlation_id="c-7"),
        MessageFilter(endpoint="Sales"),
        MessageFilter(message_type="Shop.PlaceOrder"),
        MessageFilter(headers={"tenant": "t-7"}),
        MessageFilter(since=datetime(2026, 7, 1, tzinfo=timezone.utc)),
    ],
)
def test_the_server_returns_no_message_that_is_not_meant(queue: QueueTable, where: MessageFilter) -> None:
    """Headers of all messages would have to be read otherwise."""
    other = {
        HeaderNames.MESSAGE_ID: "m-1",
        HeaderNames.CORRELATION_ID: "c-1",
        HeaderNames.ORIGINATING_ENDPOINT: "Billing",
        HeaderNames.ENCLOSED_MESSAGE_TYPES: "Shop.Bill, Shop.Messages",
        HeaderNames.TIME_SENT: "2026-06-01 00:00:00:000000 Z",
        "tenant": "t-1",
    }
    meant = {
        HeaderNames.MESSAGE_ID: "m-7",
        HeaderNames.CORRELATION_ID: "c-7",
        HeaderNames.ORIGINATING_ENDPOINT: "Sales",
        HeaderNames.ENCLOSED_MESSAGE_TYPES: ORDER,
        HeaderNames.TIME_SENT: "2026-08-01 00:00:00:000000 Z",
        "tenant": "t-7",
    }
    queue.send([Message(other), Message(meant), Message(other)])
    page = Search(where).page(queue)
    assert page is not None
    assert [head.decoded.values for head in page] == [meant]


def test_malformed_headers_are_stepped_over(any_queue: QueueTable) -> None:
    any_queue.send([Message('{"NServiceBus.MessageId": '), Message(""), Message('["m-1"]'), order(1)])
    assert [message.body for message in any_queue.receive(5, where=MessageFilter(message_id="m-1"))] == [b"1"]
    assert depth(any_queue).messages == 3


def test_a_message_without_a_message_id_goes_by_its_rows_id(queue: QueueTable) -> None:
    queue.send([Message({"a": "b"}, b"plain"), order(1)])
    (first, _) = browse(queue, 2)
    assert [message.body for message in queue.receive(1, where=MessageFilter(message_id=str(first.id)))] == [b"plain"]


def test_expired_messages_match_only_on_request(queue: QueueTable) -> None:
    queue.send([Message({"a": "b"}, b"late", timedelta(seconds=-1)), Message({"a": "b"}, b"alive")])
    where = MessageFilter(headers={"a": "b"})
    assert [head.expired for head in find(queue, where)] == [True, False]
    assert [message.body for message in queue.receive(5, where=where)] == [b"alive"]
    assert [message.body for message in queue.receive(5, where=where, keep_expired=True)] == [b"late"]


def test_a_message_that_others_hold_does_not_match(connect: Connect, queue: QueueTable) -> None:
    queue.send([order(1), order(3)])
    with connect() as other, other.transaction():
        assert len(QueueTable(other, queue.address).receive(1)) == 1
        taken = queue.receive(5, where=MessageFilter(message_type="Shop.PlaceOrder"))
        assert [message.body for message in taken] == [b"3"]


@pytest.mark.parametrize("wait", [None, 0.5])
def test_a_search_that_waits_looks_once_more_where_all_messages_are_held(
    connect: Connect, queue: QueueTable, wait: float | None
) -> None:
    """A receiver that has all messages may give them back: the end of the queue is certain only after a wait."""
    queue.send([order(1), order(3)])
    with connect() as other, other.transaction():
        assert len(QueueTable(other, queue.address).receive(2)) == 2
        search = Search(MessageFilter(message_type="Shop.PlaceOrder"))
        pages: list[object] = []
        while (page := search.page(queue, wait=wait)) is not None:
            pages += page
    assert (pages, search.is_at_end) == ([], True)
    assert (search.passed != []) == (wait is not None)


def test_a_page_has_at_least_one_message(queue: QueueTable) -> None:
    with pytest.raises(ConfigurationError, match="0 rows for one statement: give 1 to 2000"):
        browse(queue, 0)


def test_a_filter_wants_a_condition() -> None:
    with pytest.raises(ConfigurationError, match="matches every message"):
        MessageFilter()
