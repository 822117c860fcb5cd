"""Let people act on the SQL Queues page: what its buttons say is done by a run of this DAG."""

from __future__ import annotations

from airflow_sqlqueue import actions_dag

dag = actions_dag(tags=["sqlqueue", "example"])
