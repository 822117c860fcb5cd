"""Names of Airflow that tests need, in each supported version."""

from __future__ import annotations

try:
    from airflow.dag_processing.dagbag import DagBag, sync_bag_to_db
    from airflow.sdk.exceptions import AirflowRescheduleException, TaskDeferralError
except ImportError:  # Airflow 3.1
    from airflow.exceptions import AirflowRescheduleException, TaskDeferralError
    from airflow.models.dagbag import DagBag, sync_bag_to_db

__all__ = ["AirflowRescheduleException", "DagBag", "TaskDeferralError", "sync_bag_to_db"]
