"""Actions on failed messages besides the return: archive, delete, park, and on archived ones: restore, delete.

Each is an :class:`~airflow_sqlqueue.errorqueue.chunked_work.Action` of the same work as the return.
"""

from __future__ import annotations

from collections.abc import Sequence

from airflow_sqlqueue.errorqueue.archive import Archive, ArchivedMessages
from airflow_sqlqueue.errorqueue.chunked_work import ROW_REFUSALS, ErrorQueueOptions, refusals
from airflow_sqlqueue.errorqueue.failed_message import FailedMessage
from airflow_sqlqueue.errorqueue.reasons import Reason
from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.queue.browsing import delete
from airflow_sqlqueue.queue.forwarding import transfer


class _OneTarget:
    """Base class of actions whose messages all have one target, which the result does not name."""

    def target(self, message: FailedMessage) -> str | Reason:
        return ""

    def name(self, target: str) -> str:
        return target


class ArchiveMessages(_OneTarget):
    """Archive of messages of an error queue, all columns unchanged. ``by`` and ``reason`` are stored with them."""

    doing = "Archiving"

    def __init__(self, queue: QueueTable, archive: Archive, by: str, reason: str) -> None:
        self._queue, self._archive, self._by, self._reason = queue, archive, by, reason

    def handle(self, target: str, chunk: Sequence[FailedMessage]) -> int:
        return self._archive.put(self._queue, _numbers(chunk), self._by, self._reason)


class RestoreMessages(_OneTarget):
    """Restore of archived messages into the queue that they came from. A message that the queue refuses stays."""

    doing = "Restoring"

    def __init__(self, queue: QueueTable, archive: Archive) -> None:
        self._queue, self._archive = queue, archive

    def handle(self, target: str, chunk: Sequence[FailedMessage]) -> int:
        with refusals(ROW_REFUSALS):
            return self._archive.restore(self._queue, _numbers(chunk))


class ParkMessages(_OneTarget):
    """Move of failed messages to another queue of the server, with the headers of the failure; they do not expire.

    Raises :class:`ConfigurationError` where both queues are one table. A message that the queue refuses stays.
    """

    doing = "Parking"

    def __init__(self, queue: QueueTable, target: QueueTable) -> None:
        if queue.layout.table == target.layout.table:
            raise ConfigurationError(f"The messages are in {queue.address.canonical} already: name another queue.")
        self._queue, self._target = queue, target

    def handle(self, target: str, chunk: Sequence[FailedMessage]) -> int:
        with refusals(ROW_REFUSALS):
            return transfer(self._queue, self._target, _numbers(chunk))


class DeleteMessages(_OneTarget):
    """Deletion of messages of an error queue for good."""

    doing = "Deleting"

    def __init__(self, queue: QueueTable) -> None:
        self._queue = queue

    def handle(self, target: str, chunk: Sequence[FailedMessage]) -> int:
        return delete(self._queue, _numbers(chunk))


class DeleteArchived(_OneTarget):
    """Deletion of archived messages for good."""

    doing = "Deleting archived"

    def __init__(self, archived: ArchivedMessages) -> None:
        self._archived = archived

    def handle(self, target: str, chunk: Sequence[FailedMessage]) -> int:
        return self._archived.delete(_numbers(chunk))


def check_confirmed(confirm: bool, options: ErrorQueueOptions | None) -> None:
    """Raise :class:`ConfigurationError` for a deletion that is neither confirmed nor a dry run."""
    if not (confirm or (options is not None and options.dry_run)):
        raise ConfigurationError("This deletes messages for good: confirm that they may be lost, or make a dry run.")


def _numbers(chunk: Sequence[FailedMessage]) -> list[int]:
    return [message.row_version for message in chunk]
