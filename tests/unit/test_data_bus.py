"""The data bus on real folders: keys, limits, and the sentences for each failure."""

from __future__ import annotations

import errno
import os
import re
import traceback
import tracemalloc
from datetime import datetime, timedelta, timezone
from pathlib import Path, PureWindowsPath
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_sqlqueue.endpoint.databus.data_bus import DataBus
from airflow_sqlqueue.endpoint.databus.keys import MAX_KEY, kept_until, path_of
from airflow_sqlqueue.errors import (
    ConfigurationError,
    DataBusUnreachableError,
    PayloadError,
    PayloadGoneError,
    PayloadKeyError,
    PayloadTooLargeError,
    PayloadUnreadableError,
    SqlQueueError,
)
from tests.payloads import KEY, put


@pytest.fixture
def share(tmp_path: Path) -> Path:
    """A file share with a payload, beside a file that belongs to others."""
    tmp_path.joinpath("private").write_bytes(b"others'")
    share = tmp_path / "share"
    put(share, KEY, b'"cGF5bG9hZA=="')
    return share


def test_a_payload_is_read_by_the_key_of_either_system(share: Path) -> None:
    bus = DataBus(share)
    assert bus.fetch(KEY) == bus.fetch(KEY.replace("\\", "/")) == b'"cGF5bG9hZA=="'
    assert DataBus(f"file://{share}").fetch(KEY) == b'"cGF5bG9hZA=="'
    put(share, "5e1b1c2d-1111-4222-8333-444455556666", b"")
    assert bus.fetch("5e1b1c2d-1111-4222-8333-444455556666") == b""


def test_a_location_in_memory_or_a_store_is_read_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("airflow_sqlqueue.endpoint.databus.data_bus._PIECE", 3)
    bus = DataBus("memory://databus-test/base")
    bus._folder.filesystem.pipe_file("/databus-test/base/a/b", b"0123456789")
    assert bus.fetch("a/b", limit=10) == b"0123456789"
    with pytest.raises(PayloadTooLargeError):
        bus.fetch("a/b", limit=9)
    with pytest.raises(PayloadGoneError):
        bus.fetch("a/c")
    with pytest.raises(PayloadKeyError, match="names no file"):
        bus.fetch("a")
    with (
        patch.object(bus._folder.filesystem, "cat_file", side_effect=PermissionError("archived")) as asked,
        pytest.raises(PayloadUnreadableError, match="archived"),
    ):
        bus.fetch("a/b")
    assert asked.call_count == 2, "it may have been away for a moment"
    with pytest.raises(DataBusUnreachableError, match="missing"):
        DataBus("memory://no-such-bus/base").fetch("a/c")


REFUSED = [
    "", ".", "..", "../private", "..\\private", "a/../../private", "a\\..\\..\\private", "/etc/passwd",
    "\\\\host\\share", "C:\\boot.ini", "C:boot.ini", "a//b", "a/", "\\a", "a/./b", "a/..", "*", "a?versionId=1", "a#1",
    "file::a", "s3://b/k", "a\0", "a\n", "a%2e%2e", "~/x y", "ä", "\ud800", "a.", "x" * (MAX_KEY + 1), "x" * 256, None,
]  # fmt: skip


@pytest.mark.parametrize("key", REFUSED)
def test_a_key_that_may_lead_elsewhere_is_refused_and_not_shown(share: Path, key: str | None) -> None:
    with pytest.raises(PayloadKeyError, match="The payload of 'Picture' has a key that was not used") as caught:
        DataBus(share).fetch(key, "Picture")
    assert "private" not in str(caught.value)
    assert "passwd" not in str(caught.value)


PIECES = st.sampled_from(
    ["..", ".", "/", "\\", "a", "private", "share", ":", "C:", "~", "%2e", "\0", "2020-01-31_08", ""]
)


@given(st.text(max_size=30) | st.lists(PIECES, max_size=12).map("".join))
def test_any_key_stays_below_the_location(share: Path, key: str) -> None:
    try:
        path = path_of(key)
    except PayloadKeyError:
        with pytest.raises(PayloadKeyError):
            DataBus(share).fetch(key)
        return
    assert os.path.normpath(path) == path
    assert (share / path).resolve().is_relative_to(share)
    assert not PureWindowsPath(path).drive
    assert not PureWindowsPath(path).is_absolute()
    with pytest.raises(PayloadError):
        DataBus(share).fetch(key)


@given(st.integers(0, 9_000 * 365 * 24), st.uuids(), st.sampled_from("/\\"))
def test_keys_of_nservicebus_are_accepted(hours: int, name: object, separator: str) -> None:
    until = datetime(1000, 1, 1, tzinfo=timezone.utc) + timedelta(hours=hours)
    path = path_of(f"{until:%Y-%m-%d_%H}{separator}{name}")
    assert path == f"{until:%Y-%m-%d_%H}/{name}"
    assert kept_until(path) == until
    assert path_of(str(name)) == str(name)
    assert kept_until(str(name)) is None


