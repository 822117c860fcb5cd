"""Times in tables of message types: 64-bit microseconds whatever the session says, read by all readers alike."""

from __future__ import annotations

import json
import threading
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.messages.message import Message
from airflow_sqlqueue.spark.message_tables import table_formats, write_message_tables
from airflow_sqlqueue.spark.sinks import write_partitions
from airflow_sqlqueue.spark.sinks.checks import TIMES, session_settings
from tests.table_readers import check_types, instants, read_by_all

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.spark.conftest import MakeBatch

INSTANTS = [
    "0001-01-01T00:00:00Z",
    "1582-10-10T12:00:00.000001Z",
    "2030-01-31T08:00:00+01:00",
    "9999-12-31T23:59:59.999999Z",
]
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def microseconds(text: str) -> int:
    """Microseconds since 1970, by Python's own calendar."""
    distance = datetime.fromisoformat(text.replace("Z", "+00:00")) - EPOCH
    return (distance.days * 86_400 + distance.seconds) * 1_000_000 + distance.microseconds


def messages(*, is_later: bool = False) -> list[Message]:
    """Messages with an instant, and a later batch with local times as well."""
    headers = {"NServiceBus.EnclosedMessageTypes": "Shop.Dates", "NServiceBus.ContentType": "application/json"}
    bodies = [{"N": n, "At": text, **({"Local": text[:19]} if is_later else {})} for n, text in enumerate(INSTANTS)]
    return [Message(headers, json.dumps(body).encode()) for body in bodies]


def check_readers(folder: Path, *, is_delta: bool = False) -> None:
    """Check what all readers read of both batches."""
    wanted = sorted(2 * [(microseconds(text), True) for text in INSTANTS])
    local = sorted((microseconds(f"{text[:19]}Z"), False) for text in INSTANTS)
    for reader, table in read_by_all(folder, is_delta=is_delta).items():
        assert sorted(instants(table, "At")) == wanted, reader
        assert sorted(each for each in instants(table, "Local") if each[0] is not None) == local, reader


def test_instants_are_64_bit_microseconds(spark: SparkSession, make_batch: MakeBatch, tmp_path: Path) -> None:
    old = {"spark.sql.parquet.outputTimestampType": "INT96", "spark.sql.parquet.datetimeRebaseModeInWrite": "LEGACY"}
    with session_settings(spark, old):
        for number in range(2):
            batch = make_batch(messages(is_later=number == 1), batch_id=f"batch-{number}")
            write_message_tables(spark, batch, str(tmp_path / "lake"))
        assert {name: spark.conf.get(name) for name in old} == old
        rows = spark.sql("SELECT timestamp'0001-01-01 00:00:00Z' AS At, timestamp_ntz'0001-01-01 00:00:00' AS Local")
        write_partitions(rows, str(tmp_path / "plain"), "batch-1")
    for name in ("lake/Shop.Dates", "plain"):
        check_types(tmp_path / name, {"At": True, "Local": False})
    check_readers(tmp_path / "lake" / "Shop.Dates")


def test_a_local_session_writes_no_int96(spark: SparkSession, tmp_path: Path) -> None:
    spark.sql("SELECT timestamp'0001-01-01 00:00:00Z' AS At").write.parquet(str(tmp_path / "own"))
    check_types(tmp_path / "own", {"At": True})


def test_settings_are_put_back_by_the_last_of_several_writers(spark: SparkSession) -> None:
    (name, wanted), *_ = TIMES.items()
    before = spark.conf.get(name, None)
    spark.conf.set(name, "INT96")
    inside, ended = threading.Event(), threading.Event()

    def other() -> None:
        with session_settings(spark, TIMES):
            inside.set()
            ended.wait(60)

    writer = threading.Thread(target=other)
    try:
        with session_settings(spark, TIMES):
            writer.start()
            assert inside.wait(60)
        assert spark.conf.get(name) == wanted
        ended.set()
        writer.join()
        assert spark.conf.get(name) == "INT96"
    finally:
        ended.set()
        if before is not None:
            spark.conf.set(name, before)


@pytest.mark.parametrize("location", ["lake.v2", "shop.public.lake", ".hidden", "my-lake.v2", "nowhere.shop"])
@pytest.mark.parametrize("kind", ["parquet", "delta"])
def test_a_location_with_a_dot_is_a_path_only_with_a_slash(
    spark: SparkSession,
    make_batch: MakeBatch,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    location: str,
    kind: Any,
) -> None:
    monkeypatch.chdir(tmp_path)
    batch, before = make_batch(messages()), list(tmp_path.iterdir())
    said = f"neither a folder nor a schema that this session knows: write ./{location} for a folder"
    for work_folder in (None, str(tmp_path)):
        with pytest.raises(ConfigurationError, match=said):
            write_message_tables(spark, batch, location, format=kind, work_folder=work_folder)
    assert list(tmp_path.iterdir()) == before


def test_a_location_with_a_dot_and_a_slash_is_a_folder(
    spark: SparkSession, make_batch: MakeBatch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for location in ("./lake.v2", f"{tmp_path}/lake.v2"):
        assert (
            table_formats.table_format(spark, "parquet", location).table("Shop.Dates")
            == f"{tmp_path}/lake.v2/Shop.Dates"
        )
    (table,) = write_message_tables(spark, make_batch(messages()), "lake.v2/")
    assert Path(table.table) == tmp_path / "lake.v2" / "Shop.Dates"
    assert Path(table.table).is_dir()
