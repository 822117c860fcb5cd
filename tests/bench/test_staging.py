"""Baselines of the bench: the hand-written drain, and the filling of queues."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from bench_drain import staged_move
from bench_setting import fill, messages


def test_the_hand_written_drain_moves_all_messages_and_empties_both_tables(queue: Any, tmp_path: Path) -> None:
    queue.send(messages(9_000))
    with staged_move(queue) as move:
        assert move.run(tmp_path / "first.parquet") == 9_000
        assert move.run(tmp_path / "second.parquet") == 0
    rows = pq.read_table(tmp_path / "first.parquet").to_pylist()
    assert [row["Body"] for row in rows] == [message.body for message in messages(9_000)]


def test_filling_makes_as_many_different_rows_as_asked_for(queue: Any, tmp_path: Path) -> None:
    fill(queue, 50_001)
    with staged_move(queue) as move:
        assert move.run(tmp_path / "all.parquet") == 50_001
    ids = pq.read_table(tmp_path / "all.parquet", columns=["Id"])["Id"]
    assert len(ids.unique()) == 50_001
