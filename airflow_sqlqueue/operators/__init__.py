"""Operators: each turns a task into one call of the client."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_sqlqueue.exports import lazy_exports

if TYPE_CHECKING:
    from airflow_sqlqueue.operators.batches import (
        SqlQueueMarkConsumedOperator,
        SqlQueueRequeueOperator,
        SqlQueueSweepOperator,
    )
    from airflow_sqlqueue.operators.consume import SqlQueueConsumeOperator
    from airflow_sqlqueue.operators.drain import SqlQueueDrainOperator
    from airflow_sqlqueue.operators.drain_to_spark import SqlQueueDrainToSparkOperator
    from airflow_sqlqueue.operators.events import (
        SqlQueuePublishOperator,
        SqlQueueSubscribeOperator,
        SqlQueueUnsubscribeOperator,
    )
    from airflow_sqlqueue.operators.maintenance import (
        SqlQueueForwardOperator,
        SqlQueueMoveDelayedOperator,
        SqlQueuePurgeExpiredOperator,
        SqlQueuePurgeOperator,
    )
    from airflow_sqlqueue.operators.request import SqlQueueRequestOperator
    from airflow_sqlqueue.operators.return_to_source import SqlQueueReturnToSourceOperator
    from airflow_sqlqueue.operators.send import SqlQueueSendOperator
    from airflow_sqlqueue.operators.tables import (
        SqlQueueCreateOperator,
        SqlQueueDropOperator,
        SqlQueueProvisionOperator,
    )

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

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "batches": "SqlQueueMarkConsumedOperator SqlQueueRequeueOperator SqlQueueSweepOperator",
        "consume": "SqlQueueConsumeOperator",
        "drain": "SqlQueueDrainOperator",
        "drain_to_spark": "SqlQueueDrainToSparkOperator",
        "events": "SqlQueuePublishOperator SqlQueueSubscribeOperator SqlQueueUnsubscribeOperator",
        "maintenance": (
            "SqlQueueForwardOperator SqlQueueMoveDelayedOperator SqlQueuePurgeExpiredOperator SqlQueuePurgeOperator"
        ),
        "request": "SqlQueueRequestOperator",
        "return_to_source": "SqlQueueReturnToSourceOperator",
        "send": "SqlQueueSendOperator",
        "tables": "SqlQueueCreateOperator SqlQueueDropOperator SqlQueueProvisionOperator",
    },
)
