"""Operator that drains a queue and hands the batch to Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_sqlqueue.operators.base import templated
from airflow_sqlqueue.operators.drain import BatchJob, DrainOperatorBase
from airflow_sqlqueue.operators.spark_job import SparkJob

if TYPE_CHECKING:
    from airflow.sdk import Context


class SqlQueueDrainToSparkOperator(DrainOperatorBase):
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

    :param staging: the folder for batches: a path, a URL, or an ``ObjectStoragePath`` with its Airflow connection.
        Spark must reach it too. None where the stage is ``table`` (templated)
    :param stage: ``files``, or ``table`` for a table beside the queue, where nothing is written to a folder and Spark
        reads from the server. The job reads that with ``SqlQueueHook(...).read_batch(spark, batch)``, or with
        ``read_batch(spark, batch, settings)`` of :mod:`airflow_sqlqueue.spark` (templated)
    :param python_callable: the job, called as ``python_callable(spark, batch, **op_kwargs)``.
    :param application: the job instead, a script or a JAR for spark-submit, which gets ``--manifest`` and the path of a
        JSON file, and then ``application_args`` (templated)
    :param application_args: further arguments of ``application`` (templated)
    :param spark_conn_id: a connection of type ``spark`` or ``spark_connect``; None: Spark on this machine (templated)
    :param spark_conf: Spark settings, over those of the connection. They may hold keys of a store, so they are rendered
        when the task runs and are not among the rendered fields that Airflow stores and shows.
    :param engine: where the drain's workers run: ``threads`` of this task, or ``spark``, the executors of the session
        that ``python_callable`` gets as well, which is not for Spark Connect. They need this package, an ODBC driver,
        and a way to the server and to ``staging``; no plan, web UI or event log shows the login.
    """

    template_fields = templated(DrainOperatorBase, "application", "application_args", "spark_conn_id")
    template_fields_renderers: ClassVar[dict[str, str]] = {
        **DrainOperatorBase.template_fields_renderers,
        "application_args": "json",
    }

    def __init__(
        self,
        *,
        application: str | None = None,
        application_args: Sequence[str] | None = None,
        spark_conn_id: str | None = None,
        spark_conf: Mapping[str, str] | None = None,
        engine: str = "threads",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.application = application
        self.application_args = application_args
        self.spark_conn_id = spark_conn_id
        self.spark_conf = spark_conf
        self.engine = engine

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
        return job

    def _open_engine(self, job: BatchJob, stack: ExitStack) -> dict[str, Any]:
        if self.engine != "spark":
            return {"engine": self.engine}
        assert isinstance(job, SparkJob)
        settings = {"spark.speculation": "false"}  # A cluster's own default would let it run a drain's task twice.
        return {"engine": self.engine, "spark": stack.enter_context(job.session(settings))}
