"""Destinations of failed messages, and the reasons why some messages have none."""

from __future__ import annotations

from airflow_sqlqueue import errors
from airflow_sqlqueue.address import MAX_ADDRESS_LENGTH
from airflow_sqlqueue.errorqueue.failed_message import MALFORMED, FailedMessage, table_of
from airflow_sqlqueue.errorqueue.reasons import Reason
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.routing import AddressResolver, ResolvedAddress
from airflow_sqlqueue.tables.discovery import find_queue
from airflow_sqlqueue.tables.reading import is_allowed

_MOST_KNOWN = 1_000
"""Maximum number of addresses in memory; the senders of messages choose the addresses."""


class Destinations:
    """Queues that messages of an error queue go back to; each address is looked up once.

    With ``redirect_to`` all messages go to that queue, with ``malformed`` also malformed ones. An error of that queue
    is raised, an error of a failed queue is a reason. ``resolver`` limits the databases and schemas of failed queues.
    """

    def __init__(
        self,
        queue: QueueTable,
        resolver: AddressResolver,
        redirect_to: str | None = None,
        malformed: bool = False,
    ) -> None:
        self._queue = queue
        self._resolver = resolver
        self._malformed = malformed
        self._known: dict[tuple[str, bool], QueueTable | Reason] = {}
        self._tables: dict[ResolvedAddress, QueueTable] = {}
        self._redirect = None if redirect_to is None else self._open(redirect_to, frozenset())
        if isinstance(self._redirect, Reason):
            raise errors.ConfigurationError(f"Errors cannot be redirected to {redirect_to!r}, the queue they are in.")

    def of(self, message: FailedMessage) -> QueueTable | Reason:
        """Return the queue that a message goes to, or the reason why it stays."""
        if message.kind == MALFORMED and not self._malformed:
            return Reason.MALFORMED
        if self._redirect is not None:
            return self._redirect
        if message.kind == MALFORMED:
            return Reason.MALFORMED
        if message.failed_queue is None:
            return Reason.NO_FAILED_QUEUE
        if _is_satellite(message):
            return Reason.SATELLITE
        if len(message.failed_queue) > MAX_ADDRESS_LENGTH:
            return Reason.NOT_AN_ADDRESS
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        key = (message.failed_queue, message.failed_queue.partition("@")[2] in message.machines)
        if key not in self._known:
            self._known[key] = self._look_up(message.failed_queue, message.machines)
        return self._known[key]

    def _look_up(self, address_text: str, machines: frozenset[str]) -> QueueTable | Reason:
        try:
            return self._open(address_text, machines, from_header=True)
        except errors.AddressError:
            return Reason.NOT_AN_ADDRESS
        except errors.QueueNotFoundError:
            return Reason.NOT_FOUND
        except errors.NotAQueueError:
            return Reason.NOT_A_QUEUE
        except errors.PermissionDeniedError:
            return Reason.DENIED
        except errors.StatementError:
            return Reason.REFUSED

    def _open(self, address_text: str, machines: frozenset[str], *, from_header: bool = False) -> QueueTable | Reason:
        session = self._queue.session
        address = find_queue(session, self._resolver, address_text, machines)
        if from_header and not is_allowed(session, self._resolver, address):
            return Reason.OUTSIDE
        table = self._tables.setdefault(address, QueueTable(session, address))
        return Reason.ERROR_QUEUE if table.layout.table == self._queue.layout.table else table


def _is_satellite(message: FailedMessage) -> bool:
    """True if a message failed in the queue for delayed retries that versions up to 5 of NServiceBus have beside an
    endpoint's own queue. It needs a header that the return removes (issue 913 of ServiceControl), and would fail again
    for ever."""
    table = table_of(message.failed_queue) or ""
    return table.lower().endswith(".retries") and message.endpoint != table
