"""The typed view of a message: every group, and what becomes of values that are not of their type."""

from __future__ import annotations

import codecs
import json
import subprocess
import sys
import uuid
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_sqlqueue.messages.address import QueueAddress
from airflow_sqlqueue.messages.envelope import Envelope, typed_headers
from airflow_sqlqueue.messages.envelope.typed_headers import HeaderGroup
from airflow_sqlqueue.messages.message import HeaderNames, Message, ReceivedMessage, encode_headers
from airflow_sqlqueue.traffic import generate

ROW = uuid.UUID("11111111-2222-3333-4444-555555555555")
MOMENT = datetime(2026, 1, 31, 8, 5, 9, 12345, tzinfo=timezone.utc)
WIRE = "2026-01-31 08:05:09:012345 Z"
LATER = "2026-01-31 08:05:10:012345 Z"
NAMES = [value for name, value in vars(HeaderNames).items() if name.isupper()]

FULL = {
    "NServiceBus.MessageId": "m",
    "NServiceBus.CorrelationId": "c",
    "NServiceBus.ConversationId": "v",
    "NServiceBus.PreviousConversationId": "p",
    "NServiceBus.RelatedTo": "r",
    "NServiceBus.ContentType": "application/json; charset=UTF-8",
    "NServiceBus.EnclosedMessageTypes": "Shop.Order, Shop, Version=1.0.0.0; Shop.IOrder, Shop",
    "NServiceBus.MessageIntent": "publish",
    "NServiceBus.ReplyToAddress": "Sales@[dbo]@[nsb]",
    "NServiceBus.OriginatingEndpoint": "Sales",
    "NServiceBus.OriginatingMachine": "WEB01",
    "$.diagnostics.originating.hostid": "h",
    "tenant_id": "t",
    "NServiceBus.TimeSent": WIRE,
    "NServiceBus.DeliverAt": WIRE,
    "NServiceBus.TimeToBeReceived": "1.00:00:05",
    "NServiceBus.NonDurableMessage": "True",
    "NServiceBus.Version": "9.1.0",
    "NServiceBus.SagaId": "s",
    "NServiceBus.SagaType": "Shop.Saga, Shop",
    "NServiceBus.OriginatingSagaId": "os",
    "NServiceBus.OriginatingSagaType": "Shop.Other, Shop",
    "NServiceBus.IsSagaTimeoutMessage": "true",
    "NServiceBus.FLRetries": "2",
    "NServiceBus.Retries": "1",
    "NServiceBus.Retries.Timestamp": WIRE,
    "NServiceBus.FailedQ": "Sales@WEB01",
    "NServiceBus.TimeOfFailure": WIRE,
    "NServiceBus.ExceptionInfo.ExceptionType": "System.Exception",
    "NServiceBus.ExceptionInfo.InnerExceptionType": "System.TimeoutException",
    "NServiceBus.ExceptionInfo.Source": "Shop",
    "NServiceBus.ExceptionInfo.Message": "s3cret",
    "NServiceBus.ExceptionInfo.StackTrace": "at s3cret",
    "NServiceBus.ExceptionInfo.HelpLink": "s3cret",
    "NServiceBus.ExceptionInfo.Data.Order": "s3cret",
    "NServiceBus.ProcessingStarted": WIRE,
    "NServiceBus.ProcessingEnded": LATER,
    "NServiceBus.ProcessingEndpoint": "Billing",
    "NServiceBus.ProcessingMachine": "WEB02",
    "$.diagnostics.hostid": "h2",
    "$.diagnostics.hostdisplayname": "WEB02",
    "NServiceBus.ControlMessage": "True",
    "NServiceBus.ReturnMessage.ErrorCode": "-5",
    "NServiceBus.SqlServer.CallbackQueue": "Sales.WEB01",
    "SubscriptionMessageType": "Shop.Order, Shop",
    "NServiceBus.SubscriberAddress": "Billing@[dbo]",
    "NServiceBus.SubscriberEndpoint": "Billing",
    "NServiceBus.SqlServer.ForwardDestination": "Shipping@[dbo]@[nsb]",
    "NServiceBus.IsDeferredMessage": "True",
    "NServiceBus.Timeout.Expire": WIRE,
    "NServiceBus.Timeout.RouteExpiredTimeoutTo": "Shipping@WEB01",
    "NServiceBus.RelatedToTimeoutId": "rt",
    "NServiceBus.DataBus.Picture": "s3cret",
    "NServiceBus.DataBusConfig.ContentType": "application/octet-stream",
    "ServiceControl.Retry.UniqueMessageId": "u",
    "ServiceControl.Retry.AcknowledgementQueue": "Particular.ServiceControl.error",
    "ServiceControl.Retry.Successful": WIRE,
    "ServiceControl.Retry.AcknowledgementSent": "true",
    "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    "tracestate": "s3cret",
    "baggage": "s3cret",
    "NServiceBus.OpenTelemetry.StartNewTrace": "True",
}
EXPECTED: dict[str, dict[str, Any]] = {
    "identity": {
        "message_id": "m",
        "correlation_id": "c",
        "conversation_id": "v",
        "previous_conversation_id": "p",
        "related_to": "r",
    },
    "content": {
        "content_type": "application/json; charset=UTF-8",
        "media_type": "application/json",
        "charset": "utf-8",
        "enclosed_message_types": ("Shop.Order, Shop, Version=1.0.0.0", "Shop.IOrder, Shop"),
        "message_types": ("Shop.Order", "Shop.IOrder"),
        "message_type": "Shop.Order",
    },
    "routing": {
        "intent": "Publish",
        "reply_to_address": "Sales@[dbo]@[nsb]",
        "reply_to": QueueAddress("Sales", "dbo", "nsb"),
        "originating_endpoint": "Sales",
        "originating_machine": "WEB01",
        "originating_host_id": "h",
        "tenant_id": "t",
    },
    "time": {
        "time_sent": MOMENT,
        "deliver_at": MOMENT,
        "time_to_be_received": timedelta(days=1, seconds=5),
        "non_durable": True,
        "version": "9.1.0",
    },
    "saga": {
        "saga_id": "s",
        "saga_type": "Shop.Saga, Shop",
        "originating_saga_id": "os",
        "originating_saga_type": "Shop.Other, Shop",
        "is_timeout": True,
    },
    "recoverability": {"immediate_retries": 2, "delayed_retries": 1, "delayed_at": MOMENT},
    "failure": {
        "failed_queue": "Sales@WEB01",
        "time_of_failure": MOMENT,
        "exception_type": "System.Exception",
        "inner_exception_type": "System.TimeoutException",
        "exception_source": "Shop",
        "exception_message": "s3cret",
        "stack_trace": "at s3cret",
        "help_link": "s3cret",
        "exception_data": {"Order": "s3cret"},
    },
    "audit": {
        "processing_started": MOMENT,
        "processing_ended": MOMENT + timedelta(seconds=1),
        "processing_endpoint": "Billing",
        "processing_machine": "WEB02",
        "host_id": "h2",
        "host_display_name": "WEB02",
        "duration": timedelta(seconds=1),
    },
    "control": {
        "is_control_message": True,
        "error_code": -5,
        "callback_queue": QueueAddress("Sales.WEB01"),
        "subscription_message_type": "Shop.Order, Shop",
        "subscriber_address": QueueAddress("Billing", "dbo"),
        "subscriber_endpoint": "Billing",
    },
    "delayed": {
        "forward_destination": QueueAddress("Shipping", "dbo", "nsb"),
        "is_deferred": True,
        "timeout_expire": MOMENT,
        "timeout_destination": QueueAddress("Shipping", "WEB01"),
        "related_to_timeout_id": "rt",
    },
    "large_body": {"content_type": "application/octet-stream", "properties": {"Picture": "s3cret"}},
    "service_control_retry": {
        "unique_message_id": "u",
        "acknowledgement_queue": "Particular.ServiceControl.error",
        "succeeded_at": MOMENT,
        "acknowledgement_sent": True,
    },
    "tracing": {
        "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "tracestate": "s3cret",
        "baggage": "s3cret",
        "start_new_trace": True,
    },
}


