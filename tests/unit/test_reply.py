"""Replies: where they go, and how they are tied to what they answer."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from airflow_sqlqueue.errors import MessageError
from airflow_sqlqueue.messages.envelope import Envelope, reply
from airflow_sqlqueue.messages.message import HeaderNames, Message, ReceivedMessage, encode_headers

ROW = uuid.UUID("11111111-2222-3333-4444-555555555555")
REQUEST = {
    HeaderNames.MESSAGE_ID: "m-1",
    HeaderNames.CORRELATION_ID: "c-1",
    HeaderNames.CONVERSATION_ID: "v-1",
    HeaderNames.REPLY_TO_ADDRESS: "Sales@[dbo]@[nsb]",
    HeaderNames.ORIGINATING_SAGA_ID: "s-1",
    HeaderNames.ORIGINATING_SAGA_TYPE: "Shop.OrderSaga, Shop",
    HeaderNames.SAGA_ID: "not this one",
}


def request(headers: dict[str, Any] | str, **columns: str) -> ReceivedMessage:
    text = headers if isinstance(headers, str) else encode_headers(headers)
    return ReceivedMessage(ROW, 7, text, b"", None, False, **columns)  # type: ignore[arg-type]


def answer(incoming: dict[str, Any] | str = REQUEST, body: Any = None, **options: Any) -> tuple[str, Message]:
    return reply(request(incoming), body, endpoint="airflow.dag", **options)


def test_a_reply_is_tied_to_its_request() -> None:
    address, message = answer(body={"ok": True}, message_type="Shop.Done, Shop", headers={"tenant_id": "t"})
    envelope = Envelope.of(message)
    assert address == "Sales@[dbo]@[nsb]"
    assert message.body == b'{"ok":true}'
    assert envelope.routing.intent == "Reply"
    assert envelope.routing.originating_endpoint == "airflow.dag"
    assert envelope.routing.reply_to_address is None
    assert envelope.routing.tenant_id == "t"
    identity = envelope.identity
    assert (identity.correlation_id, identity.related_to, identity.conversation_id) == ("c-1", "m-1", "v-1")
    assert identity.message_id not in (None, "m-1")
    assert (envelope.saga.saga_id, envelope.saga.saga_type) == ("s-1", "Shop.OrderSaga, Shop")
    assert envelope.saga.originating_saga_id is None
    assert (envelope.content.content_type, envelope.content.message_type) == ("application/json", "Shop.Done")
    assert envelope.time.time_sent


def test_a_request_with_only_an_address() -> None:
    address, message = answer({HeaderNames.REPLY_TO_ADDRESS: "Sales@WEB01"})
    identity = Envelope.of(message).identity
    assert address == "Sales@WEB01"
    assert identity.correlation_id == identity.related_to == str(ROW)
    assert identity.conversation_id
    assert message.header(HeaderNames.SAGA_ID) is None


def test_columns_of_version_1_replace_missing_headers() -> None:
    received = request({HeaderNames.MESSAGE_ID: "m-1"}, correlation_id="c-0", reply_to_address="Sales@WEB01")
    address, message = reply(received, endpoint="e")
    assert address == "Sales@WEB01"
    assert message.header(HeaderNames.CORRELATION_ID) == "c-0"


def test_the_callback_queue_of_version_2_comes_first() -> None:
    address, _ = answer(REQUEST | {HeaderNames.CALLBACK_QUEUE: "Sales.WEB01"})
    assert address == "Sales.WEB01"


def test_ids_follow_from_request_endpoint_and_key() -> None:
    def id_of(headers: dict[str, Any] = REQUEST, endpoint: str = "e", **options: Any) -> str | None:
        return reply(request(headers), endpoint=endpoint, **options)[1].header(HeaderNames.MESSAGE_ID)

    assert id_of() == id_of()
    assert id_of(key="b") == id_of(key="b")
    others = [id_of(endpoint="f"), id_of(key="a"), id_of(key="b"), id_of(REQUEST | {HeaderNames.MESSAGE_ID: "m-2"})]
    assert len({id_of(), *others}) == 5


def test_a_callbacks_result_is_a_number_in_a_control_message() -> None:
    _, message = answer(error_code=0)
    envelope = Envelope.of(message)
    assert (envelope.control.is_control_message, envelope.control.error_code, message.body) == (True, 0, b"")
    assert (envelope.content.content_type, envelope.content.message_type) == (None, None)
    assert envelope.identity.correlation_id == "c-1"
    for more in ({"body": {}}, {"message_type": "T"}):
        with pytest.raises(MessageError, match="neither body nor message type"):
            answer(error_code=1, **more)


@pytest.mark.parametrize(
    ("headers", "says"),
    [
        ({}, "names no reply address"),
        ({HeaderNames.REPLY_TO_ADDRESS: "@[dbo]"}, "no table name"),
        ('{"NServiceBus.ReplyToAddress": "Sales", "a": 1}', "a header's value is not text"),
        ("{", "not JSON"),
    ],
)
def test_a_message_that_cannot_be_replied_to_is_refused(headers: dict[str, Any] | str, says: str) -> None:
    with pytest.raises(MessageError, match=rf"Message {ROW} cannot be replied to: .*{says}"):
        answer(headers)
