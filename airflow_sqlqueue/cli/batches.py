"""Commands on batches: drain, batches, requeue, sweep."""

from __future__ import annotations

import uuid
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from airflow_sqlqueue.cli.options import ConnId, Json, Queue, SweptFolder, Url, age, connect
from airflow_sqlqueue.cli.output import progress_bar, show
from airflow_sqlqueue.errors import ConfigurationError

if TYPE_CHECKING:
    from airflow_sqlqueue.client import QueueClient
    from airflow_sqlqueue.drain.options import DrainOptions
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
    url: Url = None,
    conn_id: ConnId = None,
    as_json: Json = False,
    stage: Annotated[str, typer.Option(help="files, or table: a table beside the queue, without --staging.")] = "files",
    batch_id: Annotated[Optional[uuid.UUID], typer.Option(help="Resume this batch.")] = None,
    max_messages: Annotated[Optional[int], typer.Option(help="Stop after so many.")] = None,
    max_seconds: Annotated[Optional[float], typer.Option(help="Begin no part after so long.")] = None,
    until_empty: Annotated[
        bool, typer.Option("--until-empty", help="Go on until the queue is empty, past what is there now.")
    ] = False,
    keep_expired: Annotated[bool, typer.Option(help="Write expired messages too, flagged.")] = False,
    workers: Annotated[int, typer.Option(help="Threads at the most, each with a connection.")] = 2,
    secondary: Annotated[bool, typer.Option("--secondary", help="Its secondary queues too, a batch each.")] = False,
) -> None:
    """Drain the queue into a sealed batch: Parquet files, or rows of a table."""
    # Arrow takes longer to load than most commands take to run.
    from airflow_sqlqueue.drain.options import DrainOptions
    from airflow_sqlqueue.drain.stages.factory import check_stage
    from airflow_sqlqueue.drain.storage.folder import StagingFolder

    if secondary and batch_id is not None:
        raise ConfigurationError(
            "--secondary makes a batch for each queue: resume one by its own queue and --batch-id."
        )
    options = DrainOptions(
        workers=workers,
        max_messages=max_messages,
        max_seconds=max_seconds,
        until_empty=until_empty,
        keep_expired=keep_expired,
    )
    folder = None if staging is None else StagingFolder.of(staging)
    check_stage(stage, folder)
    client = connect(url, conn_id)
    queues = client.tables.with_secondary_queues(queue) if secondary else [queue]
    drained = [_drain(client, each, folder, stage, options, batch_id) for each in queues]
    show(drained if secondary else drained[0], as_json=as_json)


def _drain(
    client: QueueClient,
    queue_name: str,
    folder: StagingFolder | None,
    stage: str,
    options: DrainOptions,
    batch_id: uuid.UUID | None,
) -> dict[str, Any]:
    queue = client.queue(queue_name)
    # By the ends of the index: a count of millions would take longer than the first parts.
    waiting = queue.depth(kind="quick")
    with progress_bar("Draining", waiting.total) as update:
        result = queue.drain(
            folder,
            stage=stage,
            batch_id=batch_id,
            origin="sqlqueue drain",
            options=options,
            on_progress=lambda done: update(done.rows, f"{done.bytes / 2**20:,.0f} MiB, {done.rate:,.0f}/s"),
        )
    return {**result.batch.to_dict(), "locked": result.locked, "seconds": round(result.seconds, 3)}


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
    show([info.to_dict() if as_json else _line(info.to_dict()) for info in found], as_json=as_json)


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
    swept = connect(url, conn_id).batches.sweep(staging, queue, options)
    show(asdict(swept), as_json=as_json)


def _line(values: dict[str, Any]) -> dict[str, Any]:
    """What fits a line of a table: of the times only the age."""
    hidden = {"opened", "sealed", "consumed", "requeued"}
    return {name: value for name, value in values.items() if name not in hidden}
