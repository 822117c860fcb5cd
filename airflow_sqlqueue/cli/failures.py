"""Commands on failed messages: archive, archived, restore, park, delete."""

from __future__ import annotations

import sys
from typing import Annotated, Any, Optional

import typer

from airflow_sqlqueue.cli.error_options import ErrorFilterOptions, WorkOptions, check_chosen, exit_if_missing
from airflow_sqlqueue.cli.errors import print_groups, print_message
from airflow_sqlqueue.cli.options import Common, QueueArgument, age
from airflow_sqlqueue.cli.output import progress_bar, stdout
from airflow_sqlqueue.errorqueue.chunked_work import ErrorQueueResult
from airflow_sqlqueue.errorqueue.triage import DEFAULT_KEYS, KEYS, MAX_SCANNED
from airflow_sqlqueue.errors import ConfigurationError


def archive(
    common: Common,
    selected: ErrorFilterOptions,
    work: WorkOptions,
    queue: QueueArgument = "error",
    reason: Annotated[str, typer.Option(help="The reason, at most 500 characters; the archive keeps it.")] = "",
) -> None:
    """Move failed messages into the archive, with your account, the time and a reason; 'restore' puts them back."""
    where = selected.filter()
    check_chosen(where, all_messages=work.all_messages)
    client = common.connect()
    with progress_bar("Archiving", None) as update:
        done = client.errors.archive(
            queue,
            filters=where,
            all_messages=work.all_messages,
            reason=reason,
            options=work.options(),
            on_progress=lambda done: update(done.messages),
        )
    _print(common, client.find(queue).canonical, "archived", done)
    exit_if_missing(where, done)


def archived(
    common: Common,
    selected: ErrorFilterOptions,
    queue: QueueArgument = "error",
    by: Annotated[Optional[list[str]], typer.Option(help=f"Group by one or several of: {', '.join(KEYS)}.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="Largest number of messages to read.")] = MAX_SCANNED,
    one: Annotated[Optional[int], typer.Option("--show", help="Show one message, by its number.")] = None,
    body: Annotated[bool, typer.Option("--body", help="With --show: print its body too, as text.")] = False,
) -> None:
    """Count archived messages in groups, or show one; --row-version is the number of a message in the archive."""
    where = selected.filter()
    if (body and one is None) or (one is not None and (by or not where.is_empty)):
        raise ConfigurationError("--show names one message, with or without --body; filters and --by are for groups.")
    client = common.connect()
    if one is not None:
        print_message(client.errors.archived.show(queue, number=one, with_body=body), common)
        return
    found = client.errors.archived.triage(queue, by=by or (*DEFAULT_KEYS, "reason"), filters=where, limit=limit)
    print_groups(common, client.find(queue).canonical, found, ["archived", queue], limit)


def restore(common: Common, selected: ErrorFilterOptions, work: WorkOptions, queue: QueueArgument = "error") -> None:
    """Put archived messages back into their error queue; --row-version is a message's number in the archive."""
    where = selected.filter()
    check_chosen(where, all_messages=work.all_messages)
    client = common.connect()
    with progress_bar("Restoring", None) as update:
        done = client.errors.archived.restore(
            queue,
            filters=where,
            all_messages=work.all_messages,
            options=work.options(),
            on_progress=lambda done: update(done.messages),
        )
    _print(common, client.find(queue).canonical, "restored", done)
    exit_if_missing(where, done)


def park(
    common: Common,
    selected: ErrorFilterOptions,
    work: WorkOptions,
    queue: Annotated[str, typer.Argument(help="The address of the error queue.")],
    to_queue: Annotated[str, typer.Argument(help="The address of the queue that receives them.")],
) -> None:
    """Move failed messages to another queue, with the headers of the failure."""
    where = selected.filter()
    check_chosen(where, all_messages=work.all_messages)
    client = common.connect()
    with progress_bar("Parking", None) as update:
        done = client.errors.park(
            to_queue,
            queue,
            filters=where,
            all_messages=work.all_messages,
            options=work.options(),
            on_progress=lambda done: update(done.messages),
        )
    _print(common, client.find(queue).canonical, "parked", done)
    exit_if_missing(where, done)


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
    where = selected.filter()
    least = None if older_than is None else age("--older-than", older_than)
    if least is not None and not of_archive:
        raise ConfigurationError("--older-than goes with --archived: for an error queue give --until.")
    if least is None or work.all_messages or not where.is_empty:
        check_chosen(where, all_messages=work.all_messages)
    what = "archived messages" if of_archive else "failed messages"
    if not (yes or work.dry_run or common.as_json) and sys.stdin.isatty():
        yes = typer.confirm(f"Delete {what} of {queue} for good?", err=True, abort=True)
    if not (yes or work.dry_run):
        raise ConfigurationError(
            "This deletes messages for good: give --yes to confirm it, or --dry-run to count them."
        )
    client = common.connect()
    with progress_bar("Deleting", None) as update:
        given: dict[str, Any] = {
            "filters": where,
            "all_messages": work.all_messages,
            "confirm": yes,
            "options": work.options(),
            "on_progress": lambda done: update(done.messages),
        }
        if of_archive:
            done = client.errors.archived.delete(queue, older_than=least, **given)
        else:
            done = client.errors.delete(queue, **given)
    _print(common, client.find(queue).canonical, "deleted", done)
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


COMMANDS = (archive, archived, restore, park, delete)
