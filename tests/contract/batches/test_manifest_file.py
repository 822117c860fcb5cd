"""The manifest file of a batch with many paths: written once it is sealed, the same by every try, and swept with it."""

from __future__ import annotations

import json
import uuid
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from airflow_sqlqueue.drain.batches import recorded_batch
from airflow_sqlqueue.drain.ledger import Ledger
from airflow_sqlqueue.drain.manifest import Batch
from airflow_sqlqueue.drain.options import SweepOptions
from airflow_sqlqueue.drain.requeue import requeue
from airflow_sqlqueue.drain.storage import durable_file
from airflow_sqlqueue.drain.storage.folder import StagingFolder
from airflow_sqlqueue.drain.sweep import sweep
from airflow_sqlqueue.errors import BatchMismatchError, StagingError
from tests.contract.batches.conftest import NOW, DrainIt

YOUNG = SweepOptions(grace=timedelta(0))


@pytest.fixture(params=["local disk", "memory"])
def staging(request: pytest.FixtureRequest, tmp_path: Path) -> StagingFolder:
    """Long names: a dozen of them are too many for XCom."""
    folder = "/".join(["x" * 200] * 3)
    return StagingFolder.of(f"memory://{uuid.uuid4().hex}/{folder}" if request.param == "memory" else tmp_path / folder)


def names(staging: StagingFolder, batch: Batch) -> set[str]:
    found = staging.filesystem.find(f"{staging.root}/{batch.folder}")
    return {path.rpartition("/")[2] for path in found}


def content(staging: StagingFolder, batch: Batch) -> Any:
    path = staging.root + batch.manifest_path.removeprefix(staging.uri)
    return json.loads(staging.filesystem.cat_file(path))


def test_a_manifest_file_lies_beside_its_parts_and_is_swept_with_them(
    ledger: Ledger, drain: DrainIt, staging: StagingFolder
) -> None:
    batch, small = drain(300), drain(20)
    assert content(staging, batch) == batch.to_dict()
    parts = {path.rpartition("/")[2] for path in batch.paths}
    assert names(staging, batch) == parts | {batch.manifest_path.rpartition("/")[2]}
    assert len(names(staging, small)) == 1
    assert recorded_batch(ledger.session, batch.to_reference()) == batch
    sweep(ledger, staging, YOUNG)
    assert content(staging, batch) == batch.to_dict()
    with pytest.raises(BatchMismatchError, match="is not what its drain wrote"):
        recorded_batch(ledger.session, {**batch.to_reference(), "expired": 1})
    assert requeue(ledger, uuid.UUID(batch.batch_id), staging).batch.messages == 300
    assert content(staging, batch) == batch.to_dict()
    assert sweep(ledger, staging, NOW).files == 16
    assert names(staging, batch) == set()


def test_a_retry_writes_the_rest_of_an_earlier_try(
    ledger: Ledger, drain: DrainIt, staging: StagingFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch_id, close = uuid.uuid4(), durable_file.DurableFile.close

    def fail(file: durable_file.DurableFile) -> None:
        if not file._name.endswith(".parquet"):
            raise StagingError("The disk is full.")
        close(file)

    with monkeypatch.context() as patched:
        patched.setattr(durable_file.DurableFile, "close", fail)
        with pytest.raises(StagingError, match="full"):
            drain(300, batch_id=batch_id)
    batch = ledger.manifest(batch_id)
    assert batch.state == "sealed"
    # The store of the test's process shows a file from its first byte.
    assert (batch.manifest_path.rpartition("/")[2] in names(staging, batch)) is not staging.is_local
    for _ in range(2):
        assert drain(batch_id=batch_id) == batch
        assert content(staging, batch) == batch.to_dict()
    assert len(names(staging, batch)) == 16


def test_a_sweep_removes_a_half_manifest_of_a_process_that_died(
    ledger: Ledger, drain: DrainIt, staging: StagingFolder
) -> None:
    batch = drain(300)
    staging.filesystem.pipe_file(f"{staging.root}/{batch.folder}/_new-{uuid.uuid4()}", b"{")
    assert len(names(staging, batch)) == 17
    assert sweep(ledger, staging, YOUNG).orphans == 1
    assert len(names(staging, batch)) == 16
