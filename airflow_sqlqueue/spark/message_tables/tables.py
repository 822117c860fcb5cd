"""Tables of message types: a batch becomes one table for each type, with the fields of its bodies as columns.

Source: docs/guides/bodies.md, "One table for each message type"; docs/design.md, "Tables of message types".
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from airflow_sqlqueue.bodies.decoding import MAX_BYTES
from airflow_sqlqueue.bodies.patterns import TypePatterns
from airflow_sqlqueue.client.schemas.files import SchemaFolder
from airflow_sqlqueue.spark.batch import read_batch, typed_columns
from airflow_sqlqueue.spark.manifests import AnyBatch, load_batch
from airflow_sqlqueue.spark.message_tables.packed import BodyForm
from airflow_sqlqueue.spark.message_tables.reports import MessageTypeTable, ShareLimit, check_shares
from airflow_sqlqueue.spark.message_tables.table_formats import Format
from airflow_sqlqueue.spark.message_tables.writer import TableWriter
from airflow_sqlqueue.spark.sinks.keys import AnyKey

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from airflow_sqlqueue.server.settings import ConnectionSettings


def write_message_tables(
    spark: SparkSession,
    batch: AnyBatch,
    location: str,
    *,
    format: Format = "parquet",  # noqa: A002 - Spark's own word
    schemas: SchemaFolder | str | os.PathLike[str] | None = None,
    types: TypePatterns | str | Sequence[str] | None = None,
    hints: Mapping[str, Mapping[str, Any]] | None = None,
    new_fields: bool = True,
    decoders: Mapping[str, Callable[[Column], Column]] | None = None,
    max_bytes: int = MAX_BYTES,
    work_folder: str | None = None,
    cluster_by: str | Sequence[str] = (),
    merge_on: str | Sequence[str] = (),
    body: BodyForm | None = None,
    max_rescued: ShareLimit = None,
    max_unparsed: ShareLimit = None,
    connection: ConnectionSettings | None = None,
) -> list[MessageTypeTable]:
    """Write a batch to one table for each message type, once; return what each table got.

    Each message of the batch is a row of one table. The table of its type, the first of the enclosed ones, has the
    columns of :func:`parse_bodies`, ``enclosed_types``, ``batch_id`` and ``parse_attempt``. A message that is not
    parsed is in a table beside that, whose name ends with ``~unparsed``, with the reason, its body and its headers;
    the table ``~unparsed`` has the messages without a type. See docs/guides/bodies.md.

    A repeated call for the same batch replaces its rows (Parquet) or writes nothing (Delta Lake, Iceberg), so a run may
    be killed at any point and run again, with the same arguments. Run one attempt of a batch at a time. Spark's workers
    need this package.

    :param location: the folder of the tables, a path or a URI; a relative path has a slash if it has a dot. Or, for
        Iceberg and Delta Lake, a schema of a catalog, ``catalog.schema``.
    :param format: ``parquet``, with a partition ``batch_id=...`` for each batch, ``delta`` or ``iceberg``.
    :param schemas: the folder of the schemas; ``_schemas`` in ``work_folder`` unless given. A type without a schema
        gets one from a sample of the batch, up to 1,000 types.
    :param types: the types that get tables: a pattern or several, ``["Shop.*", "!Shop.Internal.*"]``; all unless given.
    :param hints: types for fields without a column, by patterns of message types and paths; those of the file
        ``_hints.json`` in the folder of the schemas unless given.
    :param new_fields: whether fields that a schema has not become columns, in the schema's file as well. Values of
        another type than their column never change it: they are in ``_rescued``.
    :param decoders: as for ``parse_bodies``.
    :param max_bytes: the size above which a body is not parsed.
    :param work_folder: the folder of intermediate files; ``location`` unless given, which tables in a catalog need.
    :param cluster_by: columns of the envelope, as ``time_sent``, by which the rows of a batch are sorted.
    :param merge_on: columns of the envelope, as ``message_id``: a message is left out if a row of another batch, which
        is not written at the same time, or an earlier one of its own has the same values. Nulls are never the same.
    :param body: keep the whole body of each parsed message beside its columns: ``text`` in a column ``body_text``, as
        it was sent, or ``variant`` in a column ``body_variant``, XML as JSON; null for what no variant can be, such as
        an object with a name that comes twice. Iceberg takes ``text`` only.
    :param max_rescued: the share of a type's messages, from 0 to 1, that may have rescued values: one number for all
        types, or a mapping by patterns of their names, ``{"Shop.*": 0.01}``; the first one that fits decides.
    :param max_unparsed: the same for messages that are not parsed. For those without a type or a table, which only
        ``*`` names, it is their share of the batch.
    :param connection: the server of a batch in a table (stage ``table``).

    Raises :class:`BatchError` for a batch that is open or requeued, :class:`BatchMismatchError` if Spark reads, or a
    table gets, another number of messages than the ledger has, and :class:`ConfigurationError` for what cannot be used.
    It raises the latter, too, for a schema with another type than its table, once those of other types are written:
    then use :func:`rewrite_message_table`. More rescued or unparsed messages than allowed are a
    :class:`TooManyRescuedError` once all tables are written.
    """
    # A wrong share is an error before anything is read.
    check_shares([], max_rescued, max_unparsed)
    writer = TableWriter(
        spark,
        location,
        format,
        schemas=schemas,
        types=types,
        hints=hints,
        new_fields=new_fields,
        decoders=decoders,
        max_bytes=max_bytes,
        work_folder=work_folder,
        body=body,
        cluster_by=cluster_by,
        merge_on=merge_on,
    )
    source = load_batch(spark, batch, connection)
    tables = writer.write(read_batch(spark, source, connection), source, source.messages)
    check_shares(tables, max_rescued, max_unparsed)
    return tables


def write_message_rows(rows: DataFrame, location: str, batch: AnyKey, **options: Any) -> list[MessageTypeTable]:
    """Write rows to one table for each message type: :func:`write_message_tables` for a stream.

    ``foreach_batch(write_message_rows, "lake", format="delta")`` writes each micro-batch once.

    :param rows: rows of the format ``sqlqueue``, or of :func:`read_batch`.
    :param batch: the key of the rows: a :class:`MicroBatch`, a batch, or its id.
    :param options: those of ``write_message_tables`` from ``format`` to ``body``; tables and errors are the same.
    """
    known = [each.name for each in fields(TableWriter)][2:]
    for name in sorted(options.keys() - known):
        raise TypeError(f"write_message_rows() has no option {name!r}. It has {', '.join(known)}.")
    typed = rows if "headers_raw" in rows.columns else typed_columns(rows)
    return TableWriter(rows.sparkSession, location, **options).write(typed, batch)
