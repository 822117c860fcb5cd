"""Payloads of a batch, in files beside its parts."""

from __future__ import annotations

import errno
import logging
import os
import socket
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pyarrow.parquet as pq
import pytest

from airflow_sqlqueue.drain.manifest import Batch
from airflow_sqlqueue.drain.storage.folder import StagingFolder
from airflow_sqlqueue.endpoint.databus import batch_payloads
from airflow_sqlqueue.endpoint.databus.batch_payloads import (
    PayloadOptions,
    StagedPayload,
    fetch_payloads,
    staged_payloads,
)
from airflow_sqlqueue.endpoint.databus.data_bus import DataBus
from airflow_sqlqueue.endpoint.databus.keys import path_of
from airflow_sqlqueue.endpoint.databus.payload_file import MANIFEST, PayloadsResult, arrow_schema
from airflow_sqlqueue.errors import (
    BatchError,
    BatchMismatchError,
    ConfigurationError,
    DataBusUnreachableError,
    StagingError,
)
from airflow_sqlqueue.messages.message import HeaderNames
from tests.payloads import KEY, SECRET, as_json, names, new_key, put, staged


@pytest.fixture
def share(tmp_path: Path) -> Path:
    put(tmp_path / "share", "other\\payload", b"1")
    return tmp_path / "share"


def folder_of(staging: StagingFolder, batch: Batch) -> Path:
    return Path(staging.root, batch.folder)


def test_each_payload_has_a_row_with_its_content_or_a_reason(
    share: Path, staging: StagingFolder, caplog: pytest.LogCaptureFixture
) -> None:
    found, large, key_in_body = (put(share, new_key(), as_json(SECRET.encode())) for _ in range(3))
    put(share, large, b"x" * 1001)
    hostile = "..\\..\\etc\\passwd"
    batch, parts = staged(
        staging,
        [
            names(Picture=found, Contract=KEY),
            {"own": "DataBus"},
            {**names(Picture=large), HeaderNames.MESSAGE_ID: None},
            {**names(Picture=hostile, Text=None), "half": "\ud800"},
            {f"{HeaderNames.DATA_BUS_PREFIX}{key_in_body}": key_in_body},
        ],
    )
    with caplog.at_level(logging.DEBUG):
        result = fetch_payloads(batch, parts, DataBus(share), staging, PayloadOptions(payload_bytes=1000))
    size = len(as_json(SECRET.encode()))
    file = result.file
    assert result == PayloadsResult(batch.batch_id, file, fetched=2, bytes=2 * size, gone=1, too_large=1, refused=2)
    assert result.payloads == 6
    rows = list(staged_payloads(batch, staging))
    assert [(row.row_version, row.name, row.key, row.reason) for row in rows] == [
        (1, "Picture", found, None),
        (1, "Contract", KEY, "gone"),
        (3, "Picture", large, "too_large"),
        (4, "Picture", hostile, "refused"),
        (4, "Text", None, "refused"),
        (5, key_in_body, key_in_body, None),
    ]
    assert [row.content for row in rows if row.reason is None] == [as_json(SECRET.encode())] * 2
    assert [row.content for row in rows if row.reason is not None] == [None] * 4
    assert (rows[0].message_id, rows[2].message_id) == ("id-1", rows[2].row_id)
    assert (rows[0].content_type, rows[5].content_type) == ("application/json", None)
    ids = pq.read_table(batch.paths[0].removeprefix("file://"))["Id"].to_pylist()
    assert [row.row_id for row in rows] == [ids[row.row_version - 1] for row in rows]
    assert "6 payloads: 2 fetched" in caplog.text
    for text in (SECRET, found, KEY, hostile, large, "Picture"):
        assert text not in caplog.text


def test_texts_that_no_file_can_hold_are_escaped(share: Path, staging: StagingFolder) -> None:
    batch, parts = staged(staging, [{f"{HeaderNames.DATA_BUS_PREFIX}A.\ud800": "\udfff\0"}])
    assert fetch_payloads(batch, parts, DataBus(share)).refused == 1
    (row,) = staged_payloads(batch)
    assert (row.name, row.key) == ("\\ud800", "\\udfff\0")


