"""Airflow, shared by all tests of this folder: ``tests/conftest.py`` runs them in one process."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.airflow.running.interrupted_drain import spark_home
from tests.airflow.running.running_airflow import RunningAirflow
from tests.airflow.running.trace_collector import TraceCollector


@pytest.fixture(scope="package")
def traces() -> Iterator[TraceCollector]:
    """The spans of the Airflow that runs."""
    with TraceCollector() as collector:
        yield collector


@pytest.fixture(scope="package")
def running_airflow(server_url: str, tmp_path_factory: Any, traces: TraceCollector) -> Iterator[RunningAirflow]:
    """An Airflow whose default connection is to the test server, and whose Spark is a script."""
    home = tmp_path_factory.mktemp("airflow")
    airflow = RunningAirflow(home, {"SPARK_HOME": str(spark_home(home / "spark")), **traces.environment})
    try:
        airflow.start()
        airflow.add_connection("sqlqueue_default", server_url)
        yield airflow
    finally:
        airflow.stop()
