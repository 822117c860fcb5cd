"""CPU time and size of part files by compression: codecs and levels of Parquet for two kinds of messages.

``python scripts/bench_compression.py [--json]``, as ``bench_queue.py``. Every codec writes the row groups of a drain
again, to memory, with the drain's other settings. The messages of the shop resemble each other; the orders of the other
parts hold random numbers. docs/design.md, "Part files", decides with the figures.
"""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from bench_drain import drained
from bench_report import Comparison, report
from bench_setting import TURNS, messages, timed_turns

from airflow_sqlqueue import DrainRequest
from airflow_sqlqueue.drain.stages.part_file import PARQUET_OPTIONS
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.traffic import generate

DRAIN = f"{PARQUET_OPTIONS['compression']} {PARQUET_OPTIONS['compression_level']}"
CODECS: dict[str, dict[str, Any]] = {
    DRAIN: {},
    "none": {"compression": "none", "compression_level": None},
    "snappy": {"compression": "snappy", "compression_level": None},
    "lz4": {"compression": "lz4", "compression_level": None},
    "zstd 3": {"compression_level": 3},
    "zstd 9": {"compression_level": 9},
}


def compare_compression(queue: QueueTable, *, count: int = 20_000, turns: int = TURNS) -> list[Comparison]:
    """Compare codecs with the drain's own: µs of CPU and bytes for a message."""
    compared = []
    for kind, made in (("shop", generate(count, seed=1)), ("orders", messages(count))):
        queue.send(made)
        groups = _row_groups(queue)
        compared += _codecs(kind, groups, turns)
    return compared


def _codecs(kind: str, groups: list[pa.Table], turns: int) -> list[Comparison]:
    total = sum(group.num_rows for group in groups)
    kinds = {name: partial(_written, groups, codec) for name, codec in CODECS.items()}
    spent, sizes = dict.fromkeys(CODECS, float("inf")), dict.fromkeys(CODECS, 0)
    for name, _, cpu, size in timed_turns(kinds, turns):
        spent[name], sizes[name] = min(spent[name], cpu), size
    return [
        Comparison(f"{kind}: {name}", scale * figures[name] / total, DRAIN, scale * figures[DRAIN] / total, unit=unit)
        for unit, scale, figures in (("µs of CPU/message", 1e6, spent), ("bytes/message", 1, sizes))
        for name in CODECS
        if name != DRAIN
    ]


def _row_groups(queue: QueueTable) -> list[pa.Table]:
    """Drain the queue; return the row groups of its files."""
    with drained(queue, DrainRequest()) as batch:
        files = [pq.ParquetFile(path.removeprefix("file://"), memory_map=False) for path in batch.paths]
        groups = [file.read_row_group(index) for file in files for index in range(file.num_row_groups)]
        for file in files:
            file.close()
    return groups


def _written(groups: list[pa.Table], codec: dict[str, Any]) -> int:
    """The bytes of one file of all row groups."""
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, groups[0].schema, **{**PARQUET_OPTIONS, **codec}) as writer:
        for group in groups:
            writer.write_table(group, row_group_size=group.num_rows)
    return int(sink.getvalue().size)


if __name__ == "__main__":
    sys.exit(report(__doc__ or "", {"compression": compare_compression}))
