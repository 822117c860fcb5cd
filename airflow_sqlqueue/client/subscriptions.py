"""Subscriptions of endpoints to events, and publishing."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from airflow_sqlqueue.client.connector import Connector
from airflow_sqlqueue.messages.envelope.causation import outgoing
from airflow_sqlqueue.messages.envelope.tracing import PUBLISH
from airflow_sqlqueue.messages.message import Message
from airflow_sqlqueue.messages.routing import ResolvedAddress
from airflow_sqlqueue.queue.publishing.subscriptions import (
    PublishResult,
    Subscription,
    SubscriptionTable,
    publish,
    types_in,
)
from airflow_sqlqueue.queue.tables.reading import exists
from airflow_sqlqueue.untrusted import quoted

log = logging.getLogger(__name__)


class SubscriptionManager:
    """Subscriptions in one subscription table. Types are .NET type names, with or without their assemblies."""

    def __init__(self, connector: Connector, address: str) -> None:
        self._connector = connector
        self.address: ResolvedAddress = connector.resolver.resolve(address)

    @contextmanager
    def open(self, *, sending: bool = False) -> Iterator[SubscriptionTable]:
        """Open the table for the block, through one connection: :meth:`~airflow_sqlqueue.client.queues.Queue.open`."""
        with self._connector.enlisted_session(sending=sending) as session:
            yield SubscriptionTable(session, self.address)

    def queue_of(self, endpoint: str, queue_name: str | None = None) -> ResolvedAddress:
        """Return the queue that gets an endpoint's events: its own, or ``queue_name``."""
        if queue_name is None:
            return self._connector.resolver.resolve_endpoint(endpoint)
        return self._connector.find(queue_name)

    def subscribe(self, endpoint: str, type_names: Iterable[str], *, queue_name: str | None = None) -> int:
        """Subscribe an endpoint to events of these types, in one transaction; return how many subscriptions changed.

        The events go to the endpoint's queue, or to ``queue_name``. The log has a warning if there is no such queue:
        a publish sends all copies or none. See
        :meth:`airflow_sqlqueue.queue.publishing.subscriptions.SubscriptionTable.subscribe`.
        """
        queue = self.queue_of(endpoint, queue_name)
        with self.open() as table, table.session.transaction():
            if not exists(table.session, queue):
                log.warning(
                    "There is no queue %s, or this login may not see it: a publish of its events fails without it",
                    quoted(queue.canonical),
                )
            return sum(table.subscribe(type_name, endpoint, queue) for type_name in types_in(type_names))

    def unsubscribe(self, endpoint: str, type_names: Iterable[str]) -> int:
        """End an endpoint's subscriptions to these types, in one transaction; return how many it ended."""
        with self.open() as table, table.session.transaction():
            return sum(table.unsubscribe(type_name, endpoint) for type_name in types_in(type_names))

    def list(self) -> Sequence[Subscription]:
        """List all subscriptions, by topic and endpoint."""
        with self.open() as table:
            return table.subscriptions()

    def publish(self, type_names: Sequence[str], messages: Iterable[Message]) -> PublishResult:
        """Publish events of a type, the first of ``type_names``, and of its base types, in one transaction."""
        with (
            self.open(sending=True) as table,
            outgoing(messages, table.address.canonical, span=PUBLISH, new_trace=True) as linked,
        ):
            return publish(table, self._connector.resolver, linked, type_names)
