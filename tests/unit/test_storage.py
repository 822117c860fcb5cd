"""Staging folders: where they are for Spark, what they show of credentials, and files that are let go of."""

from __future__ import annotations

import gc
import io
import pickle
import threading
import time
import uuid
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fsspec.implementations.dirfs import DirFileSystem
from fsspec.implementations.local import LocalFileSystem
from fsspec.implementations.webhdfs import WebHDFile, WebHDFS
from fsspec.spec import AbstractBufferedFile

from airflow_sqlqueue.drain.storage.batch_files import modified, remove, staged_files
from airflow_sqlqueue.drain.storage.durable_file import DurableFile
from airflow_sqlqueue.drain.storage.folder import StagingFolder
from airflow_sqlqueue.drain.storage.object_stores import error_text, raise_staging_error, without_secrets
from airflow_sqlqueue.drain.stores import spark_uri
from airflow_sqlqueue.errors import ConfigurationError, StagingError


def hadoop(*arguments: Any, **options: Any) -> Any:
    """Attributes of ``fsspec``'s HadoopFileSystem about its creation. The real one needs Hadoop's libraries."""
    return SimpleNamespace(storage_args=arguments, storage_options=options)


def azure(account_name: str | None = None, **more: str) -> Any:
    """Attributes of ``adlfs.AzureBlobFileSystem`` about its account."""
    return SimpleNamespace(account_name=account_name, **more)


@pytest.mark.parametrize(
    ("protocol", "filesystem", "root", "uri"),
    [
        ("s3", None, "bucket/folder", "s3a://bucket/folder"),
        ("s3a", None, "bucket", "s3a://bucket"),
        ("gs", None, "bucket/a/b", "gs://bucket/a/b"),
        ("gcs", None, "bucket/a", "gs://bucket/a"),
        ("abfs", azure("lake"), "box/folder", "abfss://box@lake.dfs.core.windows.net/folder"),
        ("az", azure("lake"), "box", "abfss://box@lake.dfs.core.windows.net"),
        (
            "abfss",
            azure("lake", account_host="lake.blob.core.usgovcloudapi.net"),
            "box/a",
            "abfss://box@lake.dfs.core.usgovcloudapi.net/a",
        ),
        ("hdfs", hadoop(host="name-node", port=8020), "/data/staging", "hdfs://name-node:8020/data/staging"),
        ("hdfs", hadoop("name-node"), "/data", "hdfs://name-node/data"),
        ("hdfs", hadoop(host="hdfs://name-service"), "/data", "hdfs://name-service/data"),
        ("hdfs", hadoop(), "/data", "hdfs:///data"),
        ("hdfs", hadoop(host="default"), "/data", "hdfs:///data"),
        ("memory", None, "/bucket/folder", "memory://bucket/folder"),
        ("oss", None, "bucket/folder", "oss://bucket/folder"),
    ],
)
def test_the_uri_of_a_folder_for_spark(protocol: str, filesystem: Any, root: str, uri: str) -> None:
    assert spark_uri(protocol, filesystem, root) == uri


def test_a_name_that_the_ledger_cannot_keep_is_refused_before_there_is_a_batch() -> None:
    folder = StagingFolder.of("memory://bucket/" + "\N{GRINNING FACE}" * 417)
    folder.check()
    with pytest.raises(StagingError, match="more than 850 characters"):
        StagingFolder.of(folder.uri + "x").check()


def test_the_uri_of_a_folder_given_by_url(tmp_path: Path) -> None:
    secret = "webhdfs://user:pa55word@name-node:9870/data/staging/"
    assert StagingFolder.of(secret).uri == "webhdfs://name-node:9870/data/staging"
    assert StagingFolder.of("memory://bucket/folder/").uri == "memory://bucket/folder"
    assert StagingFolder.of("s3://bucket/folder/") == StagingFolder.of("s3a://bucket/folder")
    assert StagingFolder.of(f"file://{tmp_path}/").uri == f"file://{tmp_path}"
    assert StagingFolder.of("/").uri == "file:///"
    inside = DirFileSystem(str(tmp_path), fs=LocalFileSystem())
    assert StagingFolder.of(SimpleNamespace(fs=inside, path="a")) == StagingFolder.of(tmp_path / "a")


