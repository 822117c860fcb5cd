"""Commands on batches, quarantined messages, and Spark's streams."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from datetime import timedelta
from shlex import join
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from airflow_sqlqueue.cli.interruption import explained
from airflow_sqlqueue.cli.message_options import FilterOptions
from airflow_sqlqueue.cli.operation_options import words_of
from airflow_sqlqueue.cli.options import Common, QueueArgument, QueueOptions
from airflow_sqlqueue.cli.output import note, progress_bar
from airflow_sqlqueue.cli.redaction import KEY_VARIABLE, redactor_of
from airflow_sqlqueue.drain.options import DrainOptions, SweepOptions
from airflow_sqlqueue.endpoint.databus.options import PayloadOptions
from airflow_sqlqueue.errors import (
    BatchError,
    BatchNotFoundError,
    ConfigurationError,
    PermissionDeniedError,
    TransientError,
)
from airflow_sqlqueue.options import option

if TYPE_CHECKING:
    from airflow_sqlqueue.client.client import QueueClient
    from airflow_sqlqueue.drain.batches import BatchInfo
    from airflow_sqlqueue.drain.manifest import Batch
    from airflow_sqlqueue.drain.request import DrainRequest
    from airflow_sqlqueue.drain.storage.folder import StagingFolder
    from airflow_sqlqueue.endpoint.databus.payload_file import PayloadsResult

    PayloadFetch = Callable[[QueueClient, Batch], PayloadsResult]

LedgerQueue = Annotated[
    Optional[str],
    typer.Option("--queue", help="A queue beside the ledger; without it the ledger is in the connection's database."),
]


def drain(
    target: QueueOptions,
    options: DrainOptions,
    selected: FilterOptions,
    payloads: PayloadOptions,
    data_bus: str | None = option(
        None, "fetch the messages' payloads from this data bus, a folder or object store URL"
    ),
    staging: str | None = option(None, "the folder or object store URL for the batch's files"),
    stage: str = option("files", "``files``, or table: a table beside the queue, without --staging"),
    batch_id: uuid.UUID | None = option(None, "resume this batch"),
    new: bool = option(False, "begin the batch of --batch-id if the ledger does not know it"),
    copy: bool = option(False, "copy the messages and leave them in the queue"),
    incremental: str | None = option(
        None, "with --copy, copy only messages that no earlier drain with this name has copied", metavar="NAME"
    ),
    redaction: str | None = option(None, f"a JSON file of rules for private data; {KEY_VARIABLE} is the hashes' key"),
    secondary: bool = option(False, "drain the secondary queues too, each into its own batch"),
) -> None:
    """Drain a queue into a batch: Parquet files or a table's rows.

    A drain that finds no messages leaves no batch, unless --batch-id names one. The exit code is 130 after Ctrl-C and
    143 after SIGTERM; the drained messages are then in the open batch, and the command that resumes it is printed.
    """
    # Arrow takes longer to load than most commands take to run.
    from airflow_sqlqueue.drain.request import DrainRequest
    from airflow_sqlqueue.drain.stages.factory import check_stage
    from airflow_sqlqueue.drain.storage.folder import StagingFolder

    if secondary and batch_id is not None:
        raise ConfigurationError(
            "--secondary makes a batch for each queue: resume one by its own queue and --batch-id."
        )
    if stage == "files" and staging is None:
        raise ConfigurationError("A drain into files needs a staging folder: give --staging, or --stage table.")
    if new and batch_id is None:
        raise ConfigurationError("--new goes with --batch-id: without that, every drain begins a batch.")
    where, redactor = selected.filter(), redactor_of(redaction)
    folder = None if staging is None else StagingFolder.of(staging)
    check_stage(stage, folder)
    fetch = _payload_fetch(data_bus, stage, folder, replace(payloads, readable_by=options.readable_by))
    if fetch is not None and redactor is not None:
        raise ConfigurationError("No rule of redaction changes payloads of the data bus: leave out one of the two.")
    client = target.connect()
    queue = target.address(client)
    queues = client.tables.with_secondary_queues(queue) if secondary else [queue]
    if batch_id is not None and not new:
        _require(client, queue, batch_id)
    own = {"staging": staging, "stage": stage, "conn_id": target.conn_id, "copy": copy}
    own |= {"incremental": incremental, "redaction": redaction, "data_bus": data_bus}
    command = [*_options({**own, **vars(selected)}), *words_of(options), *words_of(payloads)]
    request = DrainRequest(
        options=options, where=where, copy=copy, incremental=incremental, redaction=redactor, origin="sqlqueue drain"
    )
    quiet = target.as_json
    drained = [_drain(client, each, folder, stage, request, batch_id, command, fetch, quiet=quiet) for each in queues]
    if folder is not None and any(values["batch_id"] is None for values in drained):
        # The drain wrote nothing there, but its success suggests that the folder can be used.
        folder.check_reachable()
    if not quiet:
        short = ("queue", "messages", "locked", "seconds")
        drained = [values if values["batch_id"] else {name: values[name] for name in short} for values in drained]
    target.show(drained if secondary else drained[0])


def _drain(
    client: QueueClient,
    queue_name: str,
    folder: StagingFolder | None,
    stage: str,
    request: DrainRequest,
    resumed: uuid.UUID | None,
    command: list[str],
    fetch: PayloadFetch | None,
    *,
    quiet: bool,
) -> dict[str, Any]:
    """Drain one queue; an empty batch whose id the caller did not give is removed again."""
    queue, batch_id = client.queue(queue_name), resumed or uuid.uuid4()
    # By the ends of the index: a count of millions would take longer than the first parts.
    waiting = queue.depth(kind="quick")
    if not quiet and (waiting.total or resumed):
        note(f"Batch {batch_id}")
    resume = ["sqlqueue", "drain", queue_name, *command, "--batch-id", str(batch_id)]
    with (
        explained(client, queue_name, batch_id, resume),
        client.batches.locks(queue_name) as locks,
        progress_bar("Draining", min(waiting.total, request.options.max_messages or waiting.total)) as update,
    ):
        if not locks.take(batch_id):
            raise BatchError(f"Batch {batch_id} is being worked on: stop its task first, or wait for its end.")
        result = queue.drain(
            folder,
            replace(request, batch_id=batch_id),
            stage=stage,
            on_progress=lambda done: update(
                done.rows - done.earlier, f"{done.bytes / 2**20:,.0f} MiB, {done.rate:,.0f}/s"
            ),
        )
        is_gone = resumed is None and _forget_empty(client, batch_id, queue_name)
    values = {**result.batch.to_dict(), "locked": result.locked, "seconds": round(result.seconds, 3)}
    if fetch is not None and not is_gone:
        values["payloads"] = _fetched(fetch, client, result.batch, resume)
    if is_gone and not quiet:
        note(f"Nothing was drained from {result.batch.queue}, so no batch is left.")
    return {**values, "batch_id": None, "state": None} if is_gone else values


def _payload_fetch(
    location: str | None, stage: str, folder: StagingFolder | None, options: PayloadOptions
) -> PayloadFetch | None:
    """Return the function that fetches a batch's payloads; None without a data bus. Raises ConfigurationError."""
    if location is None:
        return None
    if stage != "files":
        raise ConfigurationError("--data-bus stages payloads beside files: give --staging, and leave out --stage.")
    from airflow_sqlqueue.endpoint.databus.data_bus import DataBus

    data_bus = DataBus(location)
    return lambda client, batch: client.batches.fetch_payloads(batch, data_bus, staging=folder, options=options)


