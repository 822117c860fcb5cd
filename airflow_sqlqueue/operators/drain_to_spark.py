"""Drain a queue and hand the batch to Spark."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from airflow.sdk import conf
from airflow.sdk.exceptions import AirflowException

from airflow_sqlqueue.drain.manifest import Batch
from airflow_sqlqueue.hooks.retry_policy import fail_without_retry
from airflow_sqlqueue.hooks.staging import staging_folder
from airflow_sqlqueue.operators.adoption import StrandedBatches, check_choices
from airflow_sqlqueue.operators.base import note_batch, task_key
from airflow_sqlqueue.operators.metrics import Metrics
from airflow_sqlqueue.operators.progress import DrainLog
from airflow_sqlqueue.operators.spark_job import SparkJob
from airflow_sqlqueue.operators.waiting import QueueWaitingTask

if TYPE_CHECKING:
    from datetime import timedelta

    from airflow.sdk import Context, ObjectStoragePath
    from pyspark.sql import SparkSession

    from airflow_sqlqueue.drain.options import DrainOptions
    from airflow_sqlqueue.drain.progress import Progress


class SqlQueueDrainToSparkOperator(QueueWaitingTask):
    """Drain a queue into a sealed batch, run a Spark job on it, and mark the batch consumed.

    Delivery: from the queue to the batch is exactly once. The job runs at least once: it is run again with the same
    batch when it failed, so its output should be keyed by the batch id, which makes it exactly once as well.

    The batch belongs to the task instance. A retried or cleared task resumes its batch while that is open, runs the job
    again on a sealed one, and does nothing for one that is consumed, unless ``renew`` asks for a new one, or ``rerun``
    for the job. A batch without messages runs no job.

    Batches that earlier runs of the task (same DAG, task and map index) have left open or sealed, and that nobody works
    on, are adopted unless ``stranded`` says otherwise: an open one is sealed, and the job runs on each of them, the one
    that was opened first at the head, and then on this run's own. Whoever works on a batch holds a lock on the server,
    so runs that overlap leave each other's batches alone. Without a job a sealed batch waits for the task that reads
    it: only open ones are looked for then, sealed, and reported in the log.

    With ``wait_for`` the task first waits until the queue is deep or old enough; a try that finds the batch of an
    earlier one goes on with that at once. A wait that takes too long is a :class:`.ConditionNotMetError`.

    XCom: ``batch`` (the :class:`~airflow_sqlqueue.drain.manifest.Batch`), ``locked`` (messages that others had locked
    to the end, which stay in the queue), ``seconds`` of the drain, ``result``, what ``python_callable`` returned, which
    XCom must take, and ``adopted``, the ``batch_id`` and ``messages`` of each batch that was adopted.

    :param queue_name: the queue's address, ``table@[schema]@[catalog]`` (templated)
    :param endpoint: the endpoint whose queue it is, instead of ``queue_name``; resolved by the connection's endpoint
        settings too (templated)
    :param staging: the folder for batches: a path, a URL, or an ``ObjectStoragePath`` with its Airflow connection.
        Spark must reach it too. None where the stage is ``table`` (templated)
    :param stage: ``files``, or ``table`` for a table beside the queue, where nothing is written to a folder and Spark
        reads from the server. The job reads that with ``SqlQueueHook(...).read_batch(spark, batch)``, or with
        ``read_batch(spark, batch, settings)`` of :mod:`airflow_sqlqueue.spark` (templated)
    :param python_callable: the job, called as ``python_callable(spark, batch, **op_kwargs)``.
    :param op_kwargs: further arguments of ``python_callable`` (templated)
    :param application: the job instead, a script or a JAR for spark-submit, which gets ``--manifest`` and the path of a
        JSON file, and then ``application_args`` (templated)
    :param application_args: further arguments of ``application`` (templated)
    :param renew: when the task runs again after its batch was consumed or put back into the queue, drain a new batch.
    :param rerun: ``job``: when the task runs again after its batch was consumed, run the job on it again; its files
        must be there still. None: do nothing then.
    :param stranded: what to do with batches that earlier runs left: ``adopt``, ``fail`` (with
        :class:`~airflow_sqlqueue.errors.StrandedBatchError`, which names them, and no retry), or ``ignore``.
    :param wait_for: what to wait for first, options of :class:`~airflow_sqlqueue.queue.condition.QueueCondition`:
        ``{"min_messages": 1000, "oldest_seconds": 3600}``; None: nothing (templated)
    :param wait_timeout: how long to wait for it at the most, seconds or a timedelta; None: without end.
    :param poll_interval: seconds between two looks.
    :param deferrable: wait in the triggerer; ``[operators] default_deferrable`` unless given.
    :param run_on_empty: run the job on a batch without messages too.
    :param spark_conn_id: a connection of type ``spark`` or ``spark_connect``; None: Spark on this machine (templated)
    :param spark_conf: Spark settings, over those of the connection. They may hold keys of a store, so they are rendered
        when the task runs and are not among the rendered fields that Airflow stores and shows.
    :param drain_options: limits of the drain, see :class:`~airflow_sqlqueue.drain.options.DrainOptions` (templated)
    :param engine: where the drain's workers run: ``threads`` of this task, or ``spark``, the executors of the session
        that ``python_callable`` gets as well, which is not for Spark Connect. They need this package, an ODBC driver,
        and a way to the server and to ``staging``; no plan, web UI or event log shows the login.
    :param sqlqueue_conn_id: the Airflow connection (templated)
    :param hook_params: further arguments of :class:`~airflow_sqlqueue.hooks.sqlqueue.SqlQueueHook`.
    """

    template_fields: Sequence[str] = (
        "queue_name",
        "endpoint",
        "staging",
        "stage",
        "wait_for",
        "op_kwargs",
        "application",
        "application_args",
        "spark_conn_id",
        "drain_options",
        "sqlqueue_conn_id",
    )
    template_fields_renderers = dict.fromkeys(("wait_for", "op_kwargs", "application_args", "drain_options"), "json")
    ui_color = "#cfe3d4"

    def __init__(
        self,
        *,
        queue_name: str | None = None,
        endpoint: str | None = None,
        staging: str | ObjectStoragePath | None = None,
        stage: str = "files",
        python_callable: Callable[..., Any] | None = None,
        op_kwargs: Mapping[str, Any] | None = None,
        application: str | None = None,
        application_args: Sequence[str] | None = None,
        renew: bool = False,
        rerun: str | None = None,
        stranded: str = "adopt",
        wait_for: Mapping[str, Any] | None = None,
        wait_timeout: float | timedelta | None = None,
        poll_interval: float = 60.0,
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        run_on_empty: bool = False,
        spark_conn_id: str | None = None,
        spark_conf: Mapping[str, str] | None = None,
        drain_options: Mapping[str, Any] | None = None,
        engine: str = "threads",
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
        self.python_callable = python_callable
        self.op_kwargs = op_kwargs
        self.application = application
        self.application_args = application_args
        self.renew = renew
        self.rerun = rerun
        self.stranded = stranded
        self.wait_for = wait_for
        self.wait_timeout = wait_timeout
        self.poll_interval = poll_interval
        self.deferrable = deferrable
        self.run_on_empty = run_on_empty
        self.spark_conn_id = spark_conn_id
        self.spark_conf = spark_conf
        self.drain_options = drain_options
        self.engine = engine
        self.sqlqueue_conn_id = sqlqueue_conn_id
        self.hook_params = hook_params
        self._job: SparkJob | None = None
        self._killed = False

    def execute(self, context: Context) -> dict[str, Any]:
        """Wait, drain, run the job; raises our errors, those that no retry can fix as AirflowFailException."""
        with fail_without_retry():
            self._check()
            if self.wait_for is not None and not self._has_batch(context):
                self.wait_for_condition(self.wait_for)
        return self._drain(context)

    def execute_complete(self, context: Context, event: Any = None) -> dict[str, Any]:
        """Go on when the trigger has found what the task waits for."""
        from airflow_sqlqueue.triggers.events import found_in

        with fail_without_retry():
            self.log.info("The trigger found what the task waited for: %s", found_in(event))
        return self._drain(context)

    def _has_batch(self, context: Context) -> bool:
        """Whether an earlier try has begun to drain: what is left in the queue says nothing any more."""
        return self.hook.client.batches.info(self._batch_id(task_key(context)), self.address) is not None

    def _batch_id(self, key: tuple[str, str, str, int]) -> uuid.UUID:
        from airflow_sqlqueue.drain.options import batch_id_for

        batch_id = batch_id_for(*key)
        return self.hook.client.batches.current(batch_id, self.address) if self.renew else batch_id

    def _drain(self, context: Context) -> dict[str, Any]:
        from airflow_sqlqueue.drain.options import owner_of

        dag_id, _, task_id, map_index = key = task_key(context)
        owner, metrics = owner_of(dag_id, task_id, map_index), Metrics(self, self.sql_queue)
        drain_log = DrainLog(self.log, metrics)

        def on_progress(done: Progress) -> None:
            drain_log.progress(done)
            self.end_if_killed()

        with fail_without_retry(), ExitStack() as stack:
            options = self._check()
            job, batches = self._make_job(context), self.hook.client.batches
            locks = stack.enter_context(batches.locks(self.address))
            batch_id = self._batch_id(key)
            if not locks.hold(batch_id, wait=self.hook.client.lock_timeout):
                self.log.warning("Another try of this task still works on batch %s: the two share it", batch_id)
            left = StrandedBatches(self.hook.client, self.address, owner, self.log, metrics)
            adopted = left.adopt(locks, batch_id, self.stranded, has_job=job.is_given)
            settings = {"spark.speculation": "false"}  # A cluster's own default would let it run a drain's task twice.
            sessions = stack.enter_context(ExitStack())
            spark = sessions.enter_context(job.session(settings)) if self.engine == "spark" else None
            drained = self.hook.drain(
                self.address,
                self.staging,
                stage=self.stage,
                batch_id=batch_id,
                origin=" ".join(map(str, key)),
                owner=owner,
                options=options,
                engine=self.engine,
                spark=spark,
                on_progress=on_progress,
            )
            drain_log.end(drained)
            if self.python_callable is None:
                # An application brings a session of its own, and may want this one's place on the cluster.
                sessions.close()
            for batch in adopted:
                self._run_job(job, batch, spark)
            batch, result = self._run_job(job, drained.batch, spark)
        note_batch(self, context, batch)
        return {
            "batch": batch.to_dict(),
            "locked": drained.locked,
            "seconds": drained.seconds,
            "result": result,
            "adopted": [{"batch_id": batch.batch_id, "messages": batch.messages} for batch in adopted],
        }

    def on_kill(self) -> None:
        """End the drain with the part that is under way, and spark-submit, and with it the application's driver.

        Airflow calls this where it is to end the task, and lets it go on: the task has seconds until it is killed.
        """
        self._killed = True
        if self._job is not None:
            self._job.kill()

    def end_if_killed(self) -> None:
        if self._killed:
            raise AirflowException(
                "The task was told to end. Its batch keeps what it has: a retry goes on with it, or the next run does."
            )

    def _make_job(self, context: Context) -> SparkJob:
        job = SparkJob(
            name=f"{self.dag_id}.{self.task_id}",
            log=self.log,
            python_callable=self.python_callable,
            op_kwargs=self.op_kwargs,
            application=self.application,
            application_args=self.application_args,
            spark_conn_id=self.spark_conn_id,
            spark_conf=self.render_template(self.spark_conf, context),
        )
        job.check()
        self._job = job
        if self._killed:
            job.kill()
        return job

    def _check(self) -> DrainOptions:
        from airflow_sqlqueue.drain.options import DrainOptions
        from airflow_sqlqueue.drain.stages.factory import check_stage

        check_stage(self.stage, self.staging)
        check_choices(self.stranded, self.rerun, renew=self.renew)
        return DrainOptions.of(self.drain_options or {})

    def _run_job(self, job: SparkJob, batch: Batch, spark: SparkSession | None) -> tuple[Batch, Any]:
        """Run the job where there is one and the batch is for it; the batch as it is then, and the job's result."""
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
            from airflow_sqlqueue.drain.kept import check_files

            check_files(batch, None if self.staging is None else staging_folder(self.staging))
            self.log.info("Batch %s is consumed: the job runs on it again", batch.batch_id)
        if batch.messages or self.run_on_empty:
            result = job.run(batch, spark)
        else:
            self.log.info("Batch %s is empty: the job does not run", batch.batch_id)
        self.hook.mark_consumed(batch)
        return replace(batch, state="consumed"), result
