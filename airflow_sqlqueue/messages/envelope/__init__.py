"""Envelopes of messages: typed headers, bodies as text or JSON, default headers for a send, replies."""

from __future__ import annotations

from airflow_sqlqueue.messages.envelope.outgoing import Sender, reply
from airflow_sqlqueue.messages.envelope.payloads import Payload
from airflow_sqlqueue.messages.envelope.reading import Envelope

__all__ = ["Envelope", "Payload", "Sender", "reply"]
