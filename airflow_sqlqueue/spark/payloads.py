"""Payloads of the data bus as a DataFrame.

Source: docs/guides/data-bus.md, "Payloads of a batch".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_sqlqueue.endpoint.databus.payload_file import MANIFEST, check_staged, read_result, spark_schema
from airflow_sqlqueue.errors import BatchError
from airflow_sqlqueue.extras import from_extra
from airflow_sqlqueue.spark.errors import is_read_error, translate_read_errors
from airflow_sqlqueue.spark.manifests import AnyBatch, load_batch

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from airflow_sqlqueue.server.settings import ConnectionSettings


def read_payloads(spark: SparkSession, batch: AnyBatch, connection: ConnectionSettings | None = None) -> DataFrame:
    """Return the payloads that the messages of a batch name, one row for each: join it with :func:`read_batch` by
    ``RowVersion``. Two rows may have one ``Id``, as the copies of an event in an audit queue.

    A drain with ``data_bus``, or :meth:`.client.batch_manager.BatchManager.fetch_payloads`, has fetched them. ``batch``
    is named as for :func:`read_batch`.

    - ``Id``, ``RowVersion``, ``message_id``: those of the message.
    - ``property``: the property's name; for a property of type ``ClaimCheckProperty``, the ``Key`` that the message's
      body has. ``key``: the key in the data bus. ``content_type``: the format of the content.
    - ``content``: the serialized value, null if it could not be fetched. ``data``: the bytes of a ``byte[]`` in JSON,
      which is Base64; null for anything else. It costs nothing unless it is selected.
    - ``reason``: null, or ``gone``, ``too_large``, ``refused`` (the key), ``unreadable`` or ``over_limit``.

    Raises :class:`BatchError` for a batch that is open, was put back, or whose payloads were not fetched,
    :class:`ConfigurationError` for a batch in a table, and :class:`BatchMismatchError` for files that are missing or
    were changed.
    """
    with from_extra("spark", "Spark"):
        from pyspark.sql.types import StructType

    batch = load_batch(spark, batch, connection)
    check_staged(batch)
    schema = StructType.fromJson(spark_schema())
    path = _file_of_payloads(spark, batch.batch_id, batch.paths[0].rpartition("/")[0]) if batch.paths else None
    if path is None:
        rows = spark.createDataFrame([], schema)
    else:
        options = {"ignoreMissingFiles": "false", "ignoreCorruptFiles": "false", "recursiveFileLookup": "true"}
        with translate_read_errors(batch):
            rows = spark.read.schema(schema).options(**options).parquet(path)
    return rows.withColumn("data", _data())


def _file_of_payloads(spark: SparkSession, batch_id: str, folder: str) -> str | None:
    """Return the path of the file that the manifest of the payloads names, None without payloads."""
    try:
        (row,) = spark.read.format("binaryFile").load(f"{folder}/{MANIFEST}").select("content").collect()
    except Exception as error:
        if not is_read_error(error):
            raise
        raise BatchError(
            f"The payloads of batch {batch_id} were not fetched: give the drain a data_bus, or call fetch_payloads."
        ) from error
    name = read_result(bytes(row[0]), batch_id).file
    return None if name is None else f"{folder}/{name}"


def _data() -> Column:
    """Return the bytes of a text in Base64; System.Text.Json may escape ``+`` in JSON, and other serializers ``/``."""
    from pyspark.sql import functions as sf

    text = sf.btrim(sf.col("content").cast("string"), sf.lit(" \t\r\n\ufeff"))
    inner = text.substr(sf.lit(2), sf.length(text) - 2)
    plain = sf.replace(sf.replace(inner, sf.lit("\\u002B"), sf.lit("+")), sf.lit("\\/"), sf.lit("/"))
    is_text = sf.lower("content_type").contains("json") & text.startswith('"') & text.endswith('"')
    # Spark takes blanks, as between the words of a text, and wrong padding.
    is_base64 = plain.rlike("^[A-Za-z0-9+/]*={0,2}$") & (sf.length(plain) % 4 == 0)
    return sf.when(is_text & is_base64, sf.try_to_binary(plain, sf.lit("base64")))
