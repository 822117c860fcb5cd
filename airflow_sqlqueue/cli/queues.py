"""Commands on queues: queues, send, depth, peek, forward, purge, generate."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, replace
from datetime import datetime, timedelta, timezone
from functools import partial
from typing import Annotated, Any

import typer

from airflow_sqlqueue.cli.options import (
    DryRun,
    FilterOptions,
    ListOptions,
    MessageOptions,
    QueueListOptions,
    QueueOptions,
)
from airflow_sqlqueue.cli.output import counted, progress_bar, told_so_far
from airflow_sqlqueue.client.queues import Queue
from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.messages.envelope import Envelope
from airflow_sqlqueue.messages.message import HeaderNames, ReceivedMessage
from airflow_sqlqueue.options import option
from airflow_sqlqueue.options.secondary import secondary as secondary_queues
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.queue.browsing import MessageHead, browse, find, is_last
from airflow_sqlqueue.queue.depth import Backlog
from airflow_sqlqueue.queue.forwarding import ForwardOptions
from airflow_sqlqueue.queue.purge import PurgeOptions, PurgeResult
from airflow_sqlqueue.queue.table_access import FIRST, LAST


def queues(common: ListOptions) -> None:
    """List all queues with their counts; no message is read.

    The counts are the catalog's: expired messages are among the messages, while depth counts them apart. Of expired
    messages at most 1,000 are counted. The oldest is the first message.
    """
    now = datetime.now(timezone.utc)
    common.show(
        [
            {
                "queue": each.table.canonical,
                "messages": each.rows,
                "expired": each.expired,
                "delayed": each.delayed,
                "oldest_seconds": None if each.oldest is None else max(0.0, (now - each.oldest).total_seconds()),
                "findings": len(each.findings),
            }
            for each in common.connect().tables.overview()
            if each.kind == "queue"
        ]
    )


def send(
    target: QueueOptions,
    message: MessageOptions,
    expire_after: timedelta | None = option(None, "how long until it expires: 90s, 30m, 12h, 7d"),
    instance: str | None = option(None, "with --endpoint, send to the queue of this instance or machine"),
) -> None:
    """Send one message."""
    sent = message.message(expire_after)
    client = target.connect()
    queue = client.queue(target.address(client, instance))
    queue.send([sent])
    target.show({"queue": queue.address.canonical, "message_id": sent.header(HeaderNames.MESSAGE_ID)})


def depth(
    target: QueueOptions,
    kind: str = option("exact", "``exact``; quick: from the index on RowVersion; catalog: no rows"),
    secondary: bool = secondary_queues("count"),
) -> None:
    """Count a queue's messages, with the age of the oldest.

    Delayed messages and the age of the newest are shown as well.

    "Rows ever inserted" counts a message again each time that it comes back: requeued, returned or retried.
    """
    queue = target.connect_queue()
    found = queue.backlog(kind=kind, secondary=secondary)
    _show_each(target, queue, _depth_of(found), {name: _depth_of(each) for name, each in found.queues.items()})


def _depth_of(found: Backlog) -> dict[str, Any]:
    return {
        "kind": found.depth.kind,
        "messages": found.depth.messages,
        "expired": found.depth.expired,
        "delayed": found.delayed,
        "oldest_seconds": found.oldest_seconds,
        "newest_seconds": found.newest_seconds,
        "inserted": found.inserted,
    }


def _show_each(
    target: QueueOptions, queue: Queue, values: dict[str, Any], queues: Mapping[str, dict[str, Any]]
) -> None:
    """Print the values of a queue; with secondary queues, those of each and then the sums."""
    address = queue.address.canonical
    each = [{"queue": name, **its_values} for name, its_values in queues.items()]
    if target.as_json or not each:
        target.show({"queue": address, **values, **({"queues": each} if each else {})})
    else:
        target.show([*each, {"queue": "all", **values}])


def peek(
    target: QueueListOptions,
    selected: FilterOptions,
    count: Annotated[int, typer.Option("--count", "-n", min=1, max=2000, help="Number of messages.")] = 10,
    after: int = option(FIRST, "begin after this RowVersion"),
    headers: bool = option(False, "show all headers"),
    body: bool = option(False, "show the bodies as text"),
) -> None:
    """Show the messages at the head, or the first that match.

    Nothing is removed. With filters the server reads headers until enough messages match, or to the end of the queue.
    """
    where = selected.filter()
    with target.connect_queue().open() as table:
        found: Iterable[MessageHead | ReceivedMessage]
        if body:
            found = table.peek(count, after=after, where=where)
        elif where is None:
            found = _heads(table, count, after)
        else:
            found = find(table, where, count, after=after, window=LAST)
        shown = [_summary(message, headers) for message in found]
    target.show(shown, title=table.address.canonical)


def _heads(table: QueueTable, count: int, after: int) -> Iterator[MessageHead]:
    """Yield the first messages: one page ends after some bytes of headers too."""
    # Not browsing.pages, which asks the server nothing about a start that no column can hold, and so refuses none.
    while count:
        page = browse(table, count, after=after)
        yield from page
        if is_last(page, count):
            return
        count, after = count - len(page), page[-1].row_version


def _summary(message: MessageHead | ReceivedMessage, with_headers: bool) -> dict[str, Any]:
    head, body = (message, None) if isinstance(message, MessageHead) else (message, message.body)
    envelope = Envelope.of(
        ReceivedMessage(head.id, head.row_version, head.headers, body or b"", head.expires, head.expired)
    )
    time_sent = envelope.time.time_sent
    summary: dict[str, Any] = {
        "row_version": head.row_version,
        "message_id": envelope.identity.message_id,
        "type": envelope.content.message_type,
        "time_sent": time_sent.isoformat() if time_sent else None,
        "expires": head.expires.isoformat() if head.expires else None,
        "body_bytes": head.body_bytes if isinstance(head, MessageHead) else len(head.body),
        "problem": envelope.problem,
    }
    if with_headers:
        summary["headers"] = head.headers if envelope.problem else dict(envelope.headers)
    if body is not None:
        text = envelope.text()
        summary["body"] = body.decode("utf-8", "replace") if text is None else text
    return summary


def forward(
    target: QueueOptions,
    to_queue: Annotated[str, typer.Argument(help="The address of the queue that receives them.")],
    selected: FilterOptions,
    options: ForwardOptions,
) -> None:
    """Move messages to another queue of the server, unchanged."""
    source = target.connect_queue()
    with told_so_far("moved", f"are in {source.address}") as moved:
        done = source.forward(to_queue, replace(options, where=selected.filter()), on_progress=moved)
    values = {"queue": source.address.canonical, "to_queue": to_queue, **asdict(done)}
    target.show({**values, "seconds": round(done.seconds, 3)})


def purge(
    target: QueueOptions,
    selected: FilterOptions,
    options: PurgeOptions,
    all_messages: bool = option(False, "every message, expired or not", form="--all"),
    older_than: timedelta | None = option(None, "messages sent longer ago than this: 90s, 30m, 12h, 7d, or a time"),
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before messages are lost.")] = False,
    dry_run: DryRun = False,
) -> None:
    """Delete expired messages, or others by --all or a filter."""
    where = selected.filter()
    if all_messages and (older_than is not None or where is not None):
        raise ConfigurationError("A purge takes --all, or --older-than and filters, not both: choose one.")
    loses = all_messages or older_than is not None or where is not None
    if not (yes or dry_run or target.as_json) and loses and sys.stdin.isatty():
        yes = typer.confirm(f"Delete messages of {target.queue} that have not expired?", err=True, abort=True)
    if loses and not (yes or dry_run):
        raise ConfigurationError(
            "This purge deletes messages that have not expired: give --yes to confirm that they may be lost, or "
            "--dry-run to count them."
        )
    options = replace(
        options, all_messages=all_messages, older_than=older_than, where=where, confirm=yes, dry_run=dry_run
    )
    queue = target.connect_queue()
    done = queue.purge(options)
    shown = partial(_purged, dry_run=dry_run, as_json=target.as_json)
    _show_each(target, queue, shown(done), {name: shown(each) for name, each in done.queues.items()})


def _purged(done: PurgeResult, *, dry_run: bool, as_json: bool) -> dict[str, Any]:
    values: dict[str, Any] = {**asdict(done), "seconds": round(done.seconds, 3)}
    del values["queues"]
    if as_json:
        return values
    if done.remaining is None:
        # A missing value is shown as "none", which would be read as no message.
        values["remaining"] = "not counted: a limit ended the search"
    if dry_run:
        del values["deleted"], values["complete"]
        values = {"would_delete": values.pop("remaining"), **values}
    return values


def generate(
    target: QueueOptions,
    count: Annotated[int, typer.Option(min=1, help="Number of messages.")],
    seed: int = option(1, "the same seed gives the same messages"),
    failed: bool = option(False, "failed messages of the last two days, for the commands errors and return"),
) -> None:
    """Send made-up traffic of a shop.

    Its commands, events, replies, failures and a few malformed messages are of March 2026.
    """
    from airflow_sqlqueue.traffic import FAILED_QUEUES, generate_failed
    from airflow_sqlqueue.traffic import generate as shop

    with target.connect_queue().open() as table, progress_bar("Sending", count) as update:
        address = table.address
        if failed:
            now = datetime.now(timezone.utc)
            messages = generate_failed(count, seed=seed, start=now, schema=address.schema, catalog=address.catalog)
        else:
            messages = shop(count, seed=seed)
        sent = table.send(counted(messages, update))
    values: dict[str, Any] = {"queue": address.canonical, "sent": sent, "seed": seed}
    if failed:
        values["failed_in"] = [replace(address, table=name).canonical for name in FAILED_QUEUES]
    target.show(values)


COMMANDS = (queues, depth, peek, send, forward, purge, generate)
