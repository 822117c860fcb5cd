"""Sensors on queues and batches."""

from __future__ import annotations

from airflow_sqlqueue.sensors.depth import SqlQueueDepthSensor
from airflow_sqlqueue.sensors.stranded import SqlQueueStrandedBatchSensor

__all__ = ["SqlQueueDepthSensor", "SqlQueueStrandedBatchSensor"]
