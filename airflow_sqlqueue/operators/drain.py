"""Drain a queue and hand its messages to a Python function."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from airflow_sqlqueue.operators.draining import BatchJob, DrainTask
from airflow_sqlqueue.operators.python_job import PythonJob

if TYPE_CHECKING:
    from airflow.sdk import Context


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

    # A function may be anything that can be called, a bound method of what cannot be copied as well.
    shallow_copy_attrs: Sequence[str] = ("python_callable",)

    def _make_job(self, context: Context) -> BatchJob:
        job = PythonJob(self.hook, self.log, self.staging, self.python_callable, self.op_kwargs or {}, context)
        job.check()
        return job
