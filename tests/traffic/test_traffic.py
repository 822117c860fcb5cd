from __future__ import annotations

import hashlib
import json
import statistics
import xml.etree.ElementTree as ET
from collections import Counter, defaultdict
from datetime import datetime, timedelta, timezone
from itertools import islice

import pytest

from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.messages.address import QueueAddress
from airflow_sqlqueue.messages.envelope.times import format_time, parse_time
from airflow_sqlqueue.messages.message import HeaderNames, Message, decode_headers, encode_headers
from airflow_sqlqueue.traffic import DEFAULT_START, FAILED_QUEUES, generate, generate_failed
from airflow_sqlqueue.traffic.clock import Rhythm, microseconds, wire_time

COUNT = 20_000


@pytest.fixture(scope="module")
def messages() -> list[Message]:
    return list(generate(COUNT, seed=7))


def well_formed(messages: list[Message]) -> list[dict[str, str | None]]:
    return [dict(message.headers) for message in messages if not isinstance(message.headers, str)]


def digest(messages: list[Message]) -> str:
    sha = hashlib.sha256()
    for message in messages:
        text = message.headers if isinstance(message.headers, str) else encode_headers(message.headers)
        sha.update(f"{message.id}{message.time_to_be_received}{text}".encode())
        sha.update(message.body)
    return sha.hexdigest()


def test_the_same_arguments_give_the_same_messages(messages: list[Message]) -> None:
    assert list(generate(COUNT, seed=7)) == messages


def test_messages_are_the_same_in_every_version_of_the_generator() -> None:
    """A recorded run stays repeatable: an intended change of the traffic changes this digest too."""
    assert digest(list(generate(2_000, seed=42))) == "8d71eebd480667ca573a7d8d0ce4d9f108fdf8bc998a0cfac992b78f9ebd7314"


def test_another_seed_gives_other_messages() -> None:
    ids = {message.id for seed in range(5) for message in generate(200, seed=seed)}
    assert len(ids) == 5 * 200


@pytest.mark.parametrize("count", [0, 1, 2, 11, 999, 1_001])
def test_the_count_is_exact(count: int) -> None:
    assert sum(1 for _ in generate(count, seed=1)) == count


