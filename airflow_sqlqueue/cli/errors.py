"""Commands on error queues: errors, return; see failures.py for the others."""

from __future__ import annotations

from dataclasses import asdict
from shlex import join
from typing import Annotated, Any, Optional

import typer

from airflow_sqlqueue.cli.error_options import (
    AllMessages,
    ErrorFilterOptions,
    Rate,
    check_chosen,
    exit_if_missing,
    groups_or_one,
)
from airflow_sqlqueue.cli.message_options import read_body
from airflow_sqlqueue.cli.options import Common, DryRun, MaxMessages, MaxSeconds, QueueArgument
from airflow_sqlqueue.cli.output import progress_bar, stdout
from airflow_sqlqueue.client import QueueClient
from airflow_sqlqueue.errorqueue.editing import EditResult
from airflow_sqlqueue.errorqueue.filters import ErrorFilter
from airflow_sqlqueue.errorqueue.reasons import NO_DESTINATION, Reason
from airflow_sqlqueue.errorqueue.return_to_source import ReturnOptions, ReturnResult
from airflow_sqlqueue.errorqueue.scan import ShownError
from airflow_sqlqueue.errorqueue.triage import DEFAULT_KEYS, KEYS, MAX_SCANNED, Triage
from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.message import HeaderNames

_SHOWN = {
    HeaderNames.EXCEPTION_MESSAGE: "exception_message",
    HeaderNames.EXCEPTION_STACK_TRACE: "stack_trace",
}
"""Headers that are printed first, because people look for these."""


