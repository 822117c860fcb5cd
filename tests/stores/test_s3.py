"""Staging on a store that speaks S3: listed files exist, and undone ones do not."""

from __future__ import annotations

import gc
import random
import socket
import threading
import traceback
import uuid
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from airflow.sdk import ObjectStoragePath
from airflow.sdk.io import attach

from airflow_sqlqueue.drain.ledger import Ledger, Part
from airflow_sqlqueue.drain.manifest import Batch
from airflow_sqlqueue.drain.options import DrainOptions, SweepOptions
from airflow_sqlqueue.drain.requeue import requeue
from airflow_sqlqueue.drain.storage.batch_files import check_files
from airflow_sqlqueue.drain.storage.durable_file import DurableFile
from airflow_sqlqueue.drain.storage.folder import StagingFolder
from airflow_sqlqueue.drain.sweep import sweep
from airflow_sqlqueue.errors import BatchNotFoundError, ConfigurationError, StagingError
from airflow_sqlqueue.hooks.staging import staging_folder
from airflow_sqlqueue.messages.message import Message
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.queue.depth import depth
from tests.contract.conftest import Connect
from tests.drains import drain
from tests.stores.conftest import Bucket
from tests.stores.server import KEY, PART_SIZE, SECRET, Door, S3Server

SMALL, LARGE = 100, PART_SIZE // 2 + 1000


def send_random(queue: QueueTable, size: int, count: int = 5) -> list[bytes]:
    """Send messages with bodies of this size, which no compression makes smaller."""
    bodies = [random.Random(n).randbytes(size) for n in range(count)]
    queue.send(Message({}, body) for body in bodies)
    return bodies


def drain_by_two(
    connect: Connect, queue: QueueTable, staging: StagingFolder, batch_id: uuid.UUID | None = None, rows: int = 1000
) -> Batch:
    options = DrainOptions(rows_per_statement=2, rows_per_part=rows, workers=1)
    return drain(connect, queue, staging, options, batch_id=batch_id).batch


def key_of(path: str) -> str:
    return path.removeprefix("s3a://").partition("/")[2]


def in_bucket(bucket: Bucket, paths: list[str] | tuple[str, ...]) -> list[bytes]:
    """The bodies of the files, as the other client reads them."""
    tables = (pq.read_table(BytesIO(bucket.read(key_of(path))), columns=["Body"]) for path in paths)
    return [row for table in tables for row in table["Body"].to_pylist()]


def by_path(server: S3Server, bucket: Bucket) -> StagingFolder:
    class PathOnStore:
        """Attributes of a path of ``universal_pathlib`` that the package uses."""

        fs, path = server.filesystem(), f"{bucket.name}/staging/"

    return StagingFolder.of(PathOnStore())


def by_airflow(server: S3Server, bucket: Bucket) -> StagingFolder:
    connection = f"store_{bucket.name}"
    attach("s3", connection, fs=server.filesystem())
    return StagingFolder.of(ObjectStoragePath(f"s3://{connection}@{bucket.name}/staging"))


@pytest.mark.parametrize(("folder", "size"), [(by_path, LARGE), (by_airflow, SMALL)])
def test_a_file_is_whole_before_the_ledger_names_it(
    connect: Connect,
    queue: QueueTable,
    s3: S3Server,
    bucket: Bucket,
    monkeypatch: pytest.MonkeyPatch,
    folder: Callable[[S3Server, Bucket], StagingFolder],
    size: int,
) -> None:
    seen: list[bytes] = []
    commit = Ledger.commit_part

    def looking_first(self: Ledger, batch_id: uuid.UUID, part: Part, worker: str) -> None:
        assert bucket.unfinished() == []
        assert part.path is not None
        seen.extend(in_bucket(bucket, [part.path]))
        commit(self, batch_id, part, worker)

    monkeypatch.setattr(Ledger, "commit_part", looking_first)
    sent = send_random(queue, size)
    batch = drain_by_two(connect, queue, folder(s3, bucket), rows=3)
    assert len(batch.paths) == 2
    assert [path for path in batch.paths if not path.startswith(f"s3a://{bucket.name}/staging/{batch.folder}/")] == []
    assert seen == sent == in_bucket(bucket, batch.paths)
    in_parts = [
        request
        for request in s3.requests
        if request.startswith(f"POST /{bucket.name}/") and request.endswith("?uploads")
    ]
    assert len(in_parts) == (2 if size == LARGE else 0)


