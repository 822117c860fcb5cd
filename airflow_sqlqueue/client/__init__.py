"""All that can be done with one server, without Airflow: what a notebook, the hook and the command line use."""

from __future__ import annotations

from airflow_sqlqueue.client.client import QueueClient

__all__ = ["QueueClient"]
