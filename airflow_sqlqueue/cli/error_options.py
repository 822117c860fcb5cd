"""Options of commands on failed messages: filters, all messages and a dry run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Optional

import typer

from airflow_sqlqueue.cli.options import DryRun
from airflow_sqlqueue.errorqueue.failed_message import KINDS
from airflow_sqlqueue.errorqueue.filters import ErrorFilter
from airflow_sqlqueue.errors import ConfigurationError


@dataclass(frozen=True)
class WorkOptions:
    """Options of work on failed messages: all of them, a dry run."""

    all_messages: Annotated[bool, typer.Option("--all", help="Every message; not with a filter.")] = False
    dry_run: DryRun = False


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
        """The filter of the options that were given; an empty list is no condition. Raises ConfigurationError."""
        return ErrorFilter.of(
            {name: value if isinstance(value, str) else value or None for name, value in vars(self).items()}
        )

    def chosen(self, work: WorkOptions, *, by_age: bool = False) -> ErrorFilter:
        """The filter of a command that moves messages. Raises ConfigurationError for neither it nor all, and for both.

        ``by_age``: messages of an age may have a filter too.
        """
        where = self.filter()
        if where.is_empty != (work.all_messages or (by_age and where.is_empty)):
            raise ConfigurationError("Select the messages by a filter, as --kind, or by --all: one of the two.")
        return where
