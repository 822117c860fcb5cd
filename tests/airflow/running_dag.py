"""Running a DAG of a test in this process."""

from __future__ import annotations

import os
from typing import Any

from airflow.sdk import DAG


def run_in_full(dag: DAG) -> Any:
    """Run a DAG that has no file in Airflow's folder of DAGs."""
    from airflow.dag_processing.bundles.manager import DagBundlesManager

    from tests.airflow.versions import DagBag, sync_bag_to_db

    DagBundlesManager().sync_bundles_to_db()
    bag = DagBag(dag_folder=os.devnull)
    bag.bag_dag(dag)
    sync_bag_to_db(bag, "dags-folder", None)
    return dag.test()
