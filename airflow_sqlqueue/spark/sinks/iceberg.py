"""Sink into an Iceberg table that contains each batch once.

Source: docs/design.md, "Exactly-once sinks".
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from airflow_sqlqueue.errors import ConfigurationError, TransientError
from airflow_sqlqueue.exports import LazyModule
from airflow_sqlqueue.spark.sinks import checks
from airflow_sqlqueue.spark.sinks.keys import AnyKey, transaction_of
from airflow_sqlqueue.versions.jars import ICEBERG

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql import functions as sf
else:
    sf = LazyModule("pyspark.sql.functions")

_ID, _VERSION = "sqlqueue.id", "sqlqueue.version"
"""Properties of the snapshot that has a batch's rows."""

SNAPSHOT_PROPERTY, REPLACED = "snapshot-property", "sqlqueue.replaced"
"""The option for properties of a snapshot, and the property with the last snapshot of the table that this one replaces:
a table that was replaced begins anew, and has the batches of the one before all the same."""

_ANY_SCHEMA, _WAP = "write.spark.accept-any-schema", "write.wap.enabled"
_NO_ICEBERG = (
    "DATA_SOURCE_NOT_FOUND|REQUIRES_SINGLE_PART_NAMESPACE|CATALOG_NOT_FOUND|Cannot find catalog plugin class|"
    "PLUGIN_CLASS_NOT_FOUND|Cannot open table: path is not set"
)
_SETTINGS = (
    "a catalog spark.sql.catalog.<name>=org.apache.iceberg.spark.SparkCatalog, which the table's name begins with"
)
_OVERTAKEN = (
    "Found conflicting files|Cannot determine history between|CommitFailedException|AlreadyExistsException|"
    "TABLE_OR_VIEW_ALREADY_EXISTS"
)
_ATTEMPTS = 10


def write_iceberg(
    df: DataFrame,
    table: str,
    batch: AnyKey,
    *,
    merge_on: str | Sequence[str] | None = None,
    partition_by: str | Sequence[str] = (),
    step: str = "",
    merge_schema: bool = False,
) -> None:
    """Append the rows of a batch to an Iceberg table, once: a repeated call for the same batch writes nothing.

    The snapshot that has the rows names the batch (properties ``sqlqueue.id`` and ``sqlqueue.version``), so a run may
    be killed at any point. The commit fails if the table got other rows since the call looked for the batch; the call
    then looks again and, if the batch is not there, writes again, ten times at most. So of two runs at once one writes
    the rows. A call for another batch is delayed only, but by the time of a whole write.

    The table remembers a batch as long as its snapshot. ``expire_snapshots`` removes snapshots that are older than the
    table's property ``history.expire.max-snapshot-age-ms``, which is 5 days by default: a run after that writes the
    rows again, unless ``merge_on`` finds them. Of a stream it remembers the micro-batch with the highest number. A
    rollback of the table to a snapshot before the batch forgets the batch with its rows.

    :param table: the table's name in a catalog of Iceberg, for example ``lake.shop.audit``. A missing table is created,
        in a namespace that exists. The catalog must replace a table's state in one step, as REST, JDBC, Hive and Glue
        do; one of type ``hadoop`` does so on HDFS and a local disk, but not on an object store.
    :param batch: the source of the rows: a batch, its id, or a :class:`MicroBatch`.
    :param merge_on: the columns that identify a message, for example ``message_id``: a row is inserted if no row of the
        table has the same values in all of them. So messages that a failover brought back, or that were sent again, are
        in the table once, also those of other batches; of several in this batch one is inserted. It reads these columns
        of the table.
    :param partition_by: the columns by whose values a new table is partitioned.
    :param step: a name for each of several writes of a batch to one table. Without it the second write is a repetition
        of the first, and writes nothing.
    :param merge_schema: whether columns and fields of structs that the table has not are added to it, and columns that
        the rows have not are null. The table gets the property ``write.spark.accept-any-schema``, which this needs.

    The rows must be those of the batch: for a batch that the table has, a call writes nothing, whatever the rows are.

    Raises :class:`ConfigurationError` for names that cannot be used, for a session without Iceberg and for one that
    stages its writes (``spark.wap.id``, ``spark.wap.branch``), :class:`BatchError` for a batch that is open or
    requeued, :class:`TransientError` if other writers overtook each attempt. Rows without a value in ``merge_on`` fail.
    """
    if not checks.is_table_name(table):
        raise ConfigurationError("An Iceberg table is given by its name in a catalog: up to three words with dots.")
    checks.check_step(step)
    application, version = transaction_of(batch)
    mark = (f"{application} {step}".rstrip(), version)
    keys, partition_by = checks.columns_in(merge_on), checks.columns_in(partition_by)
    checks.check_columns(df, (*keys, *partition_by))
    name, overtaken = checks.quoted_table(table), None
    for _ in range(_ATTEMPTS):
        try:
            if not df.sparkSession.catalog.tableExists(name):
                _create(df, name, partition_by, merge_schema)
            _append(df, name, mark, keys, merge_schema)
        except Exception as error:
            if re.search(_NO_ICEBERG, str(error)):
                raise ConfigurationError(checks.how_to_get(ICEBERG, df.sparkSession.version, _SETTINGS)) from error
            if not re.search(_OVERTAKEN, str(error)) and not isinstance(error, TransientError):
                raise
            overtaken = error
        else:
            return
    raise TransientError(
        f"Other writers of the Iceberg table overtook the batch {_ATTEMPTS} times, so it was not written: let fewer "
        "jobs write the table at once, and run this one again."
    ) from overtaken


