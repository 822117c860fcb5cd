"""Messages of an error queue that are edited on their way back, on any server."""

from __future__ import annotations

import uuid

import pytest

from airflow_sqlqueue.errors import ConfigurationError, MessageError, MessageNotFoundError
from airflow_sqlqueue.messages.message import HeaderNames, Message
from airflow_sqlqueue.messages.routing import AddressResolver
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.queue.depth import depth
from airflow_sqlqueue.queue.errors.editing import edit
from tests.contract.return_to_source.conftest import KEPT, Make, failed, headers_of
from tests.drains import bodies


def test_an_edited_message_takes_the_place_of_the_old(
    error: QueueTable, sales: QueueTable, resolver: AddressResolver
) -> None:
    error.send([failed("Sales", b"old"), failed("Sales", b"other")])
    (old, _) = error.peek()
    edited = edit(
        error, resolver, old.row_version, body=b"new", headers={"Shop.Customer": "Bo", "Shop.Nothing": None, "x": "y"}
    )
    assert (edited.edit_of, edited.queue) == (KEPT[HeaderNames.MESSAGE_ID], sales.address.canonical)
    (message,) = sales.receive()
    headers = headers_of(message)
    new_id = headers.pop(HeaderNames.MESSAGE_ID)
    assert new_id == edited.message_id
    assert uuid.UUID(new_id) != uuid.UUID(edited.edit_of)
    expected = {name: value for name, value in KEPT.items() if name not in (HeaderNames.MESSAGE_ID, "Shop.Nothing")}
    assert headers == {**expected, "Shop.Customer": "Bo", "x": "y", "ServiceControl.EditOf": edited.edit_of}
    assert (message.body, message.expires) == (b"new", None)
    assert message.id != old.id
    assert bodies(error) == [b"other"]


def test_an_edit_can_leave_the_original(error: QueueTable, sales: QueueTable, resolver: AddressResolver) -> None:
    error.send([failed("Sales", b"old")])
    (old,) = error.peek()
    edit(error, resolver, old.row_version, headers={"x": "y"}, keep_original=True)
    assert (bodies(error), bodies(sales)) == ([b"old"], [b"old"])
    assert error.peek()[0].row_version == old.row_version


def test_poison_can_be_mended_by_an_edit(make: Make, error: QueueTable, resolver: AddressResolver) -> None:
    mended = make("mended")
    error.send([Message('{"NServiceBus.MessageId": "m-1", "tags": []}', b"x")])
    (poison,) = error.peek()
    with pytest.raises(MessageError, match=r"no destination \(malformed headers\)"):
        edit(error, resolver, poison.row_version, headers={"tags": "none"})
    edit(error, resolver, poison.row_version, headers={"tags": "none"}, to_queue="mended")
    (message,) = mended.receive()
    headers = headers_of(message)
    assert (headers["ServiceControl.EditOf"], headers["tags"], message.body) == ("m-1", "none", b"x")


def test_edits_of_nothing_and_of_what_cannot_be_sent_are_refused(
    error: QueueTable, sales: QueueTable, resolver: AddressResolver
) -> None:
    error.send([failed("Sales"), failed("Gone")])
    first, second = (message.row_version for message in error.peek())
    with pytest.raises(ConfigurationError, match="Nothing is edited"):
        edit(error, resolver, first)
    with pytest.raises(ConfigurationError, match=r"NServiceBus\.MessageId of an edited message"):
        edit(error, resolver, first, headers={HeaderNames.MESSAGE_ID: "m"})
    with pytest.raises(MessageNotFoundError, match=f"RowVersion {2**40}"):
        edit(error, resolver, 2**40, body=b"")
    with pytest.raises(MessageNotFoundError, match=f"RowVersion {2**40}"):
        edit(error, resolver, 2**40, body=b"", keep_original=True)
    with pytest.raises(MessageError, match="does not exist"):
        edit(error, resolver, second, body=b"")
    with pytest.raises(MessageError, match="half a surrogate"):
        edit(error, resolver, first, headers={"x": "\ud800"})
    assert (depth(error).messages, depth(sales).messages) == (2, 0)


def test_an_edit_is_part_of_a_transaction(error: QueueTable, sales: QueueTable, resolver: AddressResolver) -> None:
    error.send([failed("Sales", b"old")])
    (old,) = error.peek()

    def edit_and_fail() -> None:
        with error.session.transaction():
            edit(error, resolver, old.row_version, body=b"new")
            raise InterruptedError

    with pytest.raises(InterruptedError):
        edit_and_fail()
    assert (bodies(error), bodies(sales)) == ([b"old"], [])


def test_an_edit_that_leaves_the_original_is_part_of_a_transaction(
    error: QueueTable, sales: QueueTable, resolver: AddressResolver
) -> None:
    error.send([failed("Sales", b"old"), failed("Sales", b"other")])
    old, other = error.peek(2)
    with error.session.transaction():
        error.take([other.row_version])
        edit(error, resolver, old.row_version, body=b"new", keep_original=True)
        with pytest.raises(MessageNotFoundError):
            edit(error, resolver, other.row_version, body=b"new", keep_original=True, to_queue="Sales")
    assert (bodies(error), bodies(sales)) == ([b"old"], [b"new"])
