"""SQL Server queue tables for Apache Airflow, and what they hold for Spark."""

from __future__ import annotations

__version__ = "0.1.0"
