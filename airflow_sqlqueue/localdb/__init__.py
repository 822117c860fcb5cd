"""A local stand-in for SQL Server: TDS in front, PostgreSQL behind. For trying and testing, not for production."""

from __future__ import annotations

from airflow_sqlqueue.localdb.server import LocalServer

__all__ = ["LocalServer"]
