"""Commands on batches: drain, batches, requeue, abandon, sweep."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, fields, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from airflow_sqlqueue.cli.drain_options import (
    BytesPerPart,
    BytesPerStatement,
    InlineBodyBytes,
    ReadableBy,
    RowsPerPart,
    RowsPerStatement,
    SecondsPerPart,
    SettleSeconds,
    drain_options,
)
from airflow_sqlqueue.cli.filter_options import FromEndpoint, OfType, Since, Until, WithHeader, message_filter
from airflow_sqlqueue.cli.interruption import explained
from airflow_sqlqueue.cli.options import (
    ConnId,
    IsEndpoint,
    Json,
    Queue,
    SweptFolder,
    Url,
    age,
    connect,
    queue_address,
)
from airflow_sqlqueue.cli.output import progress_bar, show, stderr
from airflow_sqlqueue.errors import (
    BatchError,
    BatchNotFoundError,
    ConfigurationError,
    PermissionDeniedError,
    TransientError,
)

if TYPE_CHECKING:
    from airflow_sqlqueue.client import QueueClient
    from airflow_sqlqueue.drain.batches import BatchInfo
    from airflow_sqlqueue.drain.options import DrainOptions
    from airflow_sqlqueue.drain.request import DrainRequest
    from airflow_sqlqueue.drain.storage.folder import StagingFolder

QueueOption = Annotated[
    Optional[str],
    typer.Option("--queue", help="A queue beside the ledger; without it the ledger is in the connection's database."),
]


def drain(
    queue: Queue,
    staging: Annotated[
        Optional[str],
        typer.Option(help="The folder or object store URL for the batch's files."),
    ] = None,
    endpoint: IsEndpoint = False,
    url: Url = None,
    conn_id: ConnId = None,
    as_json: Json = False,
    stage: Annotated[str, typer.Option(help="files, or table: a table beside the queue, without --staging.")] = "files",
    batch_id: Annotated[Optional[uuid.UUID], typer.Option(help="Resume this batch.")] = None,
    new: Annotated[
        bool, typer.Option("--new", help="Begin the batch of --batch-id where the ledger does not know it.")
    ] = False,
    max_messages: Annotated[Optional[int], typer.Option(help="Stop after so many.")] = None,
    max_seconds: Annotated[Optional[float], typer.Option(help="Begin no part after so long.")] = None,
    until_empty: Annotated[
        bool, typer.Option("--until-empty", help="Go on until the queue is empty, past what is there now.")
    ] = False,
    keep_expired: Annotated[bool, typer.Option(help="Write expired messages too, flagged.")] = False,
    workers: Annotated[int, typer.Option(help="Threads at the most, each with a connection.")] = 2,
    rows_per_statement: RowsPerStatement = None,
    bytes_per_statement: BytesPerStatement = None,
    rows_per_part: RowsPerPart = None,
    bytes_per_part: BytesPerPart = None,
    seconds_per_part: SecondsPerPart = None,
    inline_body_bytes: InlineBodyBytes = None,
    settle_seconds: SettleSeconds = None,
    readable_by: ReadableBy = None,
    keep: Annotated[bool, typer.Option("--keep", help="Copy the messages, and leave them in the queue.")] = False,
    message_type: OfType = None,
    from_endpoint: FromEndpoint = None,
    header: WithHeader = None,
    since: Since = None,
    until: Until = None,
    secondary: Annotated[bool, typer.Option("--secondary", help="Its secondary queues too, a batch each.")] = False,
) -> None:
    """Drain the queue into a sealed batch: Parquet files, or rows of a table.

    A drain that finds nothing leaves no batch, unless --batch-id names one. Interrupted by Ctrl-C it ends with exit
    code 130, by SIGTERM with 143; what was drained is in the open batch, and the command that resumes it is printed.
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
    options = drain_options(
        workers=workers,
        max_messages=max_messages,
        max_seconds=max_seconds,
        until_empty=until_empty,
        keep_expired=keep_expired,
        rows_per_statement=rows_per_statement,
        bytes_per_statement=bytes_per_statement,
        rows_per_part=rows_per_part,
        bytes_per_part=bytes_per_part,
        seconds_per_part=seconds_per_part,
        inline_body_bytes=inline_body_bytes,
        settle_seconds=settle_seconds,
        readable_by=readable_by,
    )
    where = message_filter(message_type, from_endpoint, header, since, until)
    folder = None if staging is None else StagingFolder.of(staging)
    check_stage(stage, folder)
    client = connect(url, conn_id)
    queue = queue_address(client, queue, endpoint)
    queues = client.tables.with_secondary_queues(queue) if secondary else [queue]
    if batch_id is not None and not new:
        _require(client, queue, batch_id)
    filters = {"message_type": message_type, "from_endpoint": from_endpoint, "header": header}
    filters |= {"since": since, "until": until}
    command = _options(staging=staging, stage=stage, conn_id=conn_id, keep=keep, **_limits(options), **filters)
    request = DrainRequest(options=options, where=where, keep=keep, origin="sqlqueue drain")
    drained = [_drain(client, each, folder, stage, request, batch_id, command, quiet=as_json) for each in queues]
    if folder is not None and any(values["batch_id"] is None for values in drained):
        # Nothing was written there, and success would be taken for a folder that can be used.
        folder.check_reachable()
    shown = drained if as_json else [values if values["batch_id"] else _nothing(values) for values in drained]
    show(shown if secondary else shown[0], as_json=as_json)


