"""Built-in functions: their PostgreSQL calls and their types. :func:`call` is the entry."""

from __future__ import annotations

from fakemssql.tsql.compiler.functions import dates, general, strings, system
from fakemssql.tsql.compiler.functions.registry import call

__all__ = ["call", "dates", "general", "strings", "system"]
