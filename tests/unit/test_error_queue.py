"""Failed messages without a server: their headers, filters and rates."""

from __future__ import annotations

import json
import uuid
from datetime import datetime, timezone
from typing import Any

import pytest

from airflow_sqlqueue.errors import ConfigurationError, MessageError
from airflow_sqlqueue.messages.message import HeaderNames, ReceivedMessage, decode_headers
from airflow_sqlqueue.queue.errors.bulk_action import Clock, ErrorQueueOptions, RateLimiter
from airflow_sqlqueue.queue.errors.failed_message import FAILED, MALFORMED, NO_FAILED_QUEUE, FailedMessage, classify
from airflow_sqlqueue.queue.errors.failure_headers import unchanged, without_failure
from airflow_sqlqueue.queue.errors.filters import ErrorFilter
from airflow_sqlqueue.queue.errors.groupings import group_name
from airflow_sqlqueue.traffic import generate

ID = uuid.UUID("0b6f3a52-2d0e-4f4b-9d7e-6a3d0f1c2b3a")
HEADERS = {
    HeaderNames.MESSAGE_ID: "m-1",
    HeaderNames.CORRELATION_ID: "c-1",
    HeaderNames.CONVERSATION_ID: "v-1",
    HeaderNames.ENCLOSED_MESSAGE_TYPES: "Shop.PlaceOrder, Shop, Version=1.0.0.0;Shop.IOrder, Shop",
    HeaderNames.FAILED_Q: "Sales@[dbo]@[shop]",
    HeaderNames.TIME_OF_FAILURE: "2026-03-05 14:30:00:000001 Z",
    HeaderNames.PROCESSING_ENDPOINT: "Sales",
    HeaderNames.PROCESSING_MACHINE: "WEB-01",
    HeaderNames.EXCEPTION_TYPE: "System.TimeoutException",
    HeaderNames.EXCEPTION_MESSAGE: "secret",
    HeaderNames.EXCEPTION_HELP_LINK: None,
    "NServiceBus.ExceptionInfo.Data.Message type": "Shop.PlaceOrder",
    "NServiceBus.Retries": "2",
    "NServiceBus.Retries.Timestamp": "2026-03-05 14:29:00:000001 Z",
    "NServiceBus.FLRetries": "5",
    "ServiceControl.EditOf": "m-0",
    "Shop.Customer": "Åsa",
    "Shop.Nothing": None,
}


def failed(headers: dict[str, Any] | str = HEADERS, **changes: Any) -> FailedMessage:
    text = headers if isinstance(headers, str) else json.dumps({**headers, **changes})
    return classify(7, ID, decode_headers(text), 12)


def received(headers: dict[str, Any] | str, **columns: Any) -> ReceivedMessage:
    text = headers if isinstance(headers, str) else json.dumps(headers)
    return ReceivedMessage(ID, 7, text, b"body", datetime(2026, 1, 1, tzinfo=timezone.utc), True, **columns)


def test_values_are_groups_apart() -> None:
    assert len({group_name("endpoint", value) for value in (None, "", "None", "Sales")}) == 4


def test_a_failed_message_says_why() -> None:
    message = failed()
    assert (message.kind, message.problem, message.message_id) == (FAILED, None, "m-1")
    assert (message.exception_type, message.message_type) == ("System.TimeoutException", "Shop.PlaceOrder")
    assert (message.endpoint, message.failed_queue) == ("Sales", "Sales@[dbo]@[shop]")
    assert message.time_of_failure == datetime(2026, 3, 5, 14, 30, 0, 1, timezone.utc)
    assert message.machines == {"WEB-01"}
    assert "secret" not in repr(message)


