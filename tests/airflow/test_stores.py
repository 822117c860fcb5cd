"""A store that is added takes an entry of ``STORES`` and no more."""

from __future__ import annotations

import uuid
from datetime import datetime, timezone
from types import SimpleNamespace
from typing import Any

import pytest
from fsspec.implementations.memory import MemoryFileSystem

from airflow_sqlqueue.drain import stores
from airflow_sqlqueue.drain.manifest import Batch
from airflow_sqlqueue.drain.storage.batch_files import staged_files
from airflow_sqlqueue.drain.storage.folder import StagingFolder, locate
from airflow_sqlqueue.drain.stores import Store
from airflow_sqlqueue.errors import BatchMismatchError, ConfigurationError, StagingError
from airflow_sqlqueue.hooks.staging import staging_folder
from airflow_sqlqueue.operators.lineage import of_batch

BATCH, PART = "0b1f2c3d-0000-4000-8000-000000000001", "0b1f2c3d-0000-4000-8000-000000000002"
CHANGED = datetime(2026, 1, 2, tzinfo=timezone.utc)
ADDED = Store(
    ("r2",), ("r2",), package="no_such_r2fs", connection="[^/@:]+@", dataset="cloudflare", modified=("changed",)
)


class R2(MemoryFileSystem):
    """A file system of a store that is added: listings have the time of a change under a name of their own."""

    protocol = "r2"

    def ls(self, path: str, detail: bool = True, **kwargs: Any) -> list[Any]:
        folder = f"bucket/staging/{BATCH}"
        if path != folder:
            return [{"name": folder, "type": "directory"}]
        return [{"name": f"{folder}/part-{PART}.parquet", "type": "file", "size": 5, "changed": CHANGED}]


def batch() -> Batch:
    path = f"r2://bucket/staging/{BATCH}/part-{PART}.parquet"
    return Batch(BATCH, "orders@dbo@shop", "sealed", (path,), messages=1, expired=0, bytes=5, parts=1)


def test_a_new_store_is_one_entry_for_every_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "STORES", (*stores.STORES, ADDED))
    folder = StagingFolder.of(SimpleNamespace(fs=R2(), path="bucket/staging"))
    assert folder.uri == "r2://bucket/staging"
    batch().check_files()
    assert locate(batch().paths[0], folder)[1] == f"bucket/staging/{BATCH}/part-{PART}.parquet"
    ((name, (file,)),) = staged_files(folder)
    assert (name, file.part_id, file.modified) == (BATCH, uuid.UUID(PART), CHANGED)
    (flow,) = of_batch(None, batch())  # type: ignore[arg-type]
    assert (flow.namespace, flow.name) == ("cloudflare://bucket", f"staging/{BATCH}")
    for name_it in (StagingFolder.of, staging_folder):
        with pytest.raises(ConfigurationError, match="no_such_r2fs"):
            name_it("r2://bucket/staging")
    assert stores.names_connection("r2://r2_default@bucket/staging")
    with pytest.raises(ConfigurationError, match="names no bucket that r2 could have"):
        StagingFolder.of(SimpleNamespace(fs=R2(), path=""))


def test_a_store_without_an_entry_is_refused_everywhere() -> None:
    with pytest.raises(ConfigurationError, match="Spark reads no batches from r2"):
        StagingFolder.of(SimpleNamespace(fs=R2(), path="bucket/staging"))
    with pytest.raises(BatchMismatchError, match="A part file"):
        batch().check_files()
    with pytest.raises(StagingError, match="is not on a local disk"):
        locate(batch().paths[0], None)
    assert not stores.names_connection("r2://r2_default@bucket/staging")
