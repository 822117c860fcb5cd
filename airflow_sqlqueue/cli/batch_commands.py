"""Commands on batches, and on the tables of this package beside queues: copies, quarantine, streams."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from airflow_sqlqueue.cli.options import (
    BY_BEGINNING,
    Common,
    ListOptions,
    QueueArgument,
    header_values,
    named_values,
)
from airflow_sqlqueue.cli.output import duration, note
from airflow_sqlqueue.cli.redaction import KEY_VARIABLE
from airflow_sqlqueue.client.beginnings import name_beginning
from airflow_sqlqueue.drain.options import SweepOptions
from airflow_sqlqueue.errors import BatchNotFoundError, ConfigurationError
from airflow_sqlqueue.options import option
from airflow_sqlqueue.options.budget import count_of

if TYPE_CHECKING:
    from airflow_sqlqueue.client.own_tables import CopyManager
    from airflow_sqlqueue.drain.batches import BatchInfo


LedgerQueue = Annotated[
    Optional[str],
    typer.Option("--queue", help="A queue beside the ledger; without it the ledger is in the connection's database."),
]


def batches(
    common: ListOptions,
    batch_id: Annotated[Optional[str], typer.Argument(help=f"Show this batch in full: {BY_BEGINNING}.")] = None,
    state: list[str] | None = option(None, "``open``, sealed, consumed or requeued, any number of times"),
    queue: str | None = option(None, "only the batches of this queue"),
    older_than: timedelta | None = option(None, "only batches longer in their state: 30m, 12h, 7d"),
) -> None:
    """List the batches, or show one.

    The age of a batch is the time in its state.
    """
    client = common.connect()
    if batch_id is not None:
        if state or older_than is not None:
            raise ConfigurationError("An id names one batch: leave out --state and --older-than.")
        named = client.batches.named(batch_id, queue)
        info = client.batches.info(named, queue)
        if info is None:
            raise BatchNotFoundError(f"The ledger does not know batch {named}: 'sqlqueue batches' lists them.")
        paths = list(client.batches.get(named, queue).paths) if info.state != "open" else []
        common.show({**info.to_dict(), "paths": paths})
        return
    found = client.batches.list(queue, states=state or (), older_than=older_than)
    records = [info.to_dict() for info in found]
    common.show(records if common.for_programs else _lines(records))
    if not common.for_programs:
        _notice(found, _OLD if older_than is None else older_than)


_OLD = timedelta(days=1)
_REMEDIES = {
    "open": "run its task again, resume it with 'sqlqueue drain <queue> --staging <folder> --batch-id <id>' "
    "(or --stage table), or end it with 'sqlqueue abandon <id>'",
    "sealed": "clear the task of the batch, so that its job runs, or put it back with 'sqlqueue requeue <id>'; one "
    "that was read, or whose files are lost, ends with 'sqlqueue mark-consumed <id>'",
}


def _notice(found: Sequence[BatchInfo], older_than: timedelta) -> None:
    """Print a remedy for the batches that have been open or sealed for long."""
    for state, remedy in _REMEDIES.items():
        old = [info for info in found if info.state == state and info.age >= older_than]
        if old:
            messages = sum(info.messages for info in old)
            what = "1 batch has" if len(old) == 1 else f"{len(old)} batches have"
            held = f"for {duration(older_than.total_seconds())} or longer, with {count_of(messages, 'message')}"
            note(f"{what} been {state} {held}: {remedy}.")


AcceptRedacted = Annotated[
    bool, typer.Option("--accept-redacted", help="Put a redacted batch back too, as its rules have left it.")
]


def requeue(
    batch_id: Annotated[str, typer.Argument(help=f"A sealed batch: {BY_BEGINNING}.")],
    common: Common,
    queue: LedgerQueue = None,
    accept_redacted: AcceptRedacted = False,
) -> None:
    """Put a sealed batch back into its queue.

    The messages keep their ids and their order, and return in one transaction.
    """
    batches = common.connect().batches
    done = batches.requeue(batches.named(batch_id, queue), queue, accept_redacted=accept_redacted)
    common.show({**done.batch.to_dict(), "repeated": done.repeated})


def abandon(
    batch_id: Annotated[str, typer.Argument(help=f"An open batch: {BY_BEGINNING}.")],
    common: Common,
    queue: LedgerQueue = None,
    accept_redacted: AcceptRedacted = False,
) -> None:
    """Seal an open batch and put it back into its queue."""
    batches = common.connect().batches
    done = batches.abandon(batches.named(batch_id, queue), queue, accept_redacted=accept_redacted)
    common.show({**done.batch.to_dict(), "repeated": done.repeated})


def mark_consumed(
    batch_id: Annotated[str, typer.Argument(help=f"A sealed batch: {BY_BEGINNING}.")],
    common: Common,
    queue: LedgerQueue = None,
) -> None:
    """End a sealed batch that was read, or whose files are lost.

    Its messages do not come back.
    """
    batches = common.connect().batches
    named = batches.named(batch_id, queue)
    batches.mark_consumed(batches.get(named, queue))
    common.show(batches.get(named, queue).to_dict())


def sweep(
    common: Common,
    options: SweepOptions,
    staging: Annotated[
        Optional[str],
        typer.Argument(
            help="The folder or object store URL of the batches' files; without it the files stay.",
        ),
    ] = None,
    queue: LedgerQueue = None,
    dry_run: bool = option(False, "only count what would be removed"),
) -> None:
    """Remove orphaned files and batches past their retention.

    Files of open and sealed batches stay.
    """
    swept = asdict(common.connect().batches.sweep(staging, queue, replace(options, dry_run=dry_run)))
    if not common.as_json:
        # Files of unknown batches are not removed.
        swept["left_of_unknown_batches"] = swept.pop("unknown")
        del swept["dry_run"]
    common.show(swept, title="Would be removed; nothing was yet" if dry_run else "Removed")


_TIMES = {"opened", "sealed", "consumed", "requeued"}
_RARE = ("expired", "quarantined", "kept", "redacted", "erased")


def _lines(found: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Records short enough for the lines of a table: without times, and without rare counts that are 0 everywhere.

    The map index is removed from an origin whose task is not mapped.
    """
    hidden = _TIMES | {name for name in _RARE if not any(values[name] for values in found)}
    lines = [{name: value for name, value in values.items() if name not in hidden} for values in found]
    return [{**line, "origin": line["origin"].removesuffix(" -1")} for line in lines]


