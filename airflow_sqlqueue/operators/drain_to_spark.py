"""Operator that drains a queue and hands the batch to Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from airflow.sdk import Context

from airflow_sqlqueue.operators.base import check_options, templated
from airflow_sqlqueue.operators.drain import DrainOperatorBase
from airflow_sqlqueue.operators.python_job import BatchJob
from airflow_sqlqueue.operators.spark_job import SparkJob


class SqlQueueDrainToSparkOperator(DrainOperatorBase):
    """Drain a queue into a sealed batch, run a Spark job on it, and mark the batch consumed.

    Delivery: from the queue to the batch is exactly once. The job runs at least once: it runs again with the same batch
    after it failed. If it keys its output by the batch id, the output is exactly once too.

    The batch belongs to the task instance. A retried or cleared task resumes an open batch, runs the job again on a
    sealed one, and does nothing for a consumed one, unless ``renew`` requests a new batch, or ``rerun`` the job. The
    job does not run on an empty batch.

    The task adopts batches that earlier runs of it (same DAG, task and map index) have left open or sealed and that no
    run works on, unless ``stranded`` says otherwise. It seals the open ones, runs the job on each in the order of their
    opening, and then on its own batch. Each run holds a lock on the server for its batch, so overlapping runs do not
    touch each other's batches. Without a job, a sealed batch waits for the task that reads it, so the task only seals
    the open ones, and reports them in the log.

    With ``wait_for`` the task first waits until the queue is deep or old enough; a try that finds the batch of an
    earlier try continues with it at once. A wait that takes too long raises :class:`.ConditionNotMetError`.

    XCom: ``batch`` (the :class:`~airflow_sqlqueue.drain.manifest.Batch`), ``locked`` (messages that stay in the queue
    because others had locked them to the end), ``seconds`` of the drain, ``result``, the result of ``python_callable``,
    which XCom must be able to store, ``adopted``, the ``batch_id`` and ``messages`` of each adopted batch, and
    ``payloads``, the counts of :class:`~airflow_sqlqueue.client.PayloadsResult`, None without a ``data_bus``.

    :param staging: the folder for batches: a path, a URL, or an ``ObjectStoragePath`` with its Airflow connection.
        Spark must reach it too. None if the stage is ``table`` (templated)
    :param stage: ``files``, or ``table`` for a table beside the queue, without files; Spark then reads from the server.
        The job reads that with ``SqlQueueHook(...).read_batch(spark, batch)``, or with
        ``read_batch(spark, batch, settings)`` of :mod:`airflow_sqlqueue.spark` (templated)
    :param python_callable: the job, called as ``python_callable(spark, batch, **op_kwargs)``.
    :param application: another kind of job, a script or a JAR that the ``SparkSubmitOperator`` of Airflow's Spark
        provider submits (the extra ``spark-provider``); its arguments are ``--manifest`` with the path of a JSON file,
        in cluster mode with its content, and then ``application_args`` (templated)
    :param application_args: further arguments of ``application`` (templated)
    :param submit_options: further parameters of ``SparkSubmitOperator``: ``deploy_mode``, ``java_class``, ``packages``
        and so on. The task renders them when it runs, as ``spark_conf``.
    :param spark_conn_id: a connection of type ``spark`` or ``spark_connect``; None: Spark on this machine (templated)
    :param spark_conf: Spark settings, which override those of the connection. They may hold keys of a store, so the
        task renders them when it runs, and Airflow does not store or show them among the rendered fields.
    :param engine: engine of the drain's workers: ``threads`` of this task, or ``spark``, the executors of the session
        that ``python_callable`` gets too; not for Spark Connect. Executors need this package, an ODBC driver, and
        access to the server and to ``staging``; no plan, web UI or event log shows the login.
    """

    template_fields = templated(DrainOperatorBase, "application", "application_args", "spark_conn_id")

    def __init__(
        self,
        *,
        application: str | None = None,
        application_args: Sequence[str] | None = None,
        spark_conn_id: str | None = None,
        spark_conf: Mapping[str, str] | None = None,
        submit_options: Mapping[str, Any] | None = None,
        engine: str = "threads",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.application = application
        self.application_args = application_args
        self.spark_conn_id = spark_conn_id
        self.spark_conf = spark_conf
        self.submit_options = submit_options
        self.engine = engine
        check_options(self)

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
            submit_options=self.render_template(self.submit_options, context),
            context=context,
        )
        job.check()
        return job

    def _open_engine(self, job: BatchJob, stack: ExitStack) -> dict[str, Any]:
        if self.engine != "spark":
            return {"engine": self.engine}
        assert isinstance(job, SparkJob)
        settings = {
            "spark.speculation": "false"
        }  # With the cluster's own default, Spark could run a drain's task twice.
        return {"engine": self.engine, "spark": stack.enter_context(job.session(settings))}
