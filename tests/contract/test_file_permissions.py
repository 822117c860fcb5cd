"""File permissions of a drain's files on a disk."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_sqlqueue.drain.drain import Drain
from airflow_sqlqueue.drain.options import DrainOptions
from airflow_sqlqueue.drain.request import DrainRequest
from airflow_sqlqueue.drain.storage.durable_file import replace_file
from airflow_sqlqueue.drain.storage.folder import StagingFolder
from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.messages.message import Message
from airflow_sqlqueue.queue import QueueTable
from tests.contract.conftest import Connect


@pytest.fixture(params=[0o077, 0o000], ids=["strict umask", "no umask"])
def umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def staged(connect: Connect, queue: QueueTable, folder: Path, readable_by: str | None) -> tuple[set[int], set[int]]:
    """The permissions of the files, one of a large body among them, and of the folders that hold them."""
    queue.send(Message({"n": "1"}, body) for body in (b"small", b"x" * 1000))
    given = {} if readable_by is None else {"readable_by": readable_by}
    options = DrainOptions(inline_body_bytes=100, locked_wait_seconds=0, **given)  # type: ignore[arg-type]
    Drain(connect, queue.address, StagingFolder.of(folder), DrainRequest(options=options)).run()
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert {path.suffix for path in files} == {".parquet", ".bin"}
    return {mode(path) for path in files}, {mode(path) for path in (folder, *(file.parent for file in files))}


@pytest.mark.usefixtures("umask")
@pytest.mark.parametrize(
    ("readable_by", "file_mode", "folder_mode"), [(None, 0o600, 0o700), ("group", 0o640, 0o750), ("all", 0o644, 0o755)]
)
def test_staged_files_are_the_owners_alone_by_default(
    connect: Connect, queue: QueueTable, tmp_path: Path, readable_by: str | None, file_mode: int, folder_mode: int
) -> None:
    assert staged(connect, queue, tmp_path / "a" / "staging", readable_by) == ({file_mode}, {folder_mode})
    assert mode(tmp_path / "a") == folder_mode


@pytest.mark.usefixtures("umask")
def test_a_file_without_named_readers_is_the_owners(tmp_path: Path) -> None:
    replace_file(StagingFolder.of(tmp_path), "batch/manifest.json", b"{}")
    assert mode(tmp_path / "batch" / "manifest.json") == 0o600


def test_a_folder_that_is_there_keeps_its_permissions(connect: Connect, queue: QueueTable, tmp_path: Path) -> None:
    folder = tmp_path / "staging"
    folder.mkdir()
    folder.chmod(0o2775)
    # The batch's folder has the group of the one above it, and gives it to its files.
    assert staged(connect, queue, folder, None) == ({0o600}, {0o2775, 0o2700})
    assert mode(folder) == 0o2775


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives a folder to a group that he is not in")
def test_files_have_the_group_that_the_staging_folder_gives_them(
    connect: Connect, queue: QueueTable, tmp_path: Path
) -> None:
    folder, group = tmp_path / "staging", 54_321
    folder.mkdir()
    os.chown(folder, -1, group)
    folder.chmod(0o2750)
    staged(connect, queue, folder, "group")
    assert {(file.stat().st_gid, mode(file)) for file in folder.rglob("*.*")} == {(group, 0o640)}


def test_readable_by_has_three_values() -> None:
    with pytest.raises(ConfigurationError, match="choose one of owner, group, all"):
        DrainOptions(readable_by="0644")
