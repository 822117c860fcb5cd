"""Options of commands on failed messages: filters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Optional

import typer

from airflow_sqlqueue.queue.errors.failed_message import KINDS
from airflow_sqlqueue.queue.errors.filters import ErrorFilter


@dataclass(frozen=True)
class ErrorFilterOptions:
    """Options that select failed messages; without ``group`` and ``up_to`` of the filter, which only the page uses."""

    exception_type: Annotated[Optional[str], typer.Option(help="Only this exception type, in full; '' for none.")] = (
        None
    )
    message_type: Annotated[
        Optional[str], typer.Option(help="Only this message type, in full, without its assembly.")
    ] = None
    endpoint: Annotated[Optional[str], typer.Option(help="Only messages that this endpoint failed to handle.")] = None
    failed_queue: Annotated[
        Optional[str], typer.Option(help="Only messages that failed in this queue: its address, or its table alone.")
    ] = None
    kind: Annotated[Optional[str], typer.Option(help=f"Only one of: {', '.join(KINDS)}.")] = None
    since: Annotated[
        Optional[str], typer.Option(help="Only messages that failed then or later: 2026-01-31, or 2026-01-31T08:00Z.")
    ] = None
    until: Annotated[Optional[str], typer.Option(help="Only messages that failed before this time.")] = None
    message_ids: Annotated[
        Optional[list[str]], typer.Option("--message-id", help="Only this message id; any number of times.")
    ] = None
    row_versions: Annotated[
        Optional[list[int]], typer.Option("--row-version", help="Only this row; any number of times.")
    ] = None

    def filter(self) -> ErrorFilter:
        """Return the filter of the options that were given; an empty list is no condition. Raises
        ConfigurationError.
        """
        return ErrorFilter.of(
            {name: value if isinstance(value, str) else value or None for name, value in vars(self).items()}
        )