def quarantine(
    queue: QueueArgument,
    common: ListOptions,
    requeue: list[int] | None = option(
        None, "put the message with this number back into the queue, any number of times"
    ),
) -> None:
    """List messages that no file can hold, or put some back.

    A drain moves them into quarantine.
    """
    quarantined = common.connect().quarantine
    if requeue:
        quarantined.requeue(queue, requeue)
        common.show({"requeued": len(set(requeue))})
        return
    found = quarantined.list(queue)
    plain = (type(None), int, str)
    records = [asdict(each).items() for each in found]
    common.show([{n: v if isinstance(v, plain) else str(v) for n, v in record} for record in records])


def streams(
    common: ListOptions,
    queue: str | None = option(None, "only the streams of this queue, or of its database"),
    release: str | None = option(
        None, "put back the claims of a stream that no query resumes; its name or the beginning of it", metavar="NAME"
    ),
    accept_duplicates: bool = option(False, "with --release: put back messages too that the sink may have already"),
) -> None:
    """List Spark's streams, or put one's claims back.

    With --release the stream's claims are in its queue again and the stream is forgotten.
    """
    found = common.connect().streams
    if release is None:
        common.show([info.to_dict() for info in found.list(queue)])
    else:
        name = name_beginning(release, [info.name for info in found.list(queue)])
        common.show(asdict(found.release(name or release, queue, accept_duplicates=accept_duplicates)))


