"""Broadcast of a secret, such as a login, to the tasks of a session.

Spark pickles into the plan each value that a function refers to. A broadcast is not in the plan: plan, web UI and event
log show its number only.
"""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, TypeVar

from airflow_sqlqueue.errors import ConfigurationError

if TYPE_CHECKING:
    from pyspark import Broadcast
    from pyspark.sql import SparkSession

T = TypeVar("T")


def broadcast(spark: SparkSession, value: T) -> Broadcast[T]:
    """Give the tasks of a session a value that can be pickled; functions for executors may refer to the result.

    A task must read ``value`` of the result itself: a value that was read before is pickled with the function. Spark
    keeps a broadcast in its temporary folders on driver and executors, encrypted if the session sets
    ``spark.io.encryption.enabled``. Raises :class:`ConfigurationError` with Spark Connect, which has no broadcasts.
    """
    # Reading the attribute of a session of Spark Connect raises an AttributeError.
    context = getattr(spark, "sparkContext", None)
    if context is None:
        raise ConfigurationError(
            "Spark Connect cannot hand a login to executors without showing it in the plan: use a session of a master "
            "(local, YARN, Kubernetes, spark://), or let the drain write files."
        )
    # Spark would hide our error behind one of its own, and print a traceback.
    pickle.dumps(value)
    handle: Broadcast[T] = context.broadcast(value)
    return handle
