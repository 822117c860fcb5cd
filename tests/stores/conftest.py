"""Fixtures of the tests on object stores."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from airflow_sqlqueue.drain.storage.folder import StagingFolder
from tests.stores.server import S3Server


@pytest.fixture(scope="session")
def s3() -> Iterator[S3Server]:
    server = S3Server()
    yield server
    server.stop()


class Bucket:
    """Contents of a bucket, finished and unfinished."""

    def __init__(self, server: S3Server) -> None:
        self.name = f"b-{uuid.uuid4().hex[:12]}"
        self._client = server.client()
        self._client.create_bucket(Bucket=self.name)

    def keys(self) -> list[str]:
        return [entry["Key"] for entry in self._client.list_objects_v2(Bucket=self.name).get("Contents", [])]

    def unfinished(self) -> list[str]:
        uploads = self._client.list_multipart_uploads(Bucket=self.name).get("Uploads", [])
        return [upload["Key"] for upload in uploads]

    def read(self, key: str) -> bytes:
        content: bytes = self._client.get_object(Bucket=self.name, Key=key)["Body"].read()
        return content

    def put(self, key: str, content: bytes) -> None:
        self._client.put_object(Bucket=self.name, Key=key, Body=content)

    def remove(self, key: str) -> None:
        self._client.delete_object(Bucket=self.name, Key=key)


@pytest.fixture
def bucket(s3: S3Server) -> Bucket:
    """An empty bucket, as another client than the one under test sees it."""
    return Bucket(s3)


@pytest.fixture
def staging(s3: S3Server, bucket: Bucket) -> StagingFolder:
    return StagingFolder(s3.filesystem(), f"{bucket.name}/staging", f"s3a://{bucket.name}/staging")
