"""Commands on failed messages: archive, restore, park, delete."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Annotated, Any, Optional

import typer

from airflow_sqlqueue.cli.error_options import ErrorFilterOptions, WorkOptions, chosen, exit_if_missing
from airflow_sqlqueue.cli.options import Common, QueueArgument, age
from airflow_sqlqueue.cli.output import progress_bar, stdout
from airflow_sqlqueue.client import QueueClient
from airflow_sqlqueue.errorqueue.chunked_work import ErrorQueueResult
from airflow_sqlqueue.errorqueue.filters import ErrorFilter
from airflow_sqlqueue.errors import ConfigurationError


def archive(
    common: Common,
    selected: ErrorFilterOptions,
    work: WorkOptions,
    queue: QueueArgument = "error",
    reason: Annotated[str, typer.Option(help="The reason, at most 500 characters; the archive keeps it.")] = "",
) -> None:
    """Move failed messages into the archive, with a reason.

    The archive also keeps the time and your account. The command restore puts messages back.
    """
    where = chosen(selected, work)
    _run(
        common,
        queue,
        where,
        work,
        "archived",
        lambda client, given: client.errors.archive(queue, reason=reason, **given),
    )


def restore(common: Common, selected: ErrorFilterOptions, work: WorkOptions, queue: QueueArgument = "error") -> None:
    """Put archived messages back into their error queue.

    --row-version is a message's number in the archive.
    """
    where = chosen(selected, work)
    _run(common, queue, where, work, "restored", lambda client, given: client.errors.archived.restore(queue, **given))


def park(
    common: Common,
    selected: ErrorFilterOptions,
    work: WorkOptions,
    queue: Annotated[str, typer.Argument(help="The address of the error queue.")],
    to_queue: Annotated[str, typer.Argument(help="The address of the queue that receives them.")],
) -> None:
    """Move failed messages to another queue.

    They keep the headers of the failure.
    """
    where = chosen(selected, work)
    _run(common, queue, where, work, "parked", lambda client, given: client.errors.park(to_queue, queue, **given))


def delete(
    common: Common,
    selected: ErrorFilterOptions,
    work: WorkOptions,
    queue: QueueArgument = "error",
    of_archive: Annotated[bool, typer.Option("--archived", help="Delete messages of the archive instead.")] = False,
    older_than: Annotated[
        Optional[str], typer.Option(help="With --archived: archived longer ago than this: 90s, 30m, 12h, 7d.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before messages are lost.")] = False,
) -> None:
    """Delete failed messages, or archived ones, for good."""
    least = None if older_than is None else age("--older-than", older_than)
    if least is not None and not of_archive:
        raise ConfigurationError("--older-than goes with --archived: for an error queue give --until.")
    where = selected.filter() if least is not None and not work.all_messages else chosen(selected, work)
    what = "archived messages" if of_archive else "failed messages"
    if not (yes or work.dry_run or common.as_json) and sys.stdin.isatty():
        yes = typer.confirm(f"Delete {what} of {queue} for good?", err=True, abort=True)
    if not (yes or work.dry_run):
        raise ConfigurationError(
            "This deletes messages for good: give --yes to confirm it, or --dry-run to count them."
        )

    def call(client: QueueClient, given: dict[str, Any]) -> ErrorQueueResult:
        if of_archive:
            return client.errors.archived.delete(queue, older_than=least, confirm=yes, **given)
        return client.errors.delete(queue, confirm=yes, **given)

    _run(common, queue, where, work, "deleted", call)


def _run(
    common: Common,
    queue: str,
    where: ErrorFilter,
    work: WorkOptions,
    went: str,
    call: Callable[[QueueClient, dict[str, Any]], ErrorQueueResult],
) -> None:
    """Call the client with the arguments of all commands, and print the result; ``went`` is a participle."""
    client = common.connect()
    with progress_bar(went.capitalize(), None) as update:
        given = {
            "filters": where,
            "all_messages": work.all_messages,
            "options": work.options(),
            "on_progress": lambda done: update(done.messages),
        }
        done = call(client, given)
    _print(common, client.find(queue).canonical, went, done)
    exit_if_missing(where, done)


def _print(common: Common, address: str, went: str, done: ErrorQueueResult) -> None:
    if common.as_json:
        common.show({"queue": address, **done.to_dict()})
        return
    values: dict[str, Any] = {
        f"would_be_{went}" if done.dry_run else went: done.messages,
        "would_stay" if done.dry_run else "left": [f"{messages:,}: {reason}" for reason, messages in done.left.items()],
    }
    if done.unseen:
        values["locked_by_others"] = done.unseen
    common.show({**values, "seconds": round(done.seconds, 3)}, title=address)
    if not done.complete:
        stdout.print("A limit ended the work: there may be more.", highlight=False)


COMMANDS = (archive, restore, park, delete)