def test_messages_come_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten of a hundred thousand cost the conversations that are under way then, and no more."""
    moment, begun = Rhythm.moment, []

    def noted(rhythm: Rhythm, share: float) -> int:
        begun.append(share)
        return moment(rhythm, share)

    monkeypatch.setattr(Rhythm, "moment", noted)
    assert len(list(islice(generate(100_000, seed=1), 10))) == 10
    assert 0 < len(begun) < 1_000


def test_a_negative_count_is_refused_at_once() -> None:
    with pytest.raises(ConfigurationError, match="-1"):
        generate(-1, seed=1)


def test_a_start_without_a_zone_is_refused_at_once() -> None:
    with pytest.raises(ConfigurationError, match="time zone"):
        generate(1, seed=1, start=datetime(2026, 1, 1))  # noqa: DTZ001 - what is refused


def test_about_one_percent_failed(messages: list[Message]) -> None:
    failed = [headers for headers in well_formed(messages) if HeaderNames.FAILED_Q in headers]
    assert 0.007 <= len(failed) / COUNT <= 0.013
    assert len({headers[HeaderNames.EXCEPTION_TYPE] for headers in failed}) >= 6
    for headers in failed:
        assert headers[HeaderNames.EXCEPTION_HELP_LINK] is None
        assert headers[HeaderNames.FAILED_Q] == f"{headers[HeaderNames.PROCESSING_ENDPOINT]}@[dbo]@[shop]"
        assert "\r\n   at " in (headers[HeaderNames.EXCEPTION_STACK_TRACE] or "")
        assert headers[HeaderNames.EXCEPTION_MESSAGE]
        assert headers[HeaderNames.EXCEPTION_SOURCE]
        assert parse_time(headers[HeaderNames.TIME_OF_FAILURE])
        assert HeaderNames.PROCESSING_ENDED not in headers


def test_failures_name_queues_of_any_schema_and_database() -> None:
    failed = well_formed(list(generate_failed(50, seed=1, schema="a]b", catalog="c@d")))
    found = {QueueAddress.parse(headers[HeaderNames.FAILED_Q] or "", strict=True) for headers in failed}
    assert found == {QueueAddress(name, "a]b", "c@d") for name in FAILED_QUEUES}


def test_two_percent_have_a_time_to_be_received_and_some_of_them_are_expired(messages: list[Message]) -> None:
    lives = [message.time_to_be_received for message in messages if message.time_to_be_received is not None]
    expired = [life for life in lives if life < timedelta(0)]
    assert 0.015 <= len(lives) / COUNT <= 0.025
    assert 0.3 <= len(expired) / len(lives) <= 0.5
    assert all(life >= timedelta(days=1) for life in lives if life >= timedelta(0))
    for message in messages:
        if message.time_to_be_received is not None and not isinstance(message.headers, str):
            assert message.header(HeaderNames.TIME_TO_BE_RECEIVED)


def test_unreadable_headers_in_each_thousandth_message(messages: list[Message]) -> None:
    texts = [message.headers for message in messages if isinstance(message.headers, str)]
    assert len(texts) == COUNT // 1_000
    problems = Counter(decode_headers(text).problem for text in texts)
    assert set(problems) == {
        "the headers are not JSON",
        "the headers are not a JSON object",
        "a header's value is not text",
    }


def test_bodies_are_heavy_tailed_between_200_bytes_and_200_kb(messages: list[Message]) -> None:
    sizes = sorted(len(message.body) for message in messages if message.body)
    assert sizes[0] >= 200
    assert sizes[-1] <= 200_000
    assert 1_600 <= statistics.mean(sizes) <= 2_400
    assert statistics.median(sizes) < 1_100
    assert sizes[-len(sizes) // 1_000] > 20_000


def test_bodies_are_decoded_by_their_content_type(messages: list[Message]) -> None:
    seen: Counter[str] = Counter()
    for message in messages[:3_000]:
        if isinstance(message.headers, str) or not message.body:
            continue
        content_type = message.header(HeaderNames.CONTENT_TYPE) or ""
        full_name = (message.header(HeaderNames.ENCLOSED_MESSAGE_TYPES) or "").split(",")[0]
        if content_type == "text/xml":
            assert ET.fromstring(message.body).tag.rpartition("}")[2] == full_name.rpartition(".")[2]
        else:
            assert json.loads(message.body)["$type"] == full_name
        seen[content_type] += 1
    assert set(seen) == {"application/json", "text/xml", "application/json; systemjson"}
    assert any(not message.body.isascii() for message in messages[:100])


def test_only_control_messages_have_no_body_and_the_first_is_one(messages: list[Message]) -> None:
    assert messages[0].body == b""
    for message in messages:
        if not isinstance(message.headers, str):
            assert (message.body == b"") == (message.header("NServiceBus.ControlMessage") == "True")


def test_times_lie_in_the_two_days_before_the_start_in_the_order_of_arrival() -> None:
    start = datetime(2025, 7, 1, 13, 45, tzinfo=timezone(timedelta(hours=2)))
    arrived = []
    for headers in well_formed(list(generate(5_000, seed=3, start=start))):
        sent = parse_time(headers[HeaderNames.TIME_SENT])
        ended = parse_time(headers.get(HeaderNames.PROCESSING_ENDED) or headers[HeaderNames.TIME_OF_FAILURE])
        assert sent is not None
        assert ended is not None
        assert start - timedelta(days=2) <= sent < ended <= start
        arrived.append(ended)
    assert arrived == sorted(arrived)
    assert arrived[-1] - arrived[0] > timedelta(hours=46)


def test_the_default_start_bounds_the_times(messages: list[Message]) -> None:
    ended = parse_time(well_formed(messages)[-1][HeaderNames.PROCESSING_ENDED])
    assert ended is not None
    assert DEFAULT_START - timedelta(hours=1) < ended <= DEFAULT_START


def test_days_have_a_rhythm(messages: list[Message]) -> None:
    hours = Counter((headers[HeaderNames.TIME_SENT] or "")[11:13] for headers in well_formed(messages))
    assert hours["20"] > 6 * hours["04"]


def test_processing_times_are_log_normal_and_differ(messages: list[Message]) -> None:
    times: dict[tuple[str, str], list[float]] = defaultdict(list)
    for headers in well_formed(messages):
        began, ended = (parse_time(headers.get(f"NServiceBus.Processing{name}")) for name in ("Started", "Ended"))
        if began and ended:
            name = (headers.get(HeaderNames.ENCLOSED_MESSAGE_TYPES) or "").split(",")[0].rpartition(".")[2]
            times[headers[HeaderNames.PROCESSING_ENDPOINT] or "", name].append(
                (ended - began) / timedelta(milliseconds=1)
            )
    medians = {key: statistics.median(values) for key, values in times.items()}
    assert 220 < medians["Billing", "BillOrder"] < 300
    assert 80 < medians["Shipping", "ShipOrder"] < 110
    assert medians["Billing", "OrderPlaced"] > 1.3 * medians["Shipping", "OrderPlaced"]
    assert statistics.mean(times["Billing", "BillOrder"]) > 1.25 * medians["Billing", "BillOrder"]


def test_conversations_hang_together(messages: list[Message]) -> None:
    by_conversation: dict[str, list[dict[str, str | None]]] = defaultdict(list)
    for headers in well_formed(messages):
        by_conversation[headers[HeaderNames.CONVERSATION_ID] or ""].append(headers)
    intents = Counter(headers[HeaderNames.MESSAGE_INTENT] for rows in by_conversation.values() for headers in rows)
    assert set(intents) == {"Send", "Publish", "Reply", "Subscribe"}
    complete = [rows for rows in by_conversation.values() if len(rows) == 11]
    assert len(complete) > 0.5 * len(by_conversation)
    for rows in complete:
        sent = {headers[HeaderNames.MESSAGE_ID]: headers for headers in rows}
        assert len(sent) == 9  # two of the events have two subscribers
        for headers in rows:
            cause = sent.get(headers.get(HeaderNames.RELATED_TO))
            if cause is None:
                assert (headers[HeaderNames.ENCLOSED_MESSAGE_TYPES] or "").startswith(
                    "Shop.Sales.Contracts.PlaceOrder,"
                )
            elif headers[HeaderNames.MESSAGE_INTENT] == "Reply":
                assert headers[HeaderNames.CORRELATION_ID] == cause[HeaderNames.CORRELATION_ID]


def test_headers_can_be_sent_and_hold_more_than_ascii(messages: list[Message]) -> None:
    for headers in well_formed(messages[:2_000]):
        assert decode_headers(encode_headers(headers)).values == headers
    assert any(not (headers["Shop.Customer"] or "").isascii() for headers in well_formed(messages[:100]))


def test_wire_times_are_those_of_the_codec() -> None:
    for moment in (
        DEFAULT_START,
        DEFAULT_START + timedelta(hours=5, microseconds=7),
        DEFAULT_START - timedelta(microseconds=1),
    ):
        assert wire_time(microseconds(moment)) == format_time(moment)


def test_shares_of_the_traffic_become_later_moments() -> None:
    rhythm = Rhythm(0, 3_600_000_000 * 24)
    moments = [rhythm.moment(share / 1_000) for share in range(1_000)]
    assert moments == sorted(moments)
    assert moments[0] == 0
    assert moments[-1] < 3_600_000_000 * 24
