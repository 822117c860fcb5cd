"""A filter of messages as it is written on the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from airflow_sqlqueue.cli.message_options import header_values

if TYPE_CHECKING:
    from airflow_sqlqueue.queue.filters import MessageFilter

OfType = Annotated[
    Optional[str],
    typer.Option("--message-type", help="Only messages of this .NET type, in full, without its assembly."),
]
FromEndpoint = Annotated[Optional[str], typer.Option("--from-endpoint", help="Only what this endpoint sent.")]
WithHeader = Annotated[
    Optional[list[str]], typer.Option("--header", help="Only with this header, NAME=VALUE; any number of times.")
]
Since = Annotated[
    Optional[str], typer.Option("--since", help="Only what was sent at this time or later, as 2026-01-31T08:00:00Z.")
]
Until = Annotated[Optional[str], typer.Option("--until", help="Only what was sent before this time.")]


def message_filter(
    message_type: str | None, endpoint: str | None, header: list[str] | None, since: str | None, until: str | None
) -> MessageFilter | None:
    """The filter of what is given; None where nothing is. Raises :class:`ConfigurationError`."""
    from airflow_sqlqueue.queue.filters import MessageFilter

    values: dict[str, Any] = {"message_type": message_type, "endpoint": endpoint, "since": since, "until": until}
    values["headers"] = header_values(header) or None
    given = {name: value for name, value in values.items() if value is not None}
    return MessageFilter.of(given) if given else None
