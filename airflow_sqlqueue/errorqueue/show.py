"""One message of an error queue, in full."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from airflow_sqlqueue.envelope import Envelope
from airflow_sqlqueue.errorqueue.failed import FailedMessage
from airflow_sqlqueue.errorqueue.filters import ErrorFilter
from airflow_sqlqueue.errorqueue.scan import classified, not_found, scan, window_of
from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.queue.browsing import browse


@dataclass(frozen=True)
class ShownError:
    """A message with the raw text of its headers. ``body`` is None where it was not asked for."""

    message: FailedMessage
    headers_text: str = field(repr=False)
    body: bytes | None = field(default=None, repr=False)

    @property
    def envelope(self) -> Envelope:
        """Headers and body as typed values; ``envelope.failure`` is the exception."""
        return replace(Envelope.of(self.headers_text), body=self.body or b"", row_id=self.message.id)


def show_error(
    queue: QueueTable, *, row_version: int | None = None, message_id: str | None = None, with_body: bool = False
) -> ShownError:
    """Look at one message by its RowVersion or its message id. Nothing is removed.

    Raises :class:`MessageNotFoundError` where it is gone or locked, :class:`ConfigurationError` where not exactly one
    of the two is given or several rows have the message id (each subscriber that failed to handle an event leaves one).
    """
    if (row_version is None) == (message_id is None):
        raise ConfigurationError("Name a message by its RowVersion or by its message id: one of the two.")
    if row_version is None:
        row_version = _only_one(queue, message_id or "")
    window = window_of(queue, ErrorFilter(row_versions=frozenset([row_version])))
    found = browse(queue, 1, after=window.after, up_to=window.up_to)
    body = queue.session.run(queue.query("errors.body"), row_version) if found and with_body else []
    if not found or (with_body and not body):
        raise not_found(queue, f"the RowVersion {row_version}")
    return ShownError(classified(found[0]), found[0].headers, bytes(body[0][0] or b"") if with_body else None)


def _only_one(queue: QueueTable, message_id: str) -> int:
    where = ErrorFilter(message_ids=frozenset([message_id]))
    found = [message.row_version for message in scan(queue, window_of(queue, where)) if where.matches(message)]
    if not found:
        raise not_found(queue, f"the message id {message_id}")
    if len(found) > 1:
        shown = ", ".join(map(str, found[:10]))
        raise ConfigurationError(f"{len(found)} messages have the id {message_id}: name one by RowVersion, {shown}.")
    return found[0]
