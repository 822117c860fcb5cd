"""Base classes of operators and sensors: the connection, the hook and the queue, with their arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk import Asset, BaseOperator

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_sqlqueue.client.queues import Queue
    from airflow_sqlqueue.drain.manifest import Batch
    from airflow_sqlqueue.hooks.sqlqueue import SqlQueueHook
    from airflow_sqlqueue.operators.lineage import Lineage


def templated(*parts: type[BaseOperator] | str) -> Sequence[str]:
    """Template fields of base classes and a class's own, each once: ``templated(QueueTask, "to_queue")``."""
    names = [name for part in parts for name in ([part] if isinstance(part, str) else part.template_fields)]
    return tuple(dict.fromkeys(names))


class ServerTask(BaseOperator):
    """Base class of tasks on one server.

    :param sqlqueue_conn_id: the Airflow connection (templated)
    :param hook_params: further arguments of :class:`~airflow_sqlqueue.hooks.sqlqueue.SqlQueueHook`.
    """

    template_fields: Sequence[str] = ("sqlqueue_conn_id",)
    template_fields_renderers: ClassVar[dict[str, str]] = {}
    ui_color = "#dfe9f5"
    lineage: Lineage | None = None
    """Where messages came from and went to, once the task has moved some."""

    def __init__(
        self,
        *,
        sqlqueue_conn_id: str = "sqlqueue_default",
        hook_params: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.sqlqueue_conn_id = sqlqueue_conn_id
        self.hook_params = hook_params

    @cached_property
    def hook(self) -> SqlQueueHook:
        """The hook, made when the task runs: parsing a DAG does not import it."""
        from airflow_sqlqueue.hooks.sqlqueue import SqlQueueHook

        return SqlQueueHook(self.sqlqueue_conn_id, **(self.hook_params or {}))

    def forget_connection(self) -> None:
        """Have the next use of :attr:`hook` look the Airflow connection up anew."""
        self.__dict__.pop("hook", None)

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> Any:
        """Lineage of the task for OpenLineage's provider, when it has ended; None where nothing was moved."""
        return None if self.lineage is None else self.lineage.facets()


class QueueTask(ServerTask):
    """Base class of tasks on one queue, named by its address.

    :param queue_name: the queue's address, ``table@[schema]@[catalog]`` (templated)
    """

    template_fields = templated("queue_name", ServerTask)

    def __init__(self, *, queue_name: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.queue_name = queue_name


class RoutedTask(ServerTask):
    """Base class of tasks on one queue, named by its address or by its endpoint: one of the two.

    :param queue_name: the queue's address, ``table@[schema]@[catalog]`` (templated)
    :param endpoint: the endpoint whose queue it is, instead of ``queue_name``; resolved by the connection's endpoint
        settings too (templated)
    """

    template_fields = templated("queue_name", "endpoint", ServerTask)

    def __init__(self, *, queue_name: str | None = None, endpoint: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.queue_name = queue_name
        self.endpoint = endpoint
        check_named_once(self.task_id, queue_name, endpoint)

    @property
    def address(self) -> str:
        """The queue's address, as the task or the endpoint's name gives it."""
        return self.hook.client.resolver.address_of(self.queue_name, self.endpoint)

    @property
    def sql_queue(self) -> Queue:
        """The queue. Airflow's own ``queue`` is one of an executor."""
        return self.hook.queue(self.address)


class LimitedTask(ServerTask):
    """Base class of tasks that end at a limit.

    :param max_messages: stop after this many messages; None: no limit.
    :param max_seconds: stop after this many seconds; None: no limit.
    """

    def __init__(self, *, max_messages: int | None = None, max_seconds: float | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.max_messages = max_messages
        self.max_seconds = max_seconds


class BatchTask(ServerTask):
    """Base class of tasks on one drained batch.

    :param batch: the manifest: what the drain operator returned, or its ``batch`` (templated)
    """

    template_fields = templated("batch", ServerTask)
    template_fields_renderers: ClassVar[dict[str, str]] = {"batch": "json"}

    def __init__(self, *, batch: Mapping[str, Any], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.batch = batch


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


def note_batch(task: ServerTask, context: Context, batch: Batch, *, put_back: bool = False) -> None:
    """:func:`note_counts` of a batch, and its lineage: from the queue to where it is staged, or back."""
    from airflow_sqlqueue.operators.lineage import of_drain, of_requeue

    task.lineage = (of_requeue if put_back else of_drain)(task.hook.client, batch)
    counts = {"messages": batch.messages, "bytes": batch.bytes, "parts": batch.parts}
    note_counts(task, context, batch_id=batch.batch_id, **counts)


def task_key(context: Context) -> tuple[str, str, str, int]:
    """Dag, run, task and map index of the task instance: the same for every try."""
    ti = context["ti"]
    return ti.dag_id, ti.run_id, ti.task_id, -1 if ti.map_index is None else ti.map_index
