"""Command that drains a queue into a batch, and reports an interrupted drain with the command that resumes it."""

from __future__ import annotations

import logging
import signal
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime
from shlex import join
from typing import TYPE_CHECKING, Any

import typer

from airflow_sqlqueue.cli.commands import words_of
from airflow_sqlqueue.cli.options import BY_BEGINNING, FilterOptions, QueueOptions
from airflow_sqlqueue.cli.output import note, progress_bar
from airflow_sqlqueue.cli.redaction import KEY_VARIABLE, redactor_of
from airflow_sqlqueue.cli.signals import on_signals
from airflow_sqlqueue.drain.options import DrainOptions
from airflow_sqlqueue.endpoint.databus.options import PayloadOptions
from airflow_sqlqueue.errors import (
    BatchError,
    BatchNotFoundError,
    ConfigurationError,
    PermissionDeniedError,
    SqlQueueError,
    TransientError,
)
from airflow_sqlqueue.options import option
from airflow_sqlqueue.options.budget import count_of
from airflow_sqlqueue.options.secondary import secondary as secondary_queues

if TYPE_CHECKING:
    from airflow_sqlqueue.client.client import QueueClient
    from airflow_sqlqueue.drain.manifest import Batch
    from airflow_sqlqueue.drain.request import DrainRequest
    from airflow_sqlqueue.drain.storage.folder import StagingFolder
    from airflow_sqlqueue.endpoint.databus.payload_file import PayloadsResult

    PayloadFetch = Callable[[QueueClient, Batch], PayloadsResult]


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
    batch_id: str | None = option(None, f"resume this batch: {BY_BEGINNING}"),
    new: bool = option(False, "begin the batch of --batch-id if the ledger does not know it"),
    copy: bool = option(False, "copy the messages and leave them in the queue"),
    incremental: str | None = option(
        None, "with --copy, copy only messages that no earlier drain with this name has copied", metavar="NAME"
    ),
    redaction: str | None = option(None, f"a JSON file of rules for private data; {KEY_VARIABLE} is the hashes' key"),
    secondary: bool = secondary_queues("drain, each into its own batch,"),
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
    named = None if batch_id is None else client.batches.named(batch_id, queue)
    if named is not None and not new and client.batches.info(named, queue) is None:
        raise BatchNotFoundError(
            f"The ledger does not know batch {named}: check the id, or add --new to begin a batch with it."
        )
    own = {"staging": staging, "stage": stage, "conn_id": target.conn_id, "copy": copy}
    own |= {"incremental": incremental, "redaction": redaction, "data_bus": data_bus}
    command = [*_options({**own, **vars(selected)}), *words_of(options), *words_of(payloads)]
    request = DrainRequest(
        options=options, where=where, copy=copy, incremental=incremental, redaction=redactor, origin="sqlqueue drain"
    )
    quiet = target.for_programs
    drained: list[dict[str, Any]] = []
    try:
        for each in queues:
            drained.append(_drain(client, each, folder, stage, request, named, command, fetch, quiet=quiet))
    except BaseException:
        for values in drained:
            if values["batch_id"] is not None:
                messages = count_of(values["messages"], "message")
                note(f"Batch {values['batch_id']} of {values['queue']} is sealed and has {messages}.")
        raise
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
    # An erasure leaves a locked batch: it would search no payload that is fetched later.
    with client.batches.locks(queue_name) as locks:
        with (
            explained(client, queue_name, batch_id, resume),
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


def _options(values: dict[str, Any]) -> list[str]:
    """Options as a user types them, without those that were not given."""
    typed: list[str] = []
    for name, value in values.items():
        option = f"--{name.replace('_', '-')}"
        if isinstance(value, list):
            typed += [text for each in value for text in (option, each)]
        elif value not in (None, False, "files"):
            shown = value.isoformat() if isinstance(value, datetime) else f"{value}"
            typed += [option, *([] if value is True else [shown])]
    return typed


class InterruptedDrainError(BaseException):
    """A signal arrived. Not an Exception, like KeyboardInterrupt, so that handlers of errors let it pass."""


@contextmanager
def explained(client: QueueClient, queue_name: str, batch_id: uuid.UUID, command: Sequence[str]) -> Iterator[None]:
    """Report what is in the batch and which command resumes it, when the block ends early.

    Ctrl-C ends the command with exit code 130, SIGTERM with 143; a second signal ends it at once.
    """
    received: list[int] = []
    numbers = (signal.SIGINT, signal.SIGTERM)

    def stop(number: int, _: Any) -> None:
        received.append(number)
        for each in numbers:
            signal.signal(each, signal.SIG_DFL)
        # The driver reports an interrupted system call as an error, and the workers would log that.
        logging.disable()
        raise InterruptedDrainError

    with on_signals(stop, *numbers):
        try:
            yield
        except BaseException:
            _explain(client, queue_name, batch_id, command, interrupted=bool(received))
            if received:
                raise typer.Exit(128 + received[0]) from None
            raise


def _explain(
    client: QueueClient, queue_name: str, batch_id: uuid.UUID, command: Sequence[str], *, interrupted: bool
) -> None:
    resume = f"Resume it with: {join(command)}"
    beginning = "Interrupted. " if interrupted else ""
    try:
        info = client.batches.info(batch_id, queue_name)
    except SqlQueueError:
        note(f"{beginning}The ledger cannot be reached to see what is in batch {batch_id}. {resume}")
        return
    if info is not None and info.state != "open":
        note(
            f"{beginning}Batch {batch_id} is {info.state} and has {count_of(info.messages, 'message')}: leave "
            "--batch-id out to drain into a new one."
        )
    elif info is not None:
        note(
            f"{beginning}Batch {batch_id} is {info.state} and has {count_of(info.messages, 'message')} in "
            f"{count_of(info.parts, 'part')}; all others are in the queue. {resume}"
        )
    elif interrupted:
        note(f"{beginning}Batch {batch_id} was not opened: all messages are in the queue.")


COMMANDS = (drain,)
