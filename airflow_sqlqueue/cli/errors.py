"""Commands on failed messages: their groups, an edit, and one command for each action of the table."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import MISSING, asdict, field, fields, make_dataclass, replace
from shlex import join
from typing import Annotated, Any, Optional

import typer

from airflow_sqlqueue.cli.error_options import ErrorFilterOptions, WorkOptions
from airflow_sqlqueue.cli.message_options import read_body
from airflow_sqlqueue.cli.options import Common, QueueArgument, age
from airflow_sqlqueue.cli.output import progress_bar, stdout
from airflow_sqlqueue.errorqueue.actions import ACTIONS, Action
from airflow_sqlqueue.errorqueue.bulk_action import ErrorQueueOptions, ErrorQueueResult
from airflow_sqlqueue.errorqueue.effects import ActionInputs
from airflow_sqlqueue.errorqueue.filters import ErrorFilter
from airflow_sqlqueue.errorqueue.groupings import GROUPINGS
from airflow_sqlqueue.errorqueue.reasons import NO_DESTINATION, StayReason
from airflow_sqlqueue.errorqueue.scan import ShownError
from airflow_sqlqueue.errorqueue.triage import DEFAULT_KEYS, MAX_SCANNED, Triage
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
    by: Annotated[
        Optional[list[str]], typer.Option(help=f"Group by one or several of: {', '.join(GROUPINGS)}.")
    ] = None,
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
    where = selected.filter()
    if (body and one is None) or (one is not None and (by or not where.is_empty)):
        raise ConfigurationError("--show names one message, with or without --body; filters and --by are for groups.")
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


def edit(
    common: Common,
    queue: QueueArgument,
    row_version: Annotated[int, typer.Option(help="The row of the message.")],
    body: Annotated[Optional[str], typer.Option(help="The new body: text, @FILE or -.")] = None,
    header: Annotated[
        Optional[list[str]], typer.Option(help="A header to replace or add, NAME=VALUE, any number of times.")
    ] = None,
    to_queue: Annotated[
        Optional[str], typer.Option(help="Send it to this queue instead of the one where it failed.")
    ] = None,
    keep_original: Annotated[
        bool, typer.Option("--keep-original", help="Keep the message in the error queue.")
    ] = False,
) -> None:
    """Replace a failed message by an edited copy.

    The copy goes to the queue where the message failed. Both happen in one transaction.
    """
    pairs = [pair.partition("=") for pair in header or ()]
    if wrong := next((name for name, equals, _ in pairs if not (name and equals)), None):
        raise ConfigurationError(f"--header takes NAME=VALUE, not {wrong!r}.")
    edited = common.connect().errors.edit(
        queue,
        row_version=row_version,
        body=None if body is None else read_body(body),
        headers={name: value for name, _, value in pairs},
        to_queue=to_queue,
        keep_original=keep_original,
    )
    common.show(asdict(edited))


_INPUTS: dict[str, Any] = {
    "to_queue": Annotated[str, typer.Argument(help="The address of the queue that receives them.")],
    "malformed": Annotated[
        bool, typer.Option("--malformed", help="Also messages with malformed headers, their text unchanged.")
    ],
    "reason": Annotated[str, typer.Option(help="The reason, at most 500 characters; the archive keeps it.")],
    "older_than": Annotated[Optional[str], typer.Option(help="Archived longer ago than this: 90s, 30m, 12h, 7d.")],
    "confirm": Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before messages are lost.")],
}
"""Inputs of actions as options; the archive keeps the account of this process for ``by``."""


_HELP = """Without a filter or --all nothing is done. The exit code is 1 if a message that --row-version or --message-id
names stays."""


def command_of(action: Action) -> Callable[..., None]:
    """Make the command of an action, with an option for each of its inputs."""
    kinds = {"queue": QueueArgument} | {name: kind for name, kind in _INPUTS.items() if name in action.input_names}
    defaults = {"queue": "error"} | {each.name: each.default for each in fields(ActionInputs)}
    if "to_queue" in kinds:
        defaults |= dict.fromkeys(("queue", "to_queue"), MISSING)
    inputs = [(name, kind, field(default=defaults[name])) for name, kind in kinds.items()]

    def command(
        common: Common, selected: ErrorFilterOptions, options: ErrorQueueOptions, work: WorkOptions, given: Any
    ) -> None:
        by_age = getattr(given, "older_than", None) is not None
        where, options = selected.chosen(work, by_age=by_age), replace(options, dry_run=work.dry_run)
        _act(common, action, where, options, {"all_messages": work.all_messages, **vars(given)})

    command.__annotations__["given"] = make_dataclass("Inputs", inputs, kw_only=True)
    command.__name__, command.__doc__ = action.name, f"{action.about}\n\n{_HELP}"
    return command


def _act(common: Common, action: Action, where: ErrorFilter, options: ErrorQueueOptions, given: dict[str, Any]) -> None:
    """Ask where messages would be lost, do the action, and print the result."""
    queue = given.pop("queue")
    if given.get("older_than") is not None:
        given["older_than"] = age("--older-than", given["older_than"])
    if action.loses_messages and not (given["confirm"] or options.dry_run):
        if common.as_json or not sys.stdin.isatty():
            raise ConfigurationError(
                "This deletes messages for good: give --yes to confirm it, or --dry-run to count them."
            )
        given["confirm"] = typer.confirm(f"{action.about[:-1]}, in {queue}?", err=True, abort=True)
    client = common.connect()
    with progress_bar(action.doing, None) as update:
        done = client.errors.act(
            action.name,
            queue,
            filters=where,
            options=options,
            on_progress=lambda done: update(done.messages),
            **given,
        )
    _print(common, client.find(queue).canonical, action, done)
    named = len(where.row_versions or ()) + len(where.message_ids or ())
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
