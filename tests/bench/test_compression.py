"""Short run of ``scripts/bench_compression.py``."""

from __future__ import annotations

from typing import Any

import bench_compression

from airflow_sqlqueue.queue.depth import depth


def test_every_codec_is_compared_with_the_drains_in_time_and_size(queue: Any) -> None:
    found = bench_compression.compare_compression(queue, count=200, turns=1)
    assert depth(queue).messages == 0
    units = ["µs of CPU/message", "bytes/message"]
    names = ["none", "snappy", "lz4", "zstd 3", "zstd 9"]
    assert [(each.name, each.unit) for each in found] == [
        (f"{kind}: {name}", unit) for kind in ("shop", "orders") for unit in units for name in names
    ]
    assert {each.base_name for each in found} == {"zstd 1"}
    sizes = {each.name: each.ratio for each in found if each.unit == "bytes/message"}
    assert sizes["shop: none"] > sizes["shop: snappy"] > 1 > sizes["shop: zstd 9"]
