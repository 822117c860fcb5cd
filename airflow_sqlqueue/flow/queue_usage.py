"""Growth of queues by day, from the identity of their tables, in a table beside the ledger.

Source: docs/guides/usage.md, "Growth of queues".
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any

from airflow_sqlqueue.flow.days import shares
from airflow_sqlqueue.inspection.overview import DatabaseOverview
from airflow_sqlqueue.tables.own import OwnTable, stored_name

log = logging.getLogger(__name__)

LONGEST_GAP = timedelta(days=7)
"""Longest time between two records over whose days a growth is shared."""


@dataclass(frozen=True)
class QueueDay:
    """Number of rows that were inserted into a queue on a day of UTC: the growth of the identity of its table."""

    queue: str
    day: date
    messages: int

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values only."""
        return {"queue": self.queue, "day": self.day.isoformat(), "messages": self.messages}


@dataclass(frozen=True)
class RecordResult:
    """Result of a record: the number of queues, of those that had no record before, and of messages since the last."""

    queues: int
    new: int
    messages: int


class QueueUsage(OwnTable):
    """Table of the growth of the queues of one database, through one connection."""

    name = "QueueUsage"
    made_by = ("usage.make_queues",)

    def record(self, delayed_suffix: str) -> RecordResult:
        """Record the growth of all queues of the database since the last record.

        The first record of a queue is where its growth begins. A growth over midnight is shared by time. An identity
        that began again, after a TRUNCATE or in a table made anew, counts from its beginning. After more than
        :data:`LONGEST_GAP` the growth begins anew. One transaction: a record is there as a whole or not at all, and two
        at the same time count each message once.
        """
        queues = new = messages = 0
        with self.session.transaction():
            self.session.take_lock(self.query("usage.lock"), f"sqlqueue.usage.{self.schema}"[-255:])
            last = {queue: (int(inserted), at) for queue, inserted, at in self.session.run(self.query("usage.last"))}
            now: datetime = self.session.value(self.query("usage.now"))
            overview = DatabaseOverview(self.catalog, self.schema, delayed_suffix=delayed_suffix)
            for found in overview.read(self.session):
                if found.kind != "queue" or found.inserted is None:
                    continue
                queue = stored_name(found.table.canonical)
                growth, since = 0, now
                if queue in last:
                    growth, since = _growth(found.inserted, now, *last[queue], queue)
                for day, share in shares(growth, since, now):
                    self.session.run(self.query("usage.add"), queue, day, share, found.inserted, now)
                queues, new, messages = queues + 1, new + (queue not in last), messages + growth
        return RecordResult(queues, new, messages)

    def days(self, since: date, until: date) -> list[QueueDay]:
        """Return the growth of each queue on each recorded day of the time; empty where the table is missing."""
        if not self.exists():
            return []
        rows = self.session.run(self.query("usage.queue_days"), since, until)
        return [QueueDay(queue, day, int(messages)) for queue, day, messages in rows]

    def remove(self, before: date) -> None:
        """Remove the days before a day. The last record of a queue goes as well if it is older."""
        self.session.run(self.query("usage.remove_queue_days"), before)


def _growth(inserted: int, now: datetime, last: int, at: datetime, queue: str) -> tuple[int, datetime]:
    """Return the growth since the last record, and the moment since which it came."""
    if now - at > LONGEST_GAP:
        log.warning("The last record of %s is older than %d days: its growth begins anew", queue, LONGEST_GAP.days)
        return 0, now
    return (inserted - last if inserted >= last else inserted), min(at, now)
