"""The data source, as PySpark wants it: thin subclasses that read options and hand over to plain functions.

PySpark makes its readers in a process of its own on the driver, a new one for each plan, and pickles them to tasks. So
none of them keeps a connection, and what loads pandas is imported where it is used: a plan should not wait for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceWriter,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    InputPartition,
    LessThan,
    LessThanOrEqual,
)
from pyspark.sql.types import StructType

from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.queue.table_access import FIRST, LAST
from airflow_sqlqueue.row import spark_schema
from airflow_sqlqueue.server.settings import ConnectionSettings
from airflow_sqlqueue.spark.source.columns import SelectedColumns
from airflow_sqlqueue.spark.source.messages import MessageColumns
from airflow_sqlqueue.spark.source.options import (
    READ_OPTIONS,
    BatchOptions,
    PeekOptions,
    ServerAccess,
    SourceOptions,
)
from airflow_sqlqueue.spark.source.peek import narrowed, plan_ranges, read_range
from airflow_sqlqueue.spark.source.sending import SEND_OPTIONS, Destination, QueueWriter, send_id_of

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_sqlqueue.spark.source.streaming import QueueStreamReader, QueueStreamWriter


class QueueDataSource(DataSource):
    """The format ``sqlqueue``."""

    connection: ConnectionSettings | None = None

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return "sqlqueue"

    def schema(self) -> StructType:
        """The columns of a drained row, where the user gives no schema. The options are checked here as well."""
        schema = StructType.fromJson(spark_schema())
        if "stream" in self.options:
            self.streamReader(schema)
        else:
            self.reader(schema)
        return schema

    def reader(self, schema: StructType) -> DataSourceReader:
        """A reader of a live queue, or of a batch where the options name one."""
        options = SourceOptions(self.options, *READ_OPTIONS)
        columns = SelectedColumns.of(schema)
        access = ServerAccess.of(options, self.connection)
        batch_id = options.identifier("batch")
        if batch_id is not None:
            return BatchReader(access, BatchOptions.of(options, batch_id), columns)
        kind = FilteringQueueReader if options.flag("pushdown") else QueueReader
        return kind(access, PeekOptions.of(options), columns)

    def streamReader(self, schema: StructType) -> QueueStreamReader:  # noqa: N802
        """A reader that consumes a queue."""
        from airflow_sqlqueue.spark.source.claims import StreamOptions
        from airflow_sqlqueue.spark.source.streaming import QueueStreamReader

        options = SourceOptions(self.options, *ServerAccess.OPTIONS, *StreamOptions.OPTIONS)
        access = ServerAccess.of(options, self.connection)
        return QueueStreamReader(access, StreamOptions.of(options), SelectedColumns.of(schema))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """A writer that sends all at once."""
        options = SourceOptions(self.options, *SEND_OPTIONS, "sendId")
        return QueueWriter(self._destination(options, schema, overwrite), send_id_of(options))

    def streamWriter(self, schema: StructType, overwrite: bool) -> QueueStreamWriter:  # noqa: N802
        """A writer that sends each micro-batch at once."""
        from airflow_sqlqueue.spark.source.streaming import QueueStreamWriter

        options = SourceOptions(self.options, *SEND_OPTIONS, "checkpointLocation")
        return QueueStreamWriter(self._destination(options, schema, overwrite))

    def _destination(self, options: SourceOptions, schema: StructType, overwrite: bool) -> Destination:
        if overwrite:
            raise ConfigurationError(
                "The mode overwrite would delete the messages of the queue, which belong to its receivers: use append, "
                "and a purge where they are to go."
            )
        queue_name = options.required("queue", "give the address of the queue to send to")
        return Destination(ServerAccess.of(options, self.connection), queue_name, MessageColumns.of(schema))


def bound_to(connection: ConnectionSettings | None) -> type[QueueDataSource]:
    """The data source with a login. A class that no module has is pickled whole, and so is what it holds."""
    return (
        QueueDataSource
        if connection is None
        else type("QueueDataSource", (QueueDataSource,), {"connection": connection})
    )


class QueueReader(DataSourceReader):
    """Looks at a queue. A new look at every action: no two need see the same messages."""

    def __init__(self, access: ServerAccess, options: PeekOptions, columns: SelectedColumns) -> None:
        self._access, self._options, self._columns = access, options, columns

    def partitions(self) -> list[InputPartition]:
        """Ranges of RowVersions. Asked for once for each DataFrame that is planned."""
        return [InputPartition(wanted) for wanted in plan_ranges(self._access, self._options)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The messages of a range that nobody has locked."""
        return read_range(self._access, self._options.queue, self._columns, partition.value)


class FilteringQueueReader(QueueReader):
    """The same, and conditions on the RowVersion bound the ranges.

    A class of its own, because PySpark refuses every read of a reader that knows filters while the session has
    ``spark.sql.python.filterPushdown.enabled`` off, as it has by default.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802
        """Take what compares the RowVersion with a number, and leave the rest to Spark; all of it beside a limit."""
        for condition in filters:
            bounds = None if self._options.limit is not None else self._bounds(condition)
            if bounds is None:
                yield condition
            else:
                self._options = narrowed(self._options, *bounds)

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


class BatchReader(DataSourceReader):
    """Reads a sealed batch: the same messages at every action."""

    def __init__(self, access: ServerAccess, options: BatchOptions, columns: SelectedColumns) -> None:
        self._access, self._options, self._columns = access, options, columns

    def partitions(self) -> list[InputPartition]:
        """Parts of the batch, as the ledger lists them."""
        from airflow_sqlqueue.spark.source.staged import plan_shares

        return [InputPartition(share) for share in plan_shares(self._access, self._options)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The messages of some parts."""
        from airflow_sqlqueue.spark.source.staged import read_share

        return read_share(self._access, self._columns, partition.value)