def copies(
    common: ListOptions,
    queue: str | None = option(None, "only the copies of this queue"),
    reset: str | None = option(
        None,
        "forget what this copy of --queue has: it begins at the head of the queue; the beginning of its name is enough",
        metavar="NAME",
    ),
    close: str | None = option(None, "close gaps of this copy of --queue, older than --older-than", metavar="NAME"),
    older_than: timedelta | None = option(None, "with --close: no transaction of the queue lasts longer: 30m, 12h, 7d"),
) -> None:
    """List the copies of drains with --incremental, or reset one."""
    if reset is not None and close is not None:
        raise ConfigurationError("Give --reset or --close: one does not go with the other.")
    found = common.connect().copies
    if close is not None or older_than is not None:
        if close is None or older_than is None or queue is None:
            raise ConfigurationError("Gaps are closed with all of --queue, --close and --older-than.")
        close = _copy_named(found, close, queue)
        closed = found.close_gaps(close, queue, longest_transaction=older_than)
        common.show({"copy": close, "queue": queue, "closed": closed})
        return
    if reset is None:
        common.show([info.to_dict() for info in found.list(queue)])
        return
    if queue is None:
        raise ConfigurationError("A copy belongs to a queue: give --queue with --reset.")
    reset = _copy_named(found, reset, queue)
    if not found.reset(reset, queue):
        raise ConfigurationError(f"There is no copy {reset!r} of {queue}: 'sqlqueue copies' lists them.")
    common.show({"reset": reset, "queue": queue})


def _copy_named(copies: CopyManager, text: str, queue: str) -> str:
    return name_beginning(text, [info.name for info in copies.list(queue)]) or text


def erase(
    common: Common,
    message_id: list[str] | None = option(None, "a message id, any number of times"),
    header: list[str] | None = option(None, "messages with this header, NAME=VALUE; NAME=- reads standard input"),
    field: list[str] | None = option(
        None, "messages with this field of the body, PATH=VALUE; PATH=- reads standard input"
    ),
    batch: list[str] | None = option(None, f"only this batch, any number of times: {BY_BEGINNING}"),
    staging: str | None = option(None, "the staging folder, for a store that needs it"),
    queue: LedgerQueue = None,
    dry_run: bool = option(False, "only count"),
) -> None:
    """Erase single messages from batches that are not open.

    With SQLQUEUE_REDACTION_KEY it finds hashed values of redacted batches too. Interrupted, it is finished by a
    repetition.
    """
    from airflow_sqlqueue.drain.erase import EraseRequest

    headers, fields = header_values(header), named_values(field, "--field takes PATH=VALUE")
    waiting = [(values, name) for values in (headers, fields) for name, value in values.items() if value == "-"]
    if len(waiting) > 1:
        raise ConfigurationError("Standard input has one value: write - for one header or one field.")
    for values, name in waiting:
        values[name] = sys.stdin.read().removesuffix("\n")
    key = os.environ.get(KEY_VARIABLE)
    request = EraseRequest(message_ids=message_id or (), headers=headers, fields=fields, key=key, dry_run=dry_run)
    batches = common.connect().batches
    if batch:
        request = replace(request, batch_ids=[batches.named(each, queue) for each in batch])
    done = batches.erase(request, queue, staging=staging)
    skipped = {str(batch_id): reason for batch_id, reason in done.skipped.items()}
    common.show(
        {**vars(done), "batches": list(map(str, done.batches)), "skipped": skipped},
        title="Would be erased; nothing was yet" if dry_run else "Erased",
    )
    if skipped and not dry_run:
        raise typer.Exit(1)


def conversation(
    common: ListOptions,
    conversation_id: Annotated[str, typer.Argument(help="The value of the header NServiceBus.ConversationId.")],
    catalog: str | None = option(None, "another database of the server than the connection's", metavar="DATABASE"),
    staging: str | None = option(None, "the batch's folder, if it needs more than the environment's credentials"),
    max_seconds: float | None = option(None, "stop the search after this many seconds"),
) -> None:
    """Show the messages of a conversation in the newest batches.

    They are in the order in which they were sent.
    """
    found = common.connect().batches.conversation(
        conversation_id, staging=staging, catalogs=(catalog,) if catalog else (), max_seconds=max_seconds
    )
    whole = {"batches": found.batches, "unread": found.unread, "complete": found.complete}
    common.show([step.to_dict() for step in found.steps], whole=whole)
    if not found.steps and not common.for_programs:
        note("No batch has it. For a queue, use sqlqueue peek QUEUE --header NServiceBus.ConversationId=ID.")
    if found.unread or not found.complete:
        ended = "" if found.complete else "; a limit ended the search"
        note(f"Read {count_of(found.batches, 'batch')}; {found.unread} could not be read{ended}.")


COMMANDS = (batches, requeue, abandon, mark_consumed, sweep, quarantine, streams, copies, erase, conversation)
