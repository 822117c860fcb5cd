"""Edit of a failed message: a new message takes its place."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass

from airflow_sqlqueue.errors import ConfigurationError, MessageError
from airflow_sqlqueue.messages.message import (
    HeaderNames,
    Headers,
    Message,
    ReceivedMessage,
    decode_headers,
    encode_headers,
)
from airflow_sqlqueue.messages.routing import AddressResolver
from airflow_sqlqueue.queue.errors.destinations import Destinations, other_queue
from airflow_sqlqueue.queue.errors.failed_message import FailedMessage, classify
from airflow_sqlqueue.queue.errors.failure_headers import EDIT_OF, headers_without_failure
from airflow_sqlqueue.queue.errors.reasons import StayReason
from airflow_sqlqueue.queue.errors.scan import not_found, show_error
from airflow_sqlqueue.queue.queue_table import QueueTable
from airflow_sqlqueue.server.session import retrying

_OURS = (HeaderNames.MESSAGE_ID, EDIT_OF)


@dataclass(frozen=True)
class EditResult:
    """Message id of the edited copy, message id of the original, and the queue that the copy was sent to."""

    message_id: str
    edit_of: str
    queue: str


def check_headers(headers: Headers) -> None:
    """Raise ConfigurationError for a header that the edit sets itself, MessageError for one that no reader accepts."""
    if not isinstance(headers, Mapping):
        raise ConfigurationError(
            f"The headers of an edit are a mapping of names and values, not {type(headers).__name__}."
        )
    if taken := next((name for name in _OURS if name in headers), None):
        raise ConfigurationError(f"The header {taken} of an edited message is set by the edit: leave it out.")
    _check_readable(headers)


def _check_readable(headers: Headers) -> None:
    if problem := decode_headers(encode_headers(headers)).problem:
        raise MessageError(f"The edited message could not be read, because its headers are malformed: {problem}.")


def edit(
    queue: QueueTable,
    resolver: AddressResolver,
    row_version: int,
    *,
    body: bytes | None = None,
    headers: Mapping[str, str | None] | None = None,
    to_queue: str | None = None,
    keep_original: bool = False,
    dry_run: bool = False,
) -> EditResult:
    """Send an edited copy of an error queue's message to the queue where it failed, and remove the message.

    The copy has a new message id and row Id; the header ``ServiceControl.EditOf`` has the message id of the original.
    ``body`` replaces the body. ``headers`` replace or add headers, a value of None removes one, and headers of the
    failure are removed. Send and removal are one transaction: nothing is lost or duplicated, whichever process dies.
    With ``keep_original`` the message stays where it is, and a repeated call sends another copy.

    ``dry_run`` only finds the destination. A message with malformed headers can be edited with ``to_queue``; it keeps
    the headers that can be read.

    Raises :class:`MessageNotFoundError`, :class:`MessageError` if the copy has no destination or cannot be sent, and
    :class:`ConfigurationError` if the call edits nothing.
    """
    if body is None and not headers:
        raise ConfigurationError("Nothing is edited: give a new body or headers, or return the message as it is.")
    check_headers(headers or {})
    destinations = Destinations(queue, resolver)
    named = None if to_queue is None else other_queue(queue, resolver, to_queue)

    def destination_of(message: FailedMessage) -> QueueTable:
        found = named or destinations.of(message)
        if isinstance(found, StayReason):
            raise MessageError(
                f"The edited message has no destination ({found.value}): name a queue to redirect it to."
            )
        return found

    def edited_from(original: ReceivedMessage) -> tuple[QueueTable, Message]:
        message = classify(original.row_version, original.id, decode_headers(original.headers), len(original.body))
        destination = destination_of(message)
        values = {**headers_without_failure(original), **(headers or {})}
        old_id = values.get(HeaderNames.MESSAGE_ID) or str(original.id)
        values |= {HeaderNames.MESSAGE_ID: str(uuid.uuid4()), EDIT_OF: old_id}
        removed = [name for name, value in (headers or {}).items() if value is None]
        kept = {name: value for name, value in values.items() if name not in removed}
        _check_readable(kept)
        return destination, Message(kept, original.body if body is None else body)

    def send() -> tuple[QueueTable, Message]:
        with nullcontext() if keep_original else queue.session.transaction():
            destination, message = edited_from((_read if keep_original else _take)(queue, row_version))
            destination.send([message])
        return destination, message

    if dry_run or (to_queue is None and not queue.session.in_transaction):
        # The search for a database that does not exist dooms its transaction, so the destination is found before.
        found = show_error(queue, row_version=row_version).message
        destination = destination_of(found)
        if dry_run:
            return EditResult("", found.message_id, destination.address.canonical)
    # In a transaction of the caller's a repetition is not possible: the server has rolled back its earlier statements.
    destination, message = send() if queue.session.in_transaction else retrying(send)
    new_id, old_id = (message.header(name) or "" for name in _OURS)
    return EditResult(new_id, old_id, destination.address.canonical)


def _take(queue: QueueTable, row_version: int) -> ReceivedMessage:
    for message in queue.take([row_version], cut_headers=True):
        return message
    raise not_found(queue, f"the RowVersion {row_version}")


def _read(queue: QueueTable, row_version: int) -> ReceivedMessage:
    """Read the whole row by a receive that is rolled back, in a transaction of the caller's to a savepoint."""
    if queue.session.in_transaction:
        queue.session.save()
        message = _take(queue, row_version)
        queue.session.roll_back_to_savepoint()
        return message
    queue.session.begin()
    try:
        return _take(queue, row_version)
    finally:
        queue.session.roll_back()