def received(headers: str, body: bytes = b"") -> ReceivedMessage:
    return ReceivedMessage(ROW, 7, headers, body, None, False)


def values(group: HeaderGroup) -> dict[str, Any]:
    """Fields and properties, by name."""
    properties = [name for name, value in vars(type(group)).items() if isinstance(value, property)]
    return {**vars(group), **{name: getattr(group, name) for name in properties}}


@pytest.mark.parametrize("name", EXPECTED)
def test_every_header_has_its_place(name: str) -> None:
    assert values(getattr(Envelope.of(FULL), name)) == EXPECTED[name]


@pytest.mark.parametrize(("text", "flag"), [("True", True), (" false ", False), ("no", None)])
def test_a_flag_has_one_of_two_texts(text: str, flag: bool | None) -> None:
    assert Envelope.of(Message({HeaderNames.NON_DURABLE_MESSAGE: text})).time.non_durable is flag


def test_every_known_header_is_tried() -> None:
    assert all(any(header.startswith(name) for header in FULL) for name in NAMES)
    known = {
        name
        for name, value in vars(typed_headers).items()
        if isinstance(value, type) and HeaderGroup in value.__bases__
    }
    assert {type(getattr(Envelope(), name)).__name__ for name in EXPECTED} == known


@pytest.mark.parametrize(
    "source", [FULL, encode_headers(FULL), Message(FULL), Message(encode_headers(FULL)), received(encode_headers(FULL))]
)
def test_headers_are_found_at_any_position(source: Any) -> None:
    envelope = Envelope.of(source)
    assert dict(envelope.headers) == FULL
    assert envelope.problem is None


