"""Peek at a live queue, which takes no message: ranges of RowVersions for tasks, and the read of one range."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from airflow_sqlqueue.options.budget import MIB
from airflow_sqlqueue.queue import MAX_ROWS_PER_STATEMENT, QueueTable
from airflow_sqlqueue.queue.browsing import read
from airflow_sqlqueue.queue.window import Window
from airflow_sqlqueue.spark.source.columns import SelectedColumns
from airflow_sqlqueue.spark.source.options import PeekOptions, ServerAccess

if TYPE_CHECKING:
    import pyarrow as pa

PAGE_BYTES = 8 * MIB
"""Bytes of headers and bodies that a task holds at one time, and one message more."""


@dataclass(frozen=True)
class RowVersionRange:
    """RowVersions above ``after`` and up to ``up_to``; at most ``limit`` of the messages there, or all (None)."""

    after: int
    up_to: int
    limit: int | None = None


NOTHING = RowVersionRange(0, 0)


def plan_ranges(access: ServerAccess, options: PeekOptions) -> list[RowVersionRange]:
    """Return the ranges between the ends of the queue for as many tasks as the options say, at least one.

    The end is that of this moment: messages that are sent later are not read. With a limit the ranges begin at the head
    of the queue and hold about the same number of messages each, and the sum of their limits is the limit.
    """
    with access.queue(options.queue) as queue:
        ends = queue.ends()
        if ends is None:
            return [NOTHING]
        low, high = max(ends[0], options.low), min(ends[1], options.high)
        if low > high:
            return [NOTHING]
        if options.limit is not None:
            return list(_limited(queue, RowVersionRange(low - 1, high, options.limit), options.partitions)) or [NOTHING]
    return split(low, high, options.partitions)


def split(low: int, high: int, parts: int) -> list[RowVersionRange]:
    """Return the numbers from ``low`` to ``high`` in at most ``parts`` ranges of about the same length."""
    count = high - low + 1
    parts = min(parts, count)
    edges = [low - 1 + count * number // parts for number in range(parts + 1)]
    return [RowVersionRange(*ends) for ends in pairwise(edges)]


def _limited(queue: QueueTable, whole: RowVersionRange, parts: int) -> Iterator[RowVersionRange]:
    left, after = whole.limit or 0, whole.after
    size = -(-left // parts)
    while left > 0:
        rows = min(size, left)
        end = queue.window_end(rows, after, whole.up_to)
        if end is None:
            return
        yield RowVersionRange(after, end, rows)
        left, after = left - rows, end


def read_range(
    access: ServerAccess, queue_name: str, columns: SelectedColumns, wanted: RowVersionRange
) -> Iterator[pa.RecordBatch]:
    """Read the messages of a range that are not locked, page by page; Spark's tasks call it.

    Between two pages it holds no lock and no open result, however long Spark takes to process a page.
    """
    if wanted.after >= wanted.up_to:
        return
    with access.queue(queue_name) as queue:
        after, left = wanted.after, wanted.limit
        while left is None or left > 0:
            rows = MAX_ROWS_PER_STATEMENT if left is None else min(left, MAX_ROWS_PER_STATEMENT)
            page = read(queue, columns.of_the_table, Window(after, wanted.up_to), rows=rows, max_bytes=PAGE_BYTES)
            if not page:
                return
            yield columns.to_arrow(page)
            after, left = page[-1][-1], None if left is None else left - len(page)


def narrow(options: PeekOptions, low: int, high: int) -> PeekOptions:
    """Return the options with a narrower range of RowVersions."""
    return replace(options, low=max(options.low, low), high=min(options.high, high))


class QueueReader(DataSourceReader):
    """Reader that browses a queue, anew at every action: two actions may see different messages."""

    def __init__(self, access: ServerAccess, options: PeekOptions, columns: SelectedColumns) -> None:
        self._access, self._options, self._columns = access, options, columns

    def partitions(self) -> list[InputPartition]:
        """Return the ranges of RowVersions. Spark calls this once for each DataFrame that it plans."""
        return [InputPartition(wanted) for wanted in plan_ranges(self._access, self._options)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return the messages of a range that are not locked."""
        return read_range(self._access, self._options.queue, self._columns, partition.value)
