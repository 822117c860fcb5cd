"""Operator that drains a queue for a Python function, and the base class of drain operators."""

from __future__ import annotations

import uuid
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from airflow.providers.common.compat.sdk import AirflowException, BaseOperatorLink, conf

from airflow_sqlqueue.drain.manifest import Batch
from airflow_sqlqueue.drain.options import DrainOptions, owner_of
from airflow_sqlqueue.endpoint.databus.options import PayloadOptions
from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.hooks.permanent_errors import fail_without_retry
from airflow_sqlqueue.hooks.staging import data_bus_at, redactor_of, staging_folder
from airflow_sqlqueue.operators.base import (
    LimitedTask,
    asset_events,
    check_options,
    message_filter,
    note_batch,
    task_key,
    templated,
)
from airflow_sqlqueue.operators.metrics import DrainLog, Metrics
from airflow_sqlqueue.operators.python_job import BatchJob, PythonJob
from airflow_sqlqueue.operators.results import check_result
from airflow_sqlqueue.operators.waiting import QueueWaitingTask
from airflow_sqlqueue.options import truth
from airflow_sqlqueue.queue.filters import MessageFilter
from airflow_sqlqueue.versions.airflow import PARTITION_KEYS

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator, Context, ObjectStoragePath
    from airflow.sdk.types import TaskInstanceKey
    from pyspark.sql import SparkSession

    from airflow_sqlqueue.client.task_batches import TaskBatches
    from airflow_sqlqueue.drain.progress import Progress
    from airflow_sqlqueue.drain.request import DrainRequest


STRANDED = ("adopt", "fail", "ignore")
"""Actions on stranded batches."""


def page_url(*parts: str) -> str:
    """Return the URL of a view of the page in Airflow: the path of ``[api] base_url``, and the parts of the view.

    The URL has the path of the page and then the path of its frame, so the base path is in it twice.
    """
    base = urlsplit(conf.get("api", "base_url", fallback="") or "").path.rstrip("/")
    view = "/".join(("#", *(quote(part, safe="") for part in parts)))
    return f"{base}/plugin/sqlqueue{base}/sqlqueue/page?view={quote(view, safe='')}"


class BatchLink(BaseOperatorLink):
    """Link to the batch of a drain task; without a batch, to the batches of its connection."""

    name = "SQL queue batch"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """Return the URL; Airflow calls this on the worker, after the task has ended."""
        batch_id = getattr(operator, "worked_on", None)
        parts = ("c", str(getattr(operator, "sqlqueue_conn_id", "")), "batches")
        return page_url(*parts, *([] if batch_id is None else [str(batch_id)]))


