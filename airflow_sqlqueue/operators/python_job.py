"""Python function as a drain's job, called with an iterator of messages."""

from __future__ import annotations

import inspect
import logging
import time
from abc import abstractmethod
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_sqlqueue.drain.manifest import Batch
from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.hooks.staging import staging_folder
from airflow_sqlqueue.options.arguments import arguments_for

if TYPE_CHECKING:
    from airflow.sdk import Context, ObjectStoragePath
    from pyspark.sql import SparkSession

    from airflow_sqlqueue.hooks.sqlqueue import SqlQueueHook


class BatchJob:
    """Base class of jobs on a batch."""

    @property
    @abstractmethod
    def is_given(self) -> bool:
        """Whether there is a job to run."""

    @property
    def takes_session(self) -> bool:
        """Whether it uses the Spark session of the drain's workers."""
        return False

    @abstractmethod
    def run(self, batch: Batch, spark: SparkSession | None = None) -> Any:
        """Run it to its end and return the function's result; ``spark`` is an open session."""

    def kill(self) -> None:
        """End the job, if that is possible: else Airflow ends the process, and the next try runs the job again."""


def check_plain(function: Callable[..., Any]) -> None:
    """Raise :class:`ConfigurationError` for a function whose call does not run it."""
    kinds = (inspect.iscoroutinefunction, inspect.isgeneratorfunction, inspect.isasyncgenfunction)
    if any(kind(function) for kind in kinds):
        raise ConfigurationError(
            "python_callable is asynchronous or a generator, so a call would not run it: give a plain function."
        )


@dataclass
class PythonJob(BatchJob):
    """Job that calls a function with a batch's messages; ``staging`` is the staging folder of the task."""

    hook: SqlQueueHook
    log: logging.Logger | Any
    staging: str | ObjectStoragePath | None
    function: Callable[..., Any] | None
    op_kwargs: Mapping[str, Any]
    context: Context

    @property
    def is_given(self) -> bool:
        return self.function is not None

    def check(self) -> None:
        """Raise :class:`ConfigurationError`, before the drain, if the function cannot be called with its arguments."""
        if self.function is None:
            return
        if not callable(self.function):
            raise ConfigurationError("python_callable cannot be called: give a function of an iterator of messages.")
        check_plain(self.function)
        self._arguments(self.function, None)

    def _arguments(self, function: Callable[..., Any], batch: Batch | None) -> dict[str, Any]:
        return arguments_for(function, {"hook": self.hook, "batch": batch, **self.context}, self.op_kwargs)

    def run(self, batch: Batch, spark: SparkSession | None = None) -> Any:
        assert self.function is not None
        started = time.monotonic()
        self.log.info("The function gets batch %s: %d messages", batch.batch_id, batch.messages)
        # A batch of an earlier run may be in another folder.
        folder = None if self.staging is None else staging_folder(self.staging)
        if folder is not None and not all(path.startswith(f"{folder.uri}/") for path in batch.paths):
            folder = None
        with closing(self.hook.client.batches.messages(batch, staging=folder)) as messages:
            result = self.function(messages, **self._arguments(self.function, batch))
        self.log.info("The function on batch %s ended after %.1f s", batch.batch_id, time.monotonic() - started)
        return result
