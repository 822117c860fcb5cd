"""Integration events of ServiceControl, and other messages in their place."""

from __future__ import annotations

import dataclasses
import json
import uuid
from datetime import datetime, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_sqlqueue.envelope import Envelope
from airflow_sqlqueue.envelope.service_control import (
    MAX_BYTES,
    MAX_IDS,
    SERVICE_CONTROL_EVENTS,
    CustomCheckFailed,
    CustomCheckSucceeded,
    EndpointInstance,
    FailedMessagesArchived,
    FailedMessagesUnArchived,
    HeartbeatRestored,
    HeartbeatStopped,
    MessageEditedAndRetried,
    MessageFailed,
    MessageFailureResolvedByRetry,
    MessageFailureResolvedManually,
    service_control_event,
)
from airflow_sqlqueue.errors import MessageError
from airflow_sqlqueue.message import HeaderNames, Message

HOST = uuid.UUID("1c62248e-26be-5d8b-9c2e-c1b7e17a8b4e")
ON_HOST = {"EndpointName": "Sales", "HostId": str(HOST), "Host": "WEB-01"}
SALES = EndpointInstance("Sales", "WEB-01", HOST)
NOON = datetime(2026, 3, 5, 12, 0, 0, 123456, timezone.utc)
SECRET = "s3cret-c0ntent"

FAILED: dict[str, Any] = {
    "FailedMessageId": "b7a1f3f2-9a34-2c0b-6d2c-2a0b5b2f8b11",
    "MessageType": "Shop.PlaceOrder",
    "NumberOfProcessingAttempts": 2,
    "Status": 2,
    "SendingEndpoint": {"Name": "Web", "HostId": str(HOST), "Host": "WEB-01"},
    "ProcessingEndpoint": {"Name": "Sales", "HostId": str(HOST), "Host": "WEB-01"},
    "FailureDetails": {
        "AddressOfFailingEndpoint": "Sales@[dbo]@[shop]",
        "TimeOfFailure": "2026-03-05T12:00:00.1234567Z",
        "Exception": {
            "ExceptionType": "System.TimeoutException",
            "Message": SECRET,
            "Source": "Shop",
            "StackTrace": SECRET,
        },
    },
    "MessageDetails": {
        "MessageId": "m-1",
        "Headers": {"NServiceBus.MessageId": "m-1", "NServiceBus.FailedQ": "Sales@[dbo]@[shop]", "x": 5},
        "ContentType": "application/json",
        "Body": f'{{"card": "{SECRET}"}}',
    },
}

EVENTS: list[tuple[dict[str, Any], Any]] = [
    (
        {**ON_HOST, "LastReceivedAt": "2026-03-05T12:00:00.123456Z", "DetectedAt": "2026-03-05T13:00:00.123456+01:00"},
        HeartbeatStopped(SALES, NOON, NOON),
    ),
    ({**ON_HOST, "RestoredAt": "2026-03-05T12:00:00.123456Z"}, HeartbeatRestored(SALES, NOON)),
    (
        {
            **ON_HOST,
            "CustomCheckId": "disk",
            "Category": "IO",
            "FailureReason": "full",
            "FailedAt": "2026-03-05T12:00:00.123456Z",
        },
        CustomCheckFailed(SALES, "disk", "IO", "full", NOON),
    ),
    (
        {**ON_HOST, "CustomCheckId": "disk", "Category": "IO", "SucceededAt": "2026-03-05T12:00:00.123456Z"},
        CustomCheckSucceeded(SALES, "disk", "IO", NOON),
    ),
    ({"FailedMessagesIds": ["a", "b", 5, ""]}, FailedMessagesArchived(("a", "b"))),
    ({"FailedMessagesIds": ["a"]}, FailedMessagesUnArchived(("a",))),
    (
        {"FailedMessageId": "a", "AlternativeFailedMessageIds": ["b"]},
        MessageFailureResolvedByRetry("a", ("b",)),
    ),
    ({"FailedMessageId": "a", "AlternativeFailedMessageIds": None}, MessageFailureResolvedByRetry("a", ())),
    ({"FailedMessageId": "a"}, MessageFailureResolvedManually("a")),
    ({"FailedMessageId": "a"}, MessageEditedAndRetried("a")),
]


