"""Message queues of ``apache-airflow-providers-common-messaging`` (the extra ``messaging``).

Airflow imports this module when it lists message queues, so it imports a trigger only when that is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.providers.common.compat.sdk import AirflowOptionalProviderFeatureException

try:
    from airflow.providers.common.messaging.providers.base_provider import BaseMessageQueueProvider
except ImportError as error:
    # Airflow skips an optional feature that is not installed, without a warning.
    raise AirflowOptionalProviderFeatureException(error) from error

if TYPE_CHECKING:
    from airflow.triggers.base import BaseEventTrigger

__all__ = ["SqlQueueMessageQueueProvider", "SqlQueueMessagesProvider"]


class SqlQueueMessageQueueProvider(BaseMessageQueueProvider):
    """Message queue ``MessageQueueTrigger(scheme="mssql+queue", queue_name="orders")``: signals of its depth.

    The arguments are those of :class:`~airflow_sqlqueue.triggers.SqlQueueDepthEventTrigger`.
    """

    scheme = "mssql+queue"

    def trigger_class(self) -> type[BaseEventTrigger]:
        from airflow_sqlqueue.triggers import SqlQueueDepthEventTrigger

        return SqlQueueDepthEventTrigger


class SqlQueueMessagesProvider(BaseMessageQueueProvider):
    """Message queue ``MessageQueueTrigger(scheme="mssql+queue+messages", queue_name="orders")``: an event per message.

    The arguments are those of :class:`~airflow_sqlqueue.triggers.SqlQueueMessageEventTrigger`.
    """

    scheme = "mssql+queue+messages"

    def trigger_class(self) -> type[BaseEventTrigger]:
        from airflow_sqlqueue.triggers import SqlQueueMessageEventTrigger

        return SqlQueueMessageEventTrigger
