"""Drain a queue and hand the batch to Spark."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from airflow_sqlqueue.drain.manifest import Batch
from airflow_sqlqueue.errors import ConfigurationError, SparkJobError
from airflow_sqlqueue.hooks.retry_policy import fail_without_retry
from airflow_sqlqueue.hooks.spark_target import SparkTarget
from airflow_sqlqueue.operators.base import QueueTask, task_key
from airflow_sqlqueue.operators.progress import DrainLog

if TYPE_CHECKING:
    from airflow.sdk import Context, ObjectStoragePath
    from pyspark.sql import SparkSession

    from airflow_sqlqueue.drain.options import DrainOptions


class SqlQueueDrainToSparkOperator(QueueTask, BaseOperator):
    """Drain a queue into a sealed batch, run a Spark job on it, and mark the batch consumed.

    Delivery: from the queue to the batch is exactly once. The job runs at least once: it is run again with the same
    batch when it failed, so its output should be keyed by the batch id, which makes it exactly once as well.

    The batch belongs to the task instance. A retried or cleared task resumes its batch while that is open, runs the job
    again on a sealed one, and does nothing for one that is consumed, unless ``renew`` asks for a new one. A batch
    without messages runs no job.

    XCom: ``batch`` (the manifest, see :class:`~airflow_sqlqueue.drain.manifest.Batch`), ``locked`` (messages that
    others had locked to the end, which stay in the queue), ``seconds`` of the drain, and ``result``, what
    ``python_callable`` returned, which must be something that XCom takes.

    :param queue_name: the queue's address, ``table@[schema]@[catalog]`` (templated)
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
    :param run_on_empty: run the job on a batch without messages too.
    :param spark_conn_id: a connection of type ``spark`` or ``spark_connect``; None: Spark on this machine (templated)
    :param spark_conf: Spark settings, over those of the connection (templated)
    :param drain_options: limits of the drain, see :class:`~airflow_sqlqueue.drain.options.DrainOptions` (templated)
    :param engine: where the drain's workers run: ``threads`` of this task, or ``spark``, the executors of the session
        that ``python_callable`` gets as well. They need this package and an ODBC driver, and reach the server and
        ``staging``; the login goes to them in a broadcast, which no plan, web UI or event log shows. Not for Spark
        Connect.
    :param sqlqueue_conn_id: the Airflow connection (templated)
    :param hook_params: further arguments of :class:`~airflow_sqlqueue.hooks.sqlqueue.SqlQueueHook`.
    """

    template_fields: Sequence[str] = (
        "queue_name",
        "staging",
        "stage",
        "op_kwargs",
        "application",
        "application_args",
        "spark_conn_id",
        "spark_conf",
        "drain_options",
        "sqlqueue_conn_id",
    )
    ui_color = "#cfe3d4"

    def __init__(
        self,
        *,
        queue_name: str,
        staging: str | ObjectStoragePath | None = None,
        stage: str = "files",
        python_callable: Callable[..., Any] | None = None,
        op_kwargs: Mapping[str, Any] | None = None,
        application: str | None = None,
        application_args: Sequence[str] | None = None,
        renew: bool = False,
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
        self.staging = staging
        self.stage = stage
        self.python_callable = python_callable
        self.op_kwargs = op_kwargs
        self.application = application
        self.application_args = application_args
        self.renew = renew
        self.run_on_empty = run_on_empty
        self.spark_conn_id = spark_conn_id
        self.spark_conf = spark_conf
        self.drain_options = drain_options
        self.engine = engine
        self.sqlqueue_conn_id = sqlqueue_conn_id
        self.hook_params = hook_params
        self._process: subprocess.Popen[str] | None = None
        self._killed = False

    def execute(self, context: Context) -> dict[str, Any]:
        """Drain, then run the job; raises our errors, those that no retry can fix as AirflowFailException."""
        from airflow_sqlqueue.drain.options import batch_id_for

        key = task_key(context)
        drain_log = DrainLog(self.log)
        with fail_without_retry(), ExitStack() as stack:
            options = self._check()
            spark = stack.enter_context(self._session()) if self.engine == "spark" else None
            drained = self.hook.drain(
                self.queue_name,
                self.staging,
                stage=self.stage,
                batch_id=batch_id_for(*key),
                renew=self.renew,
                origin=" ".join(map(str, key)),
                options=options,
                engine=self.engine,
                spark=spark,
                on_progress=drain_log.progress,
            )
            drain_log.end(drained)
            if self.python_callable is None:
                # An application brings a session of its own, and may want this one's place on the cluster.
                stack.close()
            batch, result = self._run_job(drained.batch, spark)
        return {"batch": batch.to_dict(), "locked": drained.locked, "seconds": drained.seconds, "result": result}

    def on_kill(self) -> None:
        """End spark-submit, and with it the application's driver."""
        self._killed = True
        if self._process is not None:
            self._process.terminate()

    def _check(self) -> DrainOptions:
        from airflow_sqlqueue.drain.options import DrainOptions
        from airflow_sqlqueue.drain.stages.factory import check_stage

        check_stage(self.stage, self.staging)
        if self.python_callable is not None and self.application is not None:
            raise ConfigurationError("Both python_callable and application are given: give the one that is the job.")
        if self.python_callable is not None and not callable(self.python_callable):
            raise ConfigurationError("python_callable cannot be called: give a function of a session and a batch.")
        try:
            return DrainOptions(**(self.drain_options or {}))
        except TypeError as error:
            raise ConfigurationError(f"The drain_options cannot be used: {error}.") from error

    def _session(self) -> AbstractContextManager[SparkSession]:
        # A cluster's own default would let it run a task of the drain twice.
        settings = {"spark.speculation": "false"} if self.engine == "spark" else {}
        target = SparkTarget.of(self.spark_conn_id, self.spark_conf)
        return replace(target, settings={**settings, **target.settings}).session(f"{self.dag_id}.{self.task_id}")

    def _run_job(self, batch: Batch, spark: SparkSession | None) -> tuple[Batch, Any]:
        """Run the job where there is one and the batch is for it; the batch as it is then, and the job's result."""
        if batch.state != "sealed":
            self.log.info("Batch %s is %s: the job does not run again", batch.batch_id, batch.state)
            return batch, None
        if self.python_callable is None and self.application is None:
            self.log.info("Batch %s waits for a task that reads it and marks it consumed", batch.batch_id)
            return batch, None
        result = None
        if batch.messages or self.run_on_empty:
            result = self._call(batch, spark) if self.python_callable else None
            if self.application:
                self._submit(batch)
        else:
            self.log.info("Batch %s is empty: the job does not run", batch.batch_id)
        self.hook.mark_consumed(batch)
        return replace(batch, state="consumed"), result

    def _call(self, batch: Batch, spark: SparkSession | None) -> Any:
        assert self.python_callable is not None
        with nullcontext(spark) if spark is not None else self._session() as spark:
            self.log.info("The job gets batch %s: %d messages", batch.batch_id, batch.messages)
            return self.python_callable(spark, batch, **(self.op_kwargs or {}))

    def _submit(self, batch: Batch) -> None:
        """Run the application to its end; its output goes to the task's log line by line."""
        assert self.application is not None
        target = SparkTarget.of(self.spark_conn_id, self.spark_conf)
        with tempfile.TemporaryDirectory(prefix="sqlqueue-") as name:
            manifest = Path(name, "manifest.json")
            manifest.write_text(json.dumps(batch.to_dict()), "utf-8")
            arguments = ["--manifest", str(manifest), *(self.application_args or ())]
            self.log.info("%s gets batch %s: %d messages", self.application, batch.batch_id, batch.messages)
            process = target.submit(
                self.application, arguments, name=f"{self.dag_id}.{self.task_id}", folder=Path(name)
            )
            self._process = process
            if self._killed:
                # It was asked to end before it was known.
                process.terminate()
            with process:
                try:
                    for line in process.stdout or ():
                        self.log.info("%s", line.rstrip())
                except BaseException:
                    # A timeout of the task's must not wait for the application.
                    process.terminate()
                    raise
        if process.returncode != 0:
            raise SparkJobError(
                f"The application {self.application} ended with exit code {process.returncode}: see its output."
            )
