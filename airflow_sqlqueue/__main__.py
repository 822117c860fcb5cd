"""The command line as ``python -m airflow_sqlqueue``."""

from __future__ import annotations

from airflow_sqlqueue.cli import main

main()
