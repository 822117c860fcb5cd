"""The data bus on a store that speaks S3, and payloads of a batch beside parts on it."""

from __future__ import annotations

import json
import random
from io import BytesIO

import pyarrow.parquet as pq
import pytest
from airflow.sdk.io import attach

from airflow_sqlqueue.drain.storage.folder import StagingFolder
from airflow_sqlqueue.endpoint.databus import batch_payloads
from airflow_sqlqueue.endpoint.databus.batch_payloads import fetch_payloads, staged_payloads
from airflow_sqlqueue.endpoint.databus.data_bus import DataBus
from airflow_sqlqueue.endpoint.databus.payload_file import MANIFEST
from airflow_sqlqueue.errors import (
    BatchError,
    DataBusUnreachableError,
    PayloadGoneError,
    PayloadKeyError,
    PayloadTooLargeError,
    StagingError,
)
from airflow_sqlqueue.hooks.staging import data_bus_at
from tests.payloads import KEY, names, new_key, staged
from tests.stores.conftest import Bucket
from tests.stores.server import KEY as LOGIN
from tests.stores.server import PART_SIZE, SECRET, Door, S3Server


def object_of(key: str) -> str:
    return "databus/" + key.replace("\\", "/")


@pytest.fixture
def bus(s3: S3Server, bucket: Bucket) -> DataBus:
    return DataBus(StagingFolder(s3.filesystem(), f"{bucket.name}/databus", f"s3a://{bucket.name}/databus", 10))


def test_a_payload_is_read_in_pieces(bus: DataBus, bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("airflow_sqlqueue.endpoint.databus.data_bus._PIECE", 1000)
    content = random.Random(1).randbytes(2500)
    bucket.put(object_of(KEY), content)
    assert bus.fetch(KEY) == content
    bucket.put(object_of("empty"), b"")
    assert bus.fetch("empty") == b""


def test_a_missing_payload_is_gone_and_a_folder_is_no_payload(bus: DataBus, bucket: Bucket) -> None:
    with pytest.raises(PayloadGoneError, match="is gone: its sender gave it a time to live until 2020-01-31 08:00"):
        bus.fetch(KEY, "Picture")
    bucket.put(object_of(KEY), b"1")
    assert bus.fetch(KEY) == b"1"
    with pytest.raises(PayloadKeyError, match="names no file"):
        bus.fetch("2020-01-31_08")


def test_a_payload_is_found_that_was_written_after_its_folder_was_listed(bucket: Bucket, s3: S3Server) -> None:
    filesystem = s3.filesystem()
    bus = DataBus(StagingFolder(filesystem, f"{bucket.name}/databus", f"s3a://{bucket.name}/databus", 10))
    path = object_of(KEY)
    bucket.put(f"{path.rpartition('/')[0]}/other", b"0")
    assert len(filesystem.ls(f"{bucket.name}/{path.rpartition('/')[0]}")) == 1
    bucket.put(path, b"1")
    assert bus.fetch(KEY) == b"1"


def test_a_larger_payload_is_not_requested(bus: DataBus, bucket: Bucket, s3: S3Server) -> None:
    bucket.put(object_of(KEY), b"x" * 1001)
    before = len(s3.requests)
    with pytest.raises(PayloadTooLargeError):
        bus.fetch(KEY, limit=1000)
    assert [request.partition(" ")[0] for request in s3.requests[before:]] == ["HEAD"]


def test_a_missing_bucket_is_unreachable(s3: S3Server) -> None:
    bus = DataBus(StagingFolder(s3.filesystem(), "no-such-bucket/databus", "s3a://no-such-bucket/databus", 10))
    with pytest.raises(DataBusUnreachableError, match="is missing or empty"):
        bus.fetch(KEY)


@pytest.mark.parametrize("refusal", [("503 Service Unavailable", "SlowDown"), ("403 Forbidden", "AccessDenied")])
def test_a_store_that_refuses_is_unreachable(
    bus: DataBus, bucket: Bucket, s3: S3Server, refusal: tuple[str, str]
) -> None:
    bucket.put(object_of(KEY), b"1")
    with s3.behind(lambda request: refusal), pytest.raises(DataBusUnreachableError) as caught:
        bus.fetch(KEY, "Picture")
    text = str(caught.value)
    assert text.startswith(f"The payload of 'Picture' cannot be read from the data bus s3a://{bucket.name}/databus: ")
    assert KEY.rpartition("\\")[2] not in text
    assert SECRET not in text
    assert caught.value.__suppress_context__
    assert bus.fetch(KEY) == b"1"


def test_a_connection_of_airflow_leads_to_a_data_bus(s3: S3Server, bucket: Bucket) -> None:
    connection = f"store_{bucket.name}"
    attach("s3", connection, fs=s3.filesystem())
    bucket.put(object_of(KEY), b"1")
    bus = data_bus_at(f"s3://{connection}@{bucket.name}/databus")
    assert bus.fetch(KEY) == b"1"
    assert LOGIN not in repr(bus)


def test_payloads_of_a_batch_are_whole_before_they_are_listed(
    bus: DataBus, bucket: Bucket, staging: StagingFolder, s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_payloads, "_GROUP_BYTES", PART_SIZE)
    contents = [random.Random(number).randbytes(PART_SIZE // 2 + 1000) for number in range(4)]
    keys = [new_key() for _ in contents]
    for key, content in zip(keys, contents, strict=True):
        bucket.put(object_of(key), content)
    batch, parts = staged(staging, [*(names(Picture=key) for key in keys), names(Picture=KEY)])
    seen: list[int] = []

    def look(request: str) -> tuple[str, str] | None:
        if request.startswith("PUT ") and MANIFEST in request:
            assert bucket.unfinished() == []
            (file,) = [key for key in bucket.keys() if "/payloads-" in key]  # noqa: SIM118
            seen.append(pq.read_table(BytesIO(bucket.read(file))).num_rows)
        return None

    with s3.behind(look):
        result = fetch_payloads(batch, parts, bus, staging)
    assert seen == [5]
    assert (result.fetched, result.gone) == (4, 1)
    assert [row.content for row in staged_payloads(batch, staging)] == [*contents, None]
    (manifest,) = [key for key in bucket.keys() if key.endswith(MANIFEST)]  # noqa: SIM118
    assert json.loads(bucket.read(manifest)) == result.to_dict()


def refuse_parts(request: str) -> tuple[str, str] | None:
    return ("500 Internal Server Error", "InternalError") if "/payloads-" in request and "PUT" in request else None


def refuse_manifest(request: str) -> tuple[str, str] | None:
    is_write = request.startswith("PUT ") and MANIFEST in request
    return ("500 Internal Server Error", "InternalError") if is_write else None


@pytest.mark.parametrize("door", [refuse_parts, refuse_manifest])
def test_payloads_that_cannot_be_written_are_not_listed(
    bus: DataBus, bucket: Bucket, staging: StagingFolder, s3: S3Server, door: Door
) -> None:
    bucket.put(object_of(KEY), b"1")
    batch, parts = staged(staging, [names(Picture=KEY)])
    with s3.behind(door), pytest.raises(StagingError):
        fetch_payloads(batch, parts, bus, staging)
    assert bucket.unfinished() == []
    with pytest.raises(BatchError, match="were not fetched"):
        list(staged_payloads(batch, staging))
    assert fetch_payloads(batch, parts, bus, staging).fetched == 1
    assert [row.content for row in staged_payloads(batch, staging)] == [b"1"]
