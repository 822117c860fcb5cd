"""Moving messages from a queue to another one of the same server, unchanged."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from airflow_sqlqueue.errors import (
    ConfigurationError,
    LayoutChangedError,
    LockTimeoutError,
    RowRefusedError,
    TransactionError,
)
from airflow_sqlqueue.messages.message import Headers, ReceivedMessage
from airflow_sqlqueue.messages.row import COLUMN_HEADERS, row_of
from airflow_sqlqueue.options import argument, option
from airflow_sqlqueue.options.budget import Budget, Limits
from airflow_sqlqueue.queue.browsing import Search, read
from airflow_sqlqueue.queue.filters import MessageFilter
from airflow_sqlqueue.queue.queue_table import QueueTable, received_message
from airflow_sqlqueue.queue.sending import column_text, headers_text, numbered_sizes
from airflow_sqlqueue.queue.table_access import FIRST, MAX_ROWS_PER_STATEMENT
from airflow_sqlqueue.queue.tables.layout import Layout
from airflow_sqlqueue.queue.window import Window, padded_chunks, placeholders
from airflow_sqlqueue.server.reconnecting import reconnecting
from airflow_sqlqueue.server.sql import identifier
from airflow_sqlqueue.server.sql.columns import forwarding, row_columns, transferring

REFUSALS = 100
"""Refused messages, one after the other and before the first accepted one, after which a queue counts as one that
accepts none: a move to it ends with an error, and other work sends no more messages to it."""

_ROWS = (64, 16, 4, 1)
"""Rows of a statement of :func:`transfer`. A few fixed sizes give the server few different statements."""

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class ForwardOptions(Limits):
    """Options of moving messages to another queue: those that move, and the limits."""

    chunk: int = option(
        500,
        "rows of one transaction; the log of the server keeps a copy of them until it ends",
        least=1,
        most=MAX_ROWS_PER_STATEMENT,
        because="locks never escalate then",
    )
    where: MessageFilter | None = argument(
        None, "move only messages that this filter matches; the server reads the headers of the whole queue"
    )


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
    refused: int


def forward(
    queue: QueueTable,
    target: QueueTable,
    options: ForwardOptions | None = None,
    *,
    on_progress: Callable[[int], None] | None = None,
) -> ForwardResult:
    """Move the messages that are in the queue at the start to ``target``: exactly once, chunk by chunk.

    With a filter ``locked`` does not count messages that were locked before their headers were read. ``on_progress``
    gets the number of moved messages after each chunk.

    Ids, headers, bodies, legacy columns, expiry and order stay the same; the target gives new RowVersions, above its
    present ones. Expired messages are moved too. No body leaves the server. Each chunk is a transaction of its own:
    the chunks before an error stay moved, and a second call moves the rest. A message that the other queue refuses
    stays and is counted; where the queue refuses all of the first :data:`REFUSALS`, the error is raised.

    Raises :class:`TransactionError` inside a transaction, and :class:`ConfigurationError` where both are one table, or
    where the target's headers would lose characters.
    """
    options = ForwardOptions.or_default(options)
    if queue.session.in_transaction:
        raise TransactionError("Messages are forwarded in transactions of their own: call it outside the transaction.")
    _check(queue.layout, target.layout)
    budget = options.budget()
    up_to = queue.value("queue.high_water", FIRST)
    work = _Forwarding(queue, target, options.chunk, budget, on_progress)
    if up_to is None:
        complete, left = True, 0
    elif options.where is None:
        complete = work.move(Window(up_to=up_to))
        left = queue.count_left(up_to) if complete else 0
    else:
        complete, left = work.move_matching(options.where, Window(up_to=up_to))
    return ForwardResult(work.moved, max(0, left - work.refused), complete, budget.seconds_used, work.refused)


class _Forwarding:
    """Move of messages in chunks, each a transaction."""

    def __init__(
        self,
        queue: QueueTable,
        target: QueueTable,
        chunk: int,
        budget: Budget,
        on_progress: Callable[[int], None] | None,
    ) -> None:
        self._queue, self._target, self._chunk, self._budget = queue, target, chunk, budget
        self._on_progress = on_progress
        self.moved = self.refused = 0

    def move_matching(self, where: MessageFilter, window: Window) -> tuple[bool, int]:
        """Move the messages of a window that match; return as :meth:`move`, and the number of those found that stay."""
        search, found = Search(where, window), 0
        while (page := self._reconnecting(partial(search.page, self._queue))) is not None:
            chosen = tuple(head.row_version for head in page if where.matches(head.id, head.decoded))
            found += len(chosen)
            if self._budget.used or (chosen and not self.move(Window.of(chosen))):
                return False, found - self.moved
        return True, found - self.moved

    def move(self, window: Window) -> bool:
        """Move the messages of a window; False if a budget, or a lock on the table as a whole, ended it."""
        rows = self._chunk
        while not window.is_empty:
            take, count = self._budget.reserve(rows), 0
            if not take:
                return False
            try:
                count, last = self._reconnecting(partial(_move, self._queue, self._target, take, window))
            except LockTimeoutError:
                # Another transaction has locked the table as a whole.
                return False
            except LayoutChangedError:
                # The next transaction reads the layouts again; if they are the same, the server's own error comes.
                self._target = QueueTable(self._target.session, self._target.address)
                continue
            except RowRefusedError:
                if take > 1:
                    rows = take // 2
                    continue
                self.refused, rows = self.refused + 1, self._chunk
                if not self.moved and self.refused >= REFUSALS:
                    raise
                window = _behind_next(self._queue, window)
                continue
            finally:
                self._budget.give_back(take - count)
            self.moved, rows = self.moved + count, self._chunk
            if self._on_progress is not None:
                self._on_progress(self.moved)
            if count < take or last is None:
                return True
            window = window.above(last)
        return True

    def _reconnecting(self, work: Callable[[], T]) -> T:
        return reconnecting(self._queue.session, f"Forwarding the queue {self._queue.address.canonical}", work)


def _behind_next(queue: QueueTable, window: Window) -> Window:
    """Return the rest of a window behind its next message that is not locked."""
    found = read(queue, (), window, rows=1, max_bytes=1)
    return window.above(int(found[0][0]) if found else window.up_to)


def _move(queue: QueueTable, target: QueueTable, rows: int, window: Window) -> tuple[int, int | None]:
    fragments = {**forwarding(queue.layout.types, target.layout.types), "window": window.condition}
    with queue.session.transaction():
        moved = queue.rows("queue.forward", rows, *window.values, target=identifier(target.address), **fragments)
        count, last = moved[0]
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
    """Lock the messages with these RowVersions, except those locked already, and read them without their bodies."""
    columns = row_columns(queue.layout.types, body=False, cut_headers=True)
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
