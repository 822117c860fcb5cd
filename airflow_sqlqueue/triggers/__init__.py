"""Triggers on queues."""

from __future__ import annotations

from airflow_sqlqueue.exports import exports

__getattr__, __dir__, __all__ = exports(__name__)