@pytest.mark.parametrize(
    ("location", "words"),
    [
        ("sftp://host/folder", "cannot be used|Spark reads no batches from sftp"),
        ("https://host/folder", "Spark reads no batches from http"),
        ("simplecache::memory://bucket/folder", "Spark reads no batches from simplecache"),
        ("s3://", "names no bucket"),
        ("s3://AKIDEXAMPLE:pa55word@bucket/folder", "names no bucket"),
        ("nosuchscheme://user:pa55word@host/folder", "cannot be used"),
        ("memory://bucket/a[b]", "patterns to Spark"),
        ("", "is empty"),
        ("  ", "is empty"),
        ("None", "is None"),
    ],
)
def test_locations_that_cannot_be(location: str, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words) as refusal:
        StagingFolder.of(location)
    assert "pa55word" not in str(refusal.value)
    assert refusal.value.__cause__ is None


def test_an_azure_folder_without_its_account() -> None:
    with pytest.raises(ConfigurationError, match="by its storage account"):
        spark_uri("abfs", azure(), "box/folder")


def test_a_folder_that_airflow_cannot_reach() -> None:
    class Unreachable:
        path = "bucket/folder"

        @property
        def fs(self) -> Any:
            raise ValueError("No filesystem registered for scheme s3")

    with pytest.raises(ConfigurationError, match="No filesystem registered for scheme s3"):
        StagingFolder.of(Unreachable())


@pytest.mark.parametrize("kind", ["s3", "memory", "local"])
def test_a_folder_is_shipped(kind: str, tmp_path: Path) -> None:
    def s3() -> Any:
        from s3fs import S3FileSystem

        return SimpleNamespace(fs=S3FileSystem(key="AKIDEXAMPLE", secret="pa55word"), path="bucket/folder")

    makers: dict[str, Callable[[], Any]] = {
        "s3": s3,
        "memory": lambda: "memory://bucket/folder",
        "local": lambda: tmp_path,
    }
    folder = StagingFolder.of(makers[kind]())
    secret = pickle.loads(pickle.dumps(folder))
    assert secret == folder
    assert secret.filesystem.storage_options == folder.filesystem.storage_options


def test_a_folder_shows_no_credentials() -> None:
    class Telling(LocalFileSystem):
        def __repr__(self) -> str:
            return f"Telling({self.storage_options})"

    folder = StagingFolder(Telling(secret="pa55word"), "bucket/folder", "s3a://bucket/folder")
    assert "pa55word" in repr(folder.filesystem)
    assert "pa55word" not in repr(folder)


QUOTES = [
    "Max retries exceeded with url: /webhdfs/v1/data?op=CREATE&user.name=me&delegation=pa55word",
    "403, message='Forbidden', url=URL('https://store/bucket?sig=pa55word&se=2026')",
    "https://lake.blob.core.windows.net/box/file?sv=2024&sig=pa55word failed",
    "Cannot connect to http://user:pa55word@proxy:3128",
    "DefaultEndpointsProtocol=https;AccountName=lake;AccountKey=pa55word==;EndpointSuffix=core.windows.net",
    "Refused: Authorization: Bearer pa55word",
    "{'aws_secret_access_key': 'pa55word', 'region': 'x'}",
]


@pytest.mark.parametrize("quote", QUOTES)
def test_a_stores_error_is_quoted_without_secrets(quote: str) -> None:
    for error in (RuntimeError(quote), OSError(5, quote)):
        with pytest.raises(StagingError, match=r"^It failed: ") as failure:
            raise_staging_error("It failed", error)
        assert "pa55word" not in str(failure.value)
        assert failure.value.__cause__ is None
        assert failure.value.__suppress_context__


