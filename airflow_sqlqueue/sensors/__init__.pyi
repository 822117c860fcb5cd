from airflow_sqlqueue.sensors.depth import SqlQueueDepthSensor as SqlQueueDepthSensor
from airflow_sqlqueue.sensors.stranded import SqlQueueStrandedBatchSensor as SqlQueueStrandedBatchSensor

__all__: list[str]
