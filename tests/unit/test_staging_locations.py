"""Locations of staging folders: whatever a drain may write to is what every reader of its batches accepts."""

from __future__ import annotations

import uuid
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fsspec.implementations.local import LocalFileSystem
from fsspec.implementations.memory import MemoryFileSystem
from hypothesis import example, given
from hypothesis import strategies as st

from airflow_sqlqueue.drain.manifest import Batch, manifest_of
from airflow_sqlqueue.drain.storage.batch_files import files_of
from airflow_sqlqueue.drain.storage.durable_file import replace_file
from airflow_sqlqueue.drain.storage.folder import StagingFolder, locate
from airflow_sqlqueue.drain.stores import STORES
from airflow_sqlqueue.errors import ConfigurationError

BATCH, PART = uuid.UUID(int=1), uuid.UUID(int=2)

STEPS = st.one_of(
    st.sampled_from(["..", ".", "", "...", "~", "a", "b c", "%2e%2e", "a%2Fb", "::", "a::b", "://", "#", "?", "ü"]),
    st.text(st.characters(blacklist_characters="/"), max_size=6),
)
PATHS = st.lists(STEPS, min_size=1, max_size=6).map("/".join)
PREFIXES = st.sampled_from(
    ["", "/", "//", "./", "../", "~/", "file://", "file:///", "local://", "memory://", "memory:///"]
)


LOCATIONS = st.one_of(
    st.tuples(PREFIXES, PATHS).map("".join),
    PATHS.map(lambda path: SimpleNamespace(fs=LocalFileSystem(), path=path)),
    PATHS.map(lambda path: SimpleNamespace(fs=MemoryFileSystem(), path=path)),
    # Without a request to the store: a bucket is opened at the first one.
    st.tuples(st.sampled_from(["s3://bucket/", "s3a://bucket/", "s3://b/../"]), PATHS).map("".join),
)


def folder_of(location: Any) -> StagingFolder | None:
    try:
        return StagingFolder.of(location)
    except ConfigurationError:
        return None


@given(LOCATIONS)
@example("a/../b")
@example("s3://bucket/a/../b")
@example("file:///a/./b/../c")
@example("/a::b")
@example("//a//b")
@example("~/../x")
@example("/")
def test_every_reader_accepts_what_a_drain_may_write_to(location: Any) -> None:
    folder = folder_of(location)
    if folder is None:
        return
    part = f"{folder.uri}/{BATCH}/part-{PART}.parquet"
    batch = Batch(str(BATCH), "q@[dbo]@[shop]", "sealed", (part,), 1, messages=1)
    batch.check_files([f"{folder.uri}/{BATCH}/body-{PART}-000001.bin"])
    assert manifest_of({"manifest": batch.manifest_path, "batch_id": batch.batch_id}) == batch.manifest_path
    # A reader without the folder, as a requeue by the ledger alone, opens the same file of the same filesystem.
    for filesystem, path in (locate(part, folder), locate(part, None)):
        assert type(filesystem) is type(folder.filesystem)
        assert path.lstrip("/") == f"{folder.root}/{BATCH}/part-{PART}.parquet".lstrip("/")


def test_a_file_that_is_replaced_leaves_no_descriptor_open(tmp_path: Path) -> None:
    """Also not that of its folder, which is synced: the system gives the lowest free number to the next file."""
    numbers = set()
    for content in (b"1", b"2", b"3"):
        replace_file(StagingFolder.of(tmp_path), f"{BATCH}/manifest", content)
        with (tmp_path / str(BATCH) / "manifest").open("rb") as file:
            numbers.add(file.fileno())
            assert file.read() == content
    assert len(numbers) == 1


SPELLINGS = ["{0}", "{0}/", "{0}/../staging", "{0}/./x/..", "file://{0}/../staging", "{0}/a/b/../..", "//{0}", "{0}//"]


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_all_spellings_of_a_folder_on_a_disk_are_one_folder(spelling: str, tmp_path: Path) -> None:
    plain = StagingFolder.of(tmp_path / "staging")
    other = StagingFolder.of(spelling.format(plain.root))
    assert other.uri == plain.uri
    replace_file(other, f"{BATCH}/part-{PART}.parquet", b"x")
    assert [file.part_id for file in files_of(plain, str(BATCH))] == [PART]


def test_a_relative_path_is_below_the_working_directory(tmp_path: Path, monkeypatch: Any) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    monkeypatch.chdir(inside)
    assert StagingFolder.of("../staging").uri == f"file://{tmp_path}/staging"
    assert StagingFolder.of(Path("..", "inside", "..", "staging")).uri == f"file://{tmp_path}/staging"


@pytest.mark.parametrize(
    "path", ["bucket/a/../b", "bucket/..", "bucket/./a", "bucket/a/.", "bucket/a::b", "bucket/a\n"]
)
@pytest.mark.parametrize(
    "protocol", [name for store in STORES for name in store.protocols if "file" not in store.schemes]
)
def test_a_step_of_a_store_that_no_reader_accepts_is_refused(protocol: str, path: str) -> None:
    """A store's keys are texts, in which two dots are a name like any other."""
    filesystem = SimpleNamespace(
        protocol=protocol, account_name="a", storage_args=(), storage_options={}, url="http://n"
    )
    assert StagingFolder.of(SimpleNamespace(fs=filesystem, path="bucket/a..b/...")).uri.endswith("/a..b/...")
    with pytest.raises(ConfigurationError, match="choose another"):
        StagingFolder.of(SimpleNamespace(fs=filesystem, path=path))


@pytest.mark.parametrize("path", ["/a\nb", "/a\0b", "/\ud800", "/a::b", "/a*b"])
def test_a_name_on_a_disk_that_no_reader_accepts_is_refused(path: str) -> None:
    with pytest.raises(ConfigurationError, match="choose another"):
        StagingFolder.of(SimpleNamespace(fs=LocalFileSystem(), path=path))
