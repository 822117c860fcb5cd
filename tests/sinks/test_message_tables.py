"""Tables of message types in Delta Lake: each message once, whatever was written before a run ended."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_sqlqueue.message import Message
from airflow_sqlqueue.spark.message_tables import tables as message_tables
from airflow_sqlqueue.spark.message_tables import write_message_tables
from tests.spark.conftest import batches_in

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TYPES = [f"Shop.Type{number}" for number in range(5)]


def sent(start: int, count: int, **more: Any) -> list[Message]:
    found = []
    for number in range(start, start + count):
        headers = {
            "NServiceBus.ContentType": "application/json",
            "NServiceBus.EnclosedMessageTypes": TYPES[number % len(TYPES)],
        }
        found.append(Message(headers, json.dumps({"N": number, **more}).encode()))
    return found


def numbers(spark: SparkSession, lake: Path) -> list[int]:
    tables = [path for path in lake.iterdir() if path.name != "_schemas"]
    return sorted(row.N for path in tables for row in spark.read.format("delta").load(str(path)).select("N").collect())


def test_a_run_that_ended_between_its_tables_is_completed(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake, make = tmp_path / "lake", batches_in(tmp_path)
    first, second = make(sent(0, 50)), make(sent(50, 30, More="x"), batch_id="batch-2")
    write_message_tables(spark, first, str(lake), format="delta")
    write = message_tables.write_delta
    written: list[str] = []

    def dying(rows: Any, path: str, *arguments: Any, **options: Any) -> None:
        write(rows, path, *arguments, **options)
        written.append(path)
        if len(written) == 3:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(message_tables, "write_delta", dying)
        patched.setattr(message_tables, "_THREADS", 1)
        with pytest.raises(KeyboardInterrupt):
            write_message_tables(spark, second, str(lake), format="delta")
    assert 50 < len(numbers(spark, lake)) < 80
    for _ in range(2):
        write_message_tables(spark, second, str(lake), format="delta")
    assert numbers(spark, lake) == list(range(80))
    table = spark.read.format("delta").load(str(lake / TYPES[0]))
    assert table.where("More = 'x'").count() == 6