def errors(
    common: Common,
    selected: ErrorFilterOptions,
    queue: QueueArgument = "error",
    by: Annotated[Optional[list[str]], typer.Option(help=f"Group by one or several of: {', '.join(KEYS)}.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="Largest number of messages to read.")] = MAX_SCANNED,
    one: Annotated[Optional[str], typer.Option("--show", help="Show one message, by RowVersion or message id.")] = None,
    body: Annotated[bool, typer.Option("--body", help="With --show: print its body too, as text.")] = False,
    of_archive: Annotated[
        bool, typer.Option("--archived", help="Messages of the archive instead; --row-version is a number there.")
    ] = False,
) -> None:
    """Count failed messages in groups, or show one.

    Nothing is removed.
    """
    where = groups_or_one(selected, one=one, body=body, by=by)
    number = int(one) if one is not None and one.isdecimal() else None
    if of_archive and one is not None and number is None:
        raise ConfigurationError("With --archived, --show takes the number that a message has in the archive.")
    client = common.connect()
    if number is not None and of_archive:
        print_message(client.errors.archived.show(queue, number=number, with_body=body), common)
    elif one is not None:
        named = None if number is not None else one
        print_message(client.errors.show(queue, row_version=number, message_id=named, with_body=body), common)
    else:
        keys = by or (*DEFAULT_KEYS, *(["reason"] if of_archive else []))
        source = client.errors.archived if of_archive else client.errors
        found = source.triage(queue, by=keys, filters=where, limit=limit)
        command = ["errors", queue, *(["--archived"] if of_archive else [])]
        _print_groups(common, client.find(queue).canonical, found, command, limit)


def _print_groups(common: Common, address: str, found: Triage, command: list[str], limit: int) -> None:
    """Print groups of failed messages, and the command that shows an example."""
    if common.as_json:
        common.show({"queue": address, **found.to_dict()})
        return
    title = f"{address}: {found.matched:,} of {found.scanned:,} messages"
    common.show([group.to_dict() for group in found.groups], title=title)
    if found.groups:
        server = ["--conn-id", common.conn_id] if common.conn_id else []
        words = ["sqlqueue", *command, *server, "--show", str(found.groups[0].example)]
        stdout.print(f"\nAn example in full: {join(words)}", highlight=False, markup=False)
    if not found.complete:
        stdout.print(f"There are more: only the first {limit:,} were read (--limit).", highlight=False)


def print_message(shown: ShownError, common: Common) -> None:
    """Print a failed message with its headers, and its body if it was read."""
    record: dict[str, Any] = shown.message.to_dict()
    headers = dict(shown.envelope.headers)
    record["headers"] = shown.headers_text if shown.message.problem else headers
    if not common.as_json and not shown.message.problem:
        for name in _SHOWN:
            record[_SHOWN[name]] = headers.pop(name, None)
    if shown.body is not None:
        text = shown.envelope.text()
        record["body"] = shown.body.decode("utf-8", "replace") if text is None else text
    common.show(record)


def return_to_source(
    common: Common,
    selected: ErrorFilterOptions,
    queue: QueueArgument = "error",
    all_messages: AllMessages = False,
    redirect_to: Annotated[Optional[str], typer.Option(help="Send them to this queue instead.")] = None,
    malformed: Annotated[
        bool, typer.Option("--malformed", help="Redirect messages with malformed headers too, their text unchanged.")
    ] = False,
    rate: Rate = None,
    max_messages: MaxMessages = None,
    max_seconds: MaxSeconds = None,
    dry_run: DryRun = False,
    edit_body: Annotated[
        Optional[str], typer.Option(help="Send one message with this body instead: text, @FILE or -.")
    ] = None,
    edit_header: Annotated[
        Optional[list[str]], typer.Option(help="Send one message with NAME=VALUE, any number of times.")
    ] = None,
    keep_original: Annotated[
        bool, typer.Option("--keep-original", help="Keep the edited message in the error queue.")
    ] = False,
) -> None:
    """Return failed messages to the queues where they failed. Without a filter or --all nothing is returned.

    The exit code is 1 if a message that --row-version or --message-id names was not returned.
    """
    where = selected.filter()
    check_chosen(where, all_messages=all_messages)
    options = ReturnOptions(
        redirect_to=redirect_to,
        malformed=malformed,
        rate=rate,
        dry_run=dry_run,
        max_messages=max_messages,
        max_seconds=max_seconds,
    )
    client = common.connect()
    if edit_body is not None or edit_header:
        edited = _edit(client, queue, where, options, edit_body, edit_header or [], keep_original)
        common.show(asdict(edited))
        return
    if keep_original:
        raise ConfigurationError("--keep-original goes with --edit-body or --edit-header.")
    with progress_bar("Returning", None) as update:
        done = client.errors.return_to_source(
            queue,
            filters=where,
            all_messages=all_messages,
            options=options,
            on_progress=lambda done: update(done.messages),
        )
    address = client.find(queue).canonical
    if common.as_json:
        common.show({"queue": address, **done.to_dict()})
    else:
        _print_return(address, done, common, redirected=redirect_to is not None)
    exit_if_missing(where, done)


def _print_return(address: str, done: ReturnResult, common: Common, *, redirected: bool) -> None:
    """Print the returned messages, those that stay and the reasons, with the option that helps."""
    went, stays = ("would_return", "would_stay") if done.dry_run else ("returned", "left")
    values: dict[str, Any] = {
        went: [f"{messages:,} to {name}" for name, messages in done.returned.items()] or "nothing",
        stays: [f"{messages:,}: {reason}" for reason, messages in done.left.items()],
    }
    if done.unseen:
        values["locked_by_others"] = done.unseen
    common.show({**values, "seconds": round(done.seconds, 3)}, title=address)
    if not done.complete:
        stdout.print("A limit ended the return: there may be more.", highlight=False)
    if Reason.MALFORMED in done.left:
        stdout.print("Malformed messages name no queue: add --redirect-to QUEUE --malformed.", highlight=False)
    if NO_DESTINATION & done.left.keys() and not redirected:
        stdout.print("To send messages without a destination elsewhere, add --redirect-to QUEUE.", highlight=False)


def _edit(
    client: QueueClient,
    queue_name: str,
    where: ErrorFilter,
    options: ReturnOptions,
    body: str | None,
    headers: list[str],
    keep_original: bool,
) -> EditResult:
    if where != ErrorFilter(row_versions=where.row_versions) or options != ReturnOptions(
        redirect_to=options.redirect_to
    ):
        raise ConfigurationError("An edit takes --row-version, --redirect-to and --keep-original, nothing else.")
    if len(where.row_versions or ()) != 1:
        raise ConfigurationError("One message is edited at a time: name it by --row-version.")
    pairs = [pair.partition("=") for pair in headers]
    if wrong := next((name for name, equals, _ in pairs if not (name and equals)), None):
        raise ConfigurationError(f"--edit-header takes NAME=VALUE, not {wrong!r}.")
    return client.errors.edit(
        queue_name,
        row_version=min(where.row_versions or ()),
        body=None if body is None else read_body(body),
        headers={name: value for name, _, value in pairs},
        redirect_to=options.redirect_to,
        keep_original=keep_original,
    )


COMMANDS = (errors, return_to_source)
