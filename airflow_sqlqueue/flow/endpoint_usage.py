"""Usage of endpoints by message type and day, counted from staged batches, in a table beside the ledger.

Source: docs/guides/usage.md, "Usage of endpoints".
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from airflow_sqlqueue.address import QueueAddress
from airflow_sqlqueue.envelope.times import parse_time
from airflow_sqlqueue.errors import AddressError
from airflow_sqlqueue.message import HeaderNames, Headers, decode_headers, first_type
from airflow_sqlqueue.sql import Fragment
from airflow_sqlqueue.tables.own import OwnTable
from airflow_sqlqueue.untrusted import row_text

MAX_ROWS = 5_000
"""Most rows of one batch. Further messages count as :data:`OTHER_TYPES` of the batch's queue."""

OTHER_TYPES = "(other types)"
NAME_CHARACTERS = 400
_CHUNK = 200
"""Rows of one INSERT: it may have 2,100 parameters."""

_Key = tuple[date, str, str]


@dataclass(frozen=True)
class EndpointDay:
    """Messages of a type that an endpoint handled on a day of UTC, and those that failed there.

    ``message_type`` is the full name of the first type, empty for a message without one.
    """

    endpoint: str
    message_type: str
    day: date
    messages: int
    failed: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values only."""
        own = {"endpoint": self.endpoint, "message_type": self.message_type, "day": self.day.isoformat()}
        return {**own, "messages": self.messages, "failed": self.failed}


class EndpointUsage(OwnTable):
    """Table of the usage of endpoints of one database, through one connection."""

    name = "EndpointUsage"
    made_by = ("usage.make_endpoints", "usage.index_endpoints")

    def enter(self, batch_id: uuid.UUID, counted: Iterable[EndpointDay]) -> None:
        """Replace what is known of a batch, in one transaction: counted again, a batch counts once."""
        rows = list(counted)
        with self.session.transaction():
            self.session.take_lock(self.query("usage.lock"), f"sqlqueue.usage.{self.schema}.{batch_id}"[-255:])
            self.session.run(self.query("usage.forget"), str(batch_id))
            for start in range(0, len(rows), _CHUNK):
                piece = rows[start : start + _CHUNK]
                statement = self.query("usage.enter", rows=Fragment(", ".join(["(?, ?, ?, ?, ?, ?, ?)"] * len(piece))))
                values: list[Any] = []
                for number, row in enumerate(piece, start):
                    values += (str(batch_id), number, row.day, row.endpoint, row.message_type, row.messages, row.failed)
                self.session.run(statement, *values)

    def days(self, since: date, until: date) -> list[EndpointDay]:
        """Return the usage of each endpoint, type and day of the time; empty where the table is missing."""
        if not self.exists():
            return []
        rows = self.session.run(self.query("usage.endpoint_days"), since, until)
        return [
            EndpointDay(endpoint, kind, day, int(count), int(failed)) for endpoint, kind, day, count, failed in rows
        ]

    def remove(self, before: date) -> None:
        """Remove the days before a day."""
        self.session.run(self.query("usage.remove_endpoint_days"), before)


def count_usage(headers: Iterable[str], queue: str, opened: datetime) -> list[EndpointDay]:
    """Count messages, given by the texts of their headers, by endpoint, type and day.

    The endpoint is the one that handled the message (``NServiceBus.ProcessingEndpoint``), or else that of the queue in
    which it failed, or else ``queue``. The day is that of the end of the handling, of the failure, of the send, or of
    ``opened``, the first that a message has. A message of an error queue counts as failed.
    """
    messages, failed = Counter[_Key](), Counter[_Key]()
    for text in headers:
        values = decode_headers(text).values
        key = _key(values, queue, opened)
        if key not in messages and len(messages) >= MAX_ROWS:
            key = (opened.date(), queue, OTHER_TYPES)
        messages[key] += 1
        failed[key] += HeaderNames.FAILED_Q in values
    return [EndpointDay(key[1], key[2], key[0], messages[key], failed[key]) for key in sorted(messages)]


def _key(headers: Headers, queue: str, opened: datetime) -> _Key:
    names = (HeaderNames.PROCESSING_ENDED, HeaderNames.TIME_OF_FAILURE, HeaderNames.TIME_SENT)
    moment = next((found for name in names if (found := parse_time(headers.get(name))) is not None), opened)
    kind = first_type(headers.get(HeaderNames.ENCLOSED_MESSAGE_TYPES) or "") or ""
    return moment.date(), _cut(next(_endpoints(headers), queue)), _cut(kind)


def _endpoints(headers: Headers) -> Iterator[str]:
    if name := headers.get(HeaderNames.PROCESSING_ENDPOINT):
        yield name
    if failed := headers.get(HeaderNames.FAILED_Q):
        try:
            yield QueueAddress.parse(failed).table
        except AddressError:
            yield failed


def _cut(name: str) -> str:
    """Return a name from a header for a column: a text that the server accepts, at most 400 UTF-16 units."""
    text = row_text(name.replace("\0", "�"))[:NAME_CHARACTERS]
    return text if len(text.encode("utf-16-le")) <= 2 * NAME_CHARACTERS else text[: NAME_CHARACTERS // 2]
