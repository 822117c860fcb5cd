"""Payloads of a batch as a DataFrame."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from airflow_sqlqueue.drain.manifest import Batch
from airflow_sqlqueue.drain.storage.folder import StagingFolder
from airflow_sqlqueue.endpoint.databus.batch_payloads import PayloadOptions, fetch_payloads
from airflow_sqlqueue.endpoint.databus.data_bus import DataBus
from airflow_sqlqueue.endpoint.databus.payload_file import COLUMNS, MANIFEST
from airflow_sqlqueue.errors import BatchError, BatchMismatchError
from airflow_sqlqueue.messages.message import HeaderNames
from airflow_sqlqueue.spark import read_batch, read_payloads
from tests.payloads import KEY, as_json, names, new_key, put, staged

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BYTES = bytes(range(256)) * 4 + b"\xfb\xef\xff"
CONTENTS = {
    "bytes": as_json(BYTES),
    "escaped": as_json(BYTES).replace(b"+", b"\\u002B").replace(b"/", b"\\/"),
    "marked": b"\xef\xbb\xbf" + as_json(BYTES) + b"\n",
    "empty": b'""',
    "text": b'"no base64!"',
    "words": b'"hello world"',
    "cut": b'"AAE"',
    "object": b'{"a": "b"}',
    "binary": b"\xff\x00",
}
DATA = {**dict.fromkeys([*CONTENTS, "gone"]), **dict.fromkeys(("bytes", "escaped", "marked"), BYTES), "empty": b""}


@pytest.fixture
def batch(tmp_path: Path) -> Batch:
    share, staging = tmp_path / "share", StagingFolder.of(tmp_path / "a b%20=c")
    keys = {name: put(share, new_key(), content) for name, content in CONTENTS.items()}
    batch, parts = staged(
        staging, [names(**keys), {"no": "payload"}, {**names(gone=KEY), HeaderNames.MESSAGE_ID: None}]
    )
    fetch_payloads(batch, parts, DataBus(share), staging, PayloadOptions(readable_by="all"))
    return batch


def test_payloads_join_the_messages_of_their_batch(spark: SparkSession, batch: Batch) -> None:
    payloads = read_payloads(spark, batch)
    assert payloads.columns == [*COLUMNS, "data"]
    joined = read_batch(spark, batch).join(payloads.drop("message_id", "Id", "content_type"), "RowVersion")
    rows = {row["property"]: row for row in joined.collect()}
    assert {name: row["content"] for name, row in rows.items()} == {**CONTENTS, "gone": None}
    assert {name: row["data"] for name, row in rows.items()} == DATA
    assert {name: row["reason"] for name, row in rows.items()} == {**dict.fromkeys(CONTENTS), "gone": "gone"}
    assert rows["gone"]["key"] == KEY
    assert [rows[name]["message_id"] for name in ("bytes", "gone")] == ["id-1", rows["gone"]["Id"]]
    assert {row["message_id"] for row in payloads.collect()} == {"id-1", rows["gone"]["Id"]}


def test_each_copy_of_an_event_has_its_own_payload(spark: SparkSession, tmp_path: Path) -> None:
    share, staging = tmp_path / "share", StagingFolder.of(tmp_path / "staging")
    headers = names(bytes=put(share, new_key(), CONTENTS["bytes"]))
    batch, parts = staged(staging, [headers, headers], str(uuid.uuid4()))
    fetch_payloads(batch, parts, DataBus(share), staging)
    payloads = read_payloads(spark, batch).select("RowVersion", "data")
    assert read_batch(spark, batch).join(payloads, "RowVersion").count() == 2


def test_bytes_are_not_decoded_unless_they_are_selected(spark: SparkSession, batch: Batch) -> None:
    plan = read_payloads(spark, batch).select("property", "reason")._jdf.queryExecution().executedPlan().toString()
    assert "content" not in plan


def test_a_batch_is_named_as_for_its_messages(spark: SparkSession, batch: Batch, tmp_path: Path) -> None:
    manifest = tmp_path / "manifest.json"
    manifest.write_text(json.dumps(batch.to_dict()), "utf-8")
    for given in ({"batch": batch.to_reference()}, str(manifest)):
        assert read_payloads(spark, given).count() == len(CONTENTS) + 1


def test_a_batch_without_payloads_is_empty(spark: SparkSession, tmp_path: Path) -> None:
    staging = StagingFolder.of(tmp_path / "staging")
    batch, parts = staged(staging, [{}])
    with pytest.raises(BatchError, match="were not fetched: give the drain a data_bus"):
        read_payloads(spark, batch)
    fetch_payloads(batch, parts, DataBus(tmp_path), staging)
    assert read_payloads(spark, batch).count() == 0
    empty = Batch(batch.batch_id, batch.queue, "sealed", (), 0)
    assert read_payloads(spark, empty).columns == [*COLUMNS, "data"]
    with pytest.raises(BatchError, match="is open"):
        read_payloads(spark, Batch(batch.batch_id, batch.queue, "open", (), 0))


@pytest.mark.parametrize(
    "change",
    [lambda text: text.replace("payloads-", "../payloads-"), lambda text: text.replace('"gone": 1', '"gone": ""')],
)
def test_a_changed_manifest_is_refused(spark: SparkSession, batch: Batch, change: Callable[[str], str]) -> None:
    path = Path(batch.paths[0].removeprefix("file://")).parent / MANIFEST
    path.write_text(change(path.read_text("utf-8")), "utf-8")
    with pytest.raises(BatchMismatchError, match="was changed"):
        read_payloads(spark, batch)


def test_a_missing_file_is_reported(spark: SparkSession, batch: Batch) -> None:
    next(Path(batch.paths[0].removeprefix("file://")).parent.glob("payloads-*")).unlink()
    with pytest.raises(BatchMismatchError, match="is missing"):
        read_payloads(spark, batch)
