"""The hook's methods on error queues: triage, show, return to the source queue, edit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from airflow_sqlqueue.errorqueue.editing import EditResult, edit
from airflow_sqlqueue.errorqueue.filters import ErrorFilter
from airflow_sqlqueue.errorqueue.options import ReturnOptions, ReturnResult
from airflow_sqlqueue.errorqueue.returning import ReturnToSource
from airflow_sqlqueue.errorqueue.show import ShownError, show_error
from airflow_sqlqueue.errorqueue.triage import DEFAULT_KEYS, MAX_SCANNED, Triage, triage
from airflow_sqlqueue.hooks.base import QueueConnectionHook

Filters = ErrorFilter | Mapping[str, Any]
"""A filter, or the mapping that :meth:`airflow_sqlqueue.errorqueue.filters.ErrorFilter.of` reads."""


class ErrorQueueMethods(QueueConnectionHook):
    """What can be done with failed messages."""

    def triage_errors(
        self,
        queue_name: str = "error",
        *,
        by: Sequence[str] = DEFAULT_KEYS,
        filters: Filters | None = None,
        limit: int = MAX_SCANNED,
    ) -> Triage:
        """Count failed messages in groups. See :func:`airflow_sqlqueue.errorqueue.triage.triage`."""
        where = filters if isinstance(filters, ErrorFilter) else ErrorFilter.of(filters or {})
        with self.queue(queue_name) as queue:
            return triage(queue, by, where, limit)

    def show_error(
        self,
        queue_name: str = "error",
        *,
        row_version: int | None = None,
        message_id: str | None = None,
        with_body: bool = False,
    ) -> ShownError:
        """One failed message with its headers. See :func:`airflow_sqlqueue.errorqueue.show.show_error`."""
        with self.queue(queue_name) as queue:
            return show_error(queue, row_version=row_version, message_id=message_id, with_body=with_body)

    def return_to_source(
        self,
        queue_name: str = "error",
        *,
        filters: Filters | None = None,
        all_messages: bool = False,
        options: ReturnOptions | None = None,
        on_progress: Callable[[ReturnResult], None] | None = None,
    ) -> ReturnResult:
        """Return failed messages to the queues where they failed: those that match, or all, in so many words.

        See :class:`airflow_sqlqueue.errorqueue.returning.ReturnToSource`; nothing is lost or doubled, whatever dies.
        """
        where = ErrorFilter.chosen(filters, all_messages=all_messages)
        with self.queue(queue_name) as queue:
            return ReturnToSource(queue, self.resolver, where, options, on_progress=on_progress).run()

    def edit_error(
        self,
        queue_name: str = "error",
        *,
        row_version: int,
        body: bytes | None = None,
        headers: Mapping[str, str | None] | None = None,
        redirect_to: str | None = None,
        keep_original: bool = False,
    ) -> EditResult:
        """Send an edited copy in a failed message's place. See :func:`airflow_sqlqueue.errorqueue.editing.edit`."""
        with self.queue(queue_name) as queue:
            return edit(
                queue,
                self.resolver,
                row_version,
                body=body,
                headers=headers,
                redirect_to=redirect_to,
                keep_original=keep_original,
            )
