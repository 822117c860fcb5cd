"""Commands on error queues: errors, return."""

from __future__ import annotations

from dataclasses import asdict, fields
from shlex import join
from typing import Annotated, Any, Optional

import typer

from airflow_sqlqueue.cli.message_options import read_body
from airflow_sqlqueue.cli.options import ConnId, Json, Queue, Url, connect
from airflow_sqlqueue.cli.output import progress_bar, show, stdout
from airflow_sqlqueue.client import QueueClient
from airflow_sqlqueue.errorqueue.destinations import NO_DESTINATION, Reason
from airflow_sqlqueue.errorqueue.editing import EditResult
from airflow_sqlqueue.errorqueue.failed_message import KINDS
from airflow_sqlqueue.errorqueue.filters import ErrorFilter
from airflow_sqlqueue.errorqueue.return_to_source import ReturnOptions, ReturnResult
from airflow_sqlqueue.errorqueue.scan import ShownError
from airflow_sqlqueue.errorqueue.triage import DEFAULT_KEYS, KEYS, MAX_SCANNED
from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.message import HeaderNames

# typer reads the annotations at run time, on Python 3.10 too.
_Text = Optional[str]
_Texts = Optional[list[str]]
_Numbers = Optional[list[int]]
_Number = Optional[float]
_Count = Optional[int]

ExceptionType = Annotated[_Text, typer.Option(help="Only this exception type, in full; '' for none.")]
MessageType = Annotated[_Text, typer.Option(help="Only this message type, in full, without its assembly.")]
Endpoint = Annotated[_Text, typer.Option(help="Only what this endpoint failed to handle.")]
FailedQueue = Annotated[_Text, typer.Option(help="Only what failed in this queue: its address, or its table alone.")]
Kind = Annotated[_Text, typer.Option(help=f"Only one of: {', '.join(KINDS)}.")]
Since = Annotated[_Text, typer.Option(help="Only what failed at this time or later, as 2026-01-31T08:00:00Z.")]
Until = Annotated[_Text, typer.Option(help="Only what failed before this time.")]
MessageIds = Annotated[_Texts, typer.Option("--message-id", help="Only this message id; any number of times.")]
RowVersions = Annotated[_Numbers, typer.Option("--row-version", help="Only this row; any number of times.")]


_SHOWN = {
    HeaderNames.EXCEPTION_MESSAGE: "exception_message",
    HeaderNames.EXCEPTION_STACK_TRACE: "stack_trace",
}
"""Headers that stand by themselves, because they are what people look for."""


