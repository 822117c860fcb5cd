"""Built-in functions: how each is called in PostgreSQL and what type it has. :func:`call` is the entry."""

from __future__ import annotations

from airflow_sqlqueue.localdb.tsql.compiler.functions import conditional, dates, numbers, other, strings, system
from airflow_sqlqueue.localdb.tsql.compiler.functions.registry import call

__all__ = ["call", "conditional", "dates", "numbers", "other", "strings", "system"]
