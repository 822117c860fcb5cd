"""PySpark's data source for the format ``sqlqueue``: thin subclasses that read options and call plain functions.

PySpark creates the readers in a process of its own on the driver, a new one for each plan, and pickles them to tasks.
Therefore a reader keeps no connection, and functions import the modules that load pandas: no plan waits for them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceWriter, InputPartition
from pyspark.sql.types import StructType

from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.messages.row import spark_schema
from airflow_sqlqueue.server.settings import ConnectionSettings
from airflow_sqlqueue.spark.source.columns import SelectedColumns
from airflow_sqlqueue.spark.source.messages import MessageColumns
from airflow_sqlqueue.spark.source.options import READ_OPTIONS, BatchOptions, PeekOptions, ServerAccess, SourceOptions
from airflow_sqlqueue.spark.source.peek import QueueReader
from airflow_sqlqueue.spark.source.sending import SEND_OPTIONS, Destination, QueueWriter, send_id_of
from airflow_sqlqueue.versions.spark import PUSHED_FILTERS, STREAMS

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_sqlqueue.spark.source.streaming import QueueStreamReader, QueueStreamWriter


class QueueDataSource(DataSource):
    """The format ``sqlqueue``."""

    connection: ConnectionSettings | None = None
    format_name = "sqlqueue"

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return cls.format_name

    def schema(self) -> StructType:
        """Return the columns of a drained row, for a read without a schema of the user's. Checks the options too."""
        schema = StructType.fromJson(spark_schema())
        if "stream" in self.options:
            self.streamReader(schema)
        else:
            self.reader(schema)
        return schema

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a reader of a live queue, or of the batch that the options name."""
        options = SourceOptions(self.options, *READ_OPTIONS)
        columns = SelectedColumns.of(schema)
        access = ServerAccess.of(options, self.connection)
        batch_id = options.identifier("batch")
        if batch_id is not None:
            return BatchReader(access, BatchOptions.of(options, batch_id), columns)
        if not options.flag("pushdown"):
            return QueueReader(access, PeekOptions.of(options), columns)
        PUSHED_FILTERS.require()
        from airflow_sqlqueue.spark.source.pushdown import FilteringQueueReader

        return FilteringQueueReader(access, PeekOptions.of(options), columns)

    def streamReader(self, schema: StructType) -> QueueStreamReader:  # noqa: N802
        """Return a reader that consumes a queue as a stream."""
        STREAMS.require()
        from airflow_sqlqueue.spark.source.claims import StreamOptions
        from airflow_sqlqueue.spark.source.streaming import QueueStreamReader

        options = SourceOptions(self.options, *ServerAccess.OPTIONS, *StreamOptions.OPTIONS)
        access = ServerAccess.of(options, self.connection)
        return QueueStreamReader(access, StreamOptions.of(options), SelectedColumns.of(schema))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return a writer that sends all rows in one transaction."""
        options = SourceOptions(self.options, *SEND_OPTIONS, "sendId")
        return QueueWriter(self._destination(options, schema, overwrite), send_id_of(options))

    def streamWriter(self, schema: StructType, overwrite: bool) -> QueueStreamWriter:  # noqa: N802
        """Return a writer that sends each micro-batch in one transaction."""
        STREAMS.require()
        from airflow_sqlqueue.spark.source.streaming import QueueStreamWriter

        options = SourceOptions(self.options, *SEND_OPTIONS, "checkpointLocation", "queryName")
        return QueueStreamWriter(self._destination(options, schema, overwrite))

    def _destination(self, options: SourceOptions, schema: StructType, overwrite: bool) -> Destination:
        if overwrite:
            raise ConfigurationError(
                "The mode overwrite would delete the messages of the queue, which belong to its receivers: use append, "
                "and a purge to delete them."
            )
        queue_name = options.required("queue", "give the address of the queue to send to")
        return Destination(ServerAccess.of(options, self.connection), queue_name, MessageColumns.of(schema))


def data_source_for(connection: ConnectionSettings | None, name: str = "sqlqueue") -> type[QueueDataSource]:
    """Return the data source with a login. Spark pickles a class that is in no module with its attributes."""
    return (
        QueueDataSource
        if connection is None
        else type("QueueDataSource", (QueueDataSource,), {"connection": connection, "format_name": name})
    )


class BatchReader(DataSourceReader):
    """Reader of a sealed batch: the same messages at every action."""

    def __init__(self, access: ServerAccess, options: BatchOptions, columns: SelectedColumns) -> None:
        self._access, self._options, self._columns = access, options, columns

    def partitions(self) -> list[InputPartition]:
        """Return the shares of the batch's parts, as the ledger lists them."""
        from airflow_sqlqueue.spark.source.staged import plan_shares

        return [InputPartition(share) for share in plan_shares(self._access, self._options)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return the messages of one share."""
        from airflow_sqlqueue.spark.source.staged import read_share

        return read_share(self._access, self._columns, partition.value)
