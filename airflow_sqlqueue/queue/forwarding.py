"""Moving messages from a queue to another one of the same server, unchanged."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from airflow_sqlqueue.budget import Limits
from airflow_sqlqueue.errors import ConfigurationError, LockTimeoutError, RowRefusedError, TransactionError
from airflow_sqlqueue.message import Headers, ReceivedMessage
from airflow_sqlqueue.queue.browsing import read
from airflow_sqlqueue.queue.queue_table import QueueTable, received_message
from airflow_sqlqueue.queue.sending import column_text, headers_text, numbered_sizes
from airflow_sqlqueue.queue.table_access import FIRST, check_rows
from airflow_sqlqueue.queue.window import padded_chunks, placeholders
from airflow_sqlqueue.reconnecting import reconnecting
from airflow_sqlqueue.row import COLUMN_HEADERS, row_of
from airflow_sqlqueue.sql import identifier
from airflow_sqlqueue.sql.columns import forwarding, row_columns, transferring
from airflow_sqlqueue.tables.layout import Layout

CHUNK = 500
"""Rows of one transaction; the server's log keeps a copy of them until the transaction ends."""

REFUSALS = 100
"""Refused messages, one after the other and before the first accepted one, after which the move ends with an error."""

_ROWS = (64, 16, 4, 1)
"""Rows of a statement of :func:`transfer`. A few fixed sizes give the server few different statements."""


@dataclass(frozen=True)
class ForwardResult:
    """Result of a move: ``messages`` are in the other queue; ``locked`` and ``refused`` stayed.

    ``locked`` is the least number of messages that other transactions had locked; ``refused`` messages do not fit into
    the other queue. ``complete`` is False where a budget ended the move.
    """

    messages: int
    locked: int
    complete: bool
    seconds: float
    refused: int = 0


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

    ``on_progress`` gets the number of moved messages after each chunk.

    Ids, headers, bodies, legacy columns, expiry and order stay the same; the target gives new RowVersions, above its
    present ones. Expired messages are moved too. No body leaves the server. Each chunk is a transaction of its own:
    the chunks before an error stay moved, and a second call moves the rest. A message that the other queue refuses
    stays and is counted; where the queue refuses all of the first :data:`REFUSALS`, the error is raised.

    Raises :class:`TransactionError` inside a transaction, and :class:`ConfigurationError` where both are one table, or
    where the target's headers would lose characters.
    """
    check_rows(chunk)
    session = queue.session
    if session.in_transaction:
        raise TransactionError("Messages are forwarded in transactions of their own: call it outside the transaction.")
    _check(queue.layout, target.layout)
    budget = Limits(max_messages=max_messages, max_seconds=max_seconds).budget()
    up_to = queue.value("queue.high_water", FIRST)
    after, moved, refused, complete, rows = FIRST, 0, 0, up_to is None, chunk
    what = f"Forwarding the queue {queue.address.canonical}"
    while not complete and (take := budget.reserve(rows)):
        count = 0
        try:
            count, last = reconnecting(session, what, partial(_move, queue, target, take, after, up_to))
        except LockTimeoutError:
            # Another transaction has locked the table as a whole.
            break
        except RowRefusedError:
            if take == 1:
                refused, after, rows = refused + 1, _next(queue, after, up_to), chunk
                if not moved and refused >= REFUSALS:
                    raise
            else:
                rows = take // 2
            continue
        finally:
            budget.give_back(take - count)
        moved, after, complete, rows = moved + count, after if last is None else last, count < take, chunk
        if on_progress is not None:
            on_progress(moved)
    left = queue.count_left(up_to) if complete and up_to else 0
    return ForwardResult(moved, max(0, left - refused), complete, budget.seconds_used, refused)


def _next(queue: QueueTable, after: int, up_to: int) -> int:
    """Return the RowVersion of the next message that is not locked."""
    found = read(queue, (), after, up_to, rows=1, max_bytes=1)
    return int(found[0][0]) if found else up_to


def _move(queue: QueueTable, target: QueueTable, rows: int, after: int, up_to: int) -> tuple[int, int | None]:
    fragments = forwarding(queue.layout.types, target.layout.types)
    with queue.session.transaction():
        count, last = queue.rows("queue.forward", rows, after, up_to, target=identifier(target.address), **fragments)[0]
    return int(count), None if last is None else int(last)


def transfer(
    queue: QueueTable, target: QueueTable, row_versions: Sequence[int], headers: Mapping[int, Headers] | None = None
) -> int:
    """Move the messages with these RowVersions to ``target``, except locked ones, and return how many it moved.

    Call it in a transaction of the queue's session. Bodies and headers do not leave the server. ``headers`` has new
    headers for some messages, by RowVersion. Ids and legacy columns stay the same; the moved messages do not expire.

    Raises :class:`MessageError` where the target's headers are varchar, the queue's are not, and the headers of a
    message are too long to be converted.
    """
    given: dict[int, Headers | str] = {number: (headers or {}).get(number, "") for number in row_versions}
    if _loses_characters(queue.layout, target.layout):
        own = lock(queue, [number for number, text in given.items() if not text])
        given |= {message.row_version: message.headers for message in own}
    moved, rows = 0, list(given.items())
    for size in _ROWS:
        while len(rows) >= size:
            moved += _transfer(queue, target, rows[:size])
            rows = rows[size:]
    return moved


def lock(queue: QueueTable, row_versions: Sequence[int]) -> list[ReceivedMessage]:
    """Lock the messages with these RowVersions, except those locked already, and read them without their bodies.

    Too long headers are cut.
    """
    columns = row_columns(queue.layout.types, body=False, bounded=True)
    rows: list[Any] = []
    for chunk in padded_chunks(row_versions):
        rows += queue.rows("queue.lock_these", *chunk, columns=columns, row_versions=placeholders(chunk))
    return [received_message(row_of(row)) for row in rows]


def _transfer(queue: QueueTable, target: QueueTable, rows: Sequence[tuple[int, Headers | str]]) -> int:
    kind = target.layout.types["Headers"]
    values: list[Any] = []
    for number, headers in rows:
        addressed = {} if isinstance(headers, str) else headers
        values += (number, headers_text(headers, kind))
        values += (column_text(addressed.get(name)) for name in COLUMN_HEADERS.values())
    row_versions = [number for number, _ in rows]
    statement = queue.query(
        "queue.transfer",
        **transferring(queue.layout.types, target.layout.types, len(rows)),
        row_versions=placeholders(row_versions),
        target=identifier(target.address),
    )
    sizes = numbered_sizes(len(rows)) + [None] * len(rows)
    return int(queue.session.run(statement, *values, *row_versions, sizes=sizes)[0][0])


def _check(layout: Layout, target: Layout) -> None:
    if layout.table == target.table:
        raise ConfigurationError(f"{layout.table.canonical} cannot be forwarded to itself: name another queue.")
    if _loses_characters(layout, target):
        raise ConfigurationError(
            f"The headers of {target.table.canonical} are varchar, as version 1 made them, and would lose characters: "
            "forward to a queue whose headers are nvarchar."
        )


def _loses_characters(layout: Layout, target: Layout) -> bool:
    return target.types["Headers"] == "varchar" and layout.types["Headers"] != "varchar"