def test_a_file_that_others_removed_is_gone_whatever_was_listed_before(
    connect: Connect, queue: QueueTable, bucket: Bucket, staging: StagingFolder
) -> None:
    send_random(queue, SMALL)
    batch = drain_by_two(connect, queue, staging)
    staging.filesystem.ls(f"{staging.root}/{batch.folder}")
    bucket.remove(key_of(batch.paths[0]))
    with pytest.raises(StagingError, match="is gone, as after a sweep"):
        check_files(batch, staging)


@pytest.mark.parametrize("size", [SMALL, LARGE])
def test_a_part_that_is_undone_leaves_nothing(
    connect: Connect,
    queue: QueueTable,
    staging: StagingFolder,
    bucket: Bucket,
    monkeypatch: pytest.MonkeyPatch,
    size: int,
) -> None:
    send_random(queue, size)
    take, takes = QueueTable.delete_first_rows, []

    def failing(self: QueueTable, *arguments: Any, **options: Any) -> Any:
        takes.append(bucket.unfinished())
        if len(takes) == 3:
            raise RuntimeError("cut")
        return take(self, *arguments, **options)

    monkeypatch.setattr(QueueTable, "delete_first_rows", failing)
    with pytest.raises(RuntimeError, match="cut"):
        drain_by_two(connect, queue, staging)
    assert len(takes[2]) == (1 if size == LARGE else 0)
    # A file that its finalizer closes would be uploaded after all.
    gc.collect()
    assert bucket.keys() == bucket.unfinished() == []
    assert depth(queue).messages == 5


def test_a_file_whose_commit_may_have_taken_effect_stays(staging: StagingFolder, bucket: Bucket) -> None:
    for size in (SMALL, 2 * PART_SIZE):
        file = DurableFile(staging, f"{size}")
        file.write(b"x" * size)
        file.close()
        file.abandon()
        assert len(bucket.read(f"staging/{size}")) == size


def test_an_empty_file_is_written_all_the_same(staging: StagingFolder, bucket: Bucket) -> None:
    DurableFile(staging, "empty").close()
    assert bucket.read("staging/empty") == b""


def test_a_transaction_of_the_filesystem_does_not_put_a_file_off(staging: StagingFolder, bucket: Bucket) -> None:
    with staging.filesystem.transaction:
        file = DurableFile(staging, "file")
        file.write(b"x")
        file.close()
        assert bucket.keys() == ["staging/file"]


def refusing(method: str, part: str, status: str, code: str) -> Door:
    return lambda request: (status, code) if request.startswith(f"{method} /b-") and part in request else None


REFUSALS = {
    "access denied": (SMALL, refusing("PUT", "part-", "403 Forbidden", "AccessDenied")),
    "wrong key": (SMALL, refusing("PUT", "part-", "403 Forbidden", "InvalidAccessKeyId")),
    "no room": (SMALL, refusing("PUT", "part-", "507 Insufficient Storage", "QuotaExceeded")),
    "the server is ill": (SMALL, refusing("PUT", "part-", "500 Internal Server Error", "InternalError")),
    "when it begins": (LARGE, refusing("POST", "?uploads", "403 Forbidden", "AccessDenied")),
    "in the middle": (LARGE, refusing("PUT", "partNumber=2", "500 Internal Server Error", "InternalError")),
    "when it is finished": (LARGE, refusing("POST", "?uploadId=", "500 Internal Server Error", "InternalError")),
}


