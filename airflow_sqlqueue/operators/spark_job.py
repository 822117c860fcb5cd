"""Spark job of a drain: a function that gets a session, or an application for spark-submit."""

from __future__ import annotations

import json
import logging
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_sqlqueue.drain.manifest import Batch
from airflow_sqlqueue.errors import ConfigurationError, SparkJobError
from airflow_sqlqueue.hooks.spark_target import SparkTarget

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass
class SparkJob:
    """Job on a batch in Spark: a function with a session, or an application.

    Spark shows ``name``. ``log`` gets the lines of the application, and of Spark on this machine.
    """

    name: str
    log: logging.Logger | Any
    python_callable: Callable[..., Any] | None = None
    op_kwargs: Mapping[str, Any] | None = None
    application: str | None = None
    application_args: Sequence[str] | None = None
    spark_conn_id: str | None = None
    spark_conf: Mapping[str, str] | None = field(default=None, repr=False)
    process: subprocess.Popen[str] | None = field(default=None, init=False)
    killed: bool = field(default=False, init=False)

    def check(self) -> None:
        """Raise :class:`ConfigurationError` for two jobs, and for a function that cannot be called."""
        if self.python_callable is not None and self.application is not None:
            raise ConfigurationError("Both python_callable and application are given: give one of them.")
        if self.python_callable is not None and not callable(self.python_callable):
            raise ConfigurationError("python_callable cannot be called: give a function of a session and a batch.")

    @property
    def is_given(self) -> bool:
        """Whether a function or an application was given."""
        return self.python_callable is not None or self.application is not None

    @property
    def takes_session(self) -> bool:
        """Whether the job uses a session of this process; an application has its own."""
        return self.python_callable is not None

    def session(self, settings: Mapping[str, str] | None = None) -> AbstractContextManager[SparkSession]:
        """A session, stopped at the end; the user's settings override ``settings``."""
        target = SparkTarget.of(self.spark_conn_id, self.spark_conf)
        return replace(target, settings={**(settings or {}), **target.settings}).session(self.name, self._log_line)

    def _log_line(self, level: int, line: str) -> None:
        self.log.log(level, "Spark: %s", line)

    def run(self, batch: Batch, spark: SparkSession | None = None) -> Any:
        """Run the job to its end, in the session ``spark`` or one of its own; return the function's result."""
        started = time.monotonic()
        result = None
        if self.python_callable is not None:
            result = self._call(self.python_callable, batch, spark)
        else:
            self.submit(batch)
        self.log.info("The Spark job on batch %s ended after %.1f s", batch.batch_id, time.monotonic() - started)
        return result

    def kill(self) -> None:
        """End spark-submit, and with it the application's driver."""
        self.killed = True
        if self.process is not None:
            self.process.terminate()

    def _call(self, job: Callable[..., Any], batch: Batch, spark: SparkSession | None) -> Any:
        with nullcontext(spark) if spark is not None else self.session() as spark:
            self.log.info("The job gets batch %s: %d messages", batch.batch_id, batch.messages)
            return job(spark, batch, **(self.op_kwargs or {}))

    def submit(self, batch: Batch) -> None:
        """Run the application to its end; its output goes to the log line by line. Raises :class:`SparkJobError`."""
        assert self.application is not None
        target = SparkTarget.of(self.spark_conn_id, self.spark_conf)
        with tempfile.TemporaryDirectory(prefix="sqlqueue-") as name:
            manifest = Path(name, "manifest.json")
            manifest.write_text(json.dumps(batch.to_dict()), "utf-8")
            arguments = ["--manifest", str(manifest), *(self.application_args or ())]
            self.log.info("%s gets batch %s: %d messages", self.application, batch.batch_id, batch.messages)
            process = target.submit(self.application, arguments, name=self.name, folder=Path(name))
            self.process = process
            if self.killed:
                # The task was asked to end before spark-submit had started.
                process.terminate()
            with process:
                try:
                    for line in process.stdout or ():
                        self.log.info("%s", line.rstrip())
                except BaseException:
                    # A timeout of the task must not wait for the application.
                    process.terminate()
                    raise
        if process.returncode != 0:
            raise SparkJobError(
                f"The application {self.application} ended with exit code {process.returncode}: see its output."
            )
