"""How fast a drain is, beside receiving one at a time and beside a bare loop of the statements that it is made of.

``python scripts/bench_drain.py [--json]``, as ``bench_queue.py``. Two workers can only be faster than one where server
and client have cores to spare: with fewer than four cores that ratio has no bound.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bench_queue import Comparison, messages, report

from airflow_sqlqueue.drain.drain import Drain
from airflow_sqlqueue.drain.options import DrainOptions
from airflow_sqlqueue.drain.staging import StagingFolder
from airflow_sqlqueue.queue import MAX_ROWS_PER_STATEMENT, QueueTable
from airflow_sqlqueue.queue.fitted import FIRST, LAST
from airflow_sqlqueue.server.opening import open_connection
from airflow_sqlqueue.session import Session
from airflow_sqlqueue.sql.columns import output

TURNS = 3


def compare_drains(
    queue: QueueTable, *, count: int = 40_000, single: int = 500, turns: int = TURNS
) -> list[Comparison]:
    """The best of some turns of each kind, all in one run; the first, which prepares statements, does not count."""
    best: dict[str, float] = {}
    kinds: dict[str, Callable[[], int]] = {
        "single receives": lambda: sum(len(queue.receive()) for _ in range(single)),
        "bare loop": lambda: _bare_loop(queue),
        **{f"{n}-worker drain": (lambda n=n: _drain(queue, n)) for n in (1, 2, 4)},  # type: ignore[misc]
    }
    for turn in range(turns + 1):
        for name, work in kinds.items():
            queue.send(messages(single if name == "single receives" else count))
            started = time.perf_counter()
            done = work()
            if turn:
                best[name] = max(best.get(name, 0.0), done / (time.perf_counter() - started))
    spare = 1.5 if (os.cpu_count() or 1) >= 4 else 0.0
    pairs = (
        ("4-worker drain", "single receives", 25.0),
        ("1-worker drain", "bare loop", 0.8),
        ("2-worker drain", "1-worker drain", spare),
    )
    return [Comparison(name, best[name], base, best[base], bound) for name, base, bound in pairs]


def _bare_loop(queue: QueueTable) -> int:
    """The drain's own DELETE through the driver, in transactions of a part's size; the rows are thrown away."""
    layout = queue.layout
    text = queue.query("queue.take_head", **output(layout.types, into=layout.output_into)).text
    options = DrainOptions()
    connection = open_connection(queue.session.settings)
    connection.autocommit = False
    total, after, in_part = 0, FIRST, 0
    try:
        cursor = connection.cursor()
        cursor.execute("SET NOCOUNT ON")
        values = (MAX_ROWS_PER_STATEMENT, LAST, options.bytes_per_statement)
        while rows := cursor.execute(text, values[0], after, *values[1:]).fetchall():
            total, in_part = total + len(rows), in_part + len(rows)
            after = max(row[7] for row in rows)
            if in_part >= options.rows_per_part:
                connection.commit()
                in_part = 0
        connection.commit()
    finally:
        connection.close()
    return total


def _drain(queue: QueueTable, workers: int) -> int:
    settings = queue.session.settings
    with tempfile.TemporaryDirectory(prefix="sqlqueue-bench-") as folder:
        staging = StagingFolder.of(Path(folder))
        options = DrainOptions(workers=workers)
        return Drain(lambda: Session(settings), queue.address, staging, options=options).run().batch.messages


if __name__ == "__main__":
    sys.exit(report(__doc__ or "", compare_drains))
