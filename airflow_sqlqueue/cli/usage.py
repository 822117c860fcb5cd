"""Commands on usage, by day and as the report for Particular, and on conversations."""

from __future__ import annotations

import json
import uuid
from dataclasses import asdict, dataclass
from datetime import date, datetime
from pathlib import Path
from typing import Annotated, Any, Optional

import typer

from airflow_sqlqueue.cli.batches import LedgerQueue
from airflow_sqlqueue.cli.options import Common, age
from airflow_sqlqueue.cli.output import note
from airflow_sqlqueue.errors import ConfigurationError

Staging = Annotated[
    Optional[str], typer.Option(help="The batch's folder, if it needs more than the environment's credentials.")
]
Catalog = Annotated[
    Optional[str], typer.Option(metavar="DATABASE", help="Another database of the server than the connection's.")
]


@dataclass(frozen=True, kw_only=True)
class DaysOptions(Common):
    """Options of a command that shows days."""

    since: Annotated[
        Optional[str], typer.Option(metavar="DAY", help="The first day in UTC, as 2026-01-31; 30 days ago by default.")
    ] = None
    until: Annotated[Optional[str], typer.Option(metavar="DAY", help="The last day in UTC; today by default.")] = None

    def days(self) -> dict[str, date | None]:
        """The days as arguments of the client."""
        return {"since": _day("--since", self.since), "until": _day("--until", self.until)}


def record(
    common: Common,
    catalog: Catalog = None,
    retain: Annotated[str, typer.Option(help="Remove days that are older than this.")] = "400d",
) -> None:
    """Record how much the queues of the database have grown since the last record; run it at best every hour."""
    common.show(asdict(common.connect().usage.record(catalog=catalog, retain=age("--retain", retain))))


def count(
    common: Common,
    batch: Annotated[uuid.UUID, typer.Argument(help="A sealed or consumed batch, as of an audit queue.")],
    queue: LedgerQueue = None,
    staging: Staging = None,
) -> None:
    """Count the messages of a batch by endpoint, message type and day; a batch that is counted again counts once."""
    client = common.connect()
    counted = client.usage.count_batch(client.batches.get(batch, queue), staging=staging)
    common.show([day.to_dict() for day in counted])


def queues(target: DaysOptions, catalog: Catalog = None) -> None:
    """Show the growth of each queue by day."""
    found = target.connect().usage.queues(**target.days(), catalog=catalog)
    target.show([day.to_dict() for day in found])


def endpoints(target: DaysOptions, catalog: Catalog = None) -> None:
    """Show the messages of each endpoint and message type by day."""
    found = target.connect().usage.endpoints(**target.days(), catalog=catalog)
    target.show([day.to_dict() for day in found])


def report(
    target: DaysOptions,
    customer: Annotated[str, typer.Option(help="The name that the license is registered to.")],
    mask: Annotated[
        Optional[list[str]], typer.Option(help="Write *** for this text in names of queues, any number of times.")
    ] = None,
    catalog: Annotated[
        Optional[list[str]],
        typer.Option(metavar="DATABASE", help="A database of the server, any number of times; the connection's own."),
    ] = None,
    out: Annotated[Optional[Path], typer.Option(help="The file to write, instead of standard output.")] = None,
) -> None:
    """Print the usage of all whole days as JSON, in the form of the reports of Particular's tools."""
    made = target.connect().usage.report(customer, **target.days(), masks=mask or (), catalogs=catalog or ())
    text = json.dumps(made, indent=2)
    if out is None:
        typer.echo(text)
        return
    try:
        out.write_text(f"{text}\n", "utf-8")
    except OSError as error:
        raise ConfigurationError(f"The file {out} cannot be written: {error.strerror}.") from error
    note(f"Written: {out}")


def conversation(
    common: Common,
    conversation_id: Annotated[str, typer.Argument(help="The value of the header NServiceBus.ConversationId.")],
    catalog: Catalog = None,
    staging: Staging = None,
    max_seconds: Annotated[Optional[float], typer.Option(help="Stop the search after this many seconds.")] = None,
) -> None:
    """Show the messages of a conversation, in the order in which they were sent, from the newest batches."""
    found = common.connect().batches.conversation(
        conversation_id, staging=staging, catalogs=(catalog,) if catalog else (), max_seconds=max_seconds
    )
    common.show([step.to_dict() for step in found.steps])
    if found.unread or not found.complete:
        ended = "" if found.complete else "; a limit ended the search"
        note(f"Read {found.batches} batches; {found.unread} could not be read{ended}.")


def _day(option: str, text: Optional[str]) -> date | None:
    if text is None:
        return None
    try:
        return datetime.strptime(text, "%Y-%m-%d").date()  # noqa: DTZ007 - a day, not a moment
    except ValueError:
        raise ConfigurationError(f"{option} takes a day as 2026-01-31, not {text!r}.") from None


COMMANDS: tuple[Any, ...] = (record, count, queues, endpoints, report)
"""Commands below ``sqlqueue usage``."""
