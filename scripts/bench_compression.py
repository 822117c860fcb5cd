"""CPU time and size of part files by compression: codecs and levels of Parquet for two kinds of messages.

``python scripts/bench_compression.py [--json]``, as ``bench_queue.py``. Every codec writes the row groups of a drain
again, to memory, with the drain's other settings. The messages of the shop resemble each other; the orders of the other
parts hold random numbers. docs/design.md, "Part files", decides with the figures.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from bench_report import Comparison, report
from bench_setting import TURNS, messages

from airflow_sqlqueue import DrainRequest
from airflow_sqlqueue.drain.drain import Drain
from airflow_sqlqueue.drain.stages.part_file import WRITING
from airflow_sqlqueue.drain.storage.folder import StagingFolder
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.session import Session
from airflow_sqlqueue.traffic import generate

DRAIN = f"{WRITING['compression']} {WRITING['compression_level']}"
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
    spent, sizes = dict.fromkeys(CODECS, float("inf")), dict.fromkeys(CODECS, 0)
    for _ in range(turns):
        for name, codec in CODECS.items():
            started = time.process_time()
            sizes[name] = _written(groups, codec)
            spent[name] = min(spent[name], time.process_time() - started)
    return [
        Comparison(f"{kind}: {name}", scale * figures[name] / total, DRAIN, scale * figures[DRAIN] / total, unit=unit)
        for unit, scale, figures in (("µs of CPU/message", 1e6, spent), ("bytes/message", 1, sizes))
        for name in CODECS
        if name != DRAIN
    ]


def _row_groups(queue: QueueTable) -> list[pa.Table]:
    """Drain the queue to files that are then removed; return their row groups."""
    settings = queue.session.settings
    with tempfile.TemporaryDirectory(prefix="sqlqueue-bench-") as folder:
        drain = Drain(lambda: Session(settings), queue.address, StagingFolder.of(Path(folder)), DrainRequest())
        files = [pq.ParquetFile(path.removeprefix("file://"), memory_map=False) for path in drain.run().batch.paths]
        groups = [file.read_row_group(index) for file in files for index in range(file.num_row_groups)]
        for file in files:
            file.close()
    return groups


def _written(groups: list[pa.Table], codec: dict[str, Any]) -> int:
    """The bytes of one file of all row groups."""
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, groups[0].schema, **{**WRITING, **codec}) as writer:
        for group in groups:
            writer.write_table(group, row_group_size=group.num_rows)
    return int(sink.getvalue().size)


if __name__ == "__main__":
    sys.exit(report(__doc__ or "", {"compression": compare_compression}))
