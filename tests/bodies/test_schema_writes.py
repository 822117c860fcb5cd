"""Writes of schemas' files: by compare and put, so that two processes at once lose nothing."""

from __future__ import annotations

import fcntl  # noqa: F401 - loaded before the user changes, who may not read it
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import fsspec
import pytest

from airflow_sqlqueue.bodies.schemas import fields_of, struct
from airflow_sqlqueue.client.schemas.files import SchemaFolder
from airflow_sqlqueue.drain.storage.folder import StagingFolder
from airflow_sqlqueue.errors import ConfigurationError, StagingError

TYPE = "Shop.PlaceOrder"
PROGRAM = """
import sys
from airflow_sqlqueue.bodies.schemas import struct
from airflow_sqlqueue.client.schemas.files import SchemaFolder

folder, name = SchemaFolder(sys.argv[1]), sys.argv[2]
for number in range(20):
    more = struct({f"{name}{number}": "long"})
    folder.extend("Shop.PlaceOrder", more)
"""


class Overtaken(SchemaFolder):
    """A folder into which others write as soon as a schema was read."""

    def __init__(self, location: Any, *theirs: Any) -> None:
        super().__init__(location)
        self.theirs, self.seen = iter(theirs), list[Any]()

    def get(self, message_type: str) -> Any:
        found = super().get(message_type)
        self.seen.append(found)
        for schema in self.theirs:
            self.put(message_type, schema)
            break
        return found


def test_processes_at_once_lose_no_field(tmp_path: Path) -> None:
    names = "abcd"
    processes = [subprocess.Popen([sys.executable, "-c", PROGRAM, str(tmp_path), name]) for name in names]
    assert [process.wait(120) for process in processes] == [0] * len(names)
    found = SchemaFolder(tmp_path).get(TYPE)
    assert found is not None
    assert set(fields_of(found)) == {f"{name}{number}" for name in names for number in range(20)}
    assert sorted(path.name for path in tmp_path.iterdir()) == [".lock", f"{TYPE}.json"]


@pytest.mark.parametrize("location", ["{}", "memory://{}"])
def test_a_file_is_put_only_if_it_is_as_expected(location: str, tmp_path: Path) -> None:
    folder = SchemaFolder(location.format(tmp_path))
    one, two = struct({"a": "long"}), struct({"a": "string"})
    assert not folder.put(TYPE, one, expected=two)
    assert folder.get(TYPE) is None
    assert folder.put(TYPE, one, expected=None)
    assert not folder.put(TYPE, two, expected=None)
    assert not folder.put(TYPE, two, expected=two)
    assert folder.get(TYPE) == one
    assert folder.put(TYPE, two, expected=one)
    assert folder.put(TYPE, one)
    assert folder.get(TYPE) == one


def test_a_field_that_was_put_meanwhile_is_kept(tmp_path: Path) -> None:
    folder = Overtaken(tmp_path, struct({"theirs": "date"}))
    assert folder.extend(TYPE, struct({"ours": "long"})) == struct({"theirs": "date", "ours": "long"})
    assert folder.seen == [None, struct({"theirs": "date"})]
    assert SchemaFolder(tmp_path).get(TYPE) == struct({"theirs": "date", "ours": "long"})


def test_an_extension_that_changes_nothing_writes_nothing(tmp_path: Path) -> None:
    folder = SchemaFolder(tmp_path)
    folder.put(TYPE, struct({"a": "long"}))
    path = tmp_path / f"{TYPE}.json"
    os.utime(path, (1, 1))
    assert folder.extend(TYPE, struct({"A": "string"})) == struct({"a": "long"})
    assert path.stat().st_mtime == 1


def test_others_that_write_each_time_end_an_extension(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("airflow_sqlqueue.client.schemas.files.time.sleep", lambda seconds: None)
    folder = Overtaken(tmp_path, *(struct({f"n{number}": "long"}) for number in range(1_000)))
    with pytest.raises(StagingError, match="was written by others at each attempt"):
        folder.extend(TYPE, struct({"ours": "long"}))
    assert len(folder.seen) == 20


def test_a_file_that_a_person_broke_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / f"{TYPE}.json").write_text("{")
    for call in (
        lambda folder: folder.put(TYPE, struct({}), expected=None),
        lambda folder: folder.extend(TYPE, struct({"ours": "long"})),
    ):
        with pytest.raises(ConfigurationError, match="is not JSON"):
            call(SchemaFolder(tmp_path))
    assert (tmp_path / f"{TYPE}.json").read_text() == "{"


def test_a_killed_process_leaves_no_lock(tmp_path: Path) -> None:
    (tmp_path / ".lock").touch()
    SchemaFolder(tmp_path).put(TYPE, struct({"a": "long"}))
    assert SchemaFolder(tmp_path).get(TYPE) == struct({"a": "long"})


def test_all_who_may_write_to_the_folder_write_schemas() -> None:
    """The lock, and what a killed process left, are files of another user."""
    user = os.geteuid()
    with tempfile.TemporaryDirectory() as folder:
        for name in (".lock", f"{TYPE}.json.new"):
            Path(folder, name).touch(0o444)
        os.chmod(folder, 0o777)
        schemas = SchemaFolder(folder)
        # Root may write to each file.
        os.seteuid(user or 65_534)
        try:
            assert schemas.put(TYPE, struct({"a": "long"}), expected=None)
        finally:
            os.seteuid(user)
        assert schemas.get(TYPE) == struct({"a": "long"})


class OtherStore(fsspec.get_filesystem_class("memory")):  # type: ignore[misc]
    """A store without conditions for a file that exists, into which another process writes at once."""

    protocol = "memory"
    overtaken = 0

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **options: Any) -> None:
        super().pipe_file(path, value, mode=mode, **options)
        if self.overtaken:
            self.overtaken -= 1
            super().pipe_file(path, value.replace(b"ours", b"theirs"))


def test_a_store_without_conditions_is_read_again(tmp_path: Path) -> None:
    store = OtherStore(skip_instance_cache=True)
    folder = SchemaFolder(StagingFolder(store, f"{tmp_path}", f"memory://{tmp_path}"))
    folder.put(TYPE, struct({"a": "long"}))
    store.overtaken = 1
    assert folder.extend(TYPE, struct({"ours": "long"})) == struct({"a": "long", "theirs": "long", "ours": "long"})