@pytest.mark.parametrize("piece", ["key", "://a:", "a:", "?a", "sig.", "' :", "token =", "bearer ", "a "])
def test_a_text_of_any_length_is_scrubbed_at_once(piece: str) -> None:
    start = time.monotonic()
    for _ in range(20):
        error_text(RuntimeError(piece * 100_000))
        without_secrets(piece * 100_000)
    assert time.monotonic() - start < 5  # The expressions before took seconds for one text of 10,000 characters.


@pytest.mark.parametrize("length", [250, 290, 1_950, 1_990])
def test_a_secret_at_the_place_where_a_text_is_cut_is_not_shown(length: int) -> None:
    text = error_text(RuntimeError("x" * length + " http://user:pa55word-pa55word@proxy:3128 and more " * 50))
    assert "pa55" not in text
    assert len(text) < 330


def test_a_long_text_is_cut_between_words() -> None:
    text = without_secrets("no room " * 1_000)
    assert text.startswith("no room no room")
    assert text.endswith(("no room no ...", "no room ..."))
    assert 1_980 < len(text) < 2_010


def test_a_secret_in_the_cause_of_a_cause_is_not_shown() -> None:
    error = OSError(5, "Input/output error")
    error.__cause__ = RuntimeError(QUOTES[0])
    with pytest.raises(StagingError, match="Input/output error") as failure:
        raise_staging_error("It failed", error)
    assert failure.value.__cause__ is None


def test_a_stores_error_is_quoted_as_far_as_possible() -> None:
    found = {
        PermissionError("Access Denied."): "Access Denied.",
        OSError(28, "No space left on device"): "No space left on device.",
        TimeoutError(): "TimeoutError.",
        RuntimeError("Failed to upload block: reset!\nRequestId: 1"): "RuntimeError: Failed to upload block: reset!.",
        ValueError("The provided token: malformed"): "ValueError: The provided token: malformed.",
    }
    for error, words in found.items():
        with pytest.raises(StagingError) as failure:
            raise_staging_error("It failed", error)
        assert str(failure.value) == f"It failed: {words}"
        assert failure.value.__cause__ is error


