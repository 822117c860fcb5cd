"""Publish events."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk import BaseOperator

from airflow_sqlqueue.hooks.retry_policy import fail_without_retry
from airflow_sqlqueue.operators.base import ServerTask, note_counts, task_key
from airflow_sqlqueue.operators.lineage import Counted, Lineage, of_table
from airflow_sqlqueue.operators.metrics import Metrics

if TYPE_CHECKING:
    from airflow.sdk import Context

    MessageFields = Iterable[Mapping[str, Any]]


class SqlQueuePublishOperator(ServerTask, BaseOperator):
    """Publish events to every endpoint that has subscribed to their type, all copies in one transaction.

    Who has subscribed is what the subscription table says, as endpoints of version 5 and later keep it. Delivery: at
    least once. A try whose COMMIT took effect but whose answer was lost is repeated, with the same message ids. Where a
    subscriber's queue is missing nothing is published.

    XCom: the numbers ``messages``, ``queues`` and ``copies``.

    :param message_type: the events' .NET type, ``Namespace.Name`` with or without its assembly (templated)
    :param messages: the events, as for :class:`SqlQueueSendOperator`, or a function that gets the task's context and
        returns them.
    :param base_types: base types and interfaces that subscribers may have asked for, as ``message_type`` (templated)
    :param content_type: of the bodies (templated)
    :param originating_endpoint: who publishes; ``airflow.`` and the DAG's id unless given (templated)
    :param subscription_table: the subscription table's address (templated)
    :param sqlqueue_conn_id: the Airflow connection (templated)
    :param hook_params: further arguments of :class:`~airflow_sqlqueue.hooks.sqlqueue.SqlQueueHook`.
    """

    template_fields: Sequence[str] = (
        "message_type",
        "base_types",
        "content_type",
        "originating_endpoint",
        "subscription_table",
        "sqlqueue_conn_id",
    )
    template_fields_renderers: ClassVar[dict[str, str]] = {"base_types": "json"}
    ui_color = "#dfe9f5"

    def __init__(
        self,
        *,
        message_type: str,
        messages: MessageFields | Callable[[Context], MessageFields],
        base_types: Sequence[str] = (),
        content_type: str = "application/json",
        originating_endpoint: str | None = None,
        subscription_table: str = "SubscriptionRouting",
        sqlqueue_conn_id: str = "sqlqueue_default",
        hook_params: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.message_type = message_type
        self.messages = messages
        self.base_types = base_types
        self.content_type = content_type
        self.originating_endpoint = originating_endpoint
        self.subscription_table = subscription_table
        self.sqlqueue_conn_id = sqlqueue_conn_id
        self.hook_params = hook_params

    def execute(self, context: Context) -> dict[str, int]:
        """Publish them; raises our errors, those that no retry can fix as AirflowFailException."""
        from airflow_sqlqueue.envelope.outgoing import Sender

        dag_id, *_ = key = task_key(context)
        sender = Sender(
            key="\0".join(map(str, key)),
            endpoint=self.originating_endpoint or f"airflow.{dag_id}",
            content_type=self.content_type,
        )
        written = self.messages(context) if callable(self.messages) else self.messages
        with fail_without_retry():
            subscriptions = self.hook.client.subscriptions_in(self.subscription_table)
            events = Counted(sender.messages(written))
            published = subscriptions.publish([self.message_type, *self.base_types], events)
        self.log.info("Published %d events to %d queues", published.messages, len(published.queues))
        copies = [of_table(self.hook.client, queue, published.messages, events.bytes) for queue in published.queues]
        self.lineage = Lineage(outputs=copies)
        metrics = Metrics(self)
        metrics.count("publish.messages", published.messages)
        metrics.count("publish.copies", published.copies)
        note_counts(self, context, messages=published.messages, copies=published.copies)
        return {"messages": published.messages, "queues": len(published.queues), "copies": published.copies}
