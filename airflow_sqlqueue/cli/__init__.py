"""The command line ``sqlqueue``."""

from __future__ import annotations

from airflow_sqlqueue.cli.app import main

__all__ = ["main"]