def secrets_in(error: BaseException) -> list[str]:
    """Texts that a log with the whole traceback would show."""
    text = "".join(traceback.format_exception(error))
    return [secret for secret in (KEY, SECRET) if secret in text]


@pytest.mark.parametrize("refusal", REFUSALS)
def test_an_upload_that_is_refused(s3: S3Server, staging: StagingFolder, bucket: Bucket, refusal: str) -> None:
    size, door = REFUSALS[refusal]
    file = DurableFile(staging, "part-1")
    with s3.behind(door):
        with pytest.raises(StagingError, match=r"^The file part-1 cannot be .*says the server") as failure:
            write_and_close(file, random.Random(1).randbytes(size * 5))
        file.abandon()
    assert secrets_in(failure.value) == []
    del file
    gc.collect()
    assert bucket.keys() == bucket.unfinished() == []


def write_and_close(file: DurableFile, content: bytes) -> None:
    for start in range(0, len(content), PART_SIZE):
        file.write(content[start : start + PART_SIZE])
    file.close()


def test_a_drain_whose_upload_is_refused_loses_nothing(
    connect: Connect, queue: QueueTable, s3: S3Server, staging: StagingFolder, bucket: Bucket
) -> None:
    size, door = REFUSALS["when it is finished"]
    sent, batch_id = send_random(queue, size), uuid.uuid4()
    with s3.behind(door), pytest.raises(StagingError, match=r"^The file .* cannot be .*says the server"):
        drain_by_two(connect, queue, staging, batch_id)
    assert depth(queue).messages == len(sent)
    assert bucket.keys() == bucket.unfinished() == []
    with connect() as session:
        assert Ledger(session, queue.address.catalog).parts(batch_id) == []
    assert in_bucket(bucket, drain_by_two(connect, queue, staging, batch_id).paths) == sent


def test_a_store_that_is_gone_loses_nothing(connect: Connect, queue: QueueTable) -> None:
    server = S3Server()
    server.stop()
    sent = send_random(queue, SMALL)
    with socket.socket() as silent:
        # Held, so that nobody else gets the port, and nobody listens there.
        silent.bind(("127.0.0.1", 0))
        server.url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        staging = StagingFolder(server.filesystem(), "bucket/staging", "s3a://bucket/staging")
        with pytest.raises(StagingError, match="Could not connect to the endpoint URL") as failure:
            drain_by_two(connect, queue, staging)
    assert secrets_in(failure.value) == []
    assert depth(queue).messages == len(sent)


def test_a_server_that_hangs_does_not_hold_the_rows_for_ever(
    connect: Connect, queue: QueueTable, s3: S3Server, staging: StagingFolder
) -> None:
    released = threading.Event()

    def door(request: str) -> None:
        if request.startswith("PUT") and "part-" in request:
            released.wait(60)

    send_random(queue, SMALL)
    try:
        with s3.behind(door), pytest.raises(StagingError, match=r"did not answer for 0\.5 seconds"):
            drain_by_two(connect, queue, replace(staging, timeout=0.5))
        assert len(queue.receive(10)) == 5
    finally:
        released.set()