def event(kind: str, values: Any) -> Message:
    """As ServiceControl publishes it: its behaviour leaves the assembly's version out of the type."""
    headers = {
        HeaderNames.ENCLOSED_MESSAGE_TYPES: f"ServiceControl.Contracts.{kind}, ServiceControl.Contracts",
        HeaderNames.CONTENT_TYPE: "application/json",
        HeaderNames.MESSAGE_INTENT: "Publish",
    }
    return Message(headers, values if isinstance(values, bytes) else json.dumps(values).encode())


@pytest.mark.parametrize(("values", "expected"), EVENTS)
def test_events_are_read(values: dict[str, Any], expected: Any) -> None:
    kind = type(expected).__name__
    assert service_control_event(event(kind, values)) == expected
    with_mark = event(kind, b"\xef\xbb\xbf" + json.dumps(values).encode())
    assert service_control_event(Envelope.of(with_mark)) == expected


def test_a_failure_is_read() -> None:
    failed = service_control_event(event("MessageFailed", FAILED))
    assert isinstance(failed, MessageFailed)
    assert (failed.failed_message_id, failed.message_id) == (FAILED["FailedMessageId"], "m-1")
    assert (failed.status, failed.attempts, failed.message_type) == ("RepeatedFailure", 2, "Shop.PlaceOrder")
    assert (failed.sending.name, failed.processing) == ("Web", SALES)
    assert (failed.failed_queue, failed.time_of_failure) == ("Sales@[dbo]@[shop]", NOON)
    assert (failed.exception_type, failed.exception_message) == ("System.TimeoutException", SECRET)
    assert failed.envelope.failure.failed_queue == "Sales@[dbo]@[shop]"
    assert failed.envelope.json() == {"card": SECRET}
    # Airflow logs what a task returns and raises.
    assert SECRET not in repr(failed)


@pytest.mark.parametrize(
    ("status", "read"),
    [(0, "ArchivedFailure"), (1, "Failed"), ("Failed", "Failed"), ("lost", None), (3, None), (True, None), ([], None)],
)
def test_a_status_is_a_number_or_a_name(status: Any, read: str | None) -> None:
    failed = service_control_event(event("MessageFailed", {**FAILED, "Status": status}))
    assert isinstance(failed, MessageFailed)
    assert failed.status == read


def test_every_type_can_be_subscribed_to_and_read() -> None:
    kinds = {type(expected).__name__ for _, expected in EVENTS} | {"MessageFailed"}
    assert {name.removeprefix("ServiceControl.Contracts.") for name in SERVICE_CONTROL_EVENTS} == kinds


@pytest.mark.parametrize(
    ("message", "says"),
    [
        (
            Message({HeaderNames.ENCLOSED_MESSAGE_TYPES: "Shop.Placed, Shop"}, b"{}"),
            "'Shop.Placed' is no event",
        ),
        (Message({}, b"{}"), "None is no event"),
        (event("FailedMessageArchived", {"FailedMessageId": "a"}), "is no event"),
        (event("HeartbeatStopped", b""), "no JSON object"),
        (event("HeartbeatStopped", b"[]"), "no JSON object"),
        (event("HeartbeatStopped", b"\xff\xfe\xff"), "no JSON object"),
        (event("HeartbeatStopped", b"[" * 100_000), "no JSON object"),
        (event("MessageFailed", {}), "has no FailedMessageId"),
        (event("MessageEditedAndRetried", {"FailedMessageId": "x" * 1_001}), "has no FailedMessageId"),
        (event("MessageEditedAndRetried", b'{"FailedMessageId": "\\ud800"}'), "has no FailedMessageId"),
        (event("FailedMessagesArchived", {"FailedMessagesIds": ["a"] * (MAX_IDS + 1)}), "more than 100000 ids"),
        (event("MessageFailed", b" " * (MAX_BYTES + 1)), "more than 8388608 bytes"),
    ],
)
def test_other_messages_are_refused(message: Message, says: str) -> None:
    with pytest.raises(MessageError, match=says):
        service_control_event(message)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=10,
)


@given(st.sampled_from(SERVICE_CONTROL_EVENTS), st.data())
def test_values_of_any_type_are_read_or_refused(name: str, data: st.DataObject) -> None:
    known = [*FAILED, *FAILED["FailureDetails"], *FAILED["MessageDetails"], *ON_HOST, "FailedMessagesIds", "FailedAt"]
    values = data.draw(st.dictionaries(st.sampled_from(known), JSON))
    try:
        found = service_control_event(event(name.rpartition(".")[2], values))
    except MessageError:
        return
    assert dataclasses.is_dataclass(found)
    assert type(found).__name__ == name.rpartition(".")[2]
