"""Names of Airflow that tests need, in each supported version, and the mark of tests that take a later one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import Stats

from airflow_sqlqueue.versions import VersionedFeature

try:
    from airflow.dag_processing.dagbag import DagBag, sync_bag_to_db
    from airflow.sdk._shared.observability.metrics.base_stats_logger import NoStatsLogger
    from airflow.sdk._shared.observability.metrics.statsd_logger import SafeStatsdLogger
    from airflow.sdk.exceptions import AirflowRescheduleException, TaskDeferralError
    from airflow.serialization.encoders import encode_trigger
    from airflow.serialization.serialized_objects import DagSerialization
    from airflow.triggers.callback import CallbackTrigger
except ImportError:  # Airflow 3.1
    from airflow.exceptions import AirflowRescheduleException, TaskDeferralError
    from airflow.metrics.base_stats_logger import NoStatsLogger
    from airflow.metrics.statsd_logger import SafeStatsdLogger
    from airflow.models.dagbag import DagBag, sync_bag_to_db
    from airflow.serialization.serialized_objects import SerializedDAG as DagSerialization
    from airflow.serialization.serialized_objects import _encode_trigger as encode_trigger
    from airflow.triggers.deadline import DeadlineCallbackTrigger as CallbackTrigger

__all__ = [
    "AirflowRescheduleException",
    "CallbackTrigger",
    "DagBag",
    "DagSerialization",
    "NoStatsLogger",
    "SafeStatsdLogger",
    "TaskDeferralError",
    "encode_trigger",
    "needs",
    "send_metrics_to",
    "sync_bag_to_db",
]


def needs(feature: VersionedFeature) -> pytest.MarkDecorator:
    """Mark that skips a test where the installed version lacks a feature."""
    reason = f"{feature.name} needs {feature.package} {feature.since}"
    return pytest.mark.skipif(not feature.is_available, reason=reason)


def send_metrics_to(make: Callable[[], Any]) -> None:
    """Let Airflow send the metrics of tasks to the logger of statistics that ``make`` returns."""
    try:
        from airflow.sdk.observability.stats import initialize
    except ImportError:  # Airflow 3.1 and 3.2
        Stats.factory, Stats.instance = make, None  # type: ignore[attr-defined]
    else:
        initialize(factory=make, export_legacy_names=True)