def _nothing(values: dict[str, Any]) -> dict[str, Any]:
    """A drain that left no batch, for people."""
    return {name: values[name] for name in ("queue", "messages", "locked", "seconds")}


def _drain(
    client: QueueClient,
    queue_name: str,
    folder: StagingFolder | None,
    stage: str,
    request: DrainRequest,
    resumed: uuid.UUID | None,
    command: list[str],
    *,
    quiet: bool,
) -> dict[str, Any]:
    """Drain one queue; a batch that nobody named, and that holds nothing, does not stay."""
    queue, batch_id = client.queue(queue_name), resumed or uuid.uuid4()
    # By the ends of the index: a count of millions would take longer than the first parts.
    waiting = queue.depth(kind="quick")
    if not quiet and (waiting.total or resumed):
        stderr.print(f"Batch {batch_id}", markup=False, highlight=False)
    resume = ["sqlqueue", "drain", queue_name, *command, "--batch-id", str(batch_id)]
    with (
        explained(client, queue_name, batch_id, resume),
        client.batches.locks(queue_name) as locks,
        progress_bar("Draining", waiting.total) as update,
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
    if is_gone and not quiet:
        text = f"Nothing was drained from {result.batch.queue}, so no batch is left."
        stderr.print(text, markup=False, highlight=False)
    return {**values, "batch_id": None, "state": None} if is_gone else values


def _forget_empty(client: QueueClient, batch_id: uuid.UUID, queue_name: str) -> bool:
    """Whether the batch was empty and is forgotten. The drain is done: what stands in the way of this is no error."""
    with suppress(PermissionDeniedError, TransientError):
        return client.batches.forget_empty(batch_id, queue_name)
    return False


def _require(client: QueueClient, queue_name: str, batch_id: uuid.UUID) -> None:
    if client.batches.info(batch_id, queue_name) is None:
        raise BatchNotFoundError(
            f"The ledger does not know batch {batch_id}: check the id, or add --new to begin a batch with it."
        )


def _limits(options: DrainOptions) -> dict[str, Any]:
    """The limits that a resumed drain keeps: those that are not the default."""
    given = vars(options)
    return {field.name: given[field.name] for field in fields(options) if given[field.name] != field.default}


def _options(**values: Any) -> list[str]:
    """Options as one types them; those that were not given, and secrets, are not among them."""
    typed: list[str] = []
    for name, value in values.items():
        option = f"--{name.replace('_', '-')}"
        if isinstance(value, list):
            typed += [text for each in value for text in (option, each)]
        elif value not in (None, False, "files"):
            typed += [option, *([] if value is True else [f"{value}"])]
    return typed


def batches(
    url: Url = None,
    conn_id: ConnId = None,
    as_json: Json = False,
    state: Annotated[
        Optional[list[str]],
        typer.Option(help="open, sealed, consumed or requeued, any number of times."),
    ] = None,
    queue: Annotated[Optional[str], typer.Option(help="Only the batches of this queue.")] = None,
    older_than: Annotated[Optional[str], typer.Option(help="In their state for longer: 30m, 12h, 7d.")] = None,
) -> None:
    """List the batches with their age (how long they have been in their state) and size."""
    since = None if older_than is None else age("--older-than", older_than)
    found = connect(url, conn_id).batches.list(queue, states=state or (), older_than=since)
    records = [info.to_dict() for info in found]
    show(records if as_json else _lines(records), as_json=as_json)
    if not as_json:
        _notice(found, _OLD if since is None else since)


_OLD = timedelta(days=1)
_REMEDIES = {
    "open": "run the task of the batch again, resume it with 'sqlqueue drain <queue> --batch-id <id>', or end it with "
    "'sqlqueue abandon <id>'",
    "sealed": "clear the task of the batch, so that its job runs, or put it back with 'sqlqueue requeue <id>'",
}


def _notice(found: Sequence[BatchInfo], older_than: timedelta) -> None:
    """What to do about batches that nobody seems to come back for."""
    for state, remedy in _REMEDIES.items():
        old = [info for info in found if info.state == state and info.age >= older_than]
        if old:
            messages = sum(info.messages for info in old)
            what = "1 batch has" if len(old) == 1 else f"{len(old)} batches have"
            text = f"{what} been {state} for {older_than} or longer, with {messages:,} messages: {remedy}."
            stderr.print(text, markup=False, highlight=False)


def requeue(
    batch_id: Annotated[uuid.UUID, typer.Argument(help="A sealed batch.")],
    url: Url = None,
    conn_id: ConnId = None,
    as_json: Json = False,
    queue: QueueOption = None,
) -> None:
    """Put a sealed batch back into its queue: same ids, same order, in one transaction."""
    done = connect(url, conn_id).batches.requeue(batch_id, queue)
    show({**done.batch.to_dict(), "repeated": done.repeated}, as_json=as_json)


def abandon(
    batch_id: Annotated[uuid.UUID, typer.Argument(help="An open batch.")],
    url: Url = None,
    conn_id: ConnId = None,
    as_json: Json = False,
    queue: QueueOption = None,
) -> None:
    """End an open batch that nobody wants: seal it and put its messages back into their queue."""
    done = connect(url, conn_id).batches.abandon(batch_id, queue)
    show({**done.batch.to_dict(), "repeated": done.repeated}, as_json=as_json)


def sweep(
    staging: SweptFolder = None,
    url: Url = None,
    conn_id: ConnId = None,
    as_json: Json = False,
    queue: QueueOption = None,
    retain: Annotated[str, typer.Option(help="Keep a batch so long after it was consumed or requeued.")] = "7d",
    grace: Annotated[str, typer.Option(help="Keep orphans that are younger.")] = "1d",
    unknown: Annotated[
        bool, typer.Option("--unknown", help="Files of unknown batches too: no other database's ledger is in use here.")
    ] = False,
    forget_sent: Annotated[Optional[str], typer.Option(help="Forget sends that are older.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count what would be removed.")] = False,
) -> None:
    """Remove orphaned files, and batches past their retention; never what an open or sealed batch lists."""
    from airflow_sqlqueue.drain.sweep import SweepOptions

    forget = None if forget_sent is None else age("--forget-sent", forget_sent)
    options = SweepOptions(age("--retain", retain), age("--grace", grace), unknown, forget, dry_run)
    swept = asdict(connect(url, conn_id).batches.sweep(staging, queue, options))
    if not as_json:
        # Those are not removed.
        swept["left_of_unknown_batches"] = swept.pop("unknown")
        del swept["dry_run"]
    show(swept, as_json=as_json, title="Would be removed; nothing was yet" if dry_run else "Removed")


_TIMES = {"opened", "sealed", "consumed", "requeued"}
_RARE = ("expired", "quarantined", "kept")


def _lines(found: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Columns that fit a line of a table: of the times only the age, counts that are 0 throughout not at all.

    An origin ends with a map index only where its task was mapped.
    """
    hidden = _TIMES | {name for name in _RARE if not any(values[name] for values in found)}
    lines = [{name: value for name, value in values.items() if name not in hidden} for values in found]
    return [{**line, "origin": line["origin"].removesuffix(" -1")} for line in lines]
