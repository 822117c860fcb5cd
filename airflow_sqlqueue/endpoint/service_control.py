"""Messages for ServiceControl: copies of handled messages for the audit queue, and acknowledgements of its retries.

Sources: docs/transport/messages.md, "Audited messages" and "Retries of ServiceControl".
"""

from __future__ import annotations

import logging
import socket
import uuid
from datetime import datetime, timezone

from airflow_sqlqueue.endpoint.endpoint import EndpointTables
from airflow_sqlqueue.errors import (
    AddressError,
    MessageError,
    NotAQueueError,
    PermissionDeniedError,
    QueueNotFoundError,
    StatementError,
)
from airflow_sqlqueue.messages.envelope import Envelope
from airflow_sqlqueue.messages.envelope.times import format_time
from airflow_sqlqueue.messages.message import HeaderNames, Message, ReceivedMessage
from airflow_sqlqueue.messages.routing import AddressResolver, ResolvedAddress
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.queue.errors.failure_headers import unchanged
from airflow_sqlqueue.queue.tables.discovery import find_queue
from airflow_sqlqueue.server.session import Session
from airflow_sqlqueue.untrusted import header_value, quoted

log = logging.getLogger(__name__)

MAX_USABLE = 100
"""Most acknowledgement queues that a handler remembers as usable: senders choose the addresses."""

_NAMESPACE = uuid.UUID("6f0c9a1e-3c0f-5d0e-9d55-3f0a3d1a9b42")


def host_id(endpoint: str) -> uuid.UUID:
    """Return the id of an endpoint's instance on this machine, which stays the same in all runs."""
    return uuid.uuid5(_NAMESPACE, f"{endpoint}\0{socket.gethostname()}")


def audit_copy(envelope: Envelope, endpoint: str, started: datetime, *, acknowledged: bool) -> Message:
    """Make the copy of a handled message: its row Id, headers and body, and how it was handled. It does not expire.

    ``acknowledged``: an acknowledgement of its retry was sent, so that ServiceControl sends no other one.
    """
    machine = socket.gethostname()
    headers = {
        **envelope.headers,
        HeaderNames.PROCESSING_STARTED: format_time(started),
        HeaderNames.PROCESSING_ENDED: format_time(datetime.now(timezone.utc)),
        HeaderNames.PROCESSING_ENDPOINT: endpoint,
        HeaderNames.PROCESSING_MACHINE: machine,
        HeaderNames.HOST_ID: host_id(endpoint).hex,
        HeaderNames.HOST_DISPLAY_NAME: machine,
    }
    if acknowledged:
        headers[HeaderNames.RETRY_ACKNOWLEDGEMENT_SENT] = "true"
    else:
        headers.pop(HeaderNames.RETRY_ACKNOWLEDGEMENT_SENT, None)
    return Message(headers, envelope.body, id=envelope.row_id)


def audit(
    tables: EndpointTables, message: ReceivedMessage, envelope: Envelope, started: datetime, *, acknowledged: bool
) -> None:
    """Send the copy of a handled message to the audit queue, if there is one, in the session's transaction.

    If the headers cannot be written again, the copy has them unchanged, like a message in the error queue.
    """
    if tables.audit_queue is None:
        return
    try:
        tables.audit_queue.send([audit_copy(envelope, tables.endpoint.name, started, acknowledged=acknowledged)])
    except MessageError:
        # The error comes before the statement, so the transaction continues.
        tables.audit_queue.send([unchanged(message)])


def is_retry(envelope: Envelope) -> bool:
    """Return whether ServiceControl has sent a message again and waits for the acknowledgement."""
    retry = envelope.service_control_retry
    return bool(header_value(retry.unique_message_id) and header_value(retry.acknowledgement_queue))


def acknowledge(
    session: Session, resolver: AddressResolver, envelope: Envelope, usable: dict[str, ResolvedAddress]
) -> bool:
    """Acknowledge the retry of a handled message, in the session's transaction; return whether this was done.

    The sender of the message chose the address. An address that cannot be used, or is not allowed, does not make the
    message fail: the log has a warning, and if there is an audit copy, ServiceControl's audit instance finds no mark of
    an acknowledgement in it and sends one itself. A queue that is not in ``usable`` is tried first, on a connection of
    its own, because an error would end the transaction.
    """
    if not is_retry(envelope):
        return False
    retry = envelope.service_control_retry
    address = retry.acknowledgement_queue or ""
    try:
        if address not in usable:
            with Session(session.settings) as aside:
                queue = QueueTable(aside, find_queue(aside, resolver, address))
                queue.require_allowed(resolver)
                queue.check_accepts()
                queue.rows("queue.try_send")
            if len(usable) >= MAX_USABLE:
                usable.clear()
            usable[address] = queue.address
    except (AddressError, QueueNotFoundError, NotAQueueError, PermissionDeniedError, StatementError) as error:
        shown_id = quoted(envelope.identity.message_id)
        log.warning("The retry of message %s is not acknowledged to ServiceControl: %s", shown_id, error)
        return False
    headers = {
        HeaderNames.RETRY_SUCCESSFUL: format_time(datetime.now(timezone.utc)),
        HeaderNames.RETRY_UNIQUE_MESSAGE_ID: retry.unique_message_id,
        HeaderNames.CONTROL_MESSAGE: "True",
    }
    try:
        QueueTable(session, usable[address]).send([Message(headers)])
    except Exception:
        # It may be gone by now: the next attempt of the message tries it first.
        del usable[address]
        raise
    return True
