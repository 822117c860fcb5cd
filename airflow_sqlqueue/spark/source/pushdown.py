"""Reader of a queue to which Spark hands conditions on the RowVersion; needs Spark 4.1."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql.datasource import EqualTo, Filter, GreaterThan, GreaterThanOrEqual, LessThan, LessThanOrEqual

from airflow_sqlqueue.queue.table_access import FIRST, LAST
from airflow_sqlqueue.spark.source.peek import QueueReader, narrow


class FilteringQueueReader(QueueReader):
    """Reader that browses a queue and pushes down conditions on the RowVersion.

    A class of its own, because PySpark refuses each read by a reader with ``pushFilters`` while the session's setting
    ``spark.sql.python.filterPushdown.enabled`` is off, its default.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802
        """Take comparisons of the RowVersion with a number; return the others to Spark, with a limit all of them."""
        for condition in filters:
            bounds = None if self._options.limit is not None else self._bounds(condition)
            if bounds is None:
                yield condition
            else:
                self._options = narrow(self._options, *bounds)

    def _bounds(self, condition: Filter) -> tuple[int, int] | None:
        if not isinstance(condition, (EqualTo, GreaterThan, GreaterThanOrEqual, LessThan, LessThanOrEqual)):
            return None
        (name, *inner), value = condition.attribute, condition.value
        if inner or name.lower() != "rowversion" or not isinstance(value, int):
            return None
        low = value + isinstance(condition, GreaterThan)
        high = value - isinstance(condition, LessThan)
        return (
            FIRST if isinstance(condition, (LessThan, LessThanOrEqual)) else low,
            LAST if isinstance(condition, (GreaterThan, GreaterThanOrEqual)) else high,
        )
