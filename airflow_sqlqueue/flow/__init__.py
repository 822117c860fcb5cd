"""Flow of messages over time: conversations."""

from __future__ import annotations

from airflow_sqlqueue.flow.conversation import Conversation, ConversationStep

__all__ = ["Conversation", "ConversationStep"]
