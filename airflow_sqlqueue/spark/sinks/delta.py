"""Sink into a Delta table that contains each batch once.

Source: docs/design.md, "Exactly-once sinks".
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from airflow_sqlqueue.bodies.types import LEAVES
from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.spark.sinks import checks
from airflow_sqlqueue.spark.sinks.keys import AnyKey, transaction_of
from airflow_sqlqueue.versions.jars import DELTA

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_NO_DELTA = "DATA_SOURCE_NOT_FOUND|DELTA_CONFIGURE_SPARK_SESSION_WITH_EXTENSION_AND_CATALOG"
_NO_FEATURE = "DELTA_FEATURES_REQUIRE_MANUAL_ENABLEMENT"
_SETTINGS = "Delta's spark.sql.extensions and spark.sql.catalog.spark_catalog"


def write_delta(
    df: DataFrame,
    table: str,
    batch: AnyKey,
    *,
    merge_on: str | Sequence[str] | None = None,
    partition_by: str | Sequence[str] = (),
    step: str = "",
    merge_schema: bool = False,
) -> None:
    """Append the rows of a batch to a Delta table, once: a repeated call for the same batch writes nothing.

    The table's log records the batch (``txnAppId``, ``txnVersion``) in the same commit as the rows, so a run may be
    killed at any point. Of two runs at once Delta lets one commit and fails the other. The table remembers a batch for
    its property ``delta.setTransactionRetentionDuration``, for ever without that property.

    :param table: the table's path or URI, which has a slash, or its name in the session's catalog. A missing table is
        created.
    :param batch: the source of the rows: a batch, its id, or a :class:`MicroBatch`.
    :param merge_on: the columns that identify a message, for example ``message_id``: a row is inserted if no row of the
        table has the same values in all of them (MERGE). So messages that a failover brought back, or that were sent
        again, are in the table once, also those of other batches; of several in this batch one is inserted. It reads
        these columns of the table, which is cheaper if the table is partitioned by one of them.
    :param partition_by: the columns by which a new table is partitioned.
    :param step: a name for each of several writes of a batch to one table. Without it the second write is a repetition
        of the first, and writes nothing.
    :param merge_schema: whether columns that the table has not are added to it; not with ``merge_on``.

    The rows must be those of the batch: for a batch that the table has, a call writes nothing, whatever the rows are.

    Raises :class:`ConfigurationError` for names that cannot be used, for columns that the table of a merge lacks, and
    for a session without Delta Lake, :class:`BatchError` for a batch that is open or requeued. Rows without a value in
    ``merge_on`` fail.
    """
    if "/" not in table and not checks.is_table_name(table):
        raise ConfigurationError(
            "A Delta table is given by its path, which has a slash, or by its name: up to three words with dots."
        )
    checks.check_step(step)
    application, version = transaction_of(batch)
    keys, partition_by = checks.columns_in(merge_on), checks.columns_in(partition_by)
    checks.check_columns(df, (*keys, *partition_by))
    try:
        if keys:
            if merge_schema:
                raise ConfigurationError("A merge adds no columns to a table: leave out merge_schema, or merge_on.")
            save_delta(df.limit(0), table, "ignore", {}, partition_by)
            _merge(df, table, keys)
        else:
            options = {"txnAppId": f"{application} {step}".rstrip(), "txnVersion": str(version)}
            options |= {"mergeSchema": "true"} if merge_schema else {}
            save_delta(df, table, "append", options, partition_by)
    except Exception as error:
        if not re.search(_NO_DELTA, str(error)):
            raise
        raise ConfigurationError(checks.how_to_get(DELTA, df.sparkSession.version, _SETTINGS)) from error


def save_delta(
    df: DataFrame, table: str, mode: str, options: Mapping[str, str], partition_by: Sequence[str] = ()
) -> None:
    """Save rows with the options of Delta's writer. A table that lacks the feature of a type gets it."""

    def save() -> None:
        writer = df.write.format("delta").mode(mode).options(**options)
        if partition_by:
            writer = writer.partitionBy(*partition_by)
        if "/" in table:
            writer.save(table)
        else:
            writer.saveAsTable(table)

    with checks.session_settings(df.sparkSession, checks.TIMES):
        try:
            save()
        except Exception as error:
            if _NO_FEATURE not in str(error):
                raise
            # A new table has the features of its types, an existing one gets them by name.
            kinds = df.schema.json()
            needed = {leaf.delta_feature for name, leaf in LEAVES.items() if f'"{leaf.spark or name}"' in kinds}
            properties = ", ".join(f"'delta.feature.{each}' = 'supported'" for each in sorted(filter(None, needed)))
            df.sparkSession.sql(f"ALTER TABLE {delta_name(table)} SET TBLPROPERTIES ({properties})")
            save()


def delta_name(table: str) -> str:
    """Return the name of a table, which may be its path, in a statement."""
    return f"delta.{checks.quoted(table)}" if "/" in table else checks.quoted_table(table)


def _merge(df: DataFrame, table: str, keys: Sequence[str]) -> None:
    spark = df.sparkSession
    known = {name.lower() for name in spark.table(delta_name(table)).columns}
    if new := [name for name in df.columns if name.lower() not in known]:
        # An INSERT * would leave their values out in silence, and a repeated call would find the messages.
        raise ConfigurationError(
            f"The table has no column {new[0]!r}, and a merge adds none: add it by ALTER TABLE, or "
            "drop it from the rows."
        )
    rows = checks.unique_rows(df, keys)
    same = " AND ".join(f"old.{checks.quoted(name)} = new.{checks.quoted(name)}" for name in keys)
    # Spark replaces braces: {rows} names the rows, so all others are doubled.
    text = f"MERGE INTO {delta_name(table)} AS old USING @ AS new ON {same} WHEN NOT MATCHED THEN INSERT *"
    text = text.replace("{", "{{").replace("}", "}}").replace(" USING @ ", " USING {rows} ", 1)
    with checks.session_settings(spark, checks.TIMES):
        spark.sql(text, rows=rows)
