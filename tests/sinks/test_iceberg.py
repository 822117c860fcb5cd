"""Batches in tables of Iceberg: on a disk, on S3, and where Spark is killed before, in and after the commit."""

from __future__ import annotations

import re
import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from jars import stop_java

from airflow_sqlqueue.drain.manifest import Batch
from airflow_sqlqueue.errors import BatchError, ConfigurationError, TransientError
from airflow_sqlqueue.messages.message import Message
from airflow_sqlqueue.spark import MicroBatch, foreach_batch, local_session, read_batch, write_iceberg
from airflow_sqlqueue.spark.sinks import iceberg
from tests.sinks.conftest import ICEBERG_JARS
from tests.sinks.killing import kill
from tests.sinks.sinks_program import sinks
from tests.spark.conftest import batches_in
from tests.stores.conftest import Bucket
from tests.stores.server import KEY, SECRET, S3Server

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = "message_id string, Body binary"


@pytest.fixture(scope="module")
def remote(s3: S3Server) -> Bucket:
    """The bucket of the catalog ``remote``."""
    return Bucket(s3)


@pytest.fixture(scope="module")
def iceberg_config(s3: S3Server, remote: Bucket, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Settings of a session with a catalog ``lake`` on a disk and a catalog ``remote`` on S3."""
    config = {
        "spark.jars": ",".join(ICEBERG_JARS or ()),
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
        "spark.hadoop.fs.s3a.endpoint": s3.url,
        "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
        "spark.hadoop.fs.s3a.access.key": KEY,
        "spark.hadoop.fs.s3a.secret.key": SECRET,
        "spark.hadoop.fs.s3a.path.style.access": "true",
    }
    warehouses = {"lake": tmp_path_factory.mktemp("lake").as_uri(), "remote": f"s3a://{remote.name}"}
    for catalog, warehouse in warehouses.items():
        key = f"spark.sql.catalog.{catalog}"
        config |= {key: "org.apache.iceberg.spark.SparkCatalog", f"{key}.type": "hadoop", f"{key}.warehouse": warehouse}
    return config


@pytest.fixture(scope="module")
def spark(iceberg_config: dict[str, str]) -> Iterator[SparkSession]:
    """A session in a Java machine of its own."""
    stop_java()
    with local_session("iceberg", "local[4]", iceberg_config) as session:
        yield session
    stop_java()


@pytest.fixture
def table() -> str:
    """Name of a table that does not exist."""
    return f"lake.shop.audit_{uuid.uuid4().hex}"


@pytest.fixture
def rows(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame([(f"m{n}", b"x") for n in range(4)], SCHEMA)


def ids(spark: SparkSession, table: str) -> Counter[str]:
    spark.catalog.refreshTable(table)
    return Counter(row["message_id"] for row in spark.table(table).select("message_id").collect())


def make_batch(folder: Path) -> Batch:
    return batches_in(folder)([Message({"NServiceBus.TimeSent": "2026-01-02 03:04:05:000000 Z"}, b"one"), "{"])


def test_all_columns_of_a_batch_are_written_to_a_table(spark: SparkSession, table: str, tmp_path: Path) -> None:
    batch = make_batch(tmp_path)
    rows = read_batch(spark, batch)
    for _ in range(2):
        write_iceberg(rows, table, batch)
    written = spark.table(table)
    assert written.schema.simpleString() == rows.schema.simpleString()
    order = [row.asDict() for row in rows.orderBy("RowVersion").collect()]
    assert [row.asDict() for row in written.orderBy("RowVersion").collect()] == order


def test_a_batch_is_in_a_table_once(spark: SparkSession, rows: DataFrame, table: str) -> None:
    """Micro-batches, and steps of one job, are distinguished; a stream's earlier micro-batches are known as well."""
    first = uuid.uuid4()
    given: list[Any] = [first, uuid.uuid4(), str(first), *(MicroBatch("one", number) for number in (0, 1, 0, 1))]
    for batch in given:
        write_iceberg(rows, table, batch, partition_by=["message_id"])
    for _ in range(2):
        write_iceberg(rows, table, first, step="failures")
    assert ids(spark, table) == Counter({f"m{n}": 5 for n in range(4)})
    assert {row["partition"]["message_id"] for row in spark.table(f"{table}.partitions").collect()} == set(
        ids(spark, table)
    )


def test_a_batch_without_rows_is_remembered(spark: SparkSession, rows: DataFrame, table: str) -> None:
    write_iceberg(rows.limit(0), table, "first")
    write_iceberg(rows, table, "first")
    assert spark.table(table).count() == 0


def test_a_table_of_another_program_without_a_snapshot(spark: SparkSession, rows: DataFrame, table: str) -> None:
    spark.sql(f"CREATE TABLE {table} ({SCHEMA}) USING iceberg")
    for _ in range(2):
        write_iceberg(rows, table, "first")
        write_iceberg(rows, table, "second", merge_on="message_id")
    assert spark.table(table).count() == 4


def test_messages_that_are_there_are_left_out(spark: SparkSession, rows: DataFrame, table: str) -> None:
    key = "a.message `id`"
    rows = rows.withColumnRenamed("message_id", key)
    write_iceberg(rows, table, "first", merge_on=key)
    again = rows.where(f"`{key.replace('`', '``')}` > 'm1'")
    more = again.unionByName(rows.limit(1).replace("m0", "m4")).unionByName(again)
    for _ in range(2):
        write_iceberg(more, table, "second", merge_on=[key])
    assert sorted(row[0] for row in spark.table(table).collect()) == ["m0", "m1", "m2", "m3", "m4"]
    with pytest.raises(Exception, match="no value in a column of merge_on"):
        write_iceberg(rows.replace("m1", None), table, "third", merge_on=key)


def test_new_columns_and_fields_are_added(spark: SparkSession, table: str) -> None:
    """Columns are in another order, absent, new, or of a wider type, also within structs and arrays of structs."""

    def write(batch: str, *columns: str, **options: Any) -> None:
        write_iceberg(spark.range(1).selectExpr(*columns), table, batch, merge_schema=True, **options)

    item = "array(named_struct('sku', 'a')) AS items"
    write("first", "'m1' AS message_id", "named_struct('city', 'Ulm') AS at", item, "1 AS amount")
    more = "array(named_struct('size', 2, 'sku', 'b')) AS items"
    write("second", "named_struct('zip', 7, 'city', 'Bonn') AS at", "5000000000 AS amount", more, "'m2' AS message_id")
    write("third", "'m1' AS message_id", "named_struct('zip', 8) AS at", merge_on="message_id")
    write("third-again", "'m3' AS message_id", "named_struct('zip', 8) AS at", merge_on="message_id")
    found = spark.table(table).orderBy("message_id")
    assert dict(found.dtypes) == {
        "message_id": "string",
        "at": "struct<city:string,zip:int>",
        "items": "array<struct<sku:string,size:int>>",
        "amount": "bigint",
    }
    assert [row.asDict(recursive=True) for row in found.collect()] == [
        {"message_id": "m1", "at": {"city": "Ulm", "zip": None}, "items": [{"sku": "a", "size": None}], "amount": 1},
        {
            "message_id": "m2",
            "at": {"city": "Bonn", "zip": 7},
            "items": [{"sku": "b", "size": 2}],
            "amount": 5_000_000_000,
        },
        {"message_id": "m3", "at": {"city": None, "zip": 8}, "items": None, "amount": None},
    ]
    with pytest.raises(Exception, match="Cannot change column type"):
        write("fourth", "1 AS message_id")
    with pytest.raises(Exception, match=r"not found in source schema|TOO_MANY_DATA_COLUMNS"):
        write_iceberg(spark.range(1).selectExpr("'m4' AS message_id", "1 AS more"), table, "fifth")
    assert spark.table(table).count() == 3


def test_a_table_of_another_program_gets_new_columns(spark: SparkSession, rows: DataFrame, table: str) -> None:
    spark.sql(f"CREATE TABLE {table} ({SCHEMA}) USING iceberg")
    with pytest.raises(Exception, match=r"EXTRA_COLUMNS|TOO_MANY_DATA_COLUMNS|INSERT_COLUMN_ARITY_MISMATCH"):
        write_iceberg(rows.selectExpr("*", "1 AS amount"), table, "first")
    write_iceberg(rows.selectExpr("*", "1 AS amount"), table, "first", merge_schema=True)
    assert spark.table(table).columns == ["message_id", "Body", "amount"]


def delayed(rows: DataFrame, folder: Path) -> DataFrame:
    """The rows, of which a task says that it was started, and waits until it may go on."""

    def wait(batches: Iterator[Any]) -> Iterator[Any]:
        (folder / "started").touch()
        until = time.monotonic() + 200
        while not (folder / "goes on").exists():
            assert time.monotonic() < until
            time.sleep(0.02)
        yield from batches

    return rows.coalesce(1).mapInArrow(wait, rows.schema)


@pytest.mark.parametrize("keys", [{}, {"merge_on": "message_id"}], ids=["append", "merge"])
def test_two_runs_at_once(
    keys: dict[str, str], spark: SparkSession, rows: DataFrame, table: str, tmp_path: Path
) -> None:
    """Each has found the table without the batch, and the slower one writes it no more, in whatever way it is keyed.

    A slow run of another batch is overtaken, too, and writes its rows afterwards.
    """
    slow: dict[str, DataFrame] = {}
    for batch in ("same", "other"):
        (tmp_path / batch).mkdir()
        slow[batch] = delayed(rows if batch == "same" else rows.replace("m0", "m9").limit(1), tmp_path / batch)
    write_iceberg(rows.limit(0), table, "before")
    with ThreadPoolExecutor() as pool:
        runs = [pool.submit(write_iceberg, slow[batch], table, batch, **keys) for batch in slow]
        try:
            until = time.monotonic() + 200
            while not all((tmp_path / batch / "started").exists() for batch in slow):
                assert time.monotonic() < until
                time.sleep(0.02)
            write_iceberg(rows, table, "same", **keys)
        finally:
            for batch in slow:
                (tmp_path / batch / "goes on").touch()
        for run in runs:
            run.result()
    assert ids(spark, table) == Counter(["m0", "m1", "m2", "m3", "m9"])


def test_many_runs_at_once(spark: SparkSession, rows: DataFrame, table: str) -> None:
    """They create the table, too."""
    batches = ["one", "two", "three"]
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda batch: write_iceberg(rows, table, batch), batches * 2))
    assert ids(spark, table) == Counter({f"m{n}": len(batches) for n in range(4)})


