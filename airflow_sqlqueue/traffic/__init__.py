"""Generator of NServiceBus traffic: messages of a shop's audit and error queues, for trials, demos and tests."""

from __future__ import annotations

from airflow_sqlqueue.traffic.generate import DEFAULT_START, FAILED_QUEUES, generate, generate_failed

__all__ = ["DEFAULT_START", "FAILED_QUEUES", "generate", "generate_failed"]
