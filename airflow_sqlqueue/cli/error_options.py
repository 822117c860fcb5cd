"""Options of commands on failed messages: filters."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_sqlqueue.options import option
from airflow_sqlqueue.queue.errors.failed_message import KINDS
from airflow_sqlqueue.queue.errors.filters import ErrorFilter


@dataclass(frozen=True)
class ErrorFilterOptions:
    """Options that select failed messages; without ``group`` and ``up_to`` of the filter, which only the page uses."""

    exception_type: str | None = option(None, "only this exception type, in full; '' for none")
    message_type: str | None = option(None, "only this message type, in full, without its assembly")
    endpoint: str | None = option(None, "only messages that this endpoint failed to handle")
    failed_queue: str | None = option(None, "only messages that failed in this queue: its address, or its table alone")
    kind: str | None = option(None, f"only one of: {', '.join(KINDS)}")
    since: str | None = option(None, "only messages that failed then or later: 2026-01-31, or 2026-01-31T08:00Z")
    until: str | None = option(None, "only messages that failed before this time")
    message_ids: list[str] | None = option(None, "only this message id; any number of times", form="--message-id")
    row_versions: list[int] | None = option(None, "only this row; any number of times", form="--row-version")

    def filter(self) -> ErrorFilter:
        """Return the filter of the options that were given; an empty list is no condition. Raises
        ConfigurationError.
        """
        return ErrorFilter.of(
            {name: value if isinstance(value, str) else value or None for name, value in vars(self).items()}
        )