def errors(
    context: typer.Context,
    queue: Queue = "error",
    url: Url = None,
    conn_id: ConnId = None,
    as_json: Json = False,
    exception_type: ExceptionType = None,
    message_type: MessageType = None,
    endpoint: Endpoint = None,
    failed_queue: FailedQueue = None,
    kind: Kind = None,
    since: Since = None,
    until: Until = None,
    message_ids: MessageIds = None,
    row_versions: RowVersions = None,
    by: Annotated[_Texts, typer.Option(help=f"Group by one or several of: {', '.join(KEYS)}.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="Look at so many messages at the most.")] = MAX_SCANNED,
    one: Annotated[_Text, typer.Option("--show", help="Show one message, by RowVersion or message id.")] = None,
    body: Annotated[bool, typer.Option("--body", help="With --show: its body too, as text.")] = False,
) -> None:
    """Count what failed, in groups, or show one message; nothing is removed."""
    where = _filter(context)
    if (body and one is None) or (one is not None and (by or not where.is_empty)):
        raise ConfigurationError("--show names one message, with or without --body; filters and --by are for groups.")
    client = connect(url, conn_id)
    if one is not None:
        number = int(one) if one.isdecimal() else None
        named = None if number is not None else one
        shown = client.errors.show(queue, row_version=number, message_id=named, with_body=body)
        _print_message(shown, as_json)
        return
    found = client.errors.triage(queue, by=by or DEFAULT_KEYS, filters=where, limit=limit)
    address = client.find(queue).canonical
    if as_json:
        show({"queue": address, **found.to_dict()}, as_json=True)
        return
    title = f"{address}: {found.matched:,} of {found.scanned:,} messages"
    show([group.to_dict() for group in found.groups], as_json=False, title=title)
    if found.groups:
        server = ["--conn-id", conn_id] if conn_id else []
        command = ["sqlqueue", "errors", queue, *server, "--show", str(found.groups[0].example)]
        stdout.print(f"\nAn example in full: {join(command)}", highlight=False, markup=False)
    if not found.complete:
        stdout.print(f"There are more: only the first {limit:,} were looked at (--limit).", highlight=False)


def _print_message(shown: ShownError, as_json: bool) -> None:
    record: dict[str, Any] = shown.message.to_dict()
    headers = dict(shown.envelope.headers)
    record["headers"] = shown.headers_text if shown.message.problem else headers
    if not as_json and not shown.message.problem:
        for name in _SHOWN:
            record[_SHOWN[name]] = headers.pop(name, None)
    if shown.body is not None:
        text = shown.envelope.text()
        record["body"] = shown.body.decode("utf-8", "replace") if text is None else text
    show(record, as_json=as_json)


def return_to_source(
    context: typer.Context,
    queue: Queue = "error",
    url: Url = None,
    conn_id: ConnId = None,
    as_json: Json = False,
    exception_type: ExceptionType = None,
    message_type: MessageType = None,
    endpoint: Endpoint = None,
    failed_queue: FailedQueue = None,
    kind: Kind = None,
    since: Since = None,
    until: Until = None,
    message_ids: MessageIds = None,
    row_versions: RowVersions = None,
    all_messages: Annotated[bool, typer.Option("--all", help="Every message; not with a filter.")] = False,
    redirect_to: Annotated[_Text, typer.Option(help="Send them to this queue instead.")] = None,
    malformed: Annotated[bool, typer.Option("--malformed", help="Redirect poison too, its text unchanged.")] = False,
    rate: Annotated[_Number, typer.Option(help="Messages per second.")] = None,
    max_messages: Annotated[_Count, typer.Option(help="Stop after so many.")] = None,
    max_seconds: Annotated[_Number, typer.Option(help="Stop after so long.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count what would be returned.")] = False,
    edit_body: Annotated[_Text, typer.Option(help="Send one with this body instead: text, @FILE or -.")] = None,
    edit_header: Annotated[_Texts, typer.Option(help="Send one with NAME=VALUE, any number of times.")] = None,
    keep_original: Annotated[bool, typer.Option("--keep-original", help="Leave an edited message there.")] = False,
) -> None:
    """Return failed messages to the queues where they failed. Without a filter or --all nothing is returned.

    Ends with exit code 1 where one of the messages that --row-version or --message-id name did not go back.
    """
    where = _filter(context)
    if where.is_empty != all_messages:
        raise ConfigurationError("Say which messages are meant, by a filter as --kind or by --all: one of the two.")
    options = ReturnOptions(redirect_to, malformed, rate, dry_run, max_messages=max_messages, max_seconds=max_seconds)
    client = connect(url, conn_id)
    if edit_body is not None or edit_header:
        edited = _edit(client, queue, where, options, edit_body, edit_header or [], keep_original)
        show(asdict(edited), as_json=as_json)
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
    if as_json:
        show({"queue": address, **done.to_dict()}, as_json=True)
    else:
        _print_return(address, done, redirected=redirect_to is not None)
    named = len(where.row_versions or ()) + len(where.message_ids or ())
    if named and done.complete and (done.left or done.messages < named):
        raise typer.Exit(1)


def _print_return(address: str, done: ReturnResult, *, redirected: bool) -> None:
    """Lines of a return: the messages that went back, those that stay, and why, with the option that helps."""
    went, stays = ("would_return", "would_stay") if done.dry_run else ("returned", "left")
    values: dict[str, Any] = {
        went: [f"{messages:,} to {name}" for name, messages in done.returned.items()] or "nothing",
        stays: [f"{messages:,}: {reason}" for reason, messages in done.left.items()],
    }
    if done.unseen:
        values["locked_by_others"] = done.unseen
    show({**values, "seconds": round(done.seconds, 3)}, as_json=False, title=address)
    if not done.complete:
        stdout.print("A limit ended it: there may be more.", highlight=False)
    if Reason.MALFORMED in done.left:
        stdout.print("Malformed messages name no queue: add --redirect-to QUEUE --malformed.", highlight=False)
    if NO_DESTINATION & done.left.keys() and not redirected:
        stdout.print("Send what has no queue to go to elsewhere: add --redirect-to QUEUE.", highlight=False)


def _filter(context: typer.Context) -> ErrorFilter:
    """The filter's options. One that takes several values and was not named has none, which is no condition.

    Groups and marks are not among them: the page in Airflow counts by those, and nobody types hashes.
    """
    names = [field.name for field in fields(ErrorFilter) if field.name not in ("group", "up_to")]
    given = {name: context.params[name] for name in names}
    return ErrorFilter.of({name: value if isinstance(value, str) else value or None for name, value in given.items()})


def _edit(
    client: QueueClient,
    queue_name: str,
    where: ErrorFilter,
    options: ReturnOptions,
    body: str | None,
    headers: list[str],
    keep_original: bool,
) -> EditResult:
    if where != ErrorFilter(row_versions=where.row_versions) or options != ReturnOptions(options.redirect_to):
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