def _create(df: DataFrame, name: str, partition_by: Sequence[str], merge_schema: bool) -> None:
    """Create the table without rows, but with a snapshot: a commit checks what came after one."""
    writer = df.limit(0).writeTo(name).using("iceberg")
    if merge_schema:
        writer = writer.tableProperty(_ANY_SCHEMA, "true")
    if partition_by:
        writer = writer.partitionedBy(*(sf.col(checks.quoted(column)) for column in partition_by))
    writer.create()


def _append(df: DataFrame, name: str, mark: tuple[str, int], keys: Sequence[str], merge_schema: bool) -> None:
    """Append the rows with their mark, unless a snapshot has it; fail if the table got other rows meanwhile."""
    spark = df.sparkSession
    properties = _properties(spark, name)
    _check_published(spark, properties)
    head = None if properties["current-snapshot-id"] == "none" else int(properties["current-snapshot-id"])
    if head is not None and _has(spark, name, head, mark):
        return
    rows = checks.unique_rows(df, keys) if keys else df
    if keys and head is not None:
        old = spark.read.option("versionAsOf", str(head)).table(name)
        rows = rows.join(old.select(*map(checks.quoted, keys)), list(keys), "left_anti")
    # A schema that accepts any columns has them in any order.
    options = {f"{SNAPSHOT_PROPERTY}.{_ID}": mark[0], f"{SNAPSHOT_PROPERTY}.{_VERSION}": str(mark[1])}
    options |= {"isolation-level": "serializable", "check-ordering": "false"}
    options |= {} if head is None else {"validate-from-snapshot-id": str(head)}
    if merge_schema:
        options["mergeSchema"] = "true"
        if properties.get(_ANY_SCHEMA) != "true":
            spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('{_ANY_SCHEMA}' = 'true')")
    # An append checks nothing. An overwrite of no rows is an append that fails if others added rows since the snapshot.
    rows.writeTo(name).options(**options).overwrite(sf.lit(False))


def _properties(spark: SparkSession, name: str) -> dict[str, str]:
    spark.catalog.refreshTable(name)
    properties = {row["key"]: row["value"] for row in spark.sql(f"SHOW TBLPROPERTIES {name}").collect()}
    if "current-snapshot-id" not in properties:
        raise ConfigurationError("The table is not one of Iceberg: name another, or a catalog of Iceberg.")
    return properties


def _check_published(spark: SparkSession, properties: dict[str, str]) -> None:
    """Refuse a session that stages rows to publish them later: the table would not show that it has the batch."""
    staging = [key for key in ("spark.wap.id", "spark.wap.branch") if spark.conf.get(key, None)]
    if staging and properties.get(_WAP) == "true":
        raise ConfigurationError(
            f"The table has {_WAP}, and {staging[0]} of this session stages rows instead of publishing them: unset it."
        )


def _has(spark: SparkSession, name: str, head: int, mark: tuple[str, int]) -> bool:
    """Return whether the snapshot ``head``, or one that it comes from, has the mark, or a later one of the stream."""
    keys = (_ID, _VERSION, REPLACED)
    properties = [sf.try_element_at("summary", sf.lit(key)).alias(key.partition(".")[2]) for key in keys]
    found = spark.table(f"{name}.snapshots").select("snapshot_id", "parent_id", *properties)
    snapshots = {row["snapshot_id"]: row for row in found.collect()}
    if head not in snapshots:
        raise TransientError("The table's snapshots changed while they were read.")
    at = snapshots.get(head)
    while at is not None:
        if at["id"] == mark[0] and int(at["version"]) >= mark[1]:
            return True
        at = snapshots.get(int(at["replaced"]) if at["replaced"] else at["parent_id"])
    return False
