"""Operators: each turns a task into one call of the client."""

from __future__ import annotations

from airflow_sqlqueue.operators.consume import SqlQueueConsumeOperator
from airflow_sqlqueue.operators.create import SqlQueueCreateOperator
from airflow_sqlqueue.operators.drain import SqlQueueDrainOperator
from airflow_sqlqueue.operators.drain_to_spark import SqlQueueDrainToSparkOperator
from airflow_sqlqueue.operators.drop import SqlQueueDropOperator
from airflow_sqlqueue.operators.forward import SqlQueueForwardOperator
from airflow_sqlqueue.operators.mark_consumed import SqlQueueMarkConsumedOperator
from airflow_sqlqueue.operators.move_delayed import SqlQueueMoveDelayedOperator
from airflow_sqlqueue.operators.provision import SqlQueueProvisionOperator
from airflow_sqlqueue.operators.publish import SqlQueuePublishOperator
from airflow_sqlqueue.operators.purge import SqlQueuePurgeExpiredOperator, SqlQueuePurgeOperator
from airflow_sqlqueue.operators.request import SqlQueueRequestOperator
from airflow_sqlqueue.operators.requeue import SqlQueueRequeueOperator
from airflow_sqlqueue.operators.return_to_source import SqlQueueReturnToSourceOperator
from airflow_sqlqueue.operators.send import SqlQueueSendOperator
from airflow_sqlqueue.operators.subscribe import SqlQueueSubscribeOperator, SqlQueueUnsubscribeOperator
from airflow_sqlqueue.operators.sweep import SqlQueueSweepOperator

__all__ = [
    "SqlQueueConsumeOperator",
    "SqlQueueCreateOperator",
    "SqlQueueDrainOperator",
    "SqlQueueDrainToSparkOperator",
    "SqlQueueDropOperator",
    "SqlQueueForwardOperator",
    "SqlQueueMarkConsumedOperator",
    "SqlQueueMoveDelayedOperator",
    "SqlQueueProvisionOperator",
    "SqlQueuePublishOperator",
    "SqlQueuePurgeExpiredOperator",
    "SqlQueuePurgeOperator",
    "SqlQueueRequestOperator",
    "SqlQueueRequeueOperator",
    "SqlQueueReturnToSourceOperator",
    "SqlQueueSendOperator",
    "SqlQueueSubscribeOperator",
    "SqlQueueSweepOperator",
    "SqlQueueUnsubscribeOperator",
]