@given(st.dictionaries(st.sampled_from(NAMES) | st.text(), st.none() | st.text()))
def test_no_value_raises(headers: dict[str, str | None]) -> None:
    envelope = Envelope.of(headers)
    for name in EXPECTED:
        values(getattr(envelope, name))
    envelope.text()


def test_a_bad_value_does_not_hide_the_others() -> None:
    bad = {
        HeaderNames.TIME_SENT: "yesterday",
        HeaderNames.TIME_TO_BE_RECEIVED: "soon",
        HeaderNames.REPLY_TO_ADDRESS: "@[dbo]",
        HeaderNames.MESSAGE_INTENT: "Ask",
        HeaderNames.DELAYED_RETRIES: "9" * 5000,
        HeaderNames.IS_SAGA_TIMEOUT_MESSAGE: "perhaps",
    }
    envelope = Envelope.of(FULL | bad)
    assert envelope.time.time_sent is envelope.time.time_to_be_received is None
    assert (envelope.time.deliver_at, envelope.routing.originating_endpoint) == (MOMENT, "Sales")
    assert (envelope.routing.reply_to_address, envelope.routing.reply_to) == ("@[dbo]", None)
    assert envelope.routing.intent is envelope.recoverability.delayed_retries is envelope.saga.is_timeout is None


def test_a_poison_message_is_reported_and_does_not_raise() -> None:
    envelope = Envelope.of(received('{"NServiceBus.RelatedTo": "r", "a": 1}'))
    assert (envelope.problem_code, envelope.problem) == ("value-not-text", "a header's value is not text")
    assert envelope.identity.related_to == "r"
    assert Envelope.of("{").problem_code == "not-json"
    mapping: Any = {"a": 1, 2: "b", "c": "d"}
    assert (Envelope.of(mapping).problem_code, dict(Envelope.of(mapping).headers)) == ("value-not-text", {"c": "d"})


@pytest.mark.parametrize("headers", ["", "{", '{"NServiceBus.MessageId": ""}', '{"NServiceBus.MessageId": null}'])
def test_the_rows_id_is_the_message_id_of_those_without(headers: str) -> None:
    assert Envelope.of(received(headers)).identity.message_id == str(ROW)
    assert not Envelope.of(headers).identity.message_id


@pytest.mark.parametrize("kind", HeaderGroup.__subclasses__())
def test_a_group_that_is_not_read_is_one_without_headers(kind: type[HeaderGroup]) -> None:
    assert kind() == kind.of({})


def test_headers_cannot_be_changed() -> None:
    envelope = Envelope.of({"a": "b"})
    with pytest.raises(TypeError):
        envelope.headers["a"] = "c"  # type: ignore[index]


