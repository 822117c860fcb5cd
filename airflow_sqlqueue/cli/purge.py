"""Commands that delete: purge, purge-expired."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import Annotated, Any, Optional

import typer

from airflow_sqlqueue.cli.filter_options import FromEndpoint, OfType, Since, Until, WithHeader, message_filter
from airflow_sqlqueue.cli.options import ConnId, IsEndpoint, Json, Queue, Url, age, connect_queue
from airflow_sqlqueue.cli.output import show
from airflow_sqlqueue.client.queues import Queue as ClientQueue
from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.queue.purge import CHUNK, PurgeOptions

MaxMessages = Annotated[Optional[int], typer.Option(help="Delete at most so many.")]
MaxSeconds = Annotated[Optional[float], typer.Option(help="Stop after so long.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only count.")]


def purge(
    queue: Queue,
    endpoint: IsEndpoint = False,
    url: Url = None,
    conn_id: ConnId = None,
    as_json: Json = False,
    all_messages: Annotated[bool, typer.Option("--all", help="Every message, expired or not.")] = False,
    older_than: Annotated[Optional[str], typer.Option(help="What was sent longer ago: 90s, 30m, 12h, 7d.")] = None,
    message_type: OfType = None,
    from_endpoint: FromEndpoint = None,
    header: WithHeader = None,
    since: Since = None,
    until: Until = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before messages are lost.")] = False,
    dry_run: DryRun = False,
    chunk: Annotated[int, typer.Option(min=1, max=2000, help="Rows of one transaction.")] = CHUNK,
    pause: Annotated[float, typer.Option(min=0, help="Seconds between two transactions.")] = 0.0,
    max_messages: MaxMessages = None,
    max_seconds: MaxSeconds = None,
) -> None:
    """Delete messages: the expired ones, or with --all, --older-than or a filter others as well."""
    least = None if older_than is None else age("--older-than", older_than)
    where = message_filter(message_type, from_endpoint, header, since, until)
    if all_messages and (least is not None or where is not None):
        raise ConfigurationError("A purge takes --all, or --older-than and filters, not both: choose one.")
    loses = all_messages or least is not None or where is not None
    if not (yes or dry_run or as_json) and loses and sys.stdin.isatty():
        yes = typer.confirm(f"Delete messages of {queue} that have not expired?", err=True, abort=True)
    if loses and not (yes or dry_run):
        raise ConfigurationError(
            "This purge deletes messages that have not expired: give --yes to confirm that they may be lost, or "
            "--dry-run to count them."
        )
    options = PurgeOptions(
        all_messages=all_messages,
        older_than=least,
        where=where,
        confirm=yes,
        dry_run=dry_run,
        chunk=chunk,
        pause=pause,
        max_messages=max_messages,
        max_seconds=max_seconds,
    )
    _purge(connect_queue(queue, endpoint, url, conn_id), options, as_json)


def purge_expired(
    queue: Queue,
    endpoint: IsEndpoint = False,
    url: Url = None,
    conn_id: ConnId = None,
    as_json: Json = False,
    max_messages: MaxMessages = None,
    max_seconds: MaxSeconds = None,
    dry_run: DryRun = False,
) -> None:
    """Delete the messages whose time to be received is over."""
    options = PurgeOptions(max_messages=max_messages, max_seconds=max_seconds, dry_run=dry_run)
    _purge(connect_queue(queue, endpoint, url, conn_id), options, as_json)


def _purge(target: ClientQueue, options: PurgeOptions, as_json: bool) -> None:
    done = target.purge(options)
    values: dict[str, Any] = {"queue": target.address.canonical, **asdict(done), "seconds": round(done.seconds, 3)}
    if options.dry_run and not as_json:
        del values["deleted"], values["complete"]
        values = {"queue": values.pop("queue"), "would_delete": values.pop("remaining"), **values}
    show(values, as_json=as_json)
