"""Messages that stay locked until it is known what becomes of each.

Bodies stay on the server, but for those of messages that go to the error queue.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from airflow_sqlqueue.consuming.endpoint import Endpoint, EndpointTables
from airflow_sqlqueue.consuming.recoverability import RecoverabilityOptions
from airflow_sqlqueue.errorqueue.failing import Failure, failed_message
from airflow_sqlqueue.queue.browsing import MessageHead
from airflow_sqlqueue.routing import AddressResolver
from airflow_sqlqueue.session import Session
from airflow_sqlqueue.sql import query


class HeldMessages:
    """Messages of a queue that one transaction holds. For one thread; close it, in any case.

    What is held nobody else receives. When the process or the connection dies it is in the queue as before.

    :param connect: opens a session.
    :param queue_name: the queue's address.
    :param error_queue: the address of the queue for messages that are rejected.
    """

    def __init__(
        self, connect: Callable[[], Session], resolver: AddressResolver, queue_name: str, error_queue: str
    ) -> None:
        self._connect, self._resolver, self._queue_name = connect, resolver, queue_name
        self._options = RecoverabilityOptions(error_queue=error_queue, delayed_retries=0)
        self._endpoint: Endpoint | None = None
        self._tables: EndpointTables | None = None

    def hold(self, limit: int) -> list[MessageHead]:
        """Lock up to ``limit`` messages at the head of the queue, past those that others have locked.

        Expired ones are among them. Where there is none, nothing is held. Raises what a queue raises, and for the error
        queue as well, before anything is held.
        """
        tables = self._open()
        session = tables.session
        session.begin()
        try:
            heads = tables.queue.hold(limit)
        except BaseException:
            session.roll_back()
            raise
        if not heads:
            session.roll_back()
        return heads

    def settle(self, delete: Sequence[int], reject: Sequence[int], reason: Exception) -> None:
        """Delete messages that are held, by their RowVersions, move others to the error queue, let go of the rest.

        The deletion is committed first: an error queue that takes nothing any more must not bring those back. The
        headers of what is rejected tell the ``reason``; a message whose headers cannot be read goes as it is.
        """
        assert self._endpoint is not None
        assert self._tables is not None
        tables, session = self._tables, self._tables.session
        name, source = self._endpoint.name, self._endpoint.queue.canonical
        try:
            tables.queue.drop(delete)
            session.run(query("session.commit"))
        except BaseException:
            session.roll_back()
            raise
        session.committed()
        if not reject:
            return
        failure = Failure.of(reason)
        with session.transaction():
            # What somebody else has received since the first transaction is not here any more.
            rejected = tables.queue.take(reject)
            tables.error_queue.send(failed_message(message, failure, source, name) for message in rejected)

    def close(self) -> None:
        """Let go of what is held, and close the connection; may be called twice."""
        if self._tables is not None:
            # The server rolls back what is open.
            self._tables.session.close()
        self._tables = None

    def _open(self) -> EndpointTables:
        if self._tables is None:
            session = self._connect()
            try:
                self._endpoint = Endpoint.find(session, self._resolver, self._queue_name, self._options)
                self._tables = EndpointTables(session, self._endpoint, known=True)
            except BaseException:
                session.close()
                raise
        return self._tables
