"""Merging the parts of a batch: in order, and with as few files open as their overlap asks for."""

from __future__ import annotations

import random
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_sqlqueue.drain.batch_reader import merged, rows_in_order
from airflow_sqlqueue.drain.ledger import Part
from airflow_sqlqueue.drain.manifest import Batch
from airflow_sqlqueue.drain.storage.batch_files import check_files
from airflow_sqlqueue.drain.storage.folder import StagingFolder
from airflow_sqlqueue.errors import StagingError
from airflow_sqlqueue.messages.row import Row


class Files:
    """Parts with these RowVersions, and how many of them were open at once."""

    def __init__(self, *contents: list[int], lowest: int | None = None) -> None:
        self.parts = [self._part(rows, lowest) for rows in contents]
        self._rows = {part.id: rows for part, rows in zip(self.parts, contents, strict=True)}
        self._open = self.most_open = 0

    @staticmethod
    def _part(rows: list[int], lowest: int | None) -> Part:
        low, high = min([*rows, lowest or 10**6]), max([*rows, 0])
        return Part(uuid.uuid4(), "file", messages=len(rows), min_row_version=low, max_row_version=high)

    def read(self, part: Part) -> Iterator[Row]:
        self._open += 1
        self.most_open = max(self.most_open, self._open)
        for number in self._rows[part.id]:
            yield Row("", None, None, None, None, "", None, number, False)
        self._open -= 1

    def merged(self) -> list[int]:
        return [row.row_version for row in merged(self.parts, self.read)]


def test_parts_behind_each_other_are_open_one_by_one() -> None:
    files = Files(*([n, n + 1, n + 2] for n in range(0, 300, 3)))
    random.Random(1).shuffle(files.parts)
    assert files.merged() == list(range(300))
    assert files.most_open <= 2


def test_parts_that_overlap_are_merged() -> None:
    files = Files([1, 4, 9], [2, 3, 10], [5, 6], [11], [7, 8])
    assert files.merged() == list(range(1, 12))


def test_parts_with_expired_rows_and_empty_parts() -> None:
    assert Files([8, 9], [5, 6], [], lowest=1).merged() == [5, 6, 8, 9]
    assert Files().merged() == Files([], []).merged() == []


def test_any_cut_of_a_queue_comes_back_in_order() -> None:
    chance = random.Random(7)
    for _ in range(200):
        contents: list[list[int]] = [[] for _ in range(chance.randint(1, 6))]
        for number in range(chance.randint(0, 40)):
            chance.choice(contents).append(number)
        assert Files(*contents).merged() == list(range(sum(map(len, contents))))


@pytest.mark.parametrize(
    "path",
    [
        "reference://p::http://169.254.169.254/latest/meta-data",
        "zip://part.parquet::file:///etc/archive.zip",
        "simplecache::s3a://bucket/part.parquet",
        "s3a://bucket/part::file:///etc/passwd",
        "http://169.254.169.254/part.parquet",
        "github://org:repo@main/part.parquet",
        "file:///staging/../etc/part.parquet",
        "/etc/part.parquet",
    ],
)
def test_the_ledger_cannot_name_files_by_protocols_that_fetch_from_elsewhere(path: str, monkeypatch: Any) -> None:
    monkeypatch.setattr(StagingFolder, "of", lambda location: pytest.fail(f"{location} was opened"))
    part = Part(uuid.uuid4(), path, messages=1, min_row_version=1, max_row_version=1)
    with pytest.raises(StagingError, match="name the folder it was drained to"):
        list(rows_in_order([part]))
    batch = Batch(str(uuid.uuid4()), "q@[dbo]@[shop]", "consumed", (path,), 1, messages=1)
    with pytest.raises(StagingError, match="name the folder it was drained to"):
        check_files(batch)


def test_the_ledger_cannot_name_files_outside_of_the_staging_folder(tmp_path: Path) -> None:
    staging = StagingFolder.of(tmp_path / "staging")
    for path in (f"{staging.uri}/../part.parquet", f"{staging.uri}2/part.parquet", "file:///etc/part.parquet"):
        with pytest.raises(StagingError, match=f"is not under {staging.uri}: name the folder"):
            list(rows_in_order([Part(uuid.uuid4(), path, messages=1, min_row_version=1, max_row_version=1)], staging))
