"""Messages locked in a queue until the caller deletes, rejects or releases each; their bodies stay on the server."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from airflow_sqlqueue.errors import is_of_a_message
from airflow_sqlqueue.messages.routing import AddressResolver
from airflow_sqlqueue.queue import browsing
from airflow_sqlqueue.queue.browsing import MessageHead
from airflow_sqlqueue.queue.errors.failure_headers import Failure, failed_message
from airflow_sqlqueue.queue.errors.poison import dead_letter, refusal
from airflow_sqlqueue.queue.forwarding import lock, transfer
from airflow_sqlqueue.queue.queue_table import QueueTable
from airflow_sqlqueue.queue.tables.discovery import find_queue
from airflow_sqlqueue.server.session import Session
from airflow_sqlqueue.server.sql import query

_REJECTED = 16
"""Messages that go to the error queue in one transaction; their headers are read."""


class LockedMessages:
    """Messages of a queue that one transaction has locked. For one thread; always close it.

    No other receiver gets a locked message. When the process or the connection dies, it is in the queue as before.
    Rejected messages go to ``error_queue``.
    """

    def __init__(
        self, connect: Callable[[], Session], resolver: AddressResolver, queue_name: str, error_queue: str
    ) -> None:
        self._connect, self._resolver, self._names = connect, resolver, (queue_name, error_queue)
        self._tables: tuple[QueueTable, QueueTable] | None = None

    def lock(self, limit: int) -> list[MessageHead]:
        """Lock up to ``limit`` messages at the head of the queue, expired ones included, and return their heads.

        Messages that others have locked are skipped. Raises the errors of a missing or unusable queue, for the error
        queue as well, before it locks a message.
        """
        queue, _ = self._open()
        session = queue.session
        session.begin()
        try:
            heads = browsing.hold(queue, limit)
        except BaseException:
            session.roll_back()
            raise
        if not heads:
            session.roll_back()
        return heads

    def settle(self, delete: Sequence[int], reject: Sequence[int], reason: Exception) -> None:
        """Delete locked messages by their RowVersions, move others to the error queue, and release the rest.

        The deletion is committed first, so that a failure of the error queue does not bring those messages back. The
        headers of a rejected message contain the ``reason``. A message with unreadable headers goes unchanged, and one
        that the error queue refuses goes into quarantine.
        """
        assert self._tables is not None
        queue, _ = self._tables
        session = queue.session
        try:
            browsing.delete(queue, delete)
            session.run(query("session.commit"))
        except BaseException:
            session.roll_back()
            raise
        session.committed()
        for start in range(0, len(reject), _REJECTED):
            self._reject(*self._tables, reject[start : start + _REJECTED], Failure.of(reason))

    def _reject(
        self, queue: QueueTable, error_queue: QueueTable, row_versions: Sequence[int], failure: Failure
    ) -> None:
        """Move messages to the error queue together, or one by one if it refuses one of them."""
        try:
            with queue.session.transaction():
                _move_rejected(queue, error_queue, row_versions, failure)
        except Exception as error:
            if not is_of_a_message(error):
                raise
            for row_version in row_versions:
                if len(row_versions) > 1:
                    self._reject(queue, error_queue, [row_version], failure)
                else:
                    dead_letter(queue, error_queue, row_version, refusal(error))

    def close(self) -> None:
        """Release the locked messages and close the connection; may be called twice."""
        if self._tables is not None:
            # The server rolls back the open transaction.
            self._tables[0].session.close()
        self._tables = None

    def _open(self) -> tuple[QueueTable, QueueTable]:
        """Return the queue and the error queue, through one session."""
        if self._tables is None:
            session = self._connect()
            try:
                queue, error_queue = (
                    QueueTable(session, find_queue(session, self._resolver, each)) for each in self._names
                )
                queue.require()
                queue.check_destination(error_queue, "error")
            except BaseException:
                session.close()
                raise
            self._tables = queue, error_queue
        return self._tables


def _move_rejected(queue: QueueTable, error_queue: QueueTable, row_versions: Sequence[int], failure: Failure) -> None:
    written = {}
    # Messages that another receiver has received since the first transaction are missing here.
    for message in lock(queue, row_versions):
        failed = failed_message(message, failure, queue.address.canonical, queue.address.table)
        if not isinstance(failed.headers, str):
            written[message.row_version] = failed.headers
    transfer(queue, error_queue, row_versions, written)
