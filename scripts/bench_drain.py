"""How fast a drain is, beside single receives, beside a bare loop of its statements, and beside doing it oneself.

``python scripts/bench_drain.py [--json]``, as ``bench_queue.py``. Two workers can only be faster than one where server
and client have cores to spare: with fewer than four cores that ratio has no bound.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from bench_report import Comparison, cores, report
from bench_setting import TURNS, best_rates, fill
from bench_staging import staged_move

from airflow_sqlqueue.drain.drain import Drain, Engine
from airflow_sqlqueue.drain.options import DrainOptions
from airflow_sqlqueue.drain.request import DrainRequest
from airflow_sqlqueue.drain.storage.folder import StagingFolder
from airflow_sqlqueue.queue import MAX_ROWS_PER_STATEMENT, QueueTable
from airflow_sqlqueue.queue.table_access import FIRST, LAST
from airflow_sqlqueue.queue.window import Window
from airflow_sqlqueue.row import NAMES
from airflow_sqlqueue.server.connection import open_connection
from airflow_sqlqueue.session import Session
from airflow_sqlqueue.sql.columns import output

SINGLE, BARE, STAGED = "single receives", "bare loop", "do it yourself"
ENOUGH_CORES = 4
_ROW_VERSION = NAMES.index("RowVersion")


def compare_drains(
    queue: QueueTable, *, count: int = 100_000, single: int = 500, turns: int = TURNS
) -> list[Comparison]:
    """Drains with 1, 2 and 4 workers and what they are measured against, all of the same messages."""
    with staged_move(queue) as move, tempfile.TemporaryDirectory(prefix="sqlqueue-bench-") as folder:
        kinds: dict[str, Callable[[], int]] = {
            SINGLE: lambda: sum(len(queue.receive()) for _ in range(single)),
            BARE: lambda: bare_loop(queue),
            STAGED: lambda: move.run(Path(folder, "moved.parquet")),
            **{_drained_by(n): (lambda n=n: drain(queue, n)) for n in (1, 2, 4)},  # type: ignore[misc]
        }
        best = best_rates(kinds, turns, before=lambda name: fill(queue, single if name == SINGLE else count))
    one, two, four = map(_drained_by, (1, 2, 4))
    spare = cores() >= ENOUGH_CORES
    note = f"{cores()} cores" + ("" if spare else ": too few for a bound")
    pairs = (
        (four, SINGLE, 25.0, ""),
        (one, BARE, 0.8, ""),
        (two, one, 1.5 if spare else None, note),
        (two, STAGED, 1.0, "the default"),
        (four, STAGED, None, ""),
        (one, STAGED, None, ""),
    )
    return [Comparison(name, best[name], base, best[base], bound, note=note) for name, base, bound, note in pairs]


def _drained_by(workers: int) -> str:
    return f"{workers}-worker drain"


def bare_loop(queue: QueueTable) -> int:
    """The drain's own DELETE through the driver, in transactions of a part's size; the rows are thrown away."""
    layout = queue.layout
    text = queue.query(
        "queue.take_head", window=Window().condition, **output(layout.types, into=layout.output_into)
    ).text
    options = DrainOptions()
    connection = open_connection(queue.session.settings)
    connection.autocommit = False
    total, after, in_part = 0, FIRST, 0
    try:
        cursor = connection.cursor()
        cursor.execute("SET NOCOUNT ON")
        limits = (LAST, options.inline_body_bytes, options.bytes_per_statement)
        while rows := cursor.execute(text, MAX_ROWS_PER_STATEMENT, after, *limits).fetchall():
            total, in_part = total + len(rows), in_part + len(rows)
            after = max(row[_ROW_VERSION] for row in rows)
            if in_part >= options.rows_per_part:
                connection.commit()
                in_part = 0
        connection.commit()
    finally:
        connection.close()
    return total


def drain(queue: QueueTable, workers: int = DrainOptions.workers, engine: Engine | None = None) -> int:
    """Drain the queue with the default settings, or other workers or an engine, to files that are then removed."""
    settings = queue.session.settings
    with tempfile.TemporaryDirectory(prefix="sqlqueue-bench-") as folder:
        staging, options = StagingFolder.of(Path(folder)), DrainOptions(workers=workers)
        batch = (
            Drain(lambda: Session(settings), queue.address, staging, DrainRequest(options=options), engine=engine)
            .run()
            .batch
        )
    return batch.messages + batch.expired


if __name__ == "__main__":
    sys.exit(report(__doc__ or "", {"drain": compare_drains}))
