"""Commands on failed messages: their groups, an edit, and one command for each action of the table."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import asdict, fields, replace
from inspect import Parameter, Signature, signature
from shlex import join
from typing import Annotated, Any, get_type_hints

import typer

from airflow_sqlqueue.cli.options import Common, DryRun, ListOptions, QueueArgument, header_values, read_body
from airflow_sqlqueue.cli.output import note, progress_bar, stdout, told_so_far
from airflow_sqlqueue.client.errors import ArchiveManager, ErrorManager
from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.messages.message import HeaderNames
from airflow_sqlqueue.options import option, option_of
from airflow_sqlqueue.queue.errors.actions import ACTIONS, Action
from airflow_sqlqueue.queue.errors.bulk_action import ErrorQueueOptions, ErrorQueueResult
from airflow_sqlqueue.queue.errors.effects import ActionInputs
from airflow_sqlqueue.queue.errors.filters import ErrorFilter
from airflow_sqlqueue.queue.errors.groupings import GROUPINGS
from airflow_sqlqueue.queue.errors.reasons import NO_DESTINATION, StayReason
from airflow_sqlqueue.queue.errors.scan import ShownError
from airflow_sqlqueue.queue.errors.triage import DEFAULT_KEYS, MAX_SCANNED, Triage

_BY = option(None, f"group by one or several of: {', '.join(GROUPINGS)}")
_LONGEST_NUMBER = 30
"""Digits of the longest text that is read as a number, which is longer than any on a server."""

_SHOWN = {HeaderNames.EXCEPTION_MESSAGE: "exception_message", HeaderNames.EXCEPTION_STACK_TRACE: "stack_trace"}
"""Headers that are printed first, because people look for these."""


def errors(
    common: ListOptions,
    where: ErrorFilter,
    queue: QueueArgument = "error",
    by: list[str] | None = _BY,
    limit: Annotated[int, typer.Option(min=1, help="Largest number of messages to read.")] = MAX_SCANNED,
    one: str | None = option(
        None, "show one message, by its RowVersion or by the beginning of its message id", form="--show"
    ),
    body: bool = option(False, "with --show: print its body too, as text"),
    of_archive: bool = option(
        False, "messages of the archive instead; --row-version is a number there", form="--archived"
    ),
) -> None:
    """Count failed messages in groups, or show one.

    Nothing is removed. Of a message id the first characters are enough, if no other id begins with them.
    """
    if (body and one is None) or (one is not None and (by or not where.is_empty)):
        raise ConfigurationError("--show names one message, with or without --body; filters and --by are for groups.")
    number = int(one) if one is not None and one.isdecimal() and len(one) <= _LONGEST_NUMBER else None
    if of_archive and one is not None and number is None:
        raise ConfigurationError("With --archived, --show takes the number that a message has in the archive.")
    client = common.connect()
    source = client.errors.archived if of_archive else client.errors
    if number is not None and of_archive:
        print_message(client.errors.archived.show(queue, number=number, with_body=body), common)
    elif one is not None:
        named = next(iter(client.errors.message_ids([one], queue))) if number is None else None
        print_message(client.errors.show(queue, row_version=number, message_id=named, with_body=body), common)
    else:
        keys = by or (*DEFAULT_KEYS, *(["reason"] if of_archive else []))
        where = with_whole_ids(where, source, queue)
        found = source.triage(queue, by=keys, filters=where, limit=limit)
        command = ["errors", queue, *(["--archived"] if of_archive else [])]
        _print_groups(common, client.find(queue).canonical, found, command, limit)


def with_whole_ids(where: ErrorFilter, source: ErrorManager | ArchiveManager, queue: str) -> ErrorFilter:
    """Return the filter with message ids in the place of their beginnings."""
    ids = where.message_ids
    return replace(where, message_ids=source.message_ids(ids, queue)) if ids else where


def _print_groups(common: Common, address: str, found: Triage, command: list[str], limit: int) -> None:
    """Print groups of failed messages, and the command that shows an example."""
    groups = [group.to_dict() for group in found.groups]
    if common.for_programs:
        whole = {name: value for name, value in found.to_dict().items() if name != "groups"}
        common.show(groups, whole={"queue": address, **whole})
        if common.as_csv and not found.complete:
            note(f"There are more: only the first {limit:,} were read (--limit).")
        return
    title = f"{address}: {found.matched:,} of {found.scanned:,} messages"
    common.show(groups, title=title)
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
    if not common.for_programs and not shown.message.problem:
        record |= {shown: headers.pop(name, None) for name, shown in _SHOWN.items()}
    if shown.body is not None:
        text = shown.envelope.text()
        record["body"] = shown.body.decode("utf-8", "replace") if text is None else text
    common.show(record)


def edit(
    common: Common,
    queue: QueueArgument,
    row_version: Annotated[int, typer.Option(help="The row of the message.")],
    body: str | None = option(None, "the new body: text, @FILE or -"),
    header: list[str] | None = option(None, "a header to replace or add, NAME=VALUE, any number of times"),
    to_queue: str | None = option(None, "send it to this queue instead of the one where it failed"),
    keep_original: bool = option(False, "keep the message in the error queue"),
) -> None:
    """Replace a failed message by an edited copy.

    The copy goes to the queue where the message failed. Both happen in one transaction.
    """
    headers = header_values(header)
    edited = common.connect().errors.edit(
        queue,
        row_version=row_version,
        body=None if body is None else read_body(body),
        headers=headers,
        to_queue=to_queue,
        keep_original=keep_original,
    )
    common.show(asdict(edited))


_TO_QUEUE = Annotated[str, typer.Argument(help="The address of the queue that receives them.")]
_YES = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before messages are lost.")]

_HELP = """Without a filter or --all nothing is done. The exit code is 1 if a message that --row-version or --message-id
names stays. Of a message id the first characters are enough, if no other id begins with them."""


def command_of(action: Action) -> Callable[..., None]:
    """Make the command of an action, with an argument or an option for each of its inputs."""

    def command(
        common: Common,
        where: ErrorFilter,
        limits: ErrorQueueOptions,
        all_messages: bool = option(False, "every message; not with a filter", form="--all"),
        dry_run: DryRun = False,
        **given: Any,
    ) -> None:
        _act(common, action, where, all_messages, replace(limits, dry_run=dry_run), **given)

    def own(name: str, annotation: Any, default: Any = Parameter.empty) -> Parameter:
        return Parameter(name, Parameter.KEYWORD_ONLY, annotation=annotation, default=default)

    needs_queue = "to_queue" in action.needs
    inputs = [own("queue", QueueArgument, Parameter.empty if needs_queue else "error")]
    inputs += [own("to_queue", _TO_QUEUE)] if needs_queue else []
    kinds = get_type_hints(ActionInputs)
    inputs += [
        own(each.name, kinds[each.name], each)
        for each in fields(ActionInputs)
        if each.name in action.input_names and option_of(each).flag is not None
    ]
    inputs += [own("confirm", _YES, False)] if action.loses_messages else []
    *common_ones, _ = signature(command).parameters.values()
    command.__signature__ = Signature([*common_ones, *inputs])  # type: ignore[attr-defined]
    command.__annotations__ |= {each.name: each.annotation for each in inputs}
    command.__name__, command.__doc__ = action.name, f"{action.about}\n\n{_HELP}"
    return command


def _act(
    common: Common,
    action: Action,
    where: ErrorFilter,
    all_messages: bool,
    options: ErrorQueueOptions,
    *,
    queue: str,
    **given: Any,
) -> None:
    """Ask where messages would be lost, do the action, and print the result."""
    if where.is_empty != all_messages and given.get("older_than") is None:
        raise ConfigurationError(
            "Select the messages by a filter, as --row-version or --kind, or by --all: one of the two."
        )
    if action.loses_messages and not (given["confirm"] or options.dry_run):
        if common.as_json or not sys.stdin.isatty():
            raise ConfigurationError(
                "This deletes messages for good: give --yes to confirm it, or --dry-run to count them."
            )
        given["confirm"] = typer.confirm(f"{action.about[:-1]}, in {queue}?", err=True, abort=True)
    client = common.connect()
    where = with_whole_ids(where, client.errors.archived if action.archived else client.errors, queue)
    went = "counted" if options.dry_run else action.done
    with told_so_far(went, "stayed") as told, progress_bar(action.label, None) as update:

        def on_progress(done: ErrorQueueResult) -> None:
            update(done.messages)
            told(done.messages)

        done = client.errors.act(
            action.name,
            queue,
            filters=where,
            all_messages=all_messages,
            options=options,
            on_progress=on_progress,
            **given,
        )
    _print(common, client.find(queue).canonical, action, done)
    # A message of both is one of these rows, and an id of several rows names them all.
    named = len(where.row_versions or where.message_ids or ())
    if named and done.complete and (done.left or done.messages < named):
        raise typer.Exit(1)


def _print(common: Common, address: str, action: Action, done: ErrorQueueResult) -> None:
    """Print the counts, those of messages that stay with the reasons, and the command that moves these."""
    if common.as_json:
        common.show({"queue": address, **done.to_dict()})
        return
    went, stays = (f"would be {action.done}", "would stay") if done.dry_run else (action.done, "left")
    values: dict[str, Any] = {
        went: [f"{messages:,} to {name}" for name, messages in done.destinations.items()] or done.messages,
        stays: [f"{messages:,}: {reason}" for reason, messages in done.left.items()],
    }
    if done.unseen:
        values["locked_by_others"] = done.unseen
    common.show({**values, "seconds": round(done.seconds, 3)}, title=address)
    if not done.complete:
        stdout.print("A limit ended the work: there may be more.", highlight=False)
    if "to_queue" not in action.input_names and NO_DESTINATION & done.left.keys():
        stdout.print("The command redirect sends these to a queue that you name.", highlight=False)
    if "malformed" not in action.input_names and StayReason.MALFORMED in done.left:
        stdout.print("Malformed messages name no queue: use redirect --malformed.", highlight=False)


COMMANDS: tuple[Callable[..., None], ...] = (errors, edit, *map(command_of, ACTIONS.values()))
