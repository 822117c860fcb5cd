"""What the operators and sensors share: a connection, a queue, and the hook that joins them."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_sqlqueue.hooks.sqlqueue import SqlQueueHook


class ServerTask:
    """A task on one server. Classes that take it set the attributes."""

    sqlqueue_conn_id: str
    hook_params: dict[str, Any] | None

    @cached_property
    def hook(self) -> SqlQueueHook:
        """The hook, made when the task runs: parsing a DAG does not import it."""
        from airflow_sqlqueue.hooks.sqlqueue import SqlQueueHook

        return SqlQueueHook(self.sqlqueue_conn_id, **(self.hook_params or {}))


class QueueTask(ServerTask):
    """A task on one queue."""

    queue_name: str


def task_key(context: Context) -> tuple[str, str, str, int]:
    """Dag, run, task and map index of the task instance: the same for every try."""
    ti = context["ti"]
    return ti.dag_id, ti.run_id, ti.task_id, -1 if ti.map_index is None else ti.map_index
