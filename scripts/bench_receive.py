"""Receives of 16 receivers past ghosts and held messages: ours, the transport's, and the transport's beside ours.

A transaction holds the first messages, and many after them were deleted. On fakemssql a deleted row stays in the index
of PostgreSQL as long as an older transaction is open. Reads are pages that the server has read, from memory or not: by
``sys.dm_exec_sessions``; on fakemssql, where that has none, by PostgreSQL's statistics of the table and its indexes.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Barrier

import bench_setting
from bench_report import Comparison
from bench_setting import TURNS, fill

from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.queue.anchor import Anchor
from airflow_sqlqueue.server.connection import open_connection
from airflow_sqlqueue.server.session import Session
from airflow_sqlqueue.server.sql import Query
from tests.endpoint import RECEIVE

RECEIVERS, HELD = 16, 16
OURS, TRANSPORT = "ours", "transport"
UNIT = "ms a receive"
READS = "SELECT SUM([logical_reads]) FROM sys.dm_exec_sessions WHERE [session_id] = @@SPID"


@dataclass
class Cost:
    """Messages of some receivers, with the seconds and the pages that they took."""

    messages: int = 0
    seconds: float = 0.0
    reads: float = 0.0

    def add(self, other: Cost) -> None:
        self.messages += other.messages
        self.seconds += other.seconds
        self.reads += other.reads

    @property
    def milliseconds(self) -> float:
        return 1_000 * self.seconds / self.messages

    @property
    def pages(self) -> float:
        return self.reads / self.messages


Receiver = Callable[[QueueTable, Anchor, Barrier, int], Cost]


def receive_as_ours(queue: QueueTable, anchor: Anchor, start: Barrier, count: int) -> Cost:
    """Receive as a handler does: messages of one anchor, each in a transaction that begins with the COMMIT before."""
    cost = Cost()
    with Session(queue.session.settings) as session:
        table = QueueTable(session, queue.address, queue.layout)
        start.wait()
        began = time.perf_counter()
        while cost.messages < count:
            with session.transaction():
                cost.messages += len(table.receive(anchor=anchor))
                session.chain()
        cost.seconds = time.perf_counter() - began
        cost.reads = float(session.value(Query("bench.reads", "count reads", READS)) or 0)
    return cost


def receive_as_transport(queue: QueueTable, anchor: Anchor, start: Barrier, count: int) -> Cost:
    """Receive by the transport's statement, each message in a transaction."""
    cost = Cost()
    connection = open_connection(queue.session.settings)
    try:
        cursor, text = connection.cursor(), RECEIVE["7"].format(queue.address.qualified_name)
        start.wait()
        began = time.perf_counter()
        while cost.messages < count:
            cursor.execute("BEGIN TRANSACTION")
            cost.messages += len(cursor.execute(text).fetchall())
            cursor.execute("COMMIT TRANSACTION")
        cost.seconds = time.perf_counter() - began
        cost.reads = float(cursor.execute(READS).fetchval() or 0)
    finally:
        connection.close()
    return cost


KINDS: dict[str, Receiver] = {OURS: receive_as_ours, TRANSPORT: receive_as_transport}


def receive(queue: QueueTable, kinds: list[str], count: int) -> dict[str, Cost]:
    """Run receivers side by side, of ``count`` messages each; return the costs of each kind."""
    anchor, start, before = Anchor(), Barrier(len(kinds)), bench_setting.pages_read(queue)
    costs = {kind: Cost() for kind in kinds}
    with ThreadPoolExecutor(len(kinds)) as pool:
        done = [(kind, pool.submit(KINDS[kind], queue, anchor, start, count)) for kind in kinds]
        for kind, future in done:
            costs[kind].add(future.result())
    if before is not None and len(costs) == 1:
        costs[kinds[0]].reads = (bench_setting.pages_read(queue, after=before) or 0) - before
    return costs


def compare_receives(
    queue: QueueTable, *, ghosts: int = 100_000, count: int = 24, turns: int = TURNS, bound: float = 0.5
) -> list[Comparison]:
    """Compare our receives with those of the transport, and those of the transport beside ours and beside itself."""
    half = RECEIVERS // 2
    runs = {
        OURS: [OURS] * RECEIVERS,
        TRANSPORT: [TRANSPORT] * RECEIVERS,
        "both": [OURS] * half + [TRANSPORT] * half,
    }
    fill(queue, HELD + ghosts + RECEIVERS * count * len(runs) * (turns + 1))
    best: dict[str, dict[str, Cost]] = {}
    with Session(queue.session.settings) as holder, holder.transaction():
        first = QueueTable(holder, queue.address).receive(HELD)
        _delete(queue, first[-1].row_version, ghosts)
        for turn in range(turns + 1):
            for name, kinds in runs.items():
                costs = receive(queue, kinds, count)
                if not turn:
                    continue
                kept = best.setdefault(name, costs)
                for kind, cost in costs.items():
                    kept[kind] = min(kept[kind], cost, key=lambda each: each.milliseconds)
    ours, alone, beside = best[OURS][OURS], best[TRANSPORT][TRANSPORT], best["both"][TRANSPORT]
    name, of = f"{RECEIVERS} of ours", f"{RECEIVERS} of the transport"
    neighbours, pages = f"{half} of the transport beside {half} of ours", "pages a receive"
    return [
        Comparison(name, ours.milliseconds, of, alone.milliseconds, bound, limit=True, unit=UNIT),
        Comparison(name, ours.pages, of, alone.pages, bound, limit=True, unit=pages),
        Comparison(neighbours, beside.milliseconds, of, alone.milliseconds, 1.0, limit=True, unit=UNIT),
    ]


def _delete(queue: QueueTable, after: int, ghosts: int) -> None:
    """Delete messages behind the held ones, in chunks below lock escalation."""
    text = (
        f"DELETE TOP (?) FROM {queue.address.qualified_name} WITH (ROWLOCK) "
        "WHERE [RowVersion] > ? AND [RowVersion] <= ?"
    )
    for low in range(after, after + ghosts, 2_000):
        queue.session.run(Query("bench.delete", "delete messages", text), 2_000, low, min(low + 2_000, after + ghosts))