def test_missing_credentials_lose_nothing(
    connect: Connect, queue: QueueTable, s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
    from s3fs import S3FileSystem

    send_random(queue, SMALL)
    filesystem = S3FileSystem(endpoint_url=s3.url, skip_instance_cache=True)
    with pytest.raises(StagingError, match="credentials"):
        drain_by_two(connect, queue, StagingFolder(filesystem, "bucket/staging", "s3a://bucket/staging"))
    assert depth(queue).messages == 5


# Back, and away


def test_a_batch_goes_back(
    connect: Connect, queue: QueueTable, s3: S3Server, staging: StagingFolder, bucket: Bucket
) -> None:
    """Also where the client that reads it looked into the folder before the files were there."""
    sent, batch_id = send_random(queue, SMALL), uuid.uuid4()
    bucket.put("staging/note", b"")
    reader = StagingFolder(s3.filesystem(), staging.root, staging.uri)
    reader.filesystem.ls(staging.root)
    batch = drain_by_two(connect, queue, staging, batch_id, rows=3)
    assert depth(queue).messages == 0
    with connect() as session:
        ledger = Ledger(session, queue.address.catalog)
        kept = bucket.read(key_of(batch.paths[1]))
        bucket.remove(key_of(batch.paths[1]))
        with pytest.raises(StagingError, match="cannot be read"):
            requeue(ledger, batch_id, reader)
        bucket.put(key_of(batch.paths[1]), kept)
        denied = refusing("GET", "part-", "403 Forbidden", "AccessDenied")
        with s3.behind(denied), pytest.raises(StagingError, match="cannot be read") as failure:
            requeue(ledger, batch_id, reader)
        assert secrets_in(failure.value) == []
        assert depth(queue).messages == 0
        assert requeue(ledger, batch_id, reader).batch.messages == len(sent)
    assert [message.body for message in queue.receive(10)] == sent


def test_a_sweep_removes_old_files_and_lists_those_it_may_not(
    connect: Connect, queue: QueueTable, s3: S3Server, staging: StagingFolder, bucket: Bucket
) -> None:
    send_random(queue, SMALL)
    batch = drain_by_two(connect, queue, staging)
    sweeper = StagingFolder(s3.filesystem(), staging.root, staging.uri)
    assert len(sweeper.filesystem.find(staging.root)) == 1
    orphan = f"staging/{batch.folder}/part-{uuid.uuid4()}.parquet"
    bucket.put(orphan, b"12345")
    with connect() as session:
        ledger = Ledger(session, queue.address.catalog)
        # Young by the store's clock, which says when it was modified.
        assert sweep(ledger, sweeper, SweepOptions(retain=timedelta(days=1), grace=timedelta(days=1))).files == 0
        denied = refusing("DELETE", "part-", "403 Forbidden", "AccessDenied")
        now = SweepOptions(retain=timedelta(days=1), grace=timedelta(0))
        with s3.behind(denied), pytest.raises(StagingError, match="cannot be removed") as failure:
            sweep(ledger, sweeper, now)
        assert secrets_in(failure.value) == []
        denied = refusing("GET", "list-type", "403 Forbidden", "AccessDenied")
        with s3.behind(denied), pytest.raises(StagingError, match="cannot be listed"):
            sweep(ledger, sweeper, now)
        swept = sweep(ledger, sweeper, now)
        assert (swept.files, swept.bytes, swept.orphans) == (1, 5, 1)
        assert bucket.keys() == [key_of(path) for path in batch.paths]
        ledger.consume(batch)
        assert sweep(ledger, sweeper, SweepOptions(retain=timedelta(0))).files == 1
        assert bucket.keys() == []
        with pytest.raises(BatchNotFoundError):
            ledger.manifest(uuid.UUID(batch.batch_id))


# As DAGs name it


def test_a_url_with_an_airflow_connection(s3: S3Server, bucket: Bucket) -> None:
    connection = f"url_{bucket.name}"
    attach("s3", connection, fs=s3.filesystem())
    folder = staging_folder(f"s3://{connection}@{bucket.name}/staging")
    assert folder.uri == f"s3a://{bucket.name}/staging"
    file = DurableFile(folder, "file")
    file.write(b"x")
    file.close()
    assert bucket.keys() == ["staging/file"]


def test_an_airflow_connection_without_its_provider() -> None:
    with pytest.raises(ConfigurationError, match="No filesystem registered for scheme gs"):
        staging_folder("gs://google_default@bucket/staging")


def test_urls_without_a_connection_are_not_for_airflow(tmp_path: Path) -> None:
    assert staging_folder(tmp_path).root == staging_folder(str(tmp_path)).root == str(tmp_path)
    with pytest.raises(ConfigurationError, match=r"Protocol not known|adlfs"):
        staging_folder("abfss://box@lake.dfs.core.windows.net/staging")
