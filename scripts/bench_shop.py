"""Costs of a drain of the shop's messages against fetching them, and of a send against its INSERTs alone.

The messages are those of the demo, 3.4 kB each, so work on every byte shows more than with the messages of the other
parts. The CPU time is that of this process, so it is meaningful on a busy machine as well.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from bench_consume import second_queue
from bench_drain import bare_loop, drain
from bench_report import Comparison
from bench_setting import TURNS, empty, timed_turns

from airflow_sqlqueue.queue import MAX_ROWS_PER_STATEMENT, QueueTable
from airflow_sqlqueue.queue.sending import chunks, sent_parameters
from airflow_sqlqueue.server.connection import open_connection
from airflow_sqlqueue.server.sql import Query
from airflow_sqlqueue.server.sql.columns import insertion
from airflow_sqlqueue.traffic import generate

PLAINEST, BARE, DRAIN = "plainest loop", "bare loop", "1-worker drain"
INSERTS, SEND = "INSERTs alone", "generate and send"
_SEED = 1
_COLUMNS = "[Id], [CorrelationId], [ReplyToAddress], [Recoverable], [Expires], [Headers], [Body]"


@dataclass(frozen=True)
class Cost:
    """Best of some turns: messages per second, and µs of this process's CPU for a message."""

    rate: float
    cpu: float


def compare_shop(
    queue: QueueTable, *, count: int = 40_000, different: int = 10_000, sent: int = 10_000, turns: int = TURNS
) -> list[Comparison]:
    """Compare one worker with loops that fetch the same rows and discard them; a send with its INSERTs."""
    with second_queue(queue, "stock") as stock:
        stock.send(generate(min(count, different), seed=_SEED))
        drains: dict[str, Callable[[], int]] = {
            PLAINEST: lambda: plainest_loop(queue),
            BARE: lambda: bare_loop(queue),
            DRAIN: lambda: drain(queue, 1),
        }
        taken = costs(drains, turns, lambda: refill(queue, stock, count))
    inserts = _inserts(queue, sent)
    sends: dict[str, Callable[[], int]] = {
        INSERTS: lambda: _run(queue, inserts),
        SEND: lambda: queue.send(generate(sent, seed=_SEED)),
    }
    made = costs(sends, turns, lambda: empty(queue))
    empty(queue)
    cpu = "µs of client CPU"
    return [
        Comparison(
            DRAIN, taken[DRAIN].rate, PLAINEST, taken[PLAINEST].rate, note="no bound on bytes, nothing kept; 0.7 wanted"
        ),
        Comparison(DRAIN, taken[DRAIN].rate, BARE, taken[BARE].rate, note="its own statements; 0.9 wanted"),
        Comparison(
            DRAIN,
            taken[DRAIN].cpu,
            BARE,
            taken[BARE].cpu,
            unit=cpu,
            note="Arrow, Parquet, zstd and the ledger besides; 1.6 wanted",
        ),
        Comparison(SEND, made[SEND].rate, INSERTS, made[INSERTS].rate, note="the same, made before"),
        Comparison(SEND, made[SEND].cpu, INSERTS, made[INSERTS].cpu, unit=cpu),
    ]


def costs(kinds: Mapping[str, Callable[[], int]], turns: int, before: Callable[[], object]) -> dict[str, Cost]:
    """Return the best costs of each kind of work."""
    best = dict.fromkeys(kinds, Cost(0.0, float("inf")))
    for name, seconds, cpu, count in timed_turns(kinds, turns, lambda _: before()):
        best[name] = Cost(max(best[name].rate, count / seconds), min(best[name].cpu, cpu / count * 1e6))
    return best


def plainest_loop(queue: QueueTable) -> int:
    """Return the plainest loop that empties a queue: no bound on bytes, no window, no file, a commit for each
    statement.
    """
    taken = f"{_COLUMNS}, [RowVersion]"
    text = (
        f"WITH head AS (SELECT TOP ({MAX_ROWS_PER_STATEMENT}) {taken} FROM {queue.address.qualified_name} "  # noqa: S608
        f"WITH (UPDLOCK, READPAST, ROWLOCK) ORDER BY [RowVersion]) "
        f"DELETE FROM head OUTPUT {taken.replace('[', 'deleted.[')}"
    )
    connection = open_connection(queue.session.settings)
    try:
        cursor, total = connection.cursor(), 0
        while rows := cursor.execute(text).fetchall():
            total += len(rows)
    finally:
        connection.close()
    return total


def _inserts(queue: QueueTable, count: int) -> list[tuple[Query, list[object], list[object], int]]:
    """Return the statements of a send of generated messages, with their parameters."""
    types, made = queue.layout.types, []
    for chunk in chunks(generate(count, seed=_SEED)):
        given, values, sizes = sent_parameters(chunk, types)
        text = queue.query("queue.send", **insertion(types, given, len(chunk)))
        made.append((text, values, sizes, len(chunk)))
    return made


def _run(queue: QueueTable, inserts: list[tuple[Query, list[object], list[object], int]]) -> int:
    for text, values, sizes, _ in inserts:
        queue.session.run(text, *values, sizes=sizes)
    return sum(count for *_, count in inserts)


def refill(queue: QueueTable, stock: QueueTable, count: int) -> None:
    """Copy ``count`` messages from the stock into the queue, on the server."""
    empty(queue)
    have = 0
    while have < count:
        text = (
            f"INSERT INTO {queue.address.qualified_name} ({_COLUMNS}) "  # noqa: S608 - our own names
            f"SELECT TOP ({count - have}) {_COLUMNS} FROM {stock.address.qualified_name} ORDER BY [RowVersion]; "
            "SELECT @@ROWCOUNT;"
        )
        have += int(queue.session.value(Query("bench.refill", "copy messages", text)))
