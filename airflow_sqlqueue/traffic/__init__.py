"""Made-up traffic: what the audit and error queues of a shop built on NServiceBus hold, for trials, demos and tests."""

from __future__ import annotations

from airflow_sqlqueue.traffic.generate import DEFAULT_START, FAILED_QUEUES, generate, generate_failed

__all__ = ["DEFAULT_START", "FAILED_QUEUES", "generate", "generate_failed"]