@pytest.mark.parametrize(
    ("headers", "kind"),
    [
        ("", NO_FAILED_QUEUE),
        ("{}", NO_FAILED_QUEUE),
        ('{"NServiceBus.FailedQ": " "}', NO_FAILED_QUEUE),
        ('{"NServiceBus.FailedQ": null}', NO_FAILED_QUEUE),
        ("null", MALFORMED),
        (" ", MALFORMED),
        ("<xml/>", MALFORMED),
        ('{"NServiceBus.FailedQ": "Sal', MALFORMED),
        ('["NServiceBus.FailedQ"]', MALFORMED),
        ('{"NServiceBus.FailedQ": "Sales", "NServiceBus.Retries": 3}', MALFORMED),
        ("[" * 100_000, MALFORMED),
    ],
)
def test_every_row_is_of_some_kind(headers: str, kind: str) -> None:
    message = failed(headers)
    assert message.kind == kind
    assert (message.problem is not None) == (kind == MALFORMED)
    assert message.message_id == str(ID)


def test_generated_messages_can_all_be_classified() -> None:
    for row, message in enumerate(generate(3_000, seed=5)):
        text = message.headers if isinstance(message.headers, str) else json.dumps(message.headers)
        assert (classify(row, ID, decode_headers(text), 0).kind == MALFORMED) == isinstance(message.headers, str)


def test_old_versions_name_no_endpoint() -> None:
    assert failed(**{HeaderNames.PROCESSING_ENDPOINT: None}).endpoint == "Sales"
    assert failed("").endpoint is None
    assert failed(**{HeaderNames.TIME_OF_FAILURE: "yesterday"}).time_of_failure is None


@pytest.mark.parametrize(
    ("values", "matches"),
    [
        ({}, True),
        ({"exception_type": "System.TimeoutException", "message_type": "Shop.PlaceOrder", "endpoint": "Sales"}, True),
        ({"exception_type": "System.TimeoutException", "endpoint": "Billing"}, False),
        ({"exception_type": "TimeoutException"}, False),
        ({"exception_type": ""}, False),
        ({"failed_queue": "Sales"}, True),
        ({"failed_queue": "Sales@[dbo]@[shop]"}, True),
        ({"failed_queue": "Sales@[dbo]"}, False),
        ({"kind": "failed"}, True),
        ({"kind": "malformed headers"}, False),
        ({"since": "2026-03-05T14:30:00.000001Z"}, True),
        ({"until": "2026-03-05T14:30:00.000001Z"}, False),
        ({"since": "2026-03-05T15:00:00+02:00", "until": "2026-03-06"}, True),
        ({"message_ids": "m-1"}, True),
        ({"message_ids": ["m-2", "m-3"]}, False),
        ({"row_versions": [7, "8"]}, True),
        ({"row_versions": []}, False),
        ({"up_to": 8}, True),
        ({"up_to": "7"}, True),
        ({"up_to": 6}, False),
        ({"row_versions": 7, "message_ids": []}, False),
        ({"exception_type": None, "since": None, "row_versions": None}, True),
    ],
)
def test_filters(values: dict[str, Any], matches: bool) -> None:
    assert ErrorFilter.of(values).matches(failed()) is matches


def test_a_filter_of_generators_matches_again_and_again() -> None:
    where = ErrorFilter(message_ids=iter(["m-1"]), row_versions=iter([7]))  # type: ignore[arg-type]
    assert where == ErrorFilter.of({"message_ids": "m-1", "row_versions": 7})
    assert [where.matches(failed()) for _ in range(2)] == [True, True]


