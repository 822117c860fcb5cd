"""Built-in functions: how each is called in PostgreSQL and what type it has. :func:`call` is the entry."""

from __future__ import annotations

from fakemssql.tsql.compiler.functions import conditional, dates, other, strings, system
from fakemssql.tsql.compiler.functions.registry import call

__all__ = ["call", "conditional", "dates", "other", "strings", "system"]
