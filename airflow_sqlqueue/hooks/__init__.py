"""The Airflow hook, and the retry policy of its tasks."""

from __future__ import annotations

from airflow_sqlqueue.exports import exports

__getattr__, __dir__, __all__ = exports(__name__)