def test_a_run_that_is_overtaken_each_time(
    spark: SparkSession, rows: DataFrame, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    look, others = iceberg._has, []

    def look_and_let_another_write(*given: Any) -> bool:
        found = look(*given)
        if given[-1][0].endswith("slow"):
            others.append(f"other {len(others)}".replace(" ", "-"))
            write_iceberg(rows, table, others[-1])
        return found

    monkeypatch.setattr(iceberg, "_has", look_and_let_another_write)
    with pytest.raises(TransientError, match="overtook the batch 10 times"):
        write_iceberg(rows, table, "slow")
    assert spark.table(table).count() == len(others) * 4 == 40


def expire(spark: SparkSession, table: str, more: str = "") -> None:
    catalog, _, name = table.partition(".")
    spark.sql(f"CALL {catalog}.system.expire_snapshots(table => '{name}'{more})")


def test_a_batch_is_remembered_as_long_as_its_snapshot(spark: SparkSession, rows: DataFrame, table: str) -> None:
    """Expiry with its defaults keeps five days. After a snapshot was removed only merge_on finds its rows."""
    for batch in ("first", "second"):
        write_iceberg(rows, table, batch)
    expire(spark, table)
    for batch in ("first", "second"):
        write_iceberg(rows, table, batch)
    assert spark.table(table).count() == 2 * 4
    expire(spark, table, f", older_than => TIMESTAMP '{spark.sql('SELECT now()').first()[0]}'")
    write_iceberg(rows, table, "second")
    write_iceberg(rows, table, "first", merge_on="message_id")
    assert spark.table(table).count() == 2 * 4
    expire(spark, table, f", older_than => TIMESTAMP '{spark.sql('SELECT now()').first()[0]}'")
    write_iceberg(rows, table, "second")
    assert spark.table(table).count() == 3 * 4


def test_a_property_of_the_table_keeps_snapshots_longer(spark: SparkSession, rows: DataFrame, table: str) -> None:
    for batch in ("first", "second"):
        write_iceberg(rows, table, batch)
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('history.expire.max-snapshot-age-ms' = '1')")
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('history.expire.min-snapshots-to-keep' = '100')")
    expire(spark, table)
    write_iceberg(rows, table, "first")
    assert spark.table(table).count() == 2 * 4
    spark.sql(f"ALTER TABLE {table} UNSET TBLPROPERTIES ('history.expire.min-snapshots-to-keep')")
    expire(spark, table)
    write_iceberg(rows, table, "first")
    assert spark.table(table).count() == 3 * 4


def test_a_rollback_forgets_a_batch_with_its_rows(spark: SparkSession, rows: DataFrame, table: str) -> None:
    write_iceberg(rows, table, "first")
    before = spark.sql(f"SELECT max_by(snapshot_id, committed_at) FROM {table}.snapshots").first()[0]
    write_iceberg(rows, table, "second")
    spark.sql(f"CALL lake.system.rollback_to_snapshot('{table.partition('.')[2]}', {before})")
    assert spark.table(table).count() == 4
    for _ in range(2):
        write_iceberg(rows, table, "second")
        write_iceberg(rows, table, "first")
    assert spark.table(table).count() == 2 * 4


def test_compacted_files_have_no_effect_on_what_is_known(spark: SparkSession, rows: DataFrame, table: str) -> None:
    for batch in ("first", "second"):
        write_iceberg(rows, table, batch)
    name = table.partition(".")[2]
    spark.sql(f"CALL lake.system.rewrite_data_files(table => '{name}', options => map('rewrite-all', 'true'))")
    assert spark.sql(f"SELECT count(*) FROM {table}.files").first()[0] == 1
    for batch in ("first", "second"):
        write_iceberg(rows, table, batch)
    assert spark.table(table).count() == 2 * 4


def test_a_stream_that_repeats_a_micro_batch(spark: SparkSession, table: str, tmp_path: Path) -> None:
    source, checkpoint = tmp_path / "source", tmp_path / "checkpoint"

    def run() -> None:
        stream = spark.readStream.schema(SCHEMA).parquet(str(source))
        writer = stream.writeStream.foreachBatch(foreach_batch(write_iceberg, table))
        writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start().awaitTermination()

    spark.createDataFrame([("m1", b"")], SCHEMA).write.parquet(str(source))
    run()
    for path in (checkpoint / "commits").iterdir():
        path.unlink()
    run()
    spark.createDataFrame([("m2", b"")], SCHEMA).write.mode("append").parquet(str(source))
    run()
    assert ids(spark, table) == Counter(["m1", "m2"])


class Door:
    """Holds the request that commits, before or after it is done; one that was held before is refused in the end."""

    def __init__(self, point: str, request: str) -> None:
        self._point, self._request = point, re.compile(request)
        self.held, self.opened = threading.Event(), threading.Event()

    def enter(self, request: str) -> tuple[str, str] | None:
        return ("503 Slow Down", "SlowDown") if self._point == "before" and self._holds(request) else None

    def leave(self, request: str) -> None:
        if self._point == "in":
            self._holds(request)

    def _holds(self, request: str) -> bool:
        if not self._request.match(request):
            return False
        self.held.set()
        self.opened.wait(300)
        return True


@pytest.mark.timeout(600)
@pytest.mark.parametrize("point", ["before", "in", "after"])
def test_killed_and_run_again(
    point: str, spark: SparkSession, iceberg_config: dict[str, str], s3: S3Server, remote: Bucket, tmp_path: Path
) -> None:
    """On S3. Spark dies when all has been written but the table's new state, when the store has that and not answered,
    or before the job could say that it had ended.
    """
    batch, name = make_batch(tmp_path), f"killed_{point}"
    plan = {
        "config": iceberg_config,
        "batch": batch.to_dict(),
        "table": f"remote.shop.{name}",
        "sinks": ["iceberg"],
    }
    written = read_batch(spark, batch).select("message_id", "Body")
    write_iceberg(written.limit(0), plan["table"], "before")
    door = Door(point, f"PUT /{remote.name}/shop/{name}/metadata/v3[.]metadata[.]json")
    with s3.behind(door.enter, door.leave):
        kill(plan, tmp_path, None if point == "after" else door.held)
        door.opened.set()
    spark.catalog.refreshTable(plan["table"])
    assert spark.table(plan["table"]).count() == (0 if point == "before" else written.count())
    sinks(spark, plan)["iceberg"]()
    assert spark.table(plan["table"]).exceptAll(written).count() == 0
    assert spark.table(plan["table"]).count() == written.count() == 2


def test_unusable_names_and_sessions(spark: SparkSession, rows: DataFrame, table: str, tmp_path: Path) -> None:
    for name in ("s3a://bucket/audit", "lake.shop.audit.snapshots", "lake..audit", ""):
        with pytest.raises(ConfigurationError, match="by its name in a catalog"):
            write_iceberg(rows, name, "first")
    with pytest.raises(ConfigurationError, match="no column missing"):
        write_iceberg(rows, table, "first", merge_on=["message_id", "missing"])
    with pytest.raises(ConfigurationError, match="no column missing"):
        write_iceberg(rows, table, "first", partition_by=["missing"])
    with pytest.raises(ConfigurationError, match="A step's name"):
        write_iceberg(rows, table, "first", step="a/b")
    with pytest.raises(BatchError, match="is open"):
        write_iceberg(rows, table, batches_in(tmp_path)(["{}"], state="open"))
    for name in ("elsewhere.shop.audit", "shop.audit", "audit"):
        with pytest.raises(ConfigurationError, match=r"This session has no Iceberg: start it with .*iceberg-spark-run"):
            write_iceberg(rows, name, "first")
    rows.write.saveAsTable("plain")
    with pytest.raises(ConfigurationError, match="not one of Iceberg"):
        write_iceberg(rows, "plain", "first")


def test_a_session_that_stages_its_writes_is_refused(spark: SparkSession, rows: DataFrame, table: str) -> None:
    """Only for a table that lets it: others ignore the setting."""
    for key in ("spark.wap.id", "spark.wap.branch"):
        spark.conf.set(key, "later")
        try:
            spark.sql(f"CREATE TABLE IF NOT EXISTS {table} ({SCHEMA}) USING iceberg")
            write_iceberg(rows, table, key)
            spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('write.wap.enabled' = 'true')")
            with pytest.raises(ConfigurationError, match=f"{key} of this session stages rows"):
                write_iceberg(rows, table, f"{key}.staged")
        finally:
            spark.conf.unset(key)
            spark.sql(f"ALTER TABLE {table} UNSET TBLPROPERTIES ('write.wap.enabled')")
    assert spark.table(table).count() == 2 * 4


def test_a_reader_without_spark(spark: SparkSession, rows: DataFrame, s3: S3Server, remote: Bucket) -> None:
    """The table and its marks on S3, with a column that came later."""
    table = pytest.importorskip("pyiceberg.table", reason="pyiceberg is not installed")
    for batch, read in {"first": rows, "second": rows.selectExpr("*", "named_struct('n', 1) AS more")}.items():
        for _ in range(2):
            write_iceberg(read, "remote.shop.read", batch, merge_schema=True)
    newest = max(filter(re.compile(r"shop/read/metadata/v\d[.]").match, remote.keys()))
    where = {"s3.endpoint": s3.url, "s3.access-key-id": KEY, "s3.secret-access-key": SECRET, "s3.region": "us-east-1"}
    found = table.StaticTable.from_metadata(f"s3://{remote.name}/{newest}", where)
    content = sorted((row["message_id"], row["Body"], str(row["more"])) for row in found.scan().to_arrow().to_pylist())
    assert content == sorted((f"m{n}", b"x", more) for n in range(4) for more in ("None", "{'n': 1}"))
    marks = [snapshot.summary.get("sqlqueue.id") for snapshot in found.metadata.snapshots]
    assert marks == [None, "sqlqueue batch first", "sqlqueue batch second"]
