"""Depth of a queue, counted in three ways, and the age of its oldest message.

========  ====================================  =====================================================================
kind      reads                                 faults
========  ====================================  =====================================================================
exact     every row that is not locked          none at the moment of the count; later the depth may be another one
quick     both ends of the index on RowVersion  counts gaps as messages: rolled-back sends, numbers that a restart of
                                                the server skipped, messages taken from the middle (one old message at
                                                the head makes it huge); counts expired messages
catalog   the catalog's row count, no rows      counts expired messages and those that are being received or are not
                                                committed yet; approximate by its own documentation
========  ====================================  =====================================================================

Without an index on RowVersion ``quick`` reads the whole table. (docs/transport/queue-tables.md, "Queue length")
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timezone
from typing import Any

from airflow_sqlqueue.errors import ConfigurationError, QueueNotFoundError
from airflow_sqlqueue.messages.envelope.times import parse_time
from airflow_sqlqueue.messages.message import HeaderNames, decode_headers
from airflow_sqlqueue.messages.routing import ResolvedAddress
from airflow_sqlqueue.queue.table_access import FIRST, LAST, TableAccess, check_limit
from airflow_sqlqueue.queue.tables.reading import read_layout
from airflow_sqlqueue.server.sql import identifier, query
from airflow_sqlqueue.server.sql.columns import readable_headers

KINDS = ("exact", "quick", "catalog")


@dataclass(frozen=True)
class Depth:
    """Number of messages in a queue.

    ``exact`` counts ``expired`` messages separately, and not in ``messages``. The other kinds cannot: their ``expired``
    is None, and ``messages`` includes expired ones.
    """

    messages: int
    expired: int | None = None
    kind: str = "exact"

    @property
    def total(self) -> int:
        """Number of all messages, expired or not."""
        return self.messages + (self.expired or 0)


@dataclass(frozen=True)
class Backlog:
    """Depth of a queue, with its delayed messages, the ages of its oldest and newest message, and its inserted rows.

    ``delayed`` is the number of messages in the queue's table of delayed messages, None without such a table.
    ``oldest_seconds`` is the age of the visible message with the lowest RowVersion, by its header TimeSent and the
    server's clock; None in an empty queue and for a message without that header. The sender's clock may be wrong, and a
    message that came back to the queue was in it for a shorter time. ``newest_seconds`` is the same for the highest
    RowVersion: a queue whose newest message is old gets no messages. ``inserted`` is the number of rows ever inserted,
    see :func:`inserted`; it is not the number of messages that were sent. ``queues`` has the backlog of each queue
    where secondary queues were counted too, by address; the numbers are then their sums, and the ages those of all.
    """

    depth: Depth
    delayed: int | None
    oldest_seconds: float | None
    newest_seconds: float | None
    inserted: int
    queues: Mapping[str, Backlog] = field(default_factory=dict)


def depth(table: TableAccess, kind: str = "exact", *, limit: int | None = None, after: int = FIRST) -> Depth:
    """Count messages, ``exact``, ``quick`` or ``catalog``; or exactly among the first ``limit`` rows above ``after``.

    See :mod:`airflow_sqlqueue.queue.depth` for the faults of each kind. Raises :class:`ConfigurationError` for an
    unknown kind, and for a limit or ``after`` with another kind than ``exact``.
    """
    if kind not in KINDS:
        raise ConfigurationError(f"There is no depth of the kind {kind!r}: choose one of {', '.join(KINDS)}.")
    is_part = limit is not None or after != FIRST
    if is_part and kind != "exact":
        raise ConfigurationError(f"A part of a queue is counted exactly: leave out limit and after, or {kind!r}.")
    if kind == "quick":
        low, high = table.rows("queue.ends", FIRST, FIRST)[0]
        return Depth(0 if low is None else max(0, high - low + 1), None, kind)
    if kind == "catalog":
        return Depth(_catalog_rows(table, table.layout.table), None, kind)
    if is_part:
        limit = LAST if limit is None else limit
        check_limit(limit)
        total, expired = _counts_up_to(table, limit, after)
    else:
        total, expired = table.rows("queue.depth_by_indexes" if _has_filtered_index(table) else "queue.depth")[0]
    return Depth(max(0, total - expired), expired)


def _counts_up_to(table: TableAccess, limit: int, after: int) -> Any:
    if _has_filtered_index(table):
        total, expired, looked_at = table.rows("queue.depth_up_to_by_indexes", limit, after, after, limit)[0]
        if looked_at < limit:
            return total, expired
    return table.rows("queue.depth_up_to", limit, after)[0]


def _has_filtered_index(table: TableAccess) -> bool:
    index = table.layout.index_on("Expires")
    return index is not None and index.filtered and not index.disabled


def backlog(table: TableAccess, kind: str = "exact", *, delayed: ResolvedAddress | None = None) -> Backlog:
    """Return the depth and the other numbers. ``delayed`` is the address of the table of delayed messages, if any.

    With ``exact`` the rows of that table are counted; with another kind the catalog's count is used.
    """
    return Backlog(
        depth=depth(table, kind),
        delayed=None if delayed is None else _delayed(table, delayed, kind),
        oldest_seconds=oldest_seconds(table),
        newest_seconds=_age(table, "queue.newest"),
        inserted=inserted(table),
    )


def backlog_of_all(queues: Mapping[str, Backlog]) -> Backlog:
    """Return the sums of several queues' backlogs, with the greatest age of an oldest and the least of a newest."""
    found = list(queues.values())
    expired = [each.depth.expired for each in found if each.depth.expired is not None]
    delayed = [each.delayed for each in found if each.delayed is not None]
    return Backlog(
        Depth(sum(each.depth.messages for each in found), sum(expired) if expired else None, found[0].depth.kind),
        sum(delayed) if delayed else None,
        max((each.oldest_seconds for each in found if each.oldest_seconds is not None), default=None),
        min((each.newest_seconds for each in found if each.newest_seconds is not None), default=None),
        sum(each.inserted for each in found),
        queues,
    )