class NameNode:
    """As much of an HDFS as :class:`WebHDFile` asks of it; its ``discard`` removes the file, whole or not."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.session = self

    def open(self, path: str, mode: str, autocommit: bool) -> WebHDFile:
        assert autocommit
        return WebHDFile(self, path, mode=mode, block_size=2**20, autocommit=autocommit, tempdir="/tmp")

    def _call(self, op: str, method: str, path: str, **options: Any) -> Any:
        return SimpleNamespace(headers={"Location": path})

    def _apply_proxy(self, location: str) -> str:
        return location

    def put(self, location: str, **options: Any) -> Any:
        self.files[location] = b""
        return SimpleNamespace(raise_for_status=lambda: None)

    def post(self, location: str, data: bytes, **options: Any) -> Any:
        self.files[location] += data
        return SimpleNamespace(raise_for_status=lambda: None)

    def rm(self, path: str) -> None:
        del self.files[path]

    rm_file = rm

    def invalidate_cache(self, path: str) -> None: ...

    def _parent(self, path: str) -> str:
        return path.rpartition("/")[0]


def test_a_closed_file_is_never_discarded() -> None:
    """Its COMMIT may have taken effect, and then it is what the ledger names."""
    store = NameNode()
    staging = StagingFolder(store, "/staging", "webhdfs://host/staging")
    whole, cut = DurableFile(staging, "whole"), DurableFile(staging, "cut")
    whole.write(b"x" * 2**21)
    whole.close()
    whole.abandon()
    cut.write(b"x" * 2**21)
    cut.abandon()
    assert store.files == {"/staging/whole": b"x" * 2**21}


def test_a_file_of_a_part_that_was_undone_is_removed_closed_or_not(tmp_path: Path) -> None:
    store = NameNode()
    for staging in (StagingFolder.of(tmp_path), StagingFolder(store, "/staging", "webhdfs://host/staging")):
        whole, cut = DurableFile(staging, "whole"), DurableFile(staging, "cut")
        for file in (whole, cut):
            file.write(b"x" * 2**21)
        whole.close()
        for file in (whole, cut, whole):
            file.abandon(remove=True)
    assert (store.files, list(tmp_path.iterdir())) == ({}, [])


def test_a_file_that_cannot_have_its_permissions_is_not_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError("not yours")

    monkeypatch.setattr("airflow_sqlqueue.drain.storage.durable_file.grant", refuse)
    with pytest.raises(StagingError, match="cannot be written"):
        DurableFile(StagingFolder.of(tmp_path), "file")
    assert list(tmp_path.iterdir()) == []


def test_a_staged_file_that_cannot_be_removed_is_an_error() -> None:
    def fail(error: Exception) -> Any:
        def rm_file(_: str) -> None:
            raise error

        return SimpleNamespace(filesystem=SimpleNamespace(rm_file=rm_file))

    file: Any = SimpleNamespace(path="s3://bucket/part")
    remove(fail(FileNotFoundError("part")), file)
    with pytest.raises(StagingError, match="s3://bucket/part cannot be removed"):
        remove(fail(PermissionError("not yours")), file)


def test_a_file_that_another_has_made_is_not_removed(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"mine")
    with pytest.raises(StagingError, match="File exists"):
        DurableFile(StagingFolder.of(tmp_path), "file")
    assert (tmp_path / "file").read_bytes() == b"mine"


class Streams:
    """A store whose streams neither know ``discard`` nor may be written twice, as Arrow's of HDFS."""

    def __init__(self) -> None:
        self.opened: list[io.BytesIO] = []

    def open(self, path: str, mode: str, autocommit: bool) -> io.BytesIO:
        self.opened.append(io.BytesIO())
        return self.opened[-1]


def test_a_stream_that_cannot_be_discarded_is_closed() -> None:
    store = Streams()
    file = DurableFile(StagingFolder(store, "/staging", "hdfs:///staging"), "file")
    file.write(b"x")
    file.abandon()
    file.abandon()
    assert store.opened[0].closed
    with pytest.raises(StagingError, match="closed file"):
        file.close()


class Blocks(AbstractBufferedFile):
    """A file like that of adlfs: closing it sends unsent bytes, and ``discard`` has no effect."""

    def _upload_chunk(self, final: bool = False) -> bool:
        self.fs.sent.append((self.buffer.getvalue(), final))
        return True


def test_an_undone_upload_is_not_finished_by_its_finalizer() -> None:
    store = SimpleNamespace(sent=[], invalidate_cache=lambda path: None, _parent=lambda path: path)
    store.open = lambda path, mode, autocommit: Blocks(store, path, mode, 2**20, autocommit)
    file = DurableFile(StagingFolder(store, "box/a", "abfss://box@lake/a"), "file")
    file.write(b"x" * 2**20)
    file.write(b"y")
    file.abandon()
    del file
    gc.collect()
    assert store.sent == [(b"x" * 2**20, False)]


@pytest.mark.parametrize("call", ["open", "write", "close"])
def test_a_store_that_does_not_answer_is_given_up(call: str) -> None:
    answer = threading.Event()
    hang = {call: lambda *arguments, **options: answer.wait(60)}
    stream = SimpleNamespace(**{"write": len, "close": lambda: None, "closed": False} | hang)
    store = SimpleNamespace(**{"open": lambda *arguments, **options: stream} | hang)
    staging = StagingFolder(store, "bucket/a", "s3a://bucket/a", timeout=0.1)
    try:
        with pytest.raises(StagingError, match=r"the store did not answer for 0\.1 seconds"):
            DurableFile(staging, "file").close()
    finally:
        answer.set()


