"""Archived failed messages of a server."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from airflow_sqlqueue.client.connector import Connector
from airflow_sqlqueue.errorqueue.actions import DeleteArchived, RestoreMessages, check_confirmed
from airflow_sqlqueue.errorqueue.archive import Archive, ArchivedMessages
from airflow_sqlqueue.errorqueue.chunked_work import ChunkedWork, ErrorQueueOptions, ErrorQueueResult
from airflow_sqlqueue.errorqueue.filters import ErrorFilter
from airflow_sqlqueue.errorqueue.scan import ShownError
from airflow_sqlqueue.errorqueue.triage import DEFAULT_KEYS, MAX_SCANNED, Triage, triage
from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.queue import QueueTable


class ArchiveManager:
    """Archived messages of a server: each call names the queue that they came from, by default ``error``.

    A message has a number in the archive, which takes the place of the RowVersion in filters
    (``row_versions``, ``up_to``).
    """

    def __init__(self, connector: Connector) -> None:
        self._connector = connector

    def triage(
        self,
        queue_name: str = "error",
        *,
        by: Sequence[str] = DEFAULT_KEYS,
        filters: ErrorFilter | Mapping[str, Any] | None = None,
        limit: int = MAX_SCANNED,
    ) -> Triage:
        """Count archived messages in groups, also by ``archived_by`` and ``reason``; ``example`` is a number.

        See :func:`airflow_sqlqueue.errorqueue.triage.triage`.
        """
        where = filters if isinstance(filters, ErrorFilter) else ErrorFilter.of(filters or {})
        with self._open(queue_name) as (_, _, archived):
            return triage(archived, by, where, limit)

    def show(self, queue_name: str = "error", *, number: int, with_body: bool = False) -> ShownError:
        """Return an archived message with its headers.

        Raises :class:`~airflow_sqlqueue.errors.MessageNotFoundError`.
        """
        with self._open(queue_name) as (_, _, archived):
            return archived.show(number, with_body=with_body)

    def restore(
        self,
        queue_name: str = "error",
        *,
        filters: ErrorFilter | Mapping[str, Any] | None = None,
        all_messages: bool = False,
        options: ErrorQueueOptions | None = None,
        on_progress: Callable[[ErrorQueueResult], None] | None = None,
    ) -> ErrorQueueResult:
        """Move archived messages back into their error queue: those that match, or all, the first archived first.

        They are as they were, except for a new RowVersion, and do not expire. No message is lost or doubled: see
        :meth:`.client.errors.ErrorManager.archive`.
        """
        where = ErrorFilter.chosen(filters, all_messages=all_messages)
        with self._open(queue_name, "Restoring") as (queue, archive, archived):
            queue.require()
            action, given = RestoreMessages(queue, archive), options or ErrorQueueOptions()
            return ChunkedWork(archived, action, where, given, ErrorQueueResult(), on_progress=on_progress).run()

    def delete(
        self,
        queue_name: str = "error",
        *,
        filters: ErrorFilter | Mapping[str, Any] | None = None,
        all_messages: bool = False,
        older_than: timedelta | None = None,
        confirm: bool = False,
        options: ErrorQueueOptions | None = None,
        on_progress: Callable[[ErrorQueueResult], None] | None = None,
    ) -> ErrorQueueResult:
        """Delete archived messages for good: those archived longer ago than ``older_than``, those that match, or all.

        An age and a filter must both hold. ``confirm`` says that the messages may be lost.
        The queue itself may be gone.

        Raises :class:`~airflow_sqlqueue.errors.ConfigurationError` without ``confirm``, except for a dry run.
        """
        check_confirmed(confirm, options)
        if older_than is not None and all_messages:
            raise ConfigurationError("A deletion takes an age or all messages: choose one.")
        where = filters if isinstance(filters, ErrorFilter) else ErrorFilter.of(filters or {})
        if older_than is None or not where.is_empty:
            where = ErrorFilter.chosen(where, all_messages=all_messages)
        with self._open(queue_name, "Deleting archived", older_than) as (_, _, archived):
            action, given = DeleteArchived(archived), options or ErrorQueueOptions()
            return ChunkedWork(archived, action, where, given, ErrorQueueResult(), on_progress=on_progress).run()

    @contextmanager
    def _open(
        self, queue_name: str, doing: str | None = None, older_than: timedelta | None = None
    ) -> Iterator[tuple[QueueTable, Archive, ArchivedMessages]]:
        what = None if doing is None else f"{doing} messages of the queue {queue_name}"
        with self._connector.queue(queue_name, what=what) as queue:
            archive = Archive(queue.session, queue.address.catalog, self._connector.ledger_schema)
            yield queue, archive, ArchivedMessages(archive, queue.address, older_than)
