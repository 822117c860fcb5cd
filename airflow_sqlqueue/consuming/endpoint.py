"""The tables of an endpoint in Python: its input queue, its error queue, its table of delayed messages."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from airflow_sqlqueue.consuming.recoverability import RecoverabilityOptions
from airflow_sqlqueue.delayed.moving import check_takes
from airflow_sqlqueue.delayed.table import DelayedTable
from airflow_sqlqueue.errors import ConfigurationError, QueueNotFoundError
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.routing import AddressResolver, ResolvedAddress
from airflow_sqlqueue.session import Session
from airflow_sqlqueue.tables.create import LEDGER_SCHEMA, delayed_address
from airflow_sqlqueue.tables.discovery import find_queue
from airflow_sqlqueue.tables.layout import Layout

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Endpoint:
    """``name`` is the endpoint's, for headers. ``delayed`` is None where the queue has no such table.

    ``layouts`` are those of queue and error queue when they were found, so that not every handler has to read them.
    ``ledger_schema`` is where the quarantine stands.
    """

    name: str
    queue: ResolvedAddress
    error_queue: ResolvedAddress
    delayed: ResolvedAddress | None
    ledger_schema: str = LEDGER_SCHEMA
    layouts: Mapping[ResolvedAddress, Layout] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def find(
        cls,
        session: Session,
        resolver: AddressResolver,
        queue_name: str,
        options: RecoverabilityOptions,
        name: str | None = None,
        *,
        ledger_schema: str = LEDGER_SCHEMA,
    ) -> Endpoint:
        """Find the tables, and make sure of them before anything is received.

        Raises :class:`QueueNotFoundError` and :class:`NotAQueueError` for the queue and the error queue,
        :class:`ConfigurationError` where both are the same. Without a table of delayed messages there are no delayed
        retries, which the log says.
        """
        queue = find_queue(session, resolver, queue_name)
        error_queue = find_queue(session, resolver, options.error_queue)
        input_table, error_table = QueueTable(session, queue), QueueTable(session, error_queue)
        input_table.require()
        check_takes(error_table)
        if input_table.layout.table == error_table.layout.table:
            raise ConfigurationError(f"{queue.canonical} is its own error queue: name another one.")
        delayed: ResolvedAddress | None
        delayed = expected = delayed_address(resolver, queue_name, queue)
        try:
            DelayedTable(session, expected).require()
        except QueueNotFoundError:
            if options.delayed_retries:
                log.warning(
                    "There is no table %s: messages that fail are not delayed, they go to the error queue after %d "
                    "immediate retries",
                    expected.canonical,
                    options.immediate_retries,
                )
            delayed = None
        layouts = {queue: input_table.layout, error_queue: error_table.layout}
        return cls(name or queue.table, queue, error_queue, delayed, ledger_schema, layouts)


class EndpointTables:
    """An endpoint's tables through one session; ``known``: as they were found, else they are looked at again."""

    def __init__(self, session: Session, endpoint: Endpoint, *, known: bool = False) -> None:
        self.session, self._endpoint = session, endpoint
        self._layouts = endpoint.layouts if known else {}

    @cached_property
    def queue(self) -> QueueTable:
        return self._table(self._endpoint.queue)

    @cached_property
    def error_queue(self) -> QueueTable:
        return self._table(self._endpoint.error_queue)

    def _table(self, address: ResolvedAddress) -> QueueTable:
        return QueueTable(self.session, address, self._layouts.get(address))

    @cached_property
    def delayed(self) -> DelayedTable | None:
        """None where the queue has no table of delayed messages."""
        address = self._endpoint.delayed
        return None if address is None else DelayedTable(self.session, address)
