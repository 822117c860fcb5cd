"""Retention of message tables by type: old rows go, others stay, and a dry run only counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.messages.envelope.times import format_time
from airflow_sqlqueue.messages.message import Message
from airflow_sqlqueue.spark import audit_table
from airflow_sqlqueue.spark.message_tables import compact_message_tables, expire_message_tables, write_message_tables
from tests.spark.conftest import parquet_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.spark.conftest import MakeBatch

CLICKS, ORDER = "Shop.Clicks", "Shop.Order"
RETENTION: dict[str, Any] = {"shop.clicks": "30d", "Shop.*": timedelta(days=400)}


def sent(name: str | None, days: float | None, body: bytes = b'{"N":1}') -> Message:
    """A message that was sent some days ago, or has no time."""
    headers: dict[str, str | None] = {"NServiceBus.ContentType": "application/json"}
    if name is not None:
        headers["NServiceBus.EnclosedMessageTypes"] = name
    if days is not None:
        headers["NServiceBus.TimeSent"] = format_time(datetime.now(timezone.utc) - timedelta(days=days))
    return Message(headers, body)


BATCHES = [
    [sent(CLICKS, 90), sent(CLICKS, 31), sent(CLICKS, None), sent(CLICKS, 40, b"not JSON"), sent(ORDER, 90)],
    [sent(CLICKS, 40), sent(CLICKS, 29), sent(CLICKS, None), sent(ORDER, 500), sent(None, 900)],
    [sent(CLICKS, None), sent(CLICKS, 29, b"not JSON"), sent(ORDER, None)],
]


def batch_ids(table: str) -> list[Any]:
    """The ids of the rows' batches in a table of Parquet."""
    return parquet_rows(table, "batch_id")


def expired(
    spark: SparkSession,
    make: MakeBatch,
    location: str,
    read: Callable[[str], list[Any]] = batch_ids,
    **options: Any,
) -> tuple[Counter[Any], Counter[Any]]:
    """The rows that a dry run counts, after it was checked that a run deletes them, and the rows of the tables then."""
    for number, messages in enumerate(BATCHES):
        write_message_tables(spark, make(messages, batch_id=f"batch-{number}"), location, **options)
    would = expire_message_tables(spark, location, retention=RETENTION, dry_run=True, **options)
    done = expire_message_tables(spark, location, retention=RETENTION, **options)
    assert [(each.table, each.messages) for each in would] == [(each.table, each.messages) for each in done]
    assert expire_message_tables(spark, location, retention=RETENTION, **options) == []
    tables = (CLICKS, f"{CLICKS}~unparsed", ORDER, "~unparsed")
    kept = Counter((table, batch_id) for table in tables for (batch_id,) in read(f"{location}/{table}"))
    return Counter({each.table.rpartition("/")[2]: each.messages for each in would}), kept


def test_parquet_loses_whole_batches(spark: SparkSession, make_batch: MakeBatch, tmp_path: Path) -> None:
    counts, kept = expired(spark, make_batch, str(tmp_path / "lake"))
    assert counts == {CLICKS: 3, f"{CLICKS}~unparsed": 1, ORDER: 1}
    assert kept == {
        (CLICKS, "batch-1"): 3, (CLICKS, "batch-2"): 1, (f"{CLICKS}~unparsed", "batch-2"): 1,
        (ORDER, "batch-0"): 1, (ORDER, "batch-2"): 1, ("~unparsed", "batch-1"): 1,
    }  # fmt: skip


