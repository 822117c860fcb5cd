"""What the operators that drain a queue have in common: wait, drain, run a job on the batch, mark it consumed."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from airflow.sdk import conf
from airflow.sdk.exceptions import AirflowException

from airflow_sqlqueue.drain.manifest import Batch
from airflow_sqlqueue.hooks.retry_policy import fail_without_retry
from airflow_sqlqueue.hooks.staging import staging_folder
from airflow_sqlqueue.operators.adoption import StrandedBatches, check_choices
from airflow_sqlqueue.operators.base import note_batch, task_key
from airflow_sqlqueue.operators.links import BatchLink
from airflow_sqlqueue.operators.metrics import Metrics
from airflow_sqlqueue.operators.progress import DrainLog
from airflow_sqlqueue.operators.waiting import QueueWaitingTask

if TYPE_CHECKING:
    from datetime import timedelta

    from airflow.sdk import Context, ObjectStoragePath
    from pyspark.sql import SparkSession

    from airflow_sqlqueue.drain.options import DrainOptions
    from airflow_sqlqueue.drain.progress import Progress
    from airflow_sqlqueue.queue.filters import MessageFilter


class BatchJob(Protocol):
    """What is run on a batch."""

    @property
    def is_given(self) -> bool:
        """Whether there is anything to run."""

    @property
    def takes_session(self) -> bool:
        """Whether it uses the session that the drain's workers ran in."""

    def run(self, batch: Batch, spark: SparkSession | None = None) -> Any:
        """Run it to its end and return the function's result; ``spark`` is a session that is open already."""

    def kill(self) -> None:
        """End what can be ended."""


class DrainTask(QueueWaitingTask):
    """A task that drains a queue and runs a job on the batch.

    Its parameters are those of the classes that take it, which document them.
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
    template_fields_renderers: ClassVar[dict[str, str]] = dict.fromkeys(
        ("filters", "wait_for", "op_kwargs", "drain_options"), "json"
    )
    ui_color = "#cfe3d4"
    operator_extra_links = (BatchLink(),)
    worked_on: uuid.UUID | None = None
    """The batch of this run, once it is known."""
    _job: BatchJob | None = None
    _killed = False

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
        """The job of this run, checked. Raises :class:`ConfigurationError`."""
        raise NotImplementedError

    def _open_engine(self, job: BatchJob, stack: ExitStack) -> dict[str, Any]:
        """Where the drain's workers run, as arguments of the hook's ``drain``."""
        return {}

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
            job, batches = self._make_known_job(context), self.hook.client.batches
            locks = stack.enter_context(batches.locks(self.address))
            self.worked_on = batch_id = self._batch_id(key)
            if not locks.hold(batch_id, wait=self.hook.client.lock_timeout):
                self.log.warning("Another try of this task still works on batch %s: the two share it", batch_id)
            left = StrandedBatches(self.hook.client, self.address, owner, self.log, metrics)
            adopted = left.adopt(locks, batch_id, self.stranded, has_job=job.is_given)
            where = self._where()
            sessions = stack.enter_context(ExitStack())
            engine = self._open_engine(job, sessions)
            drained = self.hook.drain(
                self.address,
                self.staging,
                stage=self.stage,
                batch_id=batch_id,
                origin=" ".join(map(str, key)),
                owner=owner,
                options=options,
                where=where,
                keep=self.keep,
                on_progress=on_progress,
                **engine,
            )
            drain_log.end(drained)
            spark = engine.get("spark")
            if not job.takes_session:
                # An application brings a session of its own, and may want this one's place on the cluster.
                sessions.close()
            for batch in adopted:
                self._run_job(job, batch, spark)
            batch, result = self._run_job(job, drained.batch, spark)
        note_batch(self, context, batch)
        return {
            "batch": batch.to_reference(),
            "locked": drained.locked,
            "seconds": drained.seconds,
            "result": result,
            "adopted": [{"batch_id": batch.batch_id, "messages": batch.messages} for batch in adopted],
        }

    def on_kill(self) -> None:
        """End the drain with the part that is under way, and what can be ended of the job.

        Airflow calls this where it is to end the task, and lets it go on: the task has seconds until it is killed.
        """
        self._killed = True
        if self._job is not None:
            self._job.kill()

    def _make_known_job(self, context: Context) -> BatchJob:
        self._job = job = self._make_job(context)
        if self._killed:
            job.kill()
        return job

    def end_if_killed(self) -> None:
        if self._killed:
            raise AirflowException(
                "The task was told to end. Its batch keeps what it has: a retry goes on with it, or the next run does."
            )

    def _check(self) -> DrainOptions:
        from airflow_sqlqueue.drain.options import DrainOptions
        from airflow_sqlqueue.drain.stages.factory import check_stage

        check_stage(self.stage, self.staging)
        check_choices(self.stranded, self.rerun, renew=self.renew)
        self._where()
        return DrainOptions.of(self.drain_options or {})

    def _where(self) -> MessageFilter | None:
        from airflow_sqlqueue.queue.filters import MessageFilter

        return None if self.filters is None else MessageFilter.of(self.filters)

    def _run_job(self, job: BatchJob, batch: Batch, spark: SparkSession | None) -> tuple[Batch, Any]:
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
