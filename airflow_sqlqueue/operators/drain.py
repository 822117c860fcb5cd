"""Drain a queue and hand its messages to a Python function."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import conf

from airflow_sqlqueue.operators.draining import BatchJob, DrainTask
from airflow_sqlqueue.operators.python_job import PythonJob

if TYPE_CHECKING:
    from datetime import timedelta

    from airflow.sdk import Context, ObjectStoragePath


class SqlQueueDrainOperator(DrainTask):
    """Drain a queue into a sealed batch, call a Python function with its messages, and mark the batch consumed.

    ``python_callable`` is called with an iterator of the messages (:class:`~airflow_sqlqueue.message.ReceivedMessage`),
    in the order of the queue; each is read when it is asked for, so memory stays small. It gets by name what else it
    asks for: ``batch``, the manifest with ``batch_id`` and the ``paths`` of the Parquet files, ``hook``, this task's
    :class:`~airflow_sqlqueue.hooks.sqlqueue.SqlQueueHook`, values of ``op_kwargs``, and of the task's context. Without
    a function the batch waits for a task that reads it and marks it consumed.

    Delivery: from the queue to the batch is exactly once. The function runs at least once: it is called again with the
    same batch when it failed, or when the task died before the batch was marked consumed, so what it writes should be
    keyed by the batch id, which makes it exactly once as well. When it returns, all of the batch counts as handled,
    whether or not it has read to the end.

    The batch belongs to the task instance, and batches that earlier runs have left are adopted, as with
    :class:`SqlQueueDrainToSparkOperator`. XCom: as there; ``result`` is what the function returned.

    :param queue_name: the queue's address, ``table@[schema]@[catalog]`` (templated)
    :param endpoint: the endpoint whose queue it is, instead of ``queue_name``; resolved by the connection's endpoint
        settings too (templated)
    :param staging: the folder for batches: a path, a URL, or an ``ObjectStoragePath`` with its Airflow connection;
        None where the stage is ``table`` (templated)
    :param stage: ``files``, or ``table`` for a table beside the queue, where nothing is written to a folder (templated)
    :param filters: drain only messages that match, conditions of :class:`~airflow_sqlqueue.MessageFilter`:
        ``{"message_type": "Shop.OrderPlaced", "since": "2026-01-31T08:00:00Z"}``; ``message_id``, ``correlation_id``,
        ``endpoint``, ``until`` and ``headers``, names and values, are others. One worker finds and takes them. A retry
        has to have the same (templated)
    :param keep: copy the messages to files and leave them in the queue: a snapshot up to the last message that was
        there when the batch was opened. Not with ``filters``.
    :param python_callable: the function.
    :param op_kwargs: further arguments of ``python_callable`` (templated)
    :param renew: when the task runs again after its batch was consumed or put back into the queue, drain a new batch.
    :param rerun: ``job``: when the task runs again after its batch was consumed, call the function with it again; its
        files must be there still. None: do nothing then.
    :param stranded: what to do with batches that earlier runs left: ``adopt``, ``fail`` (with
        :class:`~airflow_sqlqueue.errors.StrandedBatchError`, which names them, and no retry), or ``ignore``.
    :param wait_for: what to wait for first, options of :class:`~airflow_sqlqueue.queue.condition.QueueCondition`:
        ``{"min_messages": 1000, "oldest_seconds": 3600}``; None: nothing (templated)
    :param wait_timeout: how long to wait for it at the most, seconds or a timedelta; None: without end.
    :param poll_interval: seconds between two looks.
    :param deferrable: wait in the triggerer; ``[operators] default_deferrable`` unless given.
    :param run_on_empty: call the function for a batch without messages too.
    :param drain_options: limits of the drain, see :class:`~airflow_sqlqueue.drain.options.DrainOptions` (templated)
    :param sqlqueue_conn_id: the Airflow connection (templated)
    :param hook_params: further arguments of :class:`~airflow_sqlqueue.hooks.sqlqueue.SqlQueueHook`.
    """

    template_fields: Sequence[str] = (
        "queue_name",
        "endpoint",
        "staging",
        "stage",
        "filters",
        "wait_for",
        "op_kwargs",
        "drain_options",
        "sqlqueue_conn_id",
    )
    template_fields_renderers = dict.fromkeys(("filters", "wait_for", "op_kwargs", "drain_options"), "json")
    # A function may be anything that can be called, a bound method of what cannot be copied as well.
    shallow_copy_attrs: Sequence[str] = ("python_callable",)
    ui_color = "#cfe3d4"

    def __init__(
        self,
        *,
        queue_name: str | None = None,
        endpoint: str | None = None,
        staging: str | ObjectStoragePath | None = None,
        stage: str = "files",
        filters: Mapping[str, Any] | None = None,
        keep: bool = False,
        python_callable: Callable[..., Any] | None = None,
        op_kwargs: Mapping[str, Any] | None = None,
        renew: bool = False,
        rerun: str | None = None,
        stranded: str = "adopt",
        wait_for: Mapping[str, Any] | None = None,
        wait_timeout: float | timedelta | None = None,
        poll_interval: float = 60.0,
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        run_on_empty: bool = False,
        drain_options: Mapping[str, Any] | None = None,
        sqlqueue_conn_id: str = "sqlqueue_default",
        hook_params: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.queue_name = queue_name
        self.endpoint = endpoint
        self.check_queue()
        self.staging = staging
        self.stage = stage
        self.filters = filters
        self.keep = keep
        self.python_callable = python_callable
        self.op_kwargs = op_kwargs
        self.renew = renew
        self.rerun = rerun
        self.stranded = stranded
        self.wait_for = wait_for
        self.wait_timeout = wait_timeout
        self.poll_interval = poll_interval
        self.deferrable = deferrable
        self.run_on_empty = run_on_empty
        self.drain_options = drain_options
        self.sqlqueue_conn_id = sqlqueue_conn_id
        self.hook_params = hook_params

    def _make_job(self, context: Context) -> BatchJob:
        job = PythonJob(self.hook, self.log, self.staging, self.python_callable, self.op_kwargs or {}, context)
        job.check()
        return job