def _fetched(fetch: PayloadFetch, client: QueueClient, batch: Batch, command: list[str]) -> dict[str, Any]:
    """Fetch the payloads of a drained batch, and report the command that repeats this if it fails."""
    try:
        fetched = fetch(client, batch).to_dict()
    except BaseException:
        note(f"Batch {batch.batch_id} is sealed, without its payloads. Fetch them with: {join(command)}")
        raise
    return {name: value for name, value in fetched.items() if name != "batch_id"}


def _forget_empty(client: QueueClient, batch_id: uuid.UUID, queue_name: str) -> bool:
    """Forget the batch if it is empty; return whether it was. The drain succeeded, so failing here is no error."""
    with suppress(PermissionDeniedError, TransientError):
        return client.batches.forget_empty(batch_id, queue_name)
    return False


def _require(client: QueueClient, queue_name: str, batch_id: uuid.UUID) -> None:
    if client.batches.info(batch_id, queue_name) is None:
        raise BatchNotFoundError(
            f"The ledger does not know batch {batch_id}: check the id, or add --new to begin a batch with it."
        )


def _options(values: dict[str, Any]) -> list[str]:
    """Options as a user types them, without those that were not given."""
    typed: list[str] = []
    for name, value in values.items():
        option = f"--{name.replace('_', '-')}"
        if isinstance(value, list):
            typed += [text for each in value for text in (option, each)]
        elif value not in (None, False, "files"):
            typed += [option, *([] if value is True else [f"{value}"])]
    return typed


