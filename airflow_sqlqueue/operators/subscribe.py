"""Subscribe endpoints to events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk import BaseOperator

from airflow_sqlqueue.hooks.retry_policy import fail_without_retry
from airflow_sqlqueue.operators.base import ServerTask

if TYPE_CHECKING:
    from airflow.sdk import Context


class SqlQueueSubscribeOperator(ServerTask, BaseOperator):
    """Let an endpoint have the events of some types, in one transaction. Safe to repeat.

    XCom: how many subscriptions were added or changed.

    :param endpoint: the name of the endpoint (templated)
    :param message_types: the events' .NET types, ``Namespace.Name`` with or without their assemblies (templated)
    :param queue_name: the address of the queue that gets them; the endpoint's own unless given (templated)
    :param subscription_table: the subscription table's address (templated)
    :param sqlqueue_conn_id: the Airflow connection (templated)
    :param hook_params: further arguments of :class:`~airflow_sqlqueue.hooks.sqlqueue.SqlQueueHook`.
    """

    template_fields: Sequence[str] = (
        "endpoint",
        "message_types",
        "queue_name",
        "subscription_table",
        "sqlqueue_conn_id",
    )
    template_fields_renderers: ClassVar[dict[str, str]] = {"message_types": "json"}
    ui_color = "#dfe9f5"

    def __init__(
        self,
        *,
        endpoint: str,
        message_types: Sequence[str],
        queue_name: str | None = None,
        subscription_table: str = "SubscriptionRouting",
        sqlqueue_conn_id: str = "sqlqueue_default",
        hook_params: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.endpoint = endpoint
        self.message_types = message_types
        self.queue_name = queue_name
        self.subscription_table = subscription_table
        self.sqlqueue_conn_id = sqlqueue_conn_id
        self.hook_params = hook_params

    def execute(self, context: Context) -> int:
        """Subscribe; raises our errors, those that no retry can fix as AirflowFailException."""
        with fail_without_retry():
            subscriptions = self.hook.client.subscriptions_in(self.subscription_table)
            changed = subscriptions.subscribe(self.endpoint, self.message_types, queue_name=self.queue_name)
        self.log.info("%s is subscribed to %d types, %d of them new", self.endpoint, len(self.message_types), changed)
        return changed


class SqlQueueUnsubscribeOperator(ServerTask, BaseOperator):
    """End an endpoint's subscriptions to some types of events, in one transaction. Safe to repeat.

    XCom: how many subscriptions there were.

    :param endpoint: the name of the endpoint (templated)
    :param message_types: the events' .NET types, ``Namespace.Name`` with or without their assemblies (templated)
    :param subscription_table: the subscription table's address (templated)
    :param sqlqueue_conn_id: the Airflow connection (templated)
    :param hook_params: further arguments of :class:`~airflow_sqlqueue.hooks.sqlqueue.SqlQueueHook`.
    """

    template_fields: Sequence[str] = ("endpoint", "message_types", "subscription_table", "sqlqueue_conn_id")
    template_fields_renderers: ClassVar[dict[str, str]] = {"message_types": "json"}
    ui_color = "#dfe9f5"

    def __init__(
        self,
        *,
        endpoint: str,
        message_types: Sequence[str],
        subscription_table: str = "SubscriptionRouting",
        sqlqueue_conn_id: str = "sqlqueue_default",
        hook_params: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.endpoint = endpoint
        self.message_types = message_types
        self.subscription_table = subscription_table
        self.sqlqueue_conn_id = sqlqueue_conn_id
        self.hook_params = hook_params

    def execute(self, context: Context) -> int:
        """Unsubscribe; raises our errors, those that no retry can fix as AirflowFailException."""
        with fail_without_retry():
            subscriptions = self.hook.client.subscriptions_in(self.subscription_table)
            ended = subscriptions.unsubscribe(self.endpoint, self.message_types)
        self.log.info("%s has %d subscriptions less", self.endpoint, ended)
        return ended
