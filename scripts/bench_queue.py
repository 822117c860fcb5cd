"""Speed of bulk sends and purges, each against a plain statement."""

from __future__ import annotations

from datetime import timedelta

from bench_report import Comparison
from bench_setting import TURNS, best_rates, empty, messages

from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.queue.purge import CHUNK, PurgeOptions, purge
from airflow_sqlqueue.queue.table_access import LAST
from airflow_sqlqueue.server.sql import Query


def compare_sends(queue: QueueTable, *, single: int = 200, bulk: int = 5_000, turns: int = TURNS) -> Comparison:
    """Compare a bulk send with messages sent one by one, each committed."""
    kinds = {
        "single sends": lambda: sum(queue.send([message]) for message in messages(single)),
        "bulk send": lambda: queue.send(messages(bulk)),
    }
    best = best_rates(kinds, turns)
    return Comparison("bulk send", best["bulk send"], "single sends", best["single sends"], 10.0)


def compare_purges(
    queue: QueueTable, *, count: int = 20_000, turns: int = TURNS, bound: float = 0.8
) -> list[Comparison]:
    """Compare purges with their bare DELETE, of as many rows in the same chunks."""
    everything = f"[RowVersion] <= {LAST}"
    older = PurgeOptions(older_than=timedelta(hours=1), confirm=True)
    return [
        _compare_purge(
            queue, "purge of expired", PurgeOptions(), "[Expires] < GETUTCDATE()", count, turns, bound=bound
        ),
        _compare_purge(
            queue, "purge of all", PurgeOptions(all_messages=True, confirm=True), everything, count, turns, bound=bound
        ),
        _compare_purge(queue, "purge by age", older, everything, count, turns, note="reads every header as well"),
    ]


def _compare_purge(
    queue: QueueTable,
    name: str,
    options: PurgeOptions,
    condition: str,
    count: int,
    turns: int,
    *,
    bound: float | None = None,
    note: str = "",
) -> Comparison:
    lives = timedelta(seconds=-60) if "Expires" in condition else None
    kinds = {"bare DELETE": lambda: _bare_delete(queue, condition), name: lambda: purge(queue, options).deleted}

    def refill(_: str) -> None:
        empty(queue)
        queue.send(messages(count, lives))

    best = best_rates(kinds, turns, before=refill)
    return Comparison(name, best[name], "bare DELETE", best["bare DELETE"], bound, note=note)


def _bare_delete(queue: QueueTable, condition: str) -> int:
    text = (
        f"DELETE TOP ({CHUNK}) FROM {queue.address.qualified_name} WITH (READPAST, ROWLOCK, READCOMMITTEDLOCK) "
        f"WHERE {condition}; SELECT @@ROWCOUNT;"
    )
    deleted = 0
    while count := queue.session.value(Query("bench.delete", "delete messages", text)):
        deleted += count
    return deleted


def compare_queue(queue: QueueTable) -> list[Comparison]:
    return [compare_sends(queue), *compare_purges(queue)]
