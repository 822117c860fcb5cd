"""The hook's methods on conversations: subscribe, publish, request."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

from airflow_sqlqueue.hooks.base import QueueConnectionHook
from airflow_sqlqueue.message import Message
from airflow_sqlqueue.publishing.conversation import Polling, Reply, private_queue, request
from airflow_sqlqueue.publishing.subscriptions import PublishResult, Subscription, SubscriptionTable, publish
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.tables.create import SUBSCRIPTION_TABLE
from airflow_sqlqueue.tables.discovery import find_queue


class PublishingMethods(QueueConnectionHook):
    """What endpoints say to each other.

    The subscription table is named by its address; ``SubscriptionRouting`` in the default schema unless another is
    given. Types are .NET type names, with or without their assemblies.
    """

    @contextmanager
    def subscription_table(
        self, address: str = SUBSCRIPTION_TABLE, *, sending: bool = False
    ) -> Iterator[SubscriptionTable]:
        """The subscription table, in a session as for :meth:`queue`."""
        table = self.resolve(address)
        with self.enlisted_session(sending=sending) as session:
            yield SubscriptionTable(session, table)

    def subscribe(
        self,
        endpoint: str,
        type_names: Iterable[str],
        *,
        queue_name: str | None = None,
        subscription_table: str = SUBSCRIPTION_TABLE,
    ) -> int:
        """Let an endpoint have the events of these types, in one transaction; return how many subscriptions changed.

        They go to its own queue, or to ``queue_name``. See :meth:`SubscriptionTable.subscribe`.
        """
        queue = self.resolver.resolve_endpoint(endpoint) if queue_name is None else self.find_queue(queue_name)
        with self.subscription_table(subscription_table) as table, table.session.transaction():
            return sum(table.subscribe(type_name, endpoint, queue) for type_name in type_names)

    def unsubscribe(
        self, endpoint: str, type_names: Iterable[str], *, subscription_table: str = SUBSCRIPTION_TABLE
    ) -> int:
        """End an endpoint's subscriptions to these types, in one transaction; return how many there were."""
        with self.subscription_table(subscription_table) as table, table.session.transaction():
            return sum(table.unsubscribe(type_name, endpoint) for type_name in type_names)

    def subscriptions(self, *, subscription_table: str = SUBSCRIPTION_TABLE) -> list[Subscription]:
        """Every subscription, by topic and endpoint."""
        with self.subscription_table(subscription_table) as table:
            return table.subscriptions()

    def publish(
        self,
        type_names: Sequence[str],
        messages: Iterable[Message],
        *,
        subscription_table: str = SUBSCRIPTION_TABLE,
    ) -> PublishResult:
        """Publish events of a type, the first one, and its base types. See :func:`.subscriptions.publish`."""
        with self.subscription_table(subscription_table, sending=True) as table:
            return publish(table, self.resolver, messages, type_names)

    def request(
        self, queue_name: str, message: Message, *, timeout: float = 30.0, reply_queue: str | None = None
    ) -> Reply:
        """Send a request, and wait up to ``timeout`` seconds for the reply.

        It comes to a private queue, made for it and dropped afterwards, or to ``reply_queue``, which others may share.
        See :func:`airflow_sqlqueue.publishing.conversation.request`.
        """
        polling = Polling(timeout)
        with ExitStack() as stack:
            destination = stack.enter_context(self.queue(queue_name, sending=True))
            session = destination.session
            if reply_queue is None:
                replies = stack.enter_context(private_queue(session, self.resolver))
            else:
                replies = QueueTable(session, find_queue(session, self.resolver, reply_queue))
            return request(destination, message, replies, polling)
