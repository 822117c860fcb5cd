"""Messages locked in a queue until the caller deletes, rejects or releases each; their bodies stay on the server."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from airflow_sqlqueue.endpoint.endpoint import Endpoint, EndpointTables
from airflow_sqlqueue.endpoint.recoverability import RecoverabilityOptions
from airflow_sqlqueue.errors import is_of_a_message
from airflow_sqlqueue.messages.routing import AddressResolver
from airflow_sqlqueue.queue import browsing
from airflow_sqlqueue.queue.browsing import MessageHead
from airflow_sqlqueue.queue.errors.failure_headers import Failure, failed_message
from airflow_sqlqueue.queue.forwarding import lock, transfer
from airflow_sqlqueue.server.session import Session
from airflow_sqlqueue.server.sql import query

_REJECTED = 16
"""Messages that go to the error queue in one transaction; their headers are read."""


class LockedMessages:
    """Messages of a queue that one transaction has locked. For one thread; always close it.

    No other receiver gets a locked message. When the process or the connection dies, it is in the queue as before.

    :param connect: opens a session.
    :param queue_name: the queue's address.
    :param error_queue: the address of the queue for messages that are rejected.
    """

    def __init__(
        self, connect: Callable[[], Session], resolver: AddressResolver, queue_name: str, error_queue: str
    ) -> None:
        self._connect, self._resolver, self._queue_name = connect, resolver, queue_name
        self._options = RecoverabilityOptions(error_queue=error_queue, delayed_retries=0)
        self._tables: EndpointTables | None = None

    def lock(self, limit: int) -> list[MessageHead]:
        """Lock up to ``limit`` messages at the head of the queue, expired ones included, and return their heads.

        Messages that others have locked are skipped. Raises the errors of a missing or unusable queue, for the error
        queue as well, before it locks a message.
        """
        tables = self._open()
        session = tables.session
        session.begin()
        try:
            heads = browsing.hold(tables.queue, limit)
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
        tables, session = self._tables, self._tables.session
        try:
            browsing.delete(tables.queue, delete)
            session.run(query("session.commit"))
        except BaseException:
            session.roll_back()
            raise
        session.committed()
        for start in range(0, len(reject), _REJECTED):
            self._reject(tables, reject[start : start + _REJECTED], Failure.of(reason))

    def _reject(self, tables: EndpointTables, row_versions: Sequence[int], failure: Failure) -> None:
        """Move messages to the error queue together, or one by one if it refuses one of them."""
        try:
            with tables.session.transaction():
                self._move_rejected(tables, row_versions, failure)
        except Exception as error:
            if not is_of_a_message(error):
                raise
            for row_version in row_versions:
                if len(row_versions) > 1:
                    self._reject(tables, [row_version], failure)
                else:
                    tables.dead_letter(row_version, error)

    def _move_rejected(self, tables: EndpointTables, row_versions: Sequence[int], failure: Failure) -> None:
        name, source = tables.endpoint.name, tables.endpoint.queue.canonical
        written = {}
        # Messages that another receiver has received since the first transaction are missing here.
        for message in lock(tables.queue, row_versions):
            failed = failed_message(message, failure, source, name)
            if not isinstance(failed.headers, str):
                written[message.row_version] = failed.headers
        transfer(tables.queue, tables.error_queue, row_versions, written)

    def close(self) -> None:
        """Release the locked messages and close the connection; may be called twice."""
        if self._tables is not None:
            # The server rolls back the open transaction.
            self._tables.session.close()
        self._tables = None

    def _open(self) -> EndpointTables:
        if self._tables is None:
            session = self._connect()
            try:
                names = self._resolver, self._queue_name, self._options
                self._tables = Endpoint.find(session, *names).tables(session)
            except BaseException:
                session.close()
                raise
        return self._tables
