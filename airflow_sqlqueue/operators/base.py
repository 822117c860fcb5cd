"""Base classes of operators and sensors: the connection, the hook and the queue, with their arguments."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any

from airflow.sdk import Asset, BaseOperator

from airflow_sqlqueue.errors import AddressError, ConfigurationError
from airflow_sqlqueue.hooks.arguments import check_hook_params
from airflow_sqlqueue.messages import routing
from airflow_sqlqueue.options import interval
from airflow_sqlqueue.queue.condition import QueueCondition
from airflow_sqlqueue.untrusted import quoted

if TYPE_CHECKING:
    from airflow.sdk import Context
    from airflow.triggers.base import BaseTrigger

    from airflow_sqlqueue.client.queues import Queue
    from airflow_sqlqueue.drain.manifest import Batch
    from airflow_sqlqueue.hooks.sqlqueue import SqlQueueHook
    from airflow_sqlqueue.operators.lineage import Lineage
    from airflow_sqlqueue.options import Options
    from airflow_sqlqueue.queue.condition import ConditionResult
    from airflow_sqlqueue.queue.filters import MessageFilter, TimeFilter


_STRUCTURED = {
    *("application_args", "base_types", "batch", "filters", "message_types", "redaction", "subscribe_to", "wait_for"),
}
"""Template fields whose values are mappings or lists, beside those that are called ``..._options``."""


_NEEDED = (
    *("application", "data_bus", "delay", "due", "filters", "instance", "older_than", "redaction", "spark_conn_id"),
    "wait_for",
)
"""Template fields whose values no task that gives them may do without."""


def templated(*parts: type[BaseOperator] | str) -> Sequence[str]:
    """Template fields of base classes and of the class itself, each once: ``templated(RoutedTask, "to_queue")``."""
    names = [name for part in parts for name in ([part] if isinstance(part, str) else part.template_fields)]
    return tuple(dict.fromkeys(names))


class ServerTask(BaseOperator):
    """Base class of tasks on one server; they raise this package's errors, or AirflowFailException if no retry helps.

    :param sqlqueue_conn_id: the Airflow connection (templated)
    :param hook_params: further arguments of :class:`~airflow_sqlqueue.hooks.sqlqueue.SqlQueueHook`.
    """

    template_fields: Sequence[str] = ("sqlqueue_conn_id",)
    ui_color = "#dfe9f5"
    lineage: Lineage | None = None
    """Origin and destination of the messages, once the task has moved some."""
    switches: frozenset[str] = frozenset()
    """Parameters of this package that are True or False. None is templated, and a text would always be true."""
    given_fields: frozenset[str] = frozenset()
    """Names of the conditions on messages, and of other fields, that the DAG gives, before templates are rendered."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        bases = [base for base in cls.__mro__ if base.__module__.startswith("airflow_sqlqueue.")]
        parameters = [each for base in bases for each in inspect.signature(base).parameters.values()]
        cls.switches = frozenset(each.name for each in parameters if each.annotation == "bool")
        # Airflow shows a mapping or a list in one line where nothing says how.
        structured = [name for name in cls.template_fields if name in _STRUCTURED or name.endswith("_options")]
        arguments = [name for name in cls.template_fields if name in ("op_args", "op_kwargs")]
        own = vars(cls).get("template_fields_renderers", {})
        cls.template_fields_renderers = {**dict.fromkeys(structured, "json"), **dict.fromkeys(arguments, "py"), **own}

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
        with _in_task(self.task_id):
            check_hook_params(hook_params)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self.switches and not isinstance(value, bool):
            with _in_task(self.task_id):
                raise ConfigurationError(
                    f"{name} is {quoted(str(value))}: give True or False, no template and no output of a task."
                )
        super().__setattr__(name, value)

    @cached_property
    def hook(self) -> SqlQueueHook:
        """The hook, made when the task runs, so that parsing a DAG does not import it."""
        from airflow_sqlqueue.hooks.sqlqueue import SqlQueueHook

        return SqlQueueHook(self.sqlqueue_conn_id, **(self.hook_params or {}))

    def forget_connection(self) -> None:
        """Make the next use of :attr:`hook` look up the Airflow connection again."""
        self.__dict__.pop("hook", None)

    @property
    def connection_arguments(self) -> dict[str, Any]:
        """Arguments by which a trigger uses the same connection."""
        return {"sqlqueue_conn_id": self.sqlqueue_conn_id, "hook_params": self.hook_params}

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> Any:
        """Return the lineage of the ended task for OpenLineage's provider; None if it moved no messages."""
        return None if self.lineage is None else self.lineage.facets()