@pytest.mark.parametrize("folder", ["2020-13-31_08", "2020-02-30_08", "0000-01-01_00", "2020-01-31_24", "2020-01-31"])
def test_a_folder_that_is_no_time_gives_none(folder: str) -> None:
    assert kept_until(f"{folder}/x") is None


def test_a_link_out_of_the_share_is_not_followed(share: Path, tmp_path: Path) -> None:
    share.joinpath("link").symlink_to(tmp_path / "private")
    share.joinpath("folder").symlink_to(tmp_path)
    share.joinpath("inside").symlink_to(share / KEY.replace("\\", "/"))
    for key in ("link", "folder/private"):
        with pytest.raises(PayloadKeyError, match="names no file of the data bus"):
            DataBus(share).fetch(key)
    assert DataBus(share).fetch("inside") == b'"cGF5bG9hZA=="'


def test_only_files_are_read(share: Path) -> None:
    os.mkfifo(share / "pipe")
    for key in ("pipe", "2020-01-31_08"):
        with pytest.raises(PayloadKeyError, match="names no file"):
            DataBus(share).fetch(key)
    with pytest.raises(PayloadKeyError, match="names no file"):
        DataBus(share).fetch(f"{KEY}/below")


def test_a_share_that_is_a_link_itself_is_read(share: Path, tmp_path: Path) -> None:
    tmp_path.joinpath("mounted").symlink_to(share)
    assert DataBus(tmp_path / "mounted").fetch(KEY)


def test_a_larger_payload_than_the_limit_is_not_read(share: Path) -> None:
    put(share, "large", b"x" * 1001)
    assert len(DataBus(share).limited(1001).fetch("large")) == 1001
    with pytest.raises(PayloadTooLargeError, match="has 1001 bytes or more, and the limit is 1000") as caught:
        DataBus(share).limited(1000).fetch("large", "Picture")
    assert caught.value.size == 1001


def test_the_limit_bounds_the_memory(share: Path) -> None:
    with share.joinpath("sparse").open("wb") as file:
        file.truncate(2**40)
    tracemalloc.start()
    try:
        with pytest.raises(PayloadTooLargeError):
            DataBus(share).fetch("sparse")
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("key", "says"),
    [
        (KEY[:-1], r"is gone: its sender gave it a time to live until 2020-01-31 08:00 UTC\."),
        ("9999-12-31_23\\x", "is not on the data bus, although its time to live has not passed: check"),
        ("5e1b1c2d-1111-4222-8333-444455556666", "is gone: the data bus removes payloads after the time to live"),
    ],
)
def test_a_missing_payload_is_gone(share: Path, key: str, says: str) -> None:
    with pytest.raises(PayloadGoneError, match=f"The payload of 'Picture' {says}") as caught:
        DataBus(share).fetch(key, "Picture")
    assert re.split(r"[/\\]", key)[-1] not in str(caught.value).split()


def test_a_name_that_may_be_a_key_is_not_shown(share: Path) -> None:
    with pytest.raises(PayloadGoneError, match="A payload of the message is gone"):
        DataBus(share).fetch("none", KEY)


@pytest.mark.parametrize("exists", [True, False])
def test_a_share_that_is_not_mounted_is_unreachable_and_nothing_counts_as_gone(tmp_path: Path, exists: bool) -> None:
    if exists:
        tmp_path.joinpath("share").mkdir()
    with pytest.raises(DataBusUnreachableError, match="missing or empty: check the location"):
        DataBus(tmp_path / "share").fetch(KEY)


@pytest.mark.parametrize(
    "error", [PermissionError(errno.EACCES, "Permission denied", KEY), OSError(errno.EIO, "I/O", KEY)]
)
def test_a_file_that_cannot_be_read_is_not_gone(share: Path, monkeypatch: pytest.MonkeyPatch, error: OSError) -> None:
    """Root, as whom tests may run, reads every file, so the system's call is replaced."""

    def refuse(*_: object) -> int:
        raise error

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(DataBusUnreachableError, match=f": {error.strerror}") as caught:
        DataBus(share).fetch(KEY)
    assert KEY not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize(
    ("location", "says"),
    [
        ("", "The data bus is empty"),
        ("None", "The data bus is None"),
        ("http://host/databus", "A data bus is not read from http"),
        ("simplecache::file:///share", "A data bus is not read from simplecache::file"),
        ("\\\\server\\share", "The data bus .* patterns to Spark"),
        ("gs://bucket/x", "The data bus on gs needs the package gcsfs|The data bus"),
    ],
)
def test_a_location_on_no_known_store_is_refused(location: str, says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        DataBus(location)


def test_its_repr_shows_the_location_without_secrets(share: Path) -> None:
    assert repr(DataBus(share)) == f"DataBus('file://{share}')"
    assert isinstance(DataBus.of(share), DataBus)
    bus = DataBus(share)
    assert DataBus.of(bus) is bus
    assert issubclass(PayloadGoneError, SqlQueueError)
