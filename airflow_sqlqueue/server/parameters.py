"""The types of parameters, where the driver's own choice is not what the value is."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

from airflow_sqlqueue.server.settings import load_pyodbc

_LONGEST = 4_000
"""Bytes of UTF-16 of the longest text that pyodbc binds as ``nvarchar``."""


def declared(values: Sequence[Any], sizes: Sequence[Any] = ()) -> list[Any] | None:
    """``sizes``, as ``Cursor.setinputsizes`` takes them, with ``nvarchar(max)`` for each long text that has none.

    None where that leaves nothing to say. A longer text is ``ntext`` to pyodbc, which hardly any function takes (error
    402), and no parameter may be where the database has a collation of supplementary characters or UTF-8 (error 4189).
    A driver from version 18 on is asked for better in the connection string (LongAsMax); older ones do not know it.
    """
    longest = (load_pyodbc().SQL_WVARCHAR, 0, 0)
    types = [
        size if size is not None else longest if _is_long(value) else None
        for value, size in zip_longest(values, sizes[: len(values)])
    ]
    return types if any(size is not None for size in types) else None


def _is_long(value: Any) -> bool:
    if not isinstance(value, str) or 2 * len(value) <= _LONGEST // 2:
        return False
    return 2 * len(value) > _LONGEST or len(value.encode("utf-16-le", "surrogatepass")) > _LONGEST
