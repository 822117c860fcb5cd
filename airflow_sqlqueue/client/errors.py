"""Failed messages in the error queues of a server."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from airflow_sqlqueue.client.archive import ArchiveManager
from airflow_sqlqueue.client.connector import Connector
from airflow_sqlqueue.consuming.attempt import current_messages
from airflow_sqlqueue.envelope import Envelope
from airflow_sqlqueue.errorqueue.actions import ArchiveMessages, DeleteMessages, ParkMessages, check_confirmed
from airflow_sqlqueue.errorqueue.archive import Archive, check_reason, current_user
from airflow_sqlqueue.errorqueue.chunked_work import Action, ChunkedWork, ErrorQueueOptions, ErrorQueueResult
from airflow_sqlqueue.errorqueue.editing import EditResult, edit
from airflow_sqlqueue.errorqueue.failure_headers import Failure, failed_message
from airflow_sqlqueue.errorqueue.filters import ErrorFilter
from airflow_sqlqueue.errorqueue.return_to_source import ReturnOptions, ReturnResult, ReturnToSource
from airflow_sqlqueue.errorqueue.scan import ErrorQueue, ShownError, show_error
from airflow_sqlqueue.errorqueue.triage import DEFAULT_KEYS, MAX_SCANNED, Triage, triage
from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.message import Message, ReceivedMessage
from airflow_sqlqueue.queue import QueueTable

Filters = ErrorFilter | Mapping[str, Any]
"""Filter of failed messages, or the mapping that :meth:`~airflow_sqlqueue.errorqueue.filters.ErrorFilter.of` reads."""

ERROR_QUEUE = "error"
"""Error queue of endpoints by default."""


OnProgress = Callable[[ErrorQueueResult], None]
"""Function that gets the result so far after each transaction."""


class ErrorManager:
    """Error queues of a server: each call names one, by default ``error``."""

    def __init__(self, connector: Connector) -> None:
        self._connector = connector

    @property
    def archived(self) -> ArchiveManager:
        """Archived messages: group, show, restore, delete."""
        return ArchiveManager(self._connector)

    def triage(
        self,
        queue_name: str = ERROR_QUEUE,
        *,
        by: Sequence[str] = DEFAULT_KEYS,
        filters: Filters | None = None,
        limit: int = MAX_SCANNED,
    ) -> Triage:
        """Count failed messages in groups. See :func:`airflow_sqlqueue.errorqueue.triage.triage`."""
        where = filters if isinstance(filters, ErrorFilter) else ErrorFilter.of(filters or {})
        with self._connector.queue(queue_name) as queue:
            return triage(ErrorQueue(queue), by, where, limit)

    def show(
        self,
        queue_name: str = ERROR_QUEUE,
        *,
        row_version: int | None = None,
        message_id: str | None = None,
        with_body: bool = False,
    ) -> ShownError:
        """Return a failed message with its headers. See :func:`airflow_sqlqueue.errorqueue.scan.show_error`."""
        with self._connector.queue(queue_name) as queue:
            return show_error(queue, row_version=row_version, message_id=message_id, with_body=with_body)

    def return_to_source(
        self,
        queue_name: str = ERROR_QUEUE,
        *,
        filters: Filters | None = None,
        all_messages: bool = False,
        options: ReturnOptions | None = None,
        on_progress: Callable[[ReturnResult], None] | None = None,
    ) -> ReturnResult:
        """Return failed messages to the queues where they failed: those that match, or all with ``all_messages``.

        No message is lost or doubled, whichever process or connection dies: see
        :class:`airflow_sqlqueue.errorqueue.return_to_source.ReturnToSource`.
        """
        where = ErrorFilter.chosen(filters, all_messages=all_messages)
        with self._connector.queue(queue_name, what=f"Returning messages of the queue {queue_name}") as queue:
            return ReturnToSource(queue, self._connector.resolver, where, options, on_progress=on_progress).run()

    def archive(
        self,
        queue_name: str = ERROR_QUEUE,
        *,
        filters: Filters | None = None,
        all_messages: bool = False,
        reason: str = "",
        by: str | None = None,
        options: ErrorQueueOptions | None = None,
        on_progress: OnProgress | None = None,
    ) -> ErrorQueueResult:
        """Move failed messages into the archive, a table beside the queue: those that match, or all.

        Rows stay as they are, with all columns. The archive keeps the queue, the time by the server's clock, ``reason``
        (at most 500 characters) and ``by``, by default the account of this process and its host. It is created where
        it is missing, in the ledger's schema. No message is lost or doubled, whichever process or connection dies: see
        :class:`airflow_sqlqueue.errorqueue.chunked_work.ChunkedWork`. :attr:`archived` restores them.
        """
        check_reason(reason)
        with self._work(queue_name, "Archiving", filters, all_messages, options, on_progress) as (queue, run):
            archive = Archive(queue.session, queue.address.catalog, self._connector.ledger_schema)
            queue.require()
            if not (options and options.dry_run) and not queue.session.in_transaction:
                archive.create()
            return run(ArchiveMessages(queue, archive, current_user() if by is None else by, reason))

    def park(
        self,
        to_queue: str,
        queue_name: str = ERROR_QUEUE,
        *,
        filters: Filters | None = None,
        all_messages: bool = False,
        options: ErrorQueueOptions | None = None,
        on_progress: OnProgress | None = None,
    ) -> ErrorQueueResult:
        """Move failed messages to another queue of the server, with the headers of the failure.

        Those that match ``filters`` are moved, or all. Ids, headers, bodies and legacy columns stay the same, and no
        body leaves the server; the messages do not expire. They can be returned from that queue later.
        Delivery as for :meth:`archive`.
        """
        with self._work(queue_name, "Parking", filters, all_messages, options, on_progress) as (queue, run):
            target = QueueTable(queue.session, self._connector.find_in(queue.session, to_queue))
            return run(ParkMessages(queue, target))

    def delete(
        self,
        queue_name: str = ERROR_QUEUE,
        *,
        filters: Filters | None = None,
        all_messages: bool = False,
        confirm: bool = False,
        options: ErrorQueueOptions | None = None,
        on_progress: OnProgress | None = None,
    ) -> ErrorQueueResult:
        """Delete failed messages for good: those that match, or all. ``confirm`` says that they may be lost.

        Raises :class:`~airflow_sqlqueue.errors.ConfigurationError` without ``confirm``, except for a dry run.
        """
        check_confirmed(confirm, options)
        with self._work(queue_name, "Deleting", filters, all_messages, options, on_progress) as (queue, run):
            return run(DeleteMessages(queue))

    @contextmanager
    def _work(
        self,
        queue_name: str,
        doing: str,
        filters: Filters | None,
        all_messages: bool,
        options: ErrorQueueOptions | None,
        on_progress: OnProgress | None,
    ) -> Iterator[tuple[QueueTable, Callable[[Action[Any]], ErrorQueueResult]]]:
        """Open an error queue; yield it and a function that runs an action on its messages."""
        where = ErrorFilter.chosen(filters, all_messages=all_messages)
        with self._connector.queue(queue_name, what=f"{doing} messages of the queue {queue_name}") as queue:

            def run(action: Action[Any]) -> ErrorQueueResult:
                given, done = options or ErrorQueueOptions(), ErrorQueueResult()
                return ChunkedWork(ErrorQueue(queue), action, where, given, done, on_progress=on_progress).run()

            yield queue, run

    def edit(
        self,
        queue_name: str = ERROR_QUEUE,
        *,
        row_version: int,
        body: bytes | None = None,
        headers: Mapping[str, str | None] | None = None,
        redirect_to: str | None = None,
        keep_original: bool = False,
    ) -> EditResult:
        """Replace a failed message by an edited copy. See :func:`airflow_sqlqueue.errorqueue.editing.edit`."""
        with self._connector.queue(queue_name) as queue:
            return edit(
                queue,
                self._connector.resolver,
                row_version,
                body=body,
                headers=headers,
                redirect_to=redirect_to,
                keep_original=keep_original,
            )

    def fail(
        self,
        message: ReceivedMessage | Envelope | Message,
        exception: BaseException,
        *,
        queue_name: str | None = None,
        failed_queue: str | None = None,
        endpoint: str | None = None,
    ) -> None:
        """Put a message that cannot be handled into the error queue, with the exception in its headers.

        The call takes part in the client's transaction under way: receive and fail in one transaction, and no message
        is lost. A message with unreadable headers keeps them unchanged.

        :param message: as it was received, or as a handler got it; it must have left its queue.
        :param exception: the cause; its text and traceback go into the headers, and nowhere else.
        :param queue_name: the error queue; by default that of the handler's endpoint, or ``error``.
        :param failed_queue: the queue to which a retry sends the message; by default, in a handler of
            :meth:`~airflow_sqlqueue.client.queues.Queue.consume`, the queue that it came from.
        :param endpoint: the endpoint that could not handle it; by default the table of ``failed_queue``.

        Raises :class:`~airflow_sqlqueue.errors.ConfigurationError` outside of a handler without ``failed_queue``, and
        the errors of a queue.
        """
        handling = current_messages()
        if failed_queue is None and handling is None:
            raise ConfigurationError("The queue of the message is unknown outside of a handler: give failed_queue.")
        with self._connector.enlisted_session() as session:
            if handling is not None and failed_queue is None:
                here = handling.endpoint
                source, error_queue, name = here.queue, here.error_queue, here.name
            else:
                source = self._connector.find_in(session, failed_queue or "")
                error_queue, name = self._connector.find_in(session, queue_name or ERROR_QUEUE), source.table
            if queue_name is not None:
                error_queue = self._connector.find_in(session, queue_name)
            failed = failed_message(message, Failure.of(exception), source.canonical, endpoint or name)
            QueueTable(session, error_queue).send([failed])
        envelope = message if isinstance(message, Envelope) else Envelope.of(message)
        message_id = envelope.identity.message_id
        if handling is not None and message_id in handling.message_ids:
            handling.given_up.add(message_id)
