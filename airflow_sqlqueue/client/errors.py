"""Failed messages in the error queues of a server."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypedDict

from airflow_sqlqueue.client.beginnings import whole_message_ids
from airflow_sqlqueue.client.connector import Manager
from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.messages.envelope import Envelope
from airflow_sqlqueue.messages.message import Message, ReceivedMessage
from airflow_sqlqueue.options import check_type
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.queue.errors.actions import OnProgress, action_named
from airflow_sqlqueue.queue.errors.archive import Archive
from airflow_sqlqueue.queue.errors.bulk_action import ErrorQueueOptions, ErrorQueueResult
from airflow_sqlqueue.queue.errors.editing import EditResult, edit
from airflow_sqlqueue.queue.errors.effects import ErrorStore
from airflow_sqlqueue.queue.errors.failure_headers import Failure, failed_message
from airflow_sqlqueue.queue.errors.filters import ErrorFilter, Filters
from airflow_sqlqueue.queue.errors.handling import HANDLING
from airflow_sqlqueue.queue.errors.scan import ShownError, show_error
from airflow_sqlqueue.queue.errors.triage import DEFAULT_KEYS, MAX_SCANNED, Triage, triage

if TYPE_CHECKING:
    from typing_extensions import Unpack

ERROR_QUEUE = "error"
"""Error queue of endpoints by default."""


class Selection(TypedDict, total=False):
    """Messages of an action, and how it works on them: see :meth:`ErrorManager.act`."""

    filters: Filters | None
    all_messages: bool
    options: ErrorQueueOptions | None
    on_progress: OnProgress | None


class ErrorManager(Manager):
    """Error queues of a server: each call names one, by default ``error``."""

    @property
    def archived(self) -> ArchiveManager:
        """Archived messages: group, show, restore, delete."""
        return ArchiveManager(self)

    def triage(
        self,
        queue_name: str = ERROR_QUEUE,
        *,
        by: Sequence[str] = DEFAULT_KEYS,
        filters: Filters | None = None,
        limit: int = MAX_SCANNED,
    ) -> Triage:
        """Count failed messages in groups. See :func:`airflow_sqlqueue.queue.errors.triage.triage`."""
        with self.store(queue_name) as store:
            return triage(store.failed(), by, ErrorFilter.of(filters), limit)

    def show(
        self,
        queue_name: str = ERROR_QUEUE,
        *,
        row_version: int | None = None,
        message_id: str | None = None,
        with_body: bool = False,
    ) -> ShownError:
        """Return a failed message with its headers. See :func:`airflow_sqlqueue.queue.errors.scan.show_error`."""
        with self._connector.queue(queue_name) as queue:
            return show_error(queue, row_version=row_version, message_id=message_id, with_body=with_body)

    def message_ids(self, beginnings: Iterable[str], queue_name: str = ERROR_QUEUE) -> frozenset[str]:
        """Return the message ids that are these texts, or the only ones that begin with them.

        It reads the headers of the whole queue, unless all texts are UUIDs, which are ids in full. Raises
        :class:`~airflow_sqlqueue.errors.MessageNotFoundError`, and
        :class:`~airflow_sqlqueue.errors.ConfigurationError` for a beginning of several ids, and while others have
        locked messages, whose ids are unknown.
        """
        with self.store(queue_name) as store:
            return whole_message_ids(store.failed(), beginnings)

    def act(
        self,
        action: str,
        queue_name: str = ERROR_QUEUE,
        *,
        filters: Filters | None = None,
        all_messages: bool = False,
        options: ErrorQueueOptions | None = None,
        on_progress: OnProgress | None = None,
        **inputs: Any,
    ) -> ErrorQueueResult:
        """Do an action of :data:`~airflow_sqlqueue.queue.errors.actions.ACTIONS` on failed messages, or archived ones.

        Delivery: exactly once, whichever process or connection dies: see
        :class:`airflow_sqlqueue.queue.errors.bulk_action.BulkAction`.

        :param filters: conditions on the messages; for archived ones a number of the archive takes the place of the
            RowVersion.
        :param all_messages: every message; only without filters.
        :param inputs: those of the action, see :class:`~airflow_sqlqueue.queue.errors.effects.ActionInputs`.

        Raises :class:`~airflow_sqlqueue.errors.ConfigurationError` for an input that the action does not have or that
        is missing, and the errors of a queue.
        """
        chosen, options = action_named(action), ErrorQueueOptions.or_default(options)
        given = chosen.inputs(dry_run=options.dry_run, **inputs)
        if given.older_than is not None and all_messages:
            raise ConfigurationError("A deletion takes an age or all messages: choose one.")
        where = ErrorFilter.of(filters)
        by_age = given.older_than is not None and where.is_empty
        where = ErrorFilter.chosen(where, all_messages=all_messages or by_age)
        if given.confirm:
            self._connector.check_schema(queue_name)
        with self.store(queue_name, what=f"The action {action} on the queue {queue_name}") as store:
            return chosen.run(store, given, where, options, on_progress=on_progress)

    @contextmanager
    def store(self, queue_name: str, *, what: str | None = None) -> Iterator[ErrorStore]:
        """Open an error queue with its archive, by :meth:`.Connector.queue`."""
        with self._connector.queue(queue_name, what=what) as queue:
            yield self.store_of(queue)

    def store_of(self, queue: QueueTable) -> ErrorStore:
        """Return an open error queue with its archive, through the queue's session."""
        archive = Archive(queue.session, queue.address.catalog)
        return ErrorStore(queue, archive, self._connector.resolver)

    def return_to_source(self, queue_name: str = ERROR_QUEUE, **selection: Unpack[Selection]) -> ErrorQueueResult:
        """Return failed messages to the queues where they failed. ``selection`` and delivery are those of :meth:`act`.

        See :class:`airflow_sqlqueue.queue.errors.effects.Return` for what is kept.
        """
        return self.act("return", queue_name, **selection)

    def redirect(
        self,
        to_queue: str,
        queue_name: str = ERROR_QUEUE,
        *,
        malformed: bool = False,
        **selection: Unpack[Selection],
    ) -> ErrorQueueResult:
        """Return failed messages to ``to_queue`` instead of the queues where they failed.

        With ``malformed`` also those with malformed headers, their text unchanged.
        ``selection`` and delivery are those of :meth:`act`.
        """
        return self.act("redirect", queue_name, to_queue=to_queue, malformed=malformed, **selection)

    def archive(
        self, queue_name: str = ERROR_QUEUE, *, reason: str = "", by: str = "", **selection: Unpack[Selection]
    ) -> ErrorQueueResult:
        """Move failed messages into the archive, a table beside the queue.

        Rows stay as they are, with all columns. The archive keeps the queue, the time by the server's clock, ``reason``
        (at most 500 characters) and ``by``, by default the account of this process and its host. It is created where
        it is missing, in the ledger's schema. :attr:`archived` restores them. ``selection`` and delivery are those of
        :meth:`act`.
        """
        return self.act("archive", queue_name, reason=reason, by=by, **selection)

    def park(self, to_queue: str, queue_name: str = ERROR_QUEUE, **selection: Unpack[Selection]) -> ErrorQueueResult:
        """Move failed messages to another queue of the server, with the headers of the failure.

        Ids, headers, bodies and legacy columns stay the same, and no body leaves the server; the messages do not
        expire. They can be returned from that queue later. ``selection`` and delivery are those of :meth:`act`.
        """
        return self.act("park", queue_name, to_queue=to_queue, **selection)

    def delete(
        self, queue_name: str = ERROR_QUEUE, *, confirm: bool = False, **selection: Unpack[Selection]
    ) -> ErrorQueueResult:
        """Delete failed messages for good. ``confirm`` says that they may be lost; ``selection`` as for :meth:`act`.

        Raises :class:`~airflow_sqlqueue.errors.ConfigurationError` without ``confirm``, except for a dry run.
        """
        return self.act("delete", queue_name, confirm=confirm, **selection)

    def edit(
        self,
        queue_name: str = ERROR_QUEUE,
        *,
        row_version: int,
        body: bytes | None = None,
        headers: Mapping[str, str | None] | None = None,
        to_queue: str | None = None,
        keep_original: bool = False,
    ) -> EditResult:
        """Replace a failed message by an edited copy. See :func:`airflow_sqlqueue.queue.errors.editing.edit`."""
        with self._connector.queue(queue_name) as queue:
            return edit(
                queue,
                self._connector.resolver,
                row_version,
                body=body,
                headers=headers,
                to_queue=to_queue,
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
        check_type("exception", BaseException.__name__, exception)
        handling = HANDLING.get()
        if failed_queue is None and handling is None:
            raise ConfigurationError("The queue of the message is unknown outside of a handler: give failed_queue.")
        with self._connector.enlisted_session() as session:
            if handling is not None and failed_queue is None:
                source, name = handling.queue, handling.endpoint
            else:
                source = self._connector.find_in(session, failed_queue or "")
                name = source.table
            if handling is not None and queue_name is None:
                error_queue = handling.error_queue
            else:
                error_queue = self._connector.find_in(session, queue_name or ERROR_QUEUE)
            failed = failed_message(message, Failure.of(exception), source.canonical, endpoint or name)
            QueueTable(session, error_queue).send([failed])
        envelope = message if isinstance(message, Envelope) else Envelope.of(message)
        message_id = envelope.identity.message_id
        if handling is not None and message_id in handling.message_ids:
            handling.given_up.add(message_id)


class ArchiveManager:
    """Archived messages of a server: each call names the queue that they came from, by default ``error``.

    A message has a number in the archive, which takes the place of the RowVersion in filters
    (``row_versions``, ``up_to``).
    """

    def __init__(self, errors: ErrorManager) -> None:
        self._errors = errors

    def triage(
        self,
        queue_name: str = ERROR_QUEUE,
        *,
        by: Sequence[str] = DEFAULT_KEYS,
        filters: Filters | None = None,
        limit: int = MAX_SCANNED,
    ) -> Triage:
        """Count archived messages in groups, also by ``archived_by`` and ``reason``; ``example`` is a number."""
        with self._errors.store(queue_name) as store:
            return triage(store.archived(), by, ErrorFilter.of(filters), limit)

    def show(self, queue_name: str = ERROR_QUEUE, *, number: int, with_body: bool = False) -> ShownError:
        """Return an archived message with its headers.

        Raises :class:`~airflow_sqlqueue.errors.MessageNotFoundError`.
        """
        with self._errors.store(queue_name) as store:
            return store.archived().show(number, with_body=with_body)

    def message_ids(self, beginnings: Iterable[str], queue_name: str = ERROR_QUEUE) -> frozenset[str]:
        """Return message ids by their beginnings, as :meth:`.ErrorManager.message_ids`."""
        with self._errors.store(queue_name) as store:
            return whole_message_ids(store.archived(), beginnings)

    def restore(self, queue_name: str = ERROR_QUEUE, **selection: Unpack[Selection]) -> ErrorQueueResult:
        """Move archived messages back into their error queue, the first archived first.

        They are as they were, except for a new RowVersion, and do not expire. ``selection`` and delivery are those of
        :meth:`.ErrorManager.act`.
        """
        return self._errors.act("restore", queue_name, **selection)

    def delete(
        self,
        queue_name: str = ERROR_QUEUE,
        *,
        older_than: timedelta | None = None,
        confirm: bool = False,
        **selection: Unpack[Selection],
    ) -> ErrorQueueResult:
        """Delete archived messages for good: those archived longer ago than ``older_than``, those that match, or all.

        An age and a filter must both hold. ``confirm`` says that the messages may be lost.
        The queue itself may be gone. ``selection`` is that of :meth:`.ErrorManager.act`.

        Raises :class:`~airflow_sqlqueue.errors.ConfigurationError` without ``confirm``, except for a dry run.
        """
        return self._errors.act("purge_archive", queue_name, older_than=older_than, confirm=confirm, **selection)