class RoutedTask(ServerTask):
    """Base class of tasks on one queue, named either by its address or by its endpoint.

    :param queue_name: the queue's address, ``table@[schema]@[catalog]`` (templated)
    :param endpoint: the endpoint that the queue belongs to, instead of ``queue_name``; resolved with the connection's
        endpoint settings (templated)
    """

    template_fields = templated("queue_name", "endpoint", ServerTask)

    def __init__(self, *, queue_name: str | None = None, endpoint: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.queue_name = queue_name
        self.endpoint = endpoint
        check_named_once(self.task_id, queue_name, endpoint)

    @property
    def address(self) -> str:
        """The queue's address, given by the task or by the endpoint's name."""
        return self.hook.client.resolver.address_of(self.queue_name, self.endpoint)

    @property
    def sql_queue(self) -> Queue:
        """The queue. Airflow's own attribute ``queue`` names an executor's queue."""
        return self.hook.queue(self.address)


class ConditionTask(RoutedTask):
    """Base class of tasks that wait until their queue meets a condition.

    :param wait_for: the condition to wait for, options of :class:`~airflow_sqlqueue.QueueCondition`:
        ``{"min_messages": 1000, "oldest_seconds": 3600}``, ``max_messages``, ``min_expired``, ``min_delayed``, ``kind``
        and ``filters``; None: one message (templated)
    """

    template_fields = templated(RoutedTask, "wait_for")

    def __init__(self, *, wait_for: Mapping[str, Any] | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.wait_for = wait_for
        check_options(self, QueueCondition)

    @property
    def condition(self) -> QueueCondition:
        """The condition, checked. Raises :class:`ConfigurationError`."""
        check_given_fields(self)
        return QueueCondition.of(self.wait_for)

    def check_condition(self) -> ConditionResult:
        """Check the queue once, and log the result."""
        condition = self.condition
        found = self.sql_queue.check(condition)
        self.log.info("Queue %s: %s; waiting for %s", self.address, found, condition)
        return found

    def trigger_arguments(self, poll_interval: float) -> dict[str, Any]:
        """Return the arguments of the trigger that waits for the condition."""
        return {
            "queue_name": self.queue_name,
            "endpoint": self.endpoint,
            "wait_for": self.wait_for.to_dict() if isinstance(self.wait_for, QueueCondition) else self.wait_for,
            "poll_interval": poll_interval,
            **self.connection_arguments,
        }

    def depth_trigger(self, poll_interval: float) -> BaseTrigger:
        """Return the trigger that waits for the condition."""
        from airflow_sqlqueue.triggers.depth import SqlQueueDepthTrigger

        return SqlQueueDepthTrigger(**self.trigger_arguments(poll_interval))


class LimitedTask(ServerTask):
    """Base class of tasks that end at a limit.

    :param max_messages: stop after this many messages; None: no limit (templated)
    :param max_seconds: stop after this many seconds; None: no limit (templated)
    """

    template_fields = templated(ServerTask, "max_messages", "max_seconds")

    def __init__(
        self, *, max_messages: int | str | None = None, max_seconds: float | str | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.max_messages = max_messages
        self.max_seconds = max_seconds

    def limits(self) -> dict[str, Any]:
        """Return the limits, as arguments of :meth:`.Options.of`."""
        return {"max_messages": self.max_messages, "max_seconds": self.max_seconds}


class BatchTask(ServerTask):
    """Base class of tasks on one drained batch.

    :param batch: the manifest: the result of the drain operator, or its ``batch`` (templated)
    """

    template_fields = templated("batch", ServerTask)

    def __init__(self, *, batch: Mapping[str, Any], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.batch = batch

    def recorded_batch(self) -> Batch:
        """Return the batch, from the ledger. Raises as :meth:`.BatchManager.load`."""
        if self.batch is None:
            raise ConfigurationError(
                "batch is None: the drain has no result in this run, as one that failed or was skipped. 'sqlqueue "
                "batches' shows whether it left a batch."
            )
        if isinstance(self.batch, str):
            raise ConfigurationError(
                "batch is a text, as a template renders it: give the output of the drain's task, as drain.output."
            )
        return self.hook.client.batches.load(self.batch)


def check_named_once(
    task_id: str, queue_name: str | None, endpoint: str | None, parameters: str = "queue_name or endpoint"
) -> None:
    """Call :func:`.routing.check_named_once`, with the task in its :class:`AddressError`."""
    with _in_task(task_id):
        routing.check_named_once(queue_name, endpoint, parameters)


def check_options(task: ServerTask, *kinds: type[Options | TimeFilter]) -> None:
    """Check the names in the task's mappings when the DAG is parsed, and note its conditions for a run.

    A template of a mapping has no names before a run.
    """
    task.given_fields = _given_fields_of(task)
    for kind in kinds:
        values = vars(task)[kind.parameter]
        with _in_task(task.task_id):
            kind.check_names(values if isinstance(values, Mapping) else {})


@contextmanager
def _in_task(task_id: str) -> Iterator[None]:
    try:
        yield
    except (AddressError, ConfigurationError) as error:
        raise type(error)(f"Task {task_id!r}: {error}") from error


def interval_or(default: timedelta, name: str, value: Any) -> timedelta:
    """As :func:`interval`, with a default in place of None."""
    found = interval(name, value)
    return default if found is None else found


def check_given_fields(task: ServerTask) -> None:
    """Raise :class:`ConfigurationError` for a condition, or another field, that a template has rendered to nothing.

    A task without it would take other messages too: a deletion without an age takes those of any age that a filter
    beside it matches. It would stage private data, or not wait. A native template, and the output of a task, may be
    None.
    """
    older_than = vars(task).get("older_than")
    if older_than is not None and interval("older_than", older_than) is None:
        raise ConfigurationError(
            f"older_than is {quoted(str(older_than))}: give a time, or leave it out to delete messages of any age."
        )
    if missing := sorted(task.given_fields - _given_fields_of(task)):
        raise ConfigurationError(
            f"{missing[0]} is None, as a template or a task gives it: give a value, or leave it out to do without it."
        )


def _given_fields_of(task: ServerTask) -> frozenset[str]:
    """Return the names of the fields of a task that are given, and of the conditions of its filter."""
    filters = vars(task).get("filters")
    given = {**(filters if isinstance(filters, Mapping) else {}), **{name: vars(task).get(name) for name in _NEEDED}}
    return frozenset(name for name, value in given.items() if value is not None)


def message_filter(task: ServerTask) -> MessageFilter | None:
    """Return the filter of messages from the task's ``filters``; None for None. Raises :class:`ConfigurationError`."""
    from airflow_sqlqueue.queue.filters import MessageFilter

    check_given_fields(task)
    filters = vars(task)["filters"]
    return None if filters is None else MessageFilter.of(filters)


def note_counts(task: BaseOperator, context: Context, **counts: Any) -> None:
    """Put counts and ids into the asset events of the task's outlets."""
    for event in asset_events(task, context):
        event.extra.update(counts)


def asset_events(task: BaseOperator, context: Context) -> list[Any]:
    """Return the asset events of the task's outlets."""
    events: Any = context.get("outlet_events", {})
    return [events[outlet] for outlet in task.outlets if isinstance(outlet, Asset)]


def note_batch(task: ServerTask, context: Context, batch: Batch, *, put_back: bool = False) -> None:
    """Note the counts of a batch, and its lineage from the queue to the staging place, or back."""
    from airflow_sqlqueue.operators.lineage import of_drain, of_requeue

    task.lineage = (of_requeue if put_back else of_drain)(task.hook.client, batch)
    counts = {"messages": batch.messages, "bytes": batch.bytes, "parts": batch.parts}
    note_counts(task, context, batch_id=batch.batch_id, **counts)


def task_key(context: Context) -> tuple[str, str, str, int]:
    """DAG, run, task and map index of the task instance, equal for every try."""
    ti = context["ti"]
    return ti.dag_id, ti.run_id, ti.task_id, -1 if ti.map_index is None else ti.map_index
