"""Names of Airflow that moved between its versions 3.1 and 3.4, and features of ours that take Airflow 3.3.

Names that ``airflow.providers.common.compat.sdk`` has are imported from there.
"""

from __future__ import annotations

from contextlib import suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING

from airflow import __version__
from airflow.sdk.execution_time.context import OutletEventAccessor
from airflow.triggers.base import BaseTrigger

from airflow_sqlqueue.versions import VersionedFeature

__all__ = [
    "PARTITION_KEYS",
    "RETRY_POLICIES",
    "SHARED_STREAMS",
    "TRIGGER_TEMPLATES",
    "RetryDecision",
    "RetryPolicy",
    "ServerStats",
    "TaskDeferralTimeout",
    "TaskStats",
]

if TYPE_CHECKING:
    from airflow.observability.stats import Stats as ServerStats
    from airflow.providers.common.compat.sdk import Stats as TaskStats
    from airflow.sdk import RetryDecision, RetryPolicy
    from airflow.sdk.exceptions import TaskDeferralTimeout
else:
    try:
        from airflow.sdk.exceptions import TaskDeferralTimeout
    except ImportError:  # Airflow 3.1
        from airflow.exceptions import TaskDeferralTimeout
    # Nothing but metrics is lost where a later version has these names elsewhere: see metrics.send.
    ServerStats = TaskStats = None
    with suppress(ImportError):
        from airflow.providers.common.compat.sdk import Stats as TaskStats
    with suppress(ImportError):
        try:
            from airflow.observability.stats import Stats as ServerStats
        except ImportError:  # Airflow 3.1
            from airflow.stats import Stats as ServerStats
    try:
        from airflow.sdk import RetryDecision, RetryPolicy
    except ImportError:  # Airflow 3.1 and 3.2
        RetryDecision, RetryPolicy = None, object

RETRY_POLICIES = VersionedFeature("TransientRetryPolicy", "Airflow", "3.3", __version__, RetryDecision is not None)
SHARED_STREAMS = VersionedFeature(
    "SqlQueueMessageEventTrigger",
    "Airflow",
    "3.3",
    __version__,
    find_spec("airflow.triggers.shared_stream") is not None,
    ("airflow_sqlqueue.triggers.receiver",),
)
PARTITION_KEYS = VersionedFeature(
    "partition_by_batch", "Airflow", "3.3", __version__, hasattr(OutletEventAccessor, "add_partitions")
)
TRIGGER_TEMPLATES = VersionedFeature(
    "start_from_trigger", "Airflow", "3.3", __version__, hasattr(BaseTrigger, "render_template_fields")
)
