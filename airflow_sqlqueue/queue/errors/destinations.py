"""Destinations of failed messages, and the reasons why some messages have none."""

from __future__ import annotations

from airflow_sqlqueue import errors
from airflow_sqlqueue.messages.address import MAX_ADDRESS_LENGTH
from airflow_sqlqueue.messages.routing import AddressResolver, ResolvedAddress
from airflow_sqlqueue.queue.errors.failed_message import MALFORMED, FailedMessage, table_of
from airflow_sqlqueue.queue.errors.reasons import StayReason
from airflow_sqlqueue.queue.queue_table import QueueTable
from airflow_sqlqueue.queue.tables.discovery import find_queue
from airflow_sqlqueue.queue.tables.reading import is_allowed

_MOST_KNOWN = 1_000
"""Maximum number of addresses in memory; the senders of messages choose the addresses."""


def other_queue(queue: QueueTable, resolver: AddressResolver, address: str) -> QueueTable:
    """Open the queue that a caller names for messages of an error queue, through its session; not that queue itself."""
    found = QueueTable(queue.session, find_queue(queue.session, resolver, address))
    if found.layout.table == queue.layout.table:
        raise errors.ConfigurationError(f"The messages are in {queue.address.canonical} already: name another queue.")
    return found


class Destinations:
    """Queues that messages of an error queue go back to, where ``resolver`` allows it; each is looked up once."""

    def __init__(self, queue: QueueTable, resolver: AddressResolver) -> None:
        self._queue = queue
        self._resolver = resolver
        self._known: dict[tuple[str, bool], QueueTable | StayReason] = {}
        self._tables: dict[ResolvedAddress, QueueTable] = {}

    def of(self, message: FailedMessage) -> QueueTable | StayReason:
        """Return the queue that a message goes to, or the reason why it stays."""
        if message.kind == MALFORMED:
            return StayReason.MALFORMED
        if message.failed_queue is None:
            return StayReason.NO_FAILED_QUEUE
        if _is_satellite(message):
            return StayReason.SATELLITE
        if len(message.failed_queue) > MAX_ADDRESS_LENGTH:
            return StayReason.NOT_AN_ADDRESS
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        key = (message.failed_queue, message.failed_queue.partition("@")[2] in message.machines)
        if key not in self._known:
            self._known[key] = self._look_up(message.failed_queue, message.machines)
        return self._known[key]

    def _look_up(self, address_text: str, machines: frozenset[str]) -> QueueTable | StayReason:
        try:
            return self._open(address_text, machines)
        except errors.AddressError:
            return StayReason.NOT_AN_ADDRESS
        except errors.QueueNotFoundError:
            return StayReason.NOT_FOUND
        except errors.NotAQueueError:
            return StayReason.NOT_A_QUEUE
        except errors.PermissionDeniedError:
            return StayReason.DENIED
        except errors.StatementError:
            return StayReason.REFUSED

    def _open(self, address_text: str, machines: frozenset[str]) -> QueueTable | StayReason:
        session = self._queue.session
        address = find_queue(session, self._resolver, address_text, machines)
        if not is_allowed(session, self._resolver, address):
            return StayReason.OUTSIDE
        table = self._tables.setdefault(address, QueueTable(session, address))
        return StayReason.ERROR_QUEUE if table.layout.table == self._queue.layout.table else table


def _is_satellite(message: FailedMessage) -> bool:
    """Return whether a message failed in the queue for delayed retries that versions up to 5 of NServiceBus have beside
    an endpoint's own queue. It needs a header that the return removes (issue 913 of ServiceControl), and would fail
    again for ever.
    """
    table = table_of(message.failed_queue) or ""
    return table.lower().endswith(".retries") and message.endpoint != table
