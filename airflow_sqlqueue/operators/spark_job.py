"""Spark job of a drain: a function that gets a session, or an application for spark-submit."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from airflow_sqlqueue.drain.manifest import Batch
from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.extras import not_installed, with_extra
from airflow_sqlqueue.hooks.spark_target import SparkTarget
from airflow_sqlqueue.operators.python_job import BatchJob, check_plain
from airflow_sqlqueue.options.arguments import check_op_kwargs

if TYPE_CHECKING:
    from airflow.sdk import Context
    from pyspark.sql import SparkSession

    from airflow_sqlqueue.operators.spark_application import SparkApplication


@dataclass
class SparkJob(BatchJob):
    """Job on a batch in Spark: a function with a session, or an application.

    Spark shows ``name``.
    """

    name: str
    log: logging.Logger | Any
    python_callable: Callable[..., Any] | None = None
    op_kwargs: Mapping[str, Any] | None = None
    application: str | None = None
    application_args: Sequence[str] | None = None
    spark_conn_id: str | None = None
    spark_conf: Mapping[str, str] | None = field(default=None, repr=False)
    submit_options: Mapping[str, Any] | None = field(default=None, repr=False)
    context: Context | Any = field(default_factory=dict, repr=False)
    _submitted: SparkApplication | None = field(default=None, init=False)

    def check(self) -> None:
        """Raise :class:`ConfigurationError` for two jobs, and for a job that cannot be started."""
        if self.python_callable is not None and self.application is not None:
            raise ConfigurationError("Both python_callable and application are given: give one of them.")
        if self.python_callable is not None and not callable(self.python_callable):
            raise ConfigurationError("python_callable cannot be called: give a function of a session and a batch.")
        if self.python_callable is not None:
            check_plain(self.python_callable)
            check_op_kwargs(self.op_kwargs)
        if isinstance(self.application_args, str) or not isinstance(self.application_args or (), Iterable):
            kind = type(self.application_args).__name__
            raise ConfigurationError(f"application_args is a list, with an item for each argument, not {kind}.")
        if not isinstance(self.submit_options or {}, Mapping):
            raise ConfigurationError(
                f"submit_options is a mapping of options, not {type(self.submit_options).__name__}: give their names."
            )
        if self.submit_options and self.application is None:
            raise ConfigurationError("submit_options is given without an application: give one, or leave it out.")
        if self.application is not None:
            try:
                from airflow_sqlqueue.operators.spark_application import SparkApplication
            except ModuleNotFoundError as error:
                package = "apache-airflow-providers-apache-spark"
                raise not_installed("An application", package, with_extra("spark-provider")) from error
        if self.is_given:
            target = SparkTarget.of(self.spark_conn_id, self.spark_conf)
        if self.application is not None:
            self._submitted = SparkApplication(target, self.application, self.name, self.submit_options or {})

    @property
    def is_given(self) -> bool:
        return self.python_callable is not None or self.application is not None

    @property
    def takes_session(self) -> bool:
        return self.python_callable is not None

    @contextmanager
    def session(self, settings: Mapping[str, str] | None = None) -> Iterator[SparkSession]:
        """Provide a session, stopped at the end; the user's settings override ``settings``."""
        target, started = SparkTarget.of(self.spark_conn_id, self.spark_conf), time.monotonic()
        self.log.info("Starting a Spark session on %s ...", target.conn_id or target.url)
        with replace(target, settings={**(settings or {}), **target.settings}).session(self.name) as spark:
            self.log.info("The Spark session started after %.1f s", time.monotonic() - started)
            yield spark

    def run(self, batch: Batch, spark: SparkSession | None = None) -> Any:
        started = time.monotonic()
        result = None
        if self.python_callable is not None:
            result = self._call(self.python_callable, batch, spark)
        elif self._submitted is not None:
            self.log.info("%s gets batch %s: %d messages", self.application, batch.batch_id, batch.messages)
            self._submitted.run(batch, list(self.application_args or ()), self.context)
        self.log.info("The Spark job on batch %s ended after %.1f s", batch.batch_id, time.monotonic() - started)
        return result

    def kill(self) -> None:
        if self._submitted is not None:
            self._submitted.kill()

    def _call(self, job: Callable[..., Any], batch: Batch, spark: SparkSession | None) -> Any:
        with nullcontext(spark) if spark is not None else self.session() as spark:
            self.log.info("The job gets batch %s: %d messages", batch.batch_id, batch.messages)
            return job(spark, batch, **(self.op_kwargs or {}))