def test_a_filter_without_a_match() -> None:
    assert ErrorFilter(exception_type="").matches(failed("{}"))
    assert not ErrorFilter.of({"since": "2026-01-01"}).matches(failed("{}"))


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"exception": "x"}, "no filter 'exception'"),
        ({"message_type": "Shop.A, Shop"}, "is no message type: give the full name"),
        ({"kind": "poison"}, "no kind 'poison'"),
        ({"since": "soon"}, "since is not a time"),
        ({"until": ""}, "until is not a time"),
        ({"since": datetime(2026, 1, 1)}, "no time zone"),  # noqa: DTZ001
        ({"row_versions": ["x"]}, "is no RowVersion"),
        ({"row_versions": [1.7]}, "is no RowVersion"),
        ({"row_versions": [True]}, "is no RowVersion"),
        ({"row_versions": float("inf")}, "is no RowVersion"),
        ({"row_versions": [None]}, "is no RowVersion"),
        ({"up_to": ""}, "is no RowVersion"),
        ({"up_to": float("inf")}, "is no RowVersion"),
        ({"row_versions": 2**64}, "larger than any"),
        ({"endpoint": ["Sales"]}, "endpoint takes text"),
    ],
)
def test_filters_without_a_condition(values: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        ErrorFilter.of(values)


def test_returning_all_messages_needs_an_explicit_argument() -> None:
    assert ErrorFilter.chosen(None, all_messages=True).is_empty
    assert ErrorFilter.chosen({"row_versions": []}, all_messages=False).row_versions == frozenset()
    for filters, all_messages in (
        (None, False),
        ({"endpoint": None}, False),
        ({"endpoint": "Sales"}, True),
        (ErrorFilter(), False),
    ):
        with pytest.raises(ConfigurationError, match="one of the two"):
            ErrorFilter.chosen(filters, all_messages=all_messages)


def test_only_rows_left_by_the_failure_are_removed() -> None:
    message = without_failure(received(HEADERS))
    assert message.headers == {
        name: HEADERS[name]
        for name in (
            HeaderNames.MESSAGE_ID,
            HeaderNames.CORRELATION_ID,
            HeaderNames.CONVERSATION_ID,
            HeaderNames.ENCLOSED_MESSAGE_TYPES,
            HeaderNames.PROCESSING_ENDPOINT,
            HeaderNames.PROCESSING_MACHINE,
            "Shop.Customer",
            "Shop.Nothing",
        )
    }
    assert (message.id, message.body, message.time_to_be_received) == (ID, b"body", None)


def test_columns_of_old_versions_become_headers() -> None:
    old = without_failure(received({"a": "b"}, correlation_id="c-9", reply_to_address="Sales@WEB-01"))
    assert old.headers == {"a": "b", HeaderNames.CORRELATION_ID: "c-9", HeaderNames.REPLY_TO_ADDRESS: "Sales@WEB-01"}
    both = without_failure(received({HeaderNames.CORRELATION_ID: "c-1"}, correlation_id="c-9"))
    assert both.headers == {HeaderNames.CORRELATION_ID: "c-1"}


def test_malformed_headers_are_not_healed_but_kept() -> None:
    with pytest.raises(MessageError, match="RowVersion 7 is malformed"):
        without_failure(received("secret"))
    assert unchanged(received("{broken")).headers == "{broken"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"rate": 0}, "rate must be"),
        ({"max_messages": -1}, "max_messages must be"),
        ({"max_seconds": 0.0}, "max_seconds must be"),
        ({"rows_per_transaction": 1_001}, "1 to 1,000"),
        ({"bytes_per_transaction": 0}, "bytes_per_transaction must be"),
    ],
)
def test_options_that_cannot_work(options: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        ErrorQueueOptions(**options)


class FakeClock:
    """A clock that only sleeping moves."""

    def __init__(self) -> None:
        self.now = 100.0
        self.slept: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


def test_the_pace_is_kept_and_lost_time_not_made_up_for() -> None:
    fake = FakeClock()
    pace = RateLimiter(4, Clock(lambda: fake.now, fake.sleep))
    assert pace.burst == 4
    for _ in range(3):
        pace.wait()
        pace.moved(4)
    assert fake.slept == [1.0, 1.0]
    fake.now += 60
    pace.wait()
    pace.moved(2)
    pace.wait()
    assert fake.slept == [1.0, 1.0, 0.5]


def test_a_slow_pace_moves_one_at_a_time_and_none_has_no_limit() -> None:
    fake = FakeClock()
    assert RateLimiter(0.25, Clock(lambda: fake.now, fake.sleep)).burst == 1
    free = RateLimiter(None, Clock(lambda: fake.now, fake.sleep))
    free.moved(10_000)
    free.wait()
    assert (free.burst, free.away, fake.slept) == (None, 0.0, [])
