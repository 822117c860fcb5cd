"""Client of one server, without Airflow: notebooks, the hook and the command line use it."""

from __future__ import annotations

from airflow_sqlqueue.client.client import QueueClient

__all__ = ["QueueClient"]