def test_a_stores_own_time_limit_is_reported() -> None:
    def late(*arguments: Any, **options: Any) -> None:
        raise TimeoutError("read timed out")

    staging = StagingFolder(SimpleNamespace(open=late), "bucket/a", "s3a://bucket/a")
    with pytest.raises(StagingError, match="read timed out"):
        DurableFile(staging, "file")


class Listed:
    """A store that answers a look at some folders with an error."""

    def __init__(self, errors: dict[str, Exception]) -> None:
        self.errors, self.asked = errors, []

    def ls(self, path: str) -> list[str]:
        self.asked.append(path)
        if path in self.errors:
            raise self.errors[path]
        return []


@pytest.mark.parametrize(
    ("errors", "says"),
    [
        ({}, None),
        ({"bucket/a": FileNotFoundError("bucket/a")}, None),
        ({"bucket/a": PermissionError("Forbidden")}, None),
        ({"bucket/a": FileNotFoundError("bucket/a"), "bucket": PermissionError("Forbidden")}, None),
        ({"bucket/a": FileNotFoundError("a"), "bucket": FileNotFoundError("no such bucket")}, "no such bucket"),
        ({"bucket/a": ValueError("no credentials")}, "cannot be reached: ValueError: no credentials"),
        ({"bucket/a": TimeoutError("read timed out")}, "read timed out"),
    ],
)
def test_an_unreachable_store_is_found_by_one_request(errors: dict[str, Exception], says: str | None) -> None:
    """A folder that the first file makes, and one that may be written and not listed, are not out of reach."""
    store = Listed(errors)
    staging = StagingFolder(store, "bucket/a", "s3a://bucket/a")
    if says is None:
        staging.check_reachable()
    else:
        with pytest.raises(StagingError, match=says):
            staging.check_reachable()
    assert store.asked[0] == "bucket/a"


def test_a_folder_on_a_disk_is_checked_once(tmp_path: Path) -> None:
    StagingFolder.of(tmp_path / "nowhere").check_reachable()


@pytest.mark.parametrize("zone", [None, timezone.utc, timezone(timedelta(hours=2))])
def test_a_files_time_is_in_utc_where_its_store_names_no_zone(zone: timezone | None) -> None:
    told = datetime(2026, 1, 31, 8, tzinfo=zone)
    staging: Any = SimpleNamespace(uri="memory://staging", filesystem=SimpleNamespace(modified=lambda name: told))
    assert modified(staging, {"name": "a"}) == (told if zone else told.replace(tzinfo=timezone.utc))


@pytest.mark.parametrize(
    ("milliseconds", "found"),
    [
        (1_769_846_400_250, datetime(2026, 1, 31, 8, microsecond=250_000, tzinfo=timezone.utc)),
        (1 << 62, None),
        (10**400, None),
    ],
    ids=["a time", "beyond the calendar", "beyond all numbers"],
)
def test_files_on_webhdfs_have_the_time_of_their_last_change(
    monkeypatch: pytest.MonkeyPatch, milliseconds: int, found: datetime | None
) -> None:
    batch_id, part_id = uuid.uuid4(), uuid.uuid4()

    def listing(self: WebHDFS, op: str, *, path: str) -> Any:
        status = {"pathSuffix": f"part-{part_id}.parquet", "type": "FILE", "length": 5}
        if not path.endswith(f"{batch_id}"):
            status = {"pathSuffix": f"{batch_id}", "type": "DIRECTORY", "length": 0}
        statuses = {"FileStatuses": {"FileStatus": [{**status, "modificationTime": milliseconds}]}}
        return SimpleNamespace(json=lambda: statuses)

    monkeypatch.setattr(WebHDFS, "_call", listing)
    ((_, (file,)),) = staged_files(StagingFolder.of("webhdfs://name-node:9870/data/staging"))
    assert file.modified == found