def oldest_seconds(table: TableAccess) -> float | None:
    """Return the age of the visible message with the lowest RowVersion, at least 0; see :class:`Backlog`."""
    return _age(table, "queue.oldest")


def _age(table: TableAccess, name: str) -> float | None:
    rows = table.rows(name, FIRST, headers=readable_headers())
    if not rows:
        return None
    headers, now = rows[0]
    sent = parse_time(decode_headers(headers).values.get(HeaderNames.TIME_SENT))
    return None if sent is None else max(0.0, (now.replace(tzinfo=timezone.utc) - sent).total_seconds())


def inserted(table: TableAccess) -> int:
    """Return the number of rows ever inserted, by the last identity value of the table.

    It is higher than the number of messages sent: each return of a message counts (a requeue, a return to source, a
    delayed retry), and so do sends that were rolled back and the numbers that the server skips at a restart (it
    reserves blocks of 10,000). TRUNCATE and a reseed restart it.
    """
    base = table.layout.table
    rows = _run(table, "inspect.identity", base, base.qualified_name)
    if not rows or rows[0][0] is None:
        return 0
    last, seed, increment = rows[0]
    return max(0, int(last - seed) // int(increment) + 1)


def _delayed(table: TableAccess, address: ResolvedAddress, kind: str) -> int | None:
    try:
        layout = read_layout(table.session, address)
    except QueueNotFoundError:
        return None
    if layout.kind != "delayed":
        return None
    if kind != "exact":
        return _catalog_rows(table, layout.table)
    return int(table.session.value(query("inspect.count_rows", table=identifier(address))))


def _catalog_rows(table: TableAccess, base: ResolvedAddress) -> int:
    return int(_run(table, "inspect.row_count", base, base.qualified_name)[0][0])


def _run(table: TableAccess, name: str, base: ResolvedAddress, *values: Any) -> list[Any]:
    return table.session.run(query(name, catalog=identifier(base.catalog)), *values)
