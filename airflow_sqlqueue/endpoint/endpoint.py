"""Tables of an endpoint in Python: its input queue, its error queue, its table of delayed messages."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from airflow_sqlqueue.endpoint.recoverability import RecoverabilityOptions
from airflow_sqlqueue.errors import QueueNotFoundError
from airflow_sqlqueue.messages.routing import AddressResolver, ResolvedAddress
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.queue.delayed.table import DelayedTable
from airflow_sqlqueue.queue.errors.poison import dead_letter, refusal
from airflow_sqlqueue.queue.inbox import Inbox
from airflow_sqlqueue.queue.tables.create import delayed_address
from airflow_sqlqueue.queue.tables.discovery import find_address, find_queue
from airflow_sqlqueue.queue.tables.layout import Layout
from airflow_sqlqueue.server.session import Session

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Endpoint:
    """Name and tables of an endpoint. ``name`` is for headers. ``delayed`` is None for a queue without such a table.

    ``audit_queue`` is None if handled messages are not copied. ``layouts`` are the layouts of the queues at the time of
    :meth:`find`, so that not every handler has to read them.
    """

    name: str
    queue: ResolvedAddress
    error_queue: ResolvedAddress
    delayed: ResolvedAddress | None
    layouts: Mapping[ResolvedAddress, Layout] = field(default_factory=dict, repr=False, compare=False)
    audit_queue: ResolvedAddress | None = None

    @classmethod
    def find(
        cls,
        session: Session,
        resolver: AddressResolver,
        queue_name: str,
        options: RecoverabilityOptions,
        name: str | None = None,
        *,
        audit_queue: str | None = None,
    ) -> Endpoint:
        """Find the tables and check them before anything is received.

        Raises :class:`QueueNotFoundError` and :class:`NotAQueueError` for the queue and the others that are named,
        and :class:`ConfigurationError` if the queue is one of the others. Without a table of delayed messages
        there are no delayed retries, and the log has a warning.
        """
        queue = find_queue(session, resolver, queue_name)
        input_table = QueueTable(session, queue)
        input_table.require()
        layouts = {queue: input_table.layout}
        others = {"error": options.error_queue, "audit": audit_queue}
        found = {purpose: find_queue(session, resolver, name) for purpose, name in others.items() if name}
        for purpose, address in found.items():
            table = QueueTable(session, address)
            input_table.check_destination(table, purpose)
            layouts[address] = table.layout
        delayed = expected = delayed_address(resolver, queue_name, find_address(session, resolver, queue_name))
        try:
            if delayed is not None:
                DelayedTable(session, delayed).require()
        except QueueNotFoundError:
            delayed = None
        if delayed is None and options.delayed_retries:
            log.warning(
                "There is no table %s: failed messages are not delayed, they go to the error queue after %d "
                "immediate retries",
                expected.canonical if expected else f"of delayed messages of {queue.canonical}",
                options.immediate_retries,
            )
        name = name or queue.table
        return cls(name, queue, found["error"], delayed, layouts, found.get("audit"))

    def tables(self, session: Session, last: EndpointTables | None = None) -> EndpointTables:
        """Return the tables through a session: ``last`` if it is of that session, else new ones.

        Only the first tables use ``layouts``: a later session may replace one that failed because a table was altered.
        """
        if last is None:
            return EndpointTables(session, self, self.layouts)
        return last if last.session is session else EndpointTables(session, self, {})


class EndpointTables:
    """Tables of an endpoint through one session. ``layouts`` are the known layouts; others are read."""

    def __init__(self, session: Session, endpoint: Endpoint, layouts: Mapping[ResolvedAddress, Layout]) -> None:
        self.session, self.endpoint, self._layouts = session, endpoint, layouts

    @cached_property
    def queue(self) -> QueueTable:
        return self._table(self.endpoint.queue)

    @cached_property
    def error_queue(self) -> QueueTable:
        return self._table(self.endpoint.error_queue)

    @cached_property
    def audit_queue(self) -> QueueTable | None:
        """Queue for copies of handled messages; None if they are not copied."""
        address = self.endpoint.audit_queue
        return None if address is None else self._table(address)

    def _table(self, address: ResolvedAddress) -> QueueTable:
        return QueueTable(self.session, address, self._layouts.get(address))

    @cached_property
    def delayed(self) -> DelayedTable | None:
        """Table of delayed messages; None for a queue without one."""
        address = self.endpoint.delayed
        return None if address is None else DelayedTable(self.session, address)

    @cached_property
    def inbox(self) -> Inbox:
        """Inbox in the queue's database."""
        return Inbox(self.session, self.endpoint.queue.catalog)

    def dead_letter(self, row_version: int, error: Exception, problem: str | None = None) -> None:
        """Move a message that the error queue has refused, unchanged, by :func:`.dead_letter`."""
        dead_letter(self.queue, self.error_queue, row_version, problem or refusal(error))
