"""Operators: each turns a task into one call of the client."""

from __future__ import annotations

from airflow_sqlqueue.exports import exports

__getattr__, __dir__, __all__ = exports(__name__)
