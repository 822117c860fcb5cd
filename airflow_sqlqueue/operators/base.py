"""What the operators and sensors share: a connection, a queue, and the hook that joins them."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from airflow.sdk import Asset

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator, Context

    from airflow_sqlqueue.client.queues import Queue
    from airflow_sqlqueue.drain.manifest import Batch
    from airflow_sqlqueue.hooks.sqlqueue import SqlQueueHook
    from airflow_sqlqueue.operators.lineage import Lineage


class ServerTask:
    """A task on one server. Classes that take it set the attributes."""

    task_id: str
    sqlqueue_conn_id: str
    hook_params: dict[str, Any] | None
    lineage: Lineage | None = None
    """Where messages came from and went to, once the task has moved some."""

    @cached_property
    def hook(self) -> SqlQueueHook:
        """The hook, made when the task runs: parsing a DAG does not import it."""
        from airflow_sqlqueue.hooks.sqlqueue import SqlQueueHook

        return SqlQueueHook(self.sqlqueue_conn_id, **(self.hook_params or {}))

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> Any:
        """What OpenLineage's provider asks for when the task has ended; None where nothing was moved."""
        return None if self.lineage is None else self.lineage.facets()


class QueueTask(ServerTask):
    """A task on one queue, named by its address."""

    queue_name: str


class RoutedTask(ServerTask):
    """A task on one queue, named by its address or by its endpoint: constructors call :meth:`check_queue`."""

    queue_name: str | None
    endpoint: str | None

    def check_queue(self) -> None:
        """:func:`check_named_once`, when the DAG is parsed."""
        check_named_once(self.task_id, self.queue_name, self.endpoint)

    @property
    def address(self) -> str:
        """The queue's address, as the task or the endpoint's name gives it."""
        return self.hook.client.resolver.address_of(self.queue_name, self.endpoint)

    @property
    def sql_queue(self) -> Queue:
        """The queue. Airflow's own ``queue`` is one of an executor."""
        return self.hook.queue(self.address)


def check_named_once(task_id: str, queue_name: str | None, endpoint: str | None) -> None:
    """:func:`.routing.check_named_once`, whose :class:`AddressError` names the task then."""
    from airflow_sqlqueue.errors import AddressError
    from airflow_sqlqueue.routing import check_named_once

    try:
        check_named_once(queue_name, endpoint)
    except AddressError as error:
        raise AddressError(f"Task {task_id!r}: {error}") from error


def note_counts(task: BaseOperator, context: Context, **counts: Any) -> None:
    """Put counts, and ids, into the events of the task's outlets that are assets."""
    events: Any = context.get("outlet_events", {})
    for outlet in task.outlets:
        if isinstance(outlet, Asset):
            events[outlet].extra.update(counts)


def note_batch(task: Any, context: Context, batch: Batch, *, put_back: bool = False) -> None:
    """:func:`note_counts` of a batch, and its lineage: from the queue to where it is staged, or back. ``task`` is a
    :class:`ServerTask` that is an operator."""
    from airflow_sqlqueue.operators.lineage import of_drain, of_requeue

    task.lineage = (of_requeue if put_back else of_drain)(task.hook.client, batch)
    counts = {"messages": batch.messages, "bytes": batch.bytes, "parts": batch.parts}
    note_counts(task, context, batch_id=batch.batch_id, **counts)


def task_key(context: Context) -> tuple[str, str, str, int]:
    """Dag, run, task and map index of the task instance: the same for every try."""
    ti = context["ti"]
    return ti.dag_id, ti.run_id, ti.task_id, -1 if ti.map_index is None else ti.map_index
