"""What one message costs a drain where 10,000, 100,000 or 1,000,000 wait.

``python scripts/bench_growth.py [--json]``, as ``bench_queue.py``. A drain has costs of its own, which tell in the cost
of a message where there are few and would hide a growth: the million is held against 100,000 as well.
"""

from __future__ import annotations

import sys

from bench_drain import drain
from bench_report import Comparison, report
from bench_setting import fill, rate_of

from airflow_sqlqueue.queue import QueueTable

TURNS = {10_000: 5, 100_000: 3, 1_000_000: 1}
"""Turns of each size, the best of which counts: what disturbs a short drain for a moment does more to it."""

BOUND = 1.2


def compare_growth(queue: QueueTable) -> list[Comparison]:
    """The cost of a message in drains of different sizes, with the default settings, one after the other."""
    small, middle, large = TURNS
    _cost(queue, small)  # prepares the statements
    cost = {size: min(_cost(queue, size) for _ in range(turns)) for size, turns in TURNS.items()}
    return [
        Comparison(
            f"drain of {size:,}", cost[size], f"drain of {base:,}", cost[base], BOUND, limit=True, unit="µs/message"
        )
        for size, base in ((middle, small), (large, small), (large, middle))
    ]


def _cost(queue: QueueTable, size: int) -> float:
    """Microseconds for each message of a drain."""
    fill(queue, size)
    return 1e6 / rate_of(lambda: drain(queue))


if __name__ == "__main__":
    sys.exit(report(__doc__ or "", {"growth": compare_growth}))
