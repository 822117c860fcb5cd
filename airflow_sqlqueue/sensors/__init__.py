"""Sensors on queues and batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_sqlqueue.exports import lazy_exports

if TYPE_CHECKING:
    from airflow_sqlqueue.sensors.depth import SqlQueueDepthSensor
    from airflow_sqlqueue.sensors.stranded import SqlQueueStrandedBatchSensor

__all__ = ["SqlQueueDepthSensor", "SqlQueueStrandedBatchSensor"]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "depth": "SqlQueueDepthSensor",
        "stranded": "SqlQueueStrandedBatchSensor",
    },
)