def test_no_repr_shows_a_secret() -> None:
    envelope = Envelope.of(Message(FULL, b"s3cret"))
    shown = repr(envelope) + "".join(repr(getattr(envelope, name)) for name in EXPECTED)
    assert "System.TimeoutException" in shown
    assert "s3cret" not in shown


TEXT = '<a b="Grüße ☃"/>'


@pytest.mark.parametrize(
    ("content_type", "body", "text"),
    [
        (None, TEXT.encode(), TEXT),
        ("text/xml", TEXT.encode("utf-8-sig"), TEXT),
        ("application/json; systemjson", b'{"a":1}', '{"a":1}'),
        ("application/vnd.shop+json", b"[]", "[]"),
        ('text/xml; charset="ISO-8859-1"', TEXT.replace("☃", "").encode("latin-1"), TEXT.replace("☃", "")),
        ("text/xml; charset=utf-16", TEXT.encode("utf-16"), TEXT),
        ("text/xml; charset=utf-8", TEXT.encode("utf-16-le"), TEXT),
        (None, TEXT.encode("utf-16"), TEXT),
        ("text/plain; charset=nonsense", b"a", "a"),
        ("text/plain; charset=utf-99", b"a", "a"),
        ("text/plain; charset=windows-1251", "Ж".encode("cp1251"), "Ж"),
        ("text/plain; charset=utf-8-sig", "é".encode("utf-8-sig"), "é"),
        ("text/plain; charset=utf--8", "é".encode(), "é"),
        ("text/plain; charset=unicode_escape", b"\\x41", "\\x41"),
        ("text/plain; charset=us-ascii", "é".encode(), "é"),
        ("text/plain; charset=", b"a", "a"),
        ("text/plain", b"\xff", None),
        ("application/octet-stream", b"text", None),
        (None, b"", ""),
    ],
)
def test_a_body_as_text(content_type: str | None, body: bytes, text: str | None) -> None:
    assert Envelope.of(Message({HeaderNames.CONTENT_TYPE: content_type}, body)).text() == text


def test_no_name_of_a_charset_stays_in_the_memory_of_python() -> None:
    asked: list[str] = []
    search = asked.append
    codecs.register(search)
    try:
        for charset in ("utf-0123", "utf" + "-" * 1_000_000 + "8", "iso-x"):
            headers = {HeaderNames.CONTENT_TYPE: f"text/plain; charset={charset}"}
            assert Envelope.of(Message(headers, "ü".encode())).text() == "ü"
    finally:
        codecs.unregister(search)
    assert asked == []


@given(
    st.binary(), st.text(max_size=10) | st.sampled_from(["utf-7", "utf-16", "idna", "cp932", "latin-1", "undefined"])
)
def test_no_body_raises(body: bytes, charset: str) -> None:
    envelope = Envelope.of(Message({HeaderNames.CONTENT_TYPE: f"text/plain; charset={charset}"}, body))
    envelope.text()
    envelope.json()


@pytest.mark.parametrize(
    ("body", "value"),
    [
        (b'\xef\xbb\xbf{"a": [1, null]}', {"a": [1, None]}),
        ('{"a": "ü"}'.encode("utf-16-le"), {"a": "ü"}),
        (b"<a/>", None),
        (b"", None),
        (b"\xff", None),
        (b"[" * 100_000, None),
    ],
)
def test_a_body_as_json(body: bytes, value: Any) -> None:
    assert Envelope.of(Message({}, body)).json() == value


def test_the_traffic_of_a_shop_is_read_whole() -> None:
    for message in generate(300, seed=3):
        envelope = Envelope.of(message)
        if isinstance(message.headers, str):
            continue
        assert envelope.time.time_sent
        assert envelope.audit.duration or envelope.failure.time_of_failure
        text = envelope.text()
        assert text is not None
        assert envelope.control.is_control_message == (text == "")
        if (envelope.content.media_type or "").endswith("json"):
            assert envelope.json() == json.loads(message.body)


def test_neither_airflow_nor_spark_is_imported() -> None:
    loads = (
        "import sys, airflow_sqlqueue.messages.envelope; "
        "print([m for m in ('airflow', 'pyspark', 'pyarrow') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", loads], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.strip() == "[]"
