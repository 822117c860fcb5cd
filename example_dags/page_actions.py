"""Actions of the SQL Queues page: a run of this DAG does the work of the page's buttons."""

from __future__ import annotations

from airflow_sqlqueue import actions_dag

dag = actions_dag(tags=["sqlqueue", "example"])