def test_types_whose_schema_is_missing_or_cannot_be_used_are_no_exception(
    spark: SparkSession, make_batch: MakeBatch, tmp_path: Path
) -> None:
    lake, long = tmp_path / "lake", f"Shop.{'Long' * 40}"
    messages = [sent(ORDER, 90), sent(CLICKS, 90), sent(CLICKS, 90, b"no"), sent(long, 90), sent("Kept", 90)]
    messages.append(sent(None, 5))
    batch = make_batch(messages)
    write_message_tables(spark, batch, str(lake))
    audit_table(spark, batch, str(lake / "audit"))
    Path(lake, "_schemas", f"{ORDER}.json").write_text("{")
    for schemas in (str(tmp_path / "elsewhere"), None):
        found = expire_message_tables(spark, str(lake), retention={"Shop.*": "30d"}, schemas=schemas, dry_run=True)
        counts = Counter((each.message_type, Path(each.table).name.endswith("~unparsed")) for each in found)
        assert counts == {(ORDER, False): 1, (CLICKS, False): 1, (CLICKS, True): 1, (long, False): 1}
    # Messages without a type have the pattern of all.
    assert expire_message_tables(spark, str(lake), retention={"*Order": "91d", "!*": "1d"}) == []
    retention = {"Shop.*": "30d", "Kept": "999999d", "*": "100h"}
    found = expire_message_tables(spark, str(lake), retention=retention, schemas=tmp_path / "elsewhere")
    assert (None, 1) in [(each.message_type, each.messages) for each in found]
    assert sum(pq.read_metadata(file).num_rows for file in (lake / "audit").rglob("*.parquet")) == len(messages)
    assert [path.parts[-2] for path in sorted(lake.glob("[!_]*/batch_id=*"))] == ["Kept", "audit"]


def test_a_missing_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"There is no folder .*lak': name the one that has the tables"):
        expire_message_tables(None, str(tmp_path / "lak"), retention={"*": "30d"})  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="There is no folder"):
        compact_message_tables(None, str(tmp_path / "lak"))  # type: ignore[arg-type]


@pytest.mark.parametrize("retention", ["30d", None, ["30d"]])
def test_ages_have_patterns(retention: Any, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="retention is an age in days or hours"):
        expire_message_tables(None, str(tmp_path), retention=retention)  # type: ignore[arg-type]


@pytest.mark.parametrize("age", ["30", "d", "-1d", "0d", 30, None, timedelta(0), "1m", ""])
def test_other_ages_are_refused(age: Any, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="retention is an age in days or hours"):
        expire_message_tables(None, str(tmp_path), retention={"Shop.*": age})  # type: ignore[arg-type]


def check_merge(spark: SparkSession, make: MakeBatch, location: str, **options: Any) -> None:
    """Check that a message that was sent again is one row, in its own batch and over batches, and runs are repeated."""

    def message(message_id: str | None, body: str) -> Message:
        headers: dict[str, str | None] = {"NServiceBus.EnclosedMessageTypes": ORDER}
        if message_id is not None:
            headers["NServiceBus.MessageId"] = message_id
        return Message(headers, body.encode())

    first = make([message("a", '{"N":1}'), message("a", '{"N":1}'), message(None, '{"N":2}'), message(None, '{"N":3}')])
    second = make([message("a", '{"N":1}'), message("b", '{"N":4,"More":5}'), message("a", "no")], batch_id="batch-2")
    for batch in (first, second, first):
        tables = write_message_tables(
            spark, batch, location, merge_on="message_id", cluster_by=["time_sent", "message_id"], **options
        )
        assert [each.repeated for each in tables if not each.is_unparsed] == [1]
    reader = spark.read.option("mergeSchema", "true").format(options.get("format", "parquet"))
    rows = reader.load(f"{location}/{ORDER}").select("N", "More", "batch_id").collect()
    assert sorted(map(tuple, rows), key=lambda row: row[0]) == [
        (1, None, "batch-1"), (2, None, "batch-1"), (3, None, "batch-1"), (4, 5, "batch-2"),
    ]  # fmt: skip
    # The table of messages that are not parsed is another one.
    assert reader.load(f"{location}/{ORDER}~unparsed").count() == 1


def test_a_message_that_was_sent_again_is_one_row(spark: SparkSession, make_batch: MakeBatch, tmp_path: Path) -> None:
    check_merge(spark, make_batch, str(tmp_path / "lake"))
    for option in ("merge_on", "cluster_by"):
        with pytest.raises(ConfigurationError, match="Not every table has a column 'OrderId'"):
            write_message_tables(spark, make_batch([]), str(tmp_path / "lake"), **{option: "OrderId"})  # type: ignore[arg-type]
