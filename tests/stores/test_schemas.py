"""Files of schemas on a store that speaks S3: writes have the condition that nobody else wrote."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from airflow_sqlqueue.bodies.schemas import fields_of, struct
from airflow_sqlqueue.client.schemas.files import SchemaFolder
from airflow_sqlqueue.drain.storage.folder import StagingFolder
from airflow_sqlqueue.errors import StagingError
from tests.stores.conftest import Bucket
from tests.stores.server import S3Server

TYPE = "Shop.PlaceOrder"


def folder_of(server: S3Server, bucket: Bucket) -> SchemaFolder:
    return SchemaFolder(StagingFolder(server.filesystem(), f"{bucket.name}/schemas", f"s3a://{bucket.name}/schemas"))


def test_writers_at_once_lose_no_field(s3: S3Server, bucket: Bucket) -> None:
    """Both have read the file before one of them writes it, at the first try."""
    both = threading.Barrier(2, timeout=60)

    def write(name: str) -> None:
        folder = folder_of(s3, bucket)
        get, calls = folder.get, iter([both.wait])

        def get_with_the_other(message_type: str) -> Any:
            found = get(message_type)
            for wait in calls:
                wait()
            return found

        folder.get = get_with_the_other  # type: ignore[method-assign]
        for number in range(5):
            folder.extend(TYPE, struct({f"{name}{number}": "long"}))

    with ThreadPoolExecutor() as pool:
        list(pool.map(write, "ab"))
    found = folder_of(s3, bucket).get(TYPE)
    assert found is not None
    assert set(fields_of(found)) == {f"{name}{number}" for name in "ab" for number in range(5)}


def test_a_file_that_another_wrote_meanwhile_is_not_replaced(s3: S3Server, bucket: Bucket) -> None:
    """The other writes between the look at the file and the write, where only the condition can tell."""
    folder, before, theirs = folder_of(s3, bucket), struct({"a": "long"}), struct({"b": "long"})
    for expected in (None, before):
        if expected is None:
            bucket.remove(f"schemas/{TYPE}.json")
        else:
            folder.put(TYPE, expected)
        done = threading.Event()

        def door(request: str, done: threading.Event = done) -> tuple[str, str] | None:
            if request.startswith("PUT") and not done.is_set():
                done.set()
                folder_of(s3, bucket).put(TYPE, theirs)
            return None

        with s3.behind(door):
            assert not folder.put(TYPE, struct({"c": "long"}), expected=expected)
        assert folder.get(TYPE) == theirs


def test_a_server_without_conditions_is_written_and_read_again(s3: S3Server, bucket: Bucket) -> None:
    folder = folder_of(s3, bucket)
    refused = []

    def door(request: str) -> tuple[str, str] | None:
        if request.startswith("PUT") and len(refused) < 1:
            refused.append(request)
            return "501 Not Implemented", "NotImplemented"
        return None

    with s3.behind(door):
        assert folder.put(TYPE, struct({"a": "long"}), expected=None)
    assert folder.get(TYPE) == struct({"a": "long"})
    with (
        s3.behind(lambda request: ("403 Forbidden", "AccessDenied") if request.startswith("PUT") else None),
        pytest.raises(StagingError, match="cannot be written"),
    ):
        folder.put(TYPE, struct({"b": "long"}), expected=struct({"a": "long"}))


def test_a_folder_that_is_called_as_a_file_leaves_the_file_and_others(s3: S3Server, bucket: Bucket) -> None:
    folder, kept = folder_of(s3, bucket), struct({"a": "long"})
    for name in (TYPE, "Shop.CancelOrder"):
        folder.put(name, kept)
    for name in (TYPE, "Shop.Folder"):
        s3.filesystem().pipe_file(f"{bucket.name}/schemas/{name}.json/part", b"{")
    unusable: dict[str, str] = {}
    assert folder.all(unusable) == {TYPE: kept, "Shop.CancelOrder": kept}
    assert unusable.keys() == {"Shop.Folder"}