class DrainOperatorBase(LimitedTask, QueueWaitingTask):
    """Base class of the operators that drain a queue and run a job on the batch.

    :param staging: the folder for batches: a path, a URL, or an ``ObjectStoragePath`` with its Airflow connection;
        None if the stage is ``table`` (templated)
    :param stage: ``files``, or ``table`` for a table beside the queue, without files (templated)
    :param filters: drain only messages that match, conditions of :class:`~airflow_sqlqueue.MessageFilter`:
        ``{"message_type": "Shop.OrderPlaced", "since": "2026-01-31T08:00:00Z"}``. One worker finds and drains them. A
        retry must have the same filters (templated)
    :param copy: copy the messages to files and leave them in the queue: a snapshot up to the last message at the time
        the batch was opened. Not with ``filters``.
    :param incremental: with ``copy``, copy only messages that no earlier run has copied, each once over all runs. True:
        of a copy that is named ``dag_id.task_id``, and with its map index if the task is mapped; a text: of the copy
        with this name (templated)
    :param python_callable: the job, a function.
    :param op_kwargs: further arguments of ``python_callable`` (templated)
    :param renew: drain a new batch when the task runs again after its batch was consumed or requeued.
    :param rerun: ``job``: run the job again when the task runs again after its batch was consumed; the batch's files
        must still exist. None: do nothing then.
    :param stranded: action on batches that earlier runs left: ``adopt``, ``fail`` (with
        :class:`~airflow_sqlqueue.errors.StrandedBatchError`, which names them, and no retry), or ``ignore``.
    :param run_on_empty: run the job on an empty batch too.
    :param max_messages: stop after this many messages, expired ones that it drops among them; None: no limit
        (templated)
    :param max_seconds: begin no part later than this many seconds after the batch was opened; None: no limit
        (templated)
    :param drain_options: the number of workers, sizes of parts and so on, options of
        :class:`~airflow_sqlqueue.DrainOptions`: ``{"workers": 4, "rows_per_part": 50_000}`` (templated)
    :param data_bus: the data bus (claim check) of the senders, a folder or a URL like a staging folder's: the payloads
        of the drained messages are fetched from it and staged beside them, before the job runs. Not with the stage
        ``table``, nor with ``redaction`` (templated)
    :param payload_options: limits of the payloads, options of :class:`~airflow_sqlqueue.PayloadOptions` (templated)
    :param redaction: rules for private data, applied before anything is staged: the path of a JSON file, or the rules
        (:class:`~airflow_sqlqueue.RedactionRules`). A retry must have the same rules (templated)
    :param redaction_conn_id: a connection whose password is the key of the rules' hashes (templated)
    :param partition_by_batch: make the batch's id the partition key of the outlets' asset events, with another event
        for each adopted batch: a DAG with Airflow's ``PartitionedAssetTimetable`` then runs once for each batch, and
        other DAGs ignore these events. Takes Airflow 3.3.
    """

    template_fields = templated(
        QueueWaitingTask,
        LimitedTask,
        *("staging", "stage", "filters", "incremental", "op_kwargs", "drain_options", "data_bus", "payload_options"),
        *("redaction", "redaction_conn_id"),
    )
    ui_color = "#cfe3d4"
    operator_extra_links = (BatchLink(),)
    worked_on: uuid.UUID | None = None
    """Id of this run's batch, once it is known."""
    _job: BatchJob | None = None
    _killed = False

    def __init__(
        self,
        *,
        staging: str | ObjectStoragePath | None = None,
        stage: str = "files",
        filters: Mapping[str, Any] | None = None,
        copy: bool = False,
        incremental: bool | str = False,
        python_callable: Callable[..., Any] | None = None,
        op_kwargs: Mapping[str, Any] | None = None,
        renew: bool = False,
        rerun: str | None = None,
        stranded: str = "adopt",
        run_on_empty: bool = False,
        drain_options: DrainOptions | Mapping[str, Any] | None = None,
        data_bus: str | ObjectStoragePath | None = None,
        payload_options: PayloadOptions | Mapping[str, Any] | None = None,
        redaction: str | Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
        redaction_conn_id: str | None = None,
        partition_by_batch: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.partition_by_batch = partition_by_batch
        if partition_by_batch:
            PARTITION_KEYS.require()
        self.staging = staging
        self.stage = stage
        self.filters = filters
        self.copy = copy
        self.incremental = incremental
        self.python_callable = python_callable
        self.op_kwargs = op_kwargs
        self.renew = renew
        self.rerun = rerun
        self.stranded = stranded
        self.run_on_empty = run_on_empty
        self.drain_options = drain_options
        self.data_bus = data_bus
        self.payload_options = payload_options
        self.redaction = redaction
        self.redaction_conn_id = redaction_conn_id
        check_options(self, DrainOptions, PayloadOptions, MessageFilter)

    @abstractmethod
    def _make_job(self, context: Context) -> BatchJob:
        """Make the job of this run, checked. Raises :class:`ConfigurationError`."""

    def _open_engine(self, job: BatchJob, stack: ExitStack) -> dict[str, Any]:
        """Return the engine of the drain's workers, as arguments of the hook's ``drain``."""
        return {}

    def execute(self, context: Context) -> dict[str, Any]:
        """Wait, drain and run the job; raises this package's errors, or AirflowFailException if no retry can help."""
        with fail_without_retry():
            self._request(task_key(context))
            if self.wait_for is not None:
                self._reach_server()
                # The queue's depth is no reason to wait where an earlier try has opened the batch.
                if not self._task_batches(context).is_open():
                    self.wait_for_condition()
        return self._drain(context)

    def execute_complete(self, context: Context, event: Any = None) -> dict[str, Any]:
        """Drain after the trigger has fired."""
        from airflow_sqlqueue.triggers.base import found_in

        with fail_without_retry():
            self.log.info("The trigger fired: %s", found_in(event))
        return self._drain(context)

    def _reach_server(self) -> None:
        self.hook.client.ping(what=f"Draining the queue {self.address}")

    def _task_batches(self, context: Context) -> TaskBatches:
        from airflow_sqlqueue.client.task_batches import TaskBatches

        return TaskBatches(self.hook.client, self.address, task_key(context), self.renew, context["ti"].try_number)

    def _drain(self, context: Context) -> dict[str, Any]:
        from airflow_sqlqueue.drain.batches import refuse_stranded

        with fail_without_retry(), ExitStack() as stack:
            request, metrics = self._request(task_key(context)), Metrics(self, self.sql_queue)
            drain_log, task = DrainLog(self.log, metrics), self._task_batches(context)

            def on_progress(done: Progress) -> None:
                drain_log.progress(done)
                self.end_if_killed()

            self._job = job = self._make_job(context)
            if self._killed:
                job.kill()
            self._reach_server()
            locks = stack.enter_context(self.hook.client.batches.locks(self.address))
            self.worked_on = batch_id = task.own()
            if not locks.hold(batch_id, wait=self.hook.client.lock_timeout):
                self.log.warning("Another try of this task still works on batch %s: the two share it", batch_id)
            adopted: list[Batch] = []
            if self.stranded != "ignore":
                left = task.left(locks, batch_id, has_job=job.is_given)
                metrics.gauge("batches.stranded", len(left))
                if self.stranded == "fail":
                    refuse_stranded(left)
                adopted = task.adopt(left, locks, self.log, has_job=job.is_given, fingerprint=request.fingerprint)
            sessions = stack.enter_context(ExitStack())
            engine = self._open_engine(job, sessions)
            request = replace(request, batch_id=batch_id)
            drained = self.hook.drain(
                self.address, self.staging, request, stage=self.stage, on_progress=on_progress, **engine
            )
            drain_log.end(drained)
            if drained.resumed and not drain_log.counted and drained.batch.state == "sealed" and job.is_given:
                self.log.info("Batch %s was sealed by an earlier try: its job runs again", batch_id)
            spark = engine.get("spark")
            if not job.takes_session:
                # An application has its own session, and may need the cluster resources of this one.
                sessions.close()
            # First of all, because payloads disappear with time.
            payload_options = self._payload_options(request.options)
            payloads = self._fetch_payloads(drained.batch, payload_options)
            for batch in adopted:
                self._fetch_payloads(batch, payload_options)
                self._run_job(context, job, batch, spark)
            batch, result = self._run_job(context, job, drained.batch, spark)
        note_batch(self, context, batch)
        if self.partition_by_batch:
            for event in asset_events(self, context):
                event.add_partitions([each.batch_id for each in (*adopted, batch)])
        return {
            "batch": batch.to_reference(),
            "locked": drained.locked,
            "seconds": drained.seconds,
            "result": result,
            "adopted": [{"batch_id": batch.batch_id, "messages": batch.messages} for batch in adopted],
            "payloads": payloads,
        }

    def on_kill(self) -> None:
        """End the drain with its current part, and the job if possible: Airflow kills the process seconds later."""
        self._killed = True
        if self._job is not None:
            self._job.kill()

    def end_if_killed(self) -> None:
        if self._killed:
            raise AirflowException(
                "Airflow ended the task. Its batch keeps the drained messages: a retry or the next run continues it."
            )

    def _check(self) -> DrainOptions:
        from airflow_sqlqueue.drain.stages.factory import check_stage

        check_stage(self.stage, self.staging)
        if self.stranded not in STRANDED:
            raise ConfigurationError(f"stranded is one of {', '.join(STRANDED)}, not {self.stranded!r}.")
        if self.rerun not in (None, "job"):
            raise ConfigurationError(f'rerun is None or "job", not {self.rerun!r}.')
        if self.rerun is not None and self.renew:
            raise ConfigurationError("Both rerun and renew are given: run the job again, or drain a new batch.")
        if self.redaction is not None and self.data_bus is not None:
            raise ConfigurationError(
                "No rule of redaction changes payloads of the data bus: leave out data_bus or redaction."
            )
        options = DrainOptions.of(self.drain_options, **self.limits())
        self._payload_options(options)
        return options

    def _request(self, key: tuple[str, str, str, int]) -> DrainRequest:
        """Return the request of the task instance, for a batch of any id. Raises :class:`ConfigurationError`."""
        from airflow_sqlqueue.drain.request import DrainRequest

        dag_id, _, task_id, map_index = key
        own_copy = f"{dag_id}.{task_id}" if map_index < 0 else f"{dag_id}.{task_id}.{map_index}"
        return DrainRequest(
            options=self._check(),
            where=message_filter(self),
            copy=self.copy,
            incremental=self._copy_name(own_copy),
            redaction=redactor_of(self.redaction, self.redaction_conn_id),
            origin=" ".join(map(str, key)),
            owner=owner_of(dag_id, task_id, map_index),
        )

    def _copy_name(self, own_copy: str) -> str | None:
        """Return the name of the copy; None without one. A template renders True, False and None to their words."""
        given: Any = self.incremental
        if isinstance(given, str) and given.strip().lower() not in ("true", "false", "none"):
            return given
        return own_copy if truth("incremental", given) else None

    def _payload_options(self, options: DrainOptions) -> PayloadOptions | None:
        """Return the options of the payloads; None without a data bus. Raises :class:`ConfigurationError`."""
        if self.data_bus is None:
            return None
        if self.stage == "table":
            raise ConfigurationError("data_bus stages payloads beside files: use the stage files, or leave it out.")
        data_bus_at(self.data_bus)
        given = PayloadOptions.of(self.payload_options)
        return replace(given, readable_by=given.readable_by or options.readable_by)

    def _fetch_payloads(self, batch: Batch, options: PayloadOptions | None) -> dict[str, Any] | None:
        """Fetch the payloads of a sealed batch, once for all tries; return their counts, None without a data bus."""
        if self.data_bus is None or batch.state != "sealed" or batch.stage != "files":
            return None
        fetched = self.hook.client.batches.fetch_payloads(
            batch,
            data_bus_at(self.data_bus),
            staging=staging_folder(self.staging or ""),
            options=options,
            on_payload=self.end_if_killed,
        )
        missing = fetched.payloads - fetched.fetched
        if missing:
            self.log.warning(
                "%d of %d payloads of batch %s were not fetched", missing, fetched.payloads, batch.batch_id
            )
        return fetched.to_dict()

    def _run_job(self, context: Context, job: BatchJob, batch: Batch, spark: SparkSession | None) -> tuple[Batch, Any]:
        """Run the job if there is one and the batch is ready; return the batch after it, and the job's result."""
        again = batch.state == "consumed" and self.rerun == "job"
        if batch.state != "sealed" and not again:
            self.log.info("Batch %s is %s: the job does not run again", batch.batch_id, batch.state)
            return batch, None
        if not job.is_given:
            self.log.info("Batch %s waits for a task that reads it and marks it consumed", batch.batch_id)
            return batch, None
        self.end_if_killed()
        result = None
        if again:
            from airflow_sqlqueue.drain.storage.batch_files import check_files

            check_files(batch, None if self.staging is None else staging_folder(self.staging))
            self.log.info("Batch %s is consumed: the job runs on it again", batch.batch_id)
        if batch.messages or self.run_on_empty:
            result = job.run(batch, spark)
            check_result(self, context, result)
            Metrics(self, self.sql_queue).tables(result)
        else:
            self.log.info("Batch %s is empty: the job does not run", batch.batch_id)
        self.hook.client.batches.mark_consumed(batch)
        return replace(batch, state="consumed"), result


class SqlQueueDrainOperator(DrainOperatorBase):
    """Drain a queue into a sealed batch, call a Python function with its messages, and mark the batch consumed.

    ``python_callable`` is called with an iterator of the messages
    (:class:`~airflow_sqlqueue.messages.message.ReceivedMessage`), in the order of the queue; the iterator reads each
    message on demand, so memory stays small. The function's other parameters get their values by name: ``batch``, the
    manifest with ``batch_id`` and the ``paths`` of the Parquet files, ``hook``, this task's
    :class:`~airflow_sqlqueue.hooks.sqlqueue.SqlQueueHook`, values of ``op_kwargs``, and of the task's context. Without
    a function the batch waits for a task that reads it and marks it consumed.

    Delivery: from the queue to the batch is exactly once. The function runs at least once: it is called again with the
    same batch after it failed, or after the task died before the batch was marked consumed. If it keys its output by
    the batch id, the output is exactly once too. When the function returns, the whole batch counts as handled, even if
    it has not read all messages.

    The batch belongs to the task instance, and the task adopts batches that earlier runs have left, as with
    :class:`SqlQueueDrainToSparkOperator`. XCom: as there; ``result`` is the function's result.
    """

    # Airflow copies tasks, but a callable may be a bound method of an object that cannot be copied.
    shallow_copy_attrs: Sequence[str] = ("python_callable",)

    def _make_job(self, context: Context) -> BatchJob:
        job = PythonJob(self.hook, self.log, self.staging, self.python_callable, self.op_kwargs or {}, context)
        job.check()
        return job
