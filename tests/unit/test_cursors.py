"""Types that the driver is told of parameters."""

from __future__ import annotations

from airflow_sqlqueue.server.cursors import declared_types
from airflow_sqlqueue.server.settings import load_pyodbc


def test_a_long_text_without_a_size_is_of_the_type_without_a_limit() -> None:
    """A character beyond the basic plane takes two places."""
    longest = (load_pyodbc().SQL_WVARCHAR, 0, 0)
    long, short = ["a" * 2_001, "\U0001f600" * 1_001], ["a" * 2_000, "\U0001f600" * 1_000, b"a" * 9_000, None]
    assert declared_types([*long, *short]) == [longest, longest, None, None, None, None]
    assert declared_types(["a" * 2_001, "b" * 2_001], [(1, 2, 3)]) == [(1, 2, 3), longest]
    assert declared_types(short) is None