def batches(
    common: Common,
    batch_id: Annotated[
        Optional[str], typer.Argument(help="Show this batch in full; the first characters of its id are enough.")
    ] = None,
    state: list[str] | None = option(None, "``open``, sealed, consumed or requeued, any number of times"),
    queue: str | None = option(None, "only the batches of this queue"),
    older_than: timedelta | None = option(None, "only batches longer in their state: 30m, 12h, 7d"),
) -> None:
    """List the batches, or show one.

    The age of a batch is the time in its state.
    """
    client = common.connect()
    found = client.batches.list(queue, states=state or (), older_than=older_than)
    if batch_id is not None:
        found = [info for info in found if str(info.batch_id).startswith(batch_id.lower())]
        if len(found) != 1:
            raise BatchNotFoundError(f"The ids of {len(found)} batches begin with {batch_id!r}: check the id.")
        is_final = found[0].state != "open"
        paths = list(client.batches.get(found[0].batch_id, queue).paths) if is_final else []
        common.show({**found[0].to_dict(), "paths": paths})
        return
    records = [info.to_dict() for info in found]
    common.show(records if common.as_json else _lines(records))
    if not common.as_json:
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
            note(f"{what} been {state} for {older_than} or longer, with {messages:,} messages: {remedy}.")


AcceptRedacted = Annotated[
    bool, typer.Option("--accept-redacted", help="Put a redacted batch back too, as its rules have left it.")
]


def requeue(
    batch_id: Annotated[uuid.UUID, typer.Argument(help="A sealed batch.")],
    common: Common,
    queue: LedgerQueue = None,
    accept_redacted: AcceptRedacted = False,
) -> None:
    """Put a sealed batch back into its queue.

    The messages keep their ids and their order, and return in one transaction.
    """
    done = common.connect().batches.requeue(batch_id, queue, accept_redacted=accept_redacted)
    common.show({**done.batch.to_dict(), "repeated": done.repeated})


def abandon(
    batch_id: Annotated[uuid.UUID, typer.Argument(help="An open batch.")],
    common: Common,
    queue: LedgerQueue = None,
    accept_redacted: AcceptRedacted = False,
) -> None:
    """Seal an open batch and put it back into its queue."""
    done = common.connect().batches.abandon(batch_id, queue, accept_redacted=accept_redacted)
    common.show({**done.batch.to_dict(), "repeated": done.repeated})


def mark_consumed(
    batch_id: Annotated[uuid.UUID, typer.Argument(help="A sealed batch.")],
    common: Common,
    queue: LedgerQueue = None,
) -> None:
    """End a sealed batch that was read, or whose files are lost.

    Its messages do not come back.
    """
    batches = common.connect().batches
    batches.mark_consumed(batches.get(batch_id, queue))
    common.show(batches.get(batch_id, queue).to_dict())


def _existing_folder(staging: Optional[str]) -> Optional[str]:
    """Return the staging folder, checked to exist: a sweep of a mistyped name would find an empty folder."""
    from airflow_sqlqueue.drain.storage.folder import StagingFolder

    if staging is not None:
        folder = StagingFolder.of(staging)
        if folder.is_local and not folder.filesystem.isdir(folder.root):
            raise ConfigurationError(f"There is no staging folder {staging!r}: name the one that drains were given.")
    return staging


def sweep(
    common: Common,
    options: SweepOptions,
    staging: Annotated[
        Optional[str],
        typer.Argument(
            callback=_existing_folder,
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
    common: Common,
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
        common.show({"requeued": len(requeue)})
        return
    found = quarantined.list(queue)
    common.show([{name: _plain(value) for name, value in asdict(each).items()} for each in found])


def _plain(value: object) -> object:
    return value if value is None or isinstance(value, (int, str)) else str(value)


def streams(
    common: Common,
    queue: str | None = option(None, "only the streams of this queue, or of its database"),
    release: str | None = option(None, "put back the claims of a stream that no query resumes", metavar="NAME"),
) -> None:
    """List Spark's streams, or put one's claims back.

    With --release the stream's claims are in its queue again and the stream is forgotten; a sink may already have the
    last claim.
    """
    found = common.connect().streams
    if release is None:
        common.show([info.to_dict() for info in found.list(queue)])
    else:
        common.show(asdict(found.release(release, queue)))


COMMANDS = (drain, batches, requeue, abandon, mark_consumed, sweep, quarantine, streams)
