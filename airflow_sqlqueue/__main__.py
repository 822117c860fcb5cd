"""``python -m airflow_sqlqueue`` is the command line."""

from __future__ import annotations

from airflow_sqlqueue.cli import main

main()
