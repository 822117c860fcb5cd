"""Messages that stay locked until it is known what becomes of each.

Bodies stay on the server.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from airflow_sqlqueue.consuming.endpoint import Endpoint, EndpointTables
from airflow_sqlqueue.consuming.recoverability import RecoverabilityOptions
from airflow_sqlqueue.errorqueue.failing import Failure, failed_message, type_name
from airflow_sqlqueue.errorqueue.poison import set_aside
from airflow_sqlqueue.errors import is_of_a_message
from airflow_sqlqueue.queue import browsing
from airflow_sqlqueue.queue.browsing import MessageHead
from airflow_sqlqueue.queue.forwarding import lock, transfer
from airflow_sqlqueue.routing import AddressResolver
from airflow_sqlqueue.session import Session
from airflow_sqlqueue.sql import query
from airflow_sqlqueue.tables.create import LEDGER_SCHEMA

_REJECTED = 16
"""Messages of one transaction that go to the error queue, whose headers are read."""


class HeldMessages:
    """Messages of a queue that one transaction holds. For one thread; close it, in any case.

    What is held nobody else receives. When the process or the connection dies it is in the queue as before.

    :param connect: opens a session.
    :param queue_name: the queue's address.
    :param error_queue: the address of the queue for messages that are rejected.
    :param ledger_schema: the schema of the quarantine table.
    """

    def __init__(
        self,
        connect: Callable[[], Session],
        resolver: AddressResolver,
        queue_name: str,
        error_queue: str,
        ledger_schema: str = LEDGER_SCHEMA,
    ) -> None:
        self._connect, self._resolver, self._queue_name = connect, resolver, queue_name
        self._ledger_schema = ledger_schema
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
            heads = browsing.hold(tables.queue, limit)
        except BaseException:
            session.roll_back()
            raise
        if not heads:
            session.roll_back()
        return heads

    def settle(self, delete: Sequence[int], reject: Sequence[int], reason: Exception) -> None:
        """Delete messages that are held, by their RowVersions, move others to the error queue, let go of the rest.

        The deletion is committed first: an error queue that takes nothing any more must not bring those back. The
        headers of what is rejected tell the ``reason``; a message whose headers cannot be read goes as it is, and one
        that the error queue does not take goes into quarantine.
        """
        assert self._endpoint is not None
        assert self._tables is not None
        tables, session = self._tables, self._tables.session
        try:
            browsing.delete(tables.queue, delete)
            session.run(query("session.commit"))
        except BaseException:
            session.roll_back()
            raise
        session.committed()
        if not reject:
            return
        for start in range(0, len(reject), _REJECTED):
            self._reject(tables, reject[start : start + _REJECTED], Failure.of(reason))

    def _reject(self, tables: EndpointTables, row_versions: Sequence[int], failure: Failure) -> None:
        """Move messages to the error queue, one by one where it does not take them together; it may not take one."""
        try:
            with tables.session.transaction():
                self._move_rejected(tables, row_versions, failure)
        except Exception as error:
            if not is_of_a_message(error):
                raise
            for row_version in row_versions:
                if len(row_versions) > 1:
                    self._reject(tables, [row_version], failure)
                    continue
                assert self._endpoint is not None
                reason = f"the error queue did not take the message ({type_name(error)})"
                set_aside(tables.queue, tables.error_queue, row_version, reason, self._endpoint.ledger_schema)

    def _move_rejected(self, tables: EndpointTables, row_versions: Sequence[int], failure: Failure) -> None:
        assert self._endpoint is not None
        name, source = self._endpoint.name, self._endpoint.queue.canonical
        written = {}
        # What somebody else has received since the first transaction is not here any more.
        for message in lock(tables.queue, row_versions):
            failed = failed_message(message, failure, source, name)
            if not isinstance(failed.headers, str):
                written[message.row_version] = failed.headers
        transfer(tables.queue, tables.error_queue, row_versions, written)

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
                self._endpoint = Endpoint.find(
                    session, self._resolver, self._queue_name, self._options, ledger_schema=self._ledger_schema
                )
                self._tables = EndpointTables(session, self._endpoint, known=True)
            except BaseException:
                session.close()
                raise
        return self._tables