def test_a_second_call_fetches_nothing(share: Path, staging: StagingFolder) -> None:
    key = put(share, new_key(), b"1")
    batch, parts = staged(staging, [names(Picture=key)])
    first = fetch_payloads(batch, parts, DataBus(share), staging)
    before = list(staged_payloads(batch))
    (share / key.replace("\\", "/")).unlink()
    assert fetch_payloads(batch, parts, DataBus(share), staging) == first
    assert list(staged_payloads(batch)) == before
    assert before[0].content == b"1"


def test_a_batch_without_payloads_has_a_manifest_alone(share: Path, staging: StagingFolder) -> None:
    batch, parts = staged(staging, [{}, {"a": "b"}])
    assert fetch_payloads(batch, parts, DataBus(share), staging) == PayloadsResult(batch.batch_id)
    assert list(staged_payloads(batch)) == []
    assert sorted(path.name.partition("-")[0] for path in folder_of(staging, batch).iterdir()) == ["part", MANIFEST]
    empty = replace(batch, paths=(), parts=0, messages=0)
    assert fetch_payloads(empty, [], DataBus(share), staging) == PayloadsResult(batch.batch_id)
    assert list(staged_payloads(empty)) == []


def test_the_bytes_of_all_payloads_are_limited(share: Path, staging: StagingFolder) -> None:
    sizes = [400, 400, 300, 200, 1]
    keys = [put(share, new_key(), b"x" * size) for size in sizes]
    batch, parts = staged(staging, [names(Picture=key) for key in keys])
    result = fetch_payloads(batch, parts, DataBus(share), staging, PayloadOptions(max_bytes=1000))
    assert result.bytes <= 1000
    assert [row.reason for row in staged_payloads(batch)] == [None, None, "over_limit", None, "over_limit"]
    assert (result.fetched, result.over_limit, result.bytes) == (3, 2, 1000)


@pytest.mark.parametrize("workers", [1, 4])
def test_no_more_payloads_are_in_memory_than_there_are_workers(
    share: Path, staging: StagingFolder, workers: int
) -> None:
    batch, parts = staged(staging, [names(Picture=f"k{number}") for number in range(20)])
    now, most, lock = 0, 0, threading.Lock()

    class Slow(DataBus):
        def fetch(self, *arguments: Any, **options: Any) -> bytes:
            nonlocal now, most
            with lock:
                now += 1
                most = max(most, now)
            time.sleep(0.01)
            with lock:
                now -= 1
            return b"x"

    result = fetch_payloads(batch, parts, Slow(share), staging, PayloadOptions(workers=workers))
    assert result.fetched == 20
    assert most <= workers
    assert [row.row_version for row in staged_payloads(batch)] == list(range(1, 21))


def test_rows_are_written_in_groups(share: Path, staging: StagingFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_payloads, "_GROUP_BYTES", 1000)
    key = put(share, new_key(), b"x" * 600)
    batch, parts = staged(staging, [names(Picture=key)] * 5)
    file = fetch_payloads(batch, parts, DataBus(share), staging).file
    assert pq.ParquetFile(folder_of(staging, batch) / str(file)).num_row_groups == 3
    assert [row.content for row in staged_payloads(batch)] == [b"x" * 600] * 5


def test_keys_count_for_a_group(share: Path, staging: StagingFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_payloads, "_GROUP_BYTES", 1000)
    batch, parts = staged(staging, [names(Picture="k" * 400)] * 5)
    file = fetch_payloads(batch, parts, DataBus(share), staging).file
    assert pq.ParquetFile(folder_of(staging, batch) / str(file)).num_row_groups == 2


