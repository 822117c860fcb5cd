"""One action of Spark, in a thread of its own, so that the caller can do something else meanwhile, and cancel it."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from airflow_sqlqueue.errors import ConfigurationError, SparkJobError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_STOP_SECONDS = 30.0


class Action:
    """An action under way; a context manager that cancels its jobs where the block is left before their end.

    :param title: what Spark's web UI calls it.
    :param action: for example the ``collect`` of a DataFrame.
    """

    def __init__(self, spark: SparkSession, title: str, action: Callable[[], Any]) -> None:
        from pyspark import InheritableThread

        self._context, self._title, self._action = spark.sparkContext, title, action
        self._tag = f"sqlqueue-{uuid.uuid4()}"
        self._ended = threading.Event()
        self._result: Any = None
        self._failure: BaseException | None = None
        self._thread = InheritableThread(target=self._run, session=spark, name=title, daemon=True)

    def __enter__(self) -> Action:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        until = time.monotonic() + _STOP_SECONDS
        while not self._ended.is_set() and time.monotonic() < until:
            # Again and again, as its job may not have begun. A context that was stopped has none left.
            with suppress(Exception):
                self._context.cancelJobsWithTag(self._tag)
            self._ended.wait(1)

    def ended(self, within: float) -> bool:
        """Wait so many seconds for its end; False where it goes on."""
        return self._ended.wait(within)

    def result(self) -> Any:
        """What the action returned. Raises :class:`SparkJobError` where it failed."""
        self._ended.wait()
        if self._failure is None:
            return self._result
        if "No module named 'airflow_sqlqueue" in str(self._failure):
            raise ConfigurationError(
                "The Spark executors do not have this package: install airflow-sqlqueue and an ODBC driver there."
            ) from self._failure
        raise SparkJobError(f"Spark could not {self._title}: see the error that it gave.") from self._failure

    def _run(self) -> None:
        try:
            # Both belong to this thread, and go with it.
            self._context.addJobTag(self._tag)
            self._context.setJobDescription(self._title)
            self._result = self._action()
        except BaseException as error:
            self._failure = error
        finally:
            self._ended.set()
