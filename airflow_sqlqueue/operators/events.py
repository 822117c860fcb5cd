"""Operators for events: publish them, subscribe an endpoint to them, unsubscribe it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow_sqlqueue.hooks.permanent_errors import fail_without_retry
from airflow_sqlqueue.operators.base import ServerTask, note_counts, templated
from airflow_sqlqueue.operators.lineage import Counted, Lineage, of_table
from airflow_sqlqueue.operators.metrics import Metrics
from airflow_sqlqueue.operators.send import MessagesTask

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_sqlqueue.client.subscriptions import SubscriptionManager


class EventsTask(ServerTask):
    """Base class of tasks on a subscription table.

    :param subscription_table: the subscription table's address; that of the connection unless set (templated)
    """

    template_fields = templated("subscription_table", ServerTask)

    def __init__(self, *, subscription_table: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.subscription_table = subscription_table

    @property
    def subscriptions(self) -> SubscriptionManager:
        """The subscription table."""
        return self.hook.client.subscriptions_in(self.subscription_table)


class SqlQueuePublishOperator(MessagesTask, EventsTask):
    """Publish events to every endpoint that has subscribed to their type, all copies in one transaction.

    The subscription table lists the subscribers, as endpoints of version 5 and later keep it. Delivery: at least once.
    A try whose COMMIT took effect but whose answer was lost is repeated, with the same message ids. If a subscriber's
    queue is missing, the task publishes to no subscriber.

    XCom: the numbers ``messages``, ``queues`` and ``copies``.

    :param message_type: the events' .NET type, ``Namespace.Name`` with or without its assembly (templated)
    :param messages: the events, as for :class:`SqlQueueSendOperator`, or a function that gets the task's context and
        returns them.
    :param base_types: base types and interfaces that endpoints may have subscribed to, as ``message_type`` (templated)
    """

    template_fields = templated("message_type", "base_types", MessagesTask, EventsTask)

    def __init__(self, *, message_type: str, base_types: Sequence[str] = (), **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.message_type = message_type
        self.base_types = base_types

    def execute(self, context: Context) -> dict[str, int]:
        from airflow_sqlqueue.queue.publishing.subscriptions import types_in

        sender, written = self.sender(context), self.written(context)
        with fail_without_retry():
            events = Counted(sender.messages(written))
            published = self.subscriptions.publish([self.message_type, *types_in(self.base_types)], events)
        self.log.info("Published %d events to %d queues", published.messages, len(published.queues))
        copies = [of_table(self.hook.client, queue, published.messages, events.bytes) for queue in published.queues]
        self.lineage = Lineage(outputs=copies)
        metrics = Metrics(self)
        metrics.count("publish.messages", published.messages)
        metrics.count("publish.copies", published.copies)
        note_counts(self, context, messages=published.messages, copies=published.copies)
        return {"messages": published.messages, "queues": len(published.queues), "copies": published.copies}


class SubscriptionTask(EventsTask):
    """Base class of tasks on an endpoint's subscriptions.

    :param endpoint: the name of the endpoint (templated)
    :param message_types: the events' .NET types, ``Namespace.Name`` with or without their assemblies (templated)
    """

    template_fields = templated("endpoint", "message_types", EventsTask)

    def __init__(self, *, endpoint: str, message_types: Sequence[str], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.endpoint = endpoint
        self.message_types = message_types


class SqlQueueSubscribeOperator(SubscriptionTask):
    """Subscribe an endpoint to some types of events, in one transaction. Safe to repeat.

    XCom: the number of subscriptions that were added or changed.

    :param queue_name: the address of the queue that receives the events; None: the endpoint's own queue (templated)
    """

    template_fields = templated(SubscriptionTask, "queue_name")

    def __init__(self, *, queue_name: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.queue_name = queue_name

    def execute(self, context: Context) -> int:
        with fail_without_retry():
            changed = self.subscriptions.subscribe(self.endpoint, self.message_types, queue_name=self.queue_name)
        self.log.info("%s is subscribed to %d types, %d of them new", self.endpoint, len(self.message_types), changed)
        return changed


class SqlQueueUnsubscribeOperator(SubscriptionTask):
    """End an endpoint's subscriptions to some types of events, in one transaction. Safe to repeat.

    XCom: the number of subscriptions that were ended.
    """

    def execute(self, context: Context) -> int:
        with fail_without_retry():
            ended = self.subscriptions.unsubscribe(self.endpoint, self.message_types)
        self.log.info("%s has %d subscriptions less", self.endpoint, ended)
        return ended