def test_a_payload_that_cannot_be_opened_leaves_the_others(
    share: Path, staging: StagingFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, shut, pipe, looped, away = (put(share, new_key(), b"x" * 10) for _ in range(5))
    folder = Path(DataBus(share)._folder.root)
    for key in (pipe, looped):
        (folder / path_of(key)).unlink()
    with socket.socket(socket.AF_UNIX) as listener:
        monkeypatch.chdir((folder / path_of(pipe)).parent)
        listener.bind((folder / path_of(pipe)).name)
    (folder / path_of(looped)).symlink_to((folder / path_of(looped)).name)
    tried: Counter[str] = Counter()
    system_open = os.open

    def opened(path: Any, *arguments: Any, **options: Any) -> int:
        tried[str(path).rpartition("/")[2]] += 1
        if str(path).endswith(path_of(shut)):
            raise PermissionError(errno.EACCES, "Permission denied", path)
        if str(path).endswith(path_of(away)) and tried[str(path).rpartition("/")[2]] == 1:
            raise OSError(errno.ESTALE, "Stale file handle", path)
        return system_open(path, *arguments, **options)

    monkeypatch.setattr(os, "open", opened)
    batch, parts = staged(staging, [names(Picture=key) for key in (shut, found, pipe, looped, away)])
    result = fetch_payloads(batch, parts, DataBus(share), staging)
    assert (result.fetched, result.unreadable, result.payloads) == (2, 3, 5)
    reasons = [row.reason for row in staged_payloads(batch, staging)]
    assert reasons == ["unreadable", None, "unreadable", "unreadable", None]


@pytest.mark.parametrize("error", [TimeoutError("no answer"), ConnectionResetError("reset")])
def test_a_data_bus_that_stops_to_answer_fails_the_call(
    share: Path, staging: StagingFolder, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    batch, parts = staged(staging, [names(Picture=put(share, new_key(), b"x"))])
    monkeypatch.setattr(DataBus, "_read_file", Mock(side_effect=error))
    with pytest.raises(DataBusUnreachableError) as raised:
        fetch_payloads(batch, parts, DataBus(share), staging)
    assert type(raised.value) is DataBusUnreachableError


def test_an_unreachable_data_bus_fails_the_call_and_leaves_nothing(staging: StagingFolder, tmp_path: Path) -> None:
    batch, parts = staged(staging, [names(Picture=KEY)])
    with pytest.raises(DataBusUnreachableError):
        fetch_payloads(batch, parts, DataBus(tmp_path / "not mounted"), staging)
    assert len(list(folder_of(staging, batch).iterdir())) == 1
    with pytest.raises(BatchError, match="were not fetched: call fetch_payloads first"):
        list(staged_payloads(batch))


def test_a_damaged_file_of_payloads_is_named_by_its_batch(share: Path, staging: StagingFolder) -> None:
    batch, parts = staged(staging, [names(Picture=put(share, new_key(), b"x"))])
    fetch_payloads(batch, parts, DataBus(share), staging)
    (file,) = folder_of(staging, batch).glob("payloads-*")
    file.write_bytes(file.read_bytes()[:-9])
    with pytest.raises(StagingError, match=f"^The payloads of batch {batch.batch_id} cannot be read"):
        list(staged_payloads(batch))


def test_a_call_that_is_stopped_leaves_nothing(
    share: Path, staging: StagingFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_payloads, "_GROUP_ROWS", 1)
    batch, parts = staged(staging, [names(Picture=put(share, new_key(), b"1"))] * 3)
    left = iter([None, KeyboardInterrupt()])

    def stop() -> None:
        if error := next(left):
            raise error

    with pytest.raises(KeyboardInterrupt):
        fetch_payloads(batch, parts, DataBus(share), staging, on_payload=stop)
    assert len(list(folder_of(staging, batch).iterdir())) == 1


def test_only_a_batch_in_files_that_can_be_read_has_payloads(share: Path, staging: StagingFolder) -> None:
    batch, parts = staged(staging, [names(Picture=KEY)])
    for state in ("open", "requeued"):
        with pytest.raises(BatchError, match=state):
            fetch_payloads(replace(batch, state=state), parts, DataBus(share), staging)
    with pytest.raises(ConfigurationError, match="with the stage files"):
        fetch_payloads(replace(batch, stage="table", paths=()), parts, DataBus(share), staging)
    with pytest.raises(ConfigurationError, match="with the stage files"):
        list(staged_payloads(replace(batch, stage="table", paths=())))


CHANGES: list[Callable[[str], str]] = [
    lambda text: text.replace("payloads-", "../payloads-"),
    lambda text: text.replace(".parquet", ".txt"),
    lambda text: text.replace('"fetched": 1', '"fetched": -1'),
    lambda text: text.replace('"fetched": 1', '"fetched": true'),
    lambda text: text.replace('"gone": 0, ', ""),
    lambda text: text.replace("batch_id", "other"),
    lambda text: text + "x",
    lambda text: "[" * 3000,
    lambda text: " " * 5000 + text,
    lambda text: "null",
]


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_manifest_is_refused(share: Path, staging: StagingFolder, change: Callable[[str], str]) -> None:
    batch, parts = staged(staging, [names(Picture=put(share, new_key(), b"1"))])
    fetch_payloads(batch, parts, DataBus(share), staging)
    path = folder_of(staging, batch) / MANIFEST
    path.write_text(change(path.read_text("utf-8")), "utf-8")
    with pytest.raises(BatchMismatchError, match="was changed"):
        list(staged_payloads(batch))
    with pytest.raises(BatchMismatchError, match="was changed"):
        fetch_payloads(batch, parts, DataBus(share), staging)


def test_the_manifest_of_another_batch_is_refused(share: Path, staging: StagingFolder) -> None:
    (one, one_parts), (other, other_parts) = (staged(staging, [names(Picture=KEY)]) for _ in range(2))
    fetch_payloads(one, one_parts, DataBus(share), staging)
    folder_of(staging, other).joinpath(MANIFEST).write_bytes(folder_of(staging, one).joinpath(MANIFEST).read_bytes())
    with pytest.raises(BatchMismatchError):
        fetch_payloads(other, other_parts, DataBus(share), staging)


def test_a_file_with_other_rows_is_refused(share: Path, staging: StagingFolder) -> None:
    batch, parts = staged(staging, [names(Picture=KEY)])
    file = fetch_payloads(batch, parts, DataBus(share), staging).file
    pq.write_table(arrow_schema().empty_table(), folder_of(staging, batch) / str(file))
    with pytest.raises(BatchMismatchError, match="are 0, and their manifest says 1"):
        list(staged_payloads(batch))


def test_two_calls_at_the_same_time_leave_one_whole_result(share: Path, staging: StagingFolder) -> None:
    keys = [put(share, new_key(), b"%d" % number) for number in range(10)]
    batch, parts = staged(staging, [names(Picture=key) for key in keys])
    together = threading.Barrier(2, timeout=30)

    def fetch() -> None:
        fetch_payloads(batch, parts, DataBus(share), staging, on_payload=lambda: together.wait() and None)

    threads = [threading.Thread(target=fetch) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [row.content for row in staged_payloads(batch)] == [b"%d" % number for number in range(10)]


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"payload_bytes": 0}, "payload_bytes"),
        ({"max_bytes": 0}, "max_bytes"),
        ({"workers": 0}, "workers"),
        ({"workers": 33}, "workers"),
        ({"readable_by": "nobody"}, "readable_by"),
        ({"bytes": 1}, "payload_options has no option 'bytes': did you mean 'max_bytes'"),
    ],
)
def test_options_out_of_range_are_refused(values: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        PayloadOptions.of(values)


@pytest.mark.parametrize(("readable_by", "mode"), [("owner", 0o600), ("group", 0o640)])
def test_files_have_the_permissions_of_part_files(
    share: Path, staging: StagingFolder, readable_by: str, mode: int
) -> None:
    batch, parts = staged(staging, [names(Picture=KEY)])
    file = fetch_payloads(batch, parts, DataBus(share), staging, PayloadOptions(readable_by=readable_by)).file
    for name in (str(file), MANIFEST):
        assert folder_of(staging, batch).joinpath(name).stat().st_mode & 0o777 == mode


def test_a_staged_payload_has_the_columns_of_the_file() -> None:
    payload = StagedPayload(str(uuid.uuid4()), 1, "id", KEY, KEY, None, SECRET.encode(), None)
    assert len(vars(payload)) == len(arrow_schema())
    assert KEY not in repr(payload)
    assert SECRET not in repr(payload)
