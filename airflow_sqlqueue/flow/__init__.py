"""Flow of messages over time: the growth of queues, the usage of endpoints, a report of it, and conversations."""

from __future__ import annotations

from airflow_sqlqueue.flow.conversation import Conversation, ConversationStep
from airflow_sqlqueue.flow.endpoint_usage import EndpointDay
from airflow_sqlqueue.flow.queue_usage import QueueDay, RecordResult

__all__ = ["Conversation", "ConversationStep", "EndpointDay", "QueueDay", "RecordResult"]
