"""Values that tasks on executors need and that nobody may read in a plan: how to log in, above all.

What a function closes over is pickled into the plan. A broadcast is not: plan, web UI and event log have its number.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from airflow_sqlqueue.errors import ConfigurationError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")


@dataclass(frozen=True)
class SecretBroadcast(Generic[T]):
    """A handle that functions for executors may close over; what it stands for is :attr:`value`, there and here."""

    _broadcast: Any = field(repr=False)

    @property
    def value(self) -> T:
        """What was broadcast. Ask for it in the task, so that it is not pickled with the function."""
        value: T = self._broadcast.value
        return value

    def destroy(self) -> None:
        """Remove it from driver and executors; no task can ask for it afterwards. It goes with the session anyway."""
        self._broadcast.destroy()


def broadcast(spark: SparkSession, value: T) -> SecretBroadcast[T]:
    """Make a value that can be pickled known to the tasks of a session, beside what they run.

    Spark keeps it, as any broadcast, in its temporary folders on driver and executors, encrypted where the session sets
    ``spark.io.encryption.enabled``. Raises :class:`ConfigurationError` with Spark Connect, which has no broadcasts.
    """
    # With Spark Connect the attribute is an error, one of Python's as well.
    context = getattr(spark, "sparkContext", None)
    if context is None:
        raise ConfigurationError(
            "Spark Connect cannot hand a login to executors without showing it in the plan: use a session of a master "
            "(local, YARN, Kubernetes, spark://), or let the drain write files."
        )
    # Beforehand: Spark would make an error of its own of one in words, and print a traceback.
    pickle.dumps(value)
    return SecretBroadcast(context.broadcast(value))
