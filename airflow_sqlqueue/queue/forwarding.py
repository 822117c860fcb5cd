"""Moving messages from one queue to another of the same server, as they are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from airflow_sqlqueue.budget import Budget
from airflow_sqlqueue.errors import ConfigurationError, LockTimeoutError, TransactionError
from airflow_sqlqueue.queue.queue_table import QueueTable
from airflow_sqlqueue.queue.table_access import FIRST, check_rows
from airflow_sqlqueue.session import retrying
from airflow_sqlqueue.sql import identifier
from airflow_sqlqueue.sql.columns import forwarding
from airflow_sqlqueue.tables.layout import Layout

CHUNK = 500
"""Rows of one transaction, of which the server keeps a copy until it ends."""


@dataclass(frozen=True)
class ForwardResult:
    """``messages`` are in the other queue. ``locked`` were left because others had locked them, at the least so many.

    ``complete`` is False where a budget ended it.
    """

    messages: int
    locked: int
    complete: bool
    seconds: float


def forward(
    queue: QueueTable,
    target: QueueTable,
    *,
    chunk: int = CHUNK,
    max_messages: int | None = None,
    max_seconds: float | None = None,
    on_progress: Callable[[int], None] | None = None,
) -> ForwardResult:
    """Move the messages that are in the queue at the start to ``target``: exactly once, chunk by chunk.

    ``on_progress`` is called with the number of messages that have been moved, after each chunk.

    Ids, headers, bodies, legacy columns and expiry stay as they are, expired messages too, and so does the order; the
    RowVersions are the target's, behind what is there. No body leaves the server. Each chunk is a transaction of its
    own, so what was moved before an error stays moved, and a second call goes on.

    Raises :class:`TransactionError` inside a transaction, and :class:`ConfigurationError` where both are one table, or
    where the target's headers would lose characters.
    """
    check_rows(chunk)
    session = queue.session
    if session.in_transaction:
        raise TransactionError("Messages are forwarded in transactions of their own: call it outside the transaction.")
    _check(queue.layout, target.layout)
    budget = Budget(max_messages, max_seconds)
    up_to = queue.value("queue.high_water", FIRST)
    after, moved, complete = FIRST, 0, up_to is None
    while not complete and (take := budget.reserve(chunk)):
        try:
            count, last = retrying(partial(_move, queue, target, take, after, up_to))
        except LockTimeoutError:
            # The table as a whole is locked.
            break
        moved, after, complete = moved + count, after if last is None else last, count < take
        budget.give_back(take - count)
        if on_progress is not None:
            on_progress(moved)
    return ForwardResult(moved, queue.count_left(up_to) if complete and up_to else 0, complete, budget.seconds_used)


def _move(queue: QueueTable, target: QueueTable, rows: int, after: int, up_to: int) -> tuple[int, int | None]:
    fragments = forwarding(queue.layout.types, target.layout.types)
    with queue.session.transaction():
        count, last = queue.rows("queue.forward", rows, after, up_to, target=identifier(target.address), **fragments)[0]
    return int(count), None if last is None else int(last)


def _check(layout: Layout, target: Layout) -> None:
    if layout.table == target.table:
        raise ConfigurationError(f"{layout.table.canonical} cannot be forwarded to itself: name another queue.")
    if target.types["Headers"] == "varchar" and layout.types["Headers"] != "varchar":
        raise ConfigurationError(
            f"The headers of {target.table.canonical} are varchar, as version 1 made them, and would lose characters: "
            "forward to a queue whose headers are nvarchar."
        )
