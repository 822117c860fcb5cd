from airflow_sqlqueue.hooks.retry_policy import TransientRetryPolicy as TransientRetryPolicy
from airflow_sqlqueue.hooks.sqlqueue import SqlQueueHook as SqlQueueHook

__all__: list[str]
