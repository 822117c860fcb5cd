"""Sensors on queues."""

from __future__ import annotations

from airflow_sqlqueue.sensors.depth import SqlQueueDepthSensor

__all__ = ["SqlQueueDepthSensor"]
