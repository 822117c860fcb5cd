"""Commands on delayed messages: delayed, send-delayed, cancel, move-delayed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import datetime, timedelta
from typing import Annotated, Any, Optional

import typer

from airflow_sqlqueue.cli.message_options import Body, ContentType, HeaderOption, MessageType, message_from_options
from airflow_sqlqueue.cli.options import ConnId, Json, Queue, Url
from airflow_sqlqueue.cli.output import show, stderr
from airflow_sqlqueue.cli.target import Target
from airflow_sqlqueue.delayed.mover import DEFAULT_CHUNK, MAX_CHUNK, move_due
from airflow_sqlqueue.delayed.table import DelayedMessage, DelayedTable, delayed_name
from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.message import HeaderNames, decode_headers
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.tables.discovery import find_queue


@contextmanager
def _delayed_table(target: Target, queue: str) -> Iterator[DelayedTable]:
    name = delayed_name(queue)
    target.resolver.resolve(name)
    with closing(target.connect()) as session:
        yield DelayedTable(session, find_queue(session, target.resolver, name))


def delayed(
    queue: Queue,
    url: Url = None,
    conn_id: ConnId = None,
    as_json: Json = False,
    count: Annotated[int, typer.Option("--count", "-n", min=1, help="How many, those due next first.")] = 10,
) -> None:
    """List the queue's delayed messages; nothing is removed."""
    with _delayed_table(Target.of(url, conn_id), queue) as table:
        found = table.peek(count)
    show([_summary(message) for message in found], as_json=as_json, title=table.address.canonical)


def _summary(message: DelayedMessage) -> dict[str, Any]:
    decoded = decode_headers(message.headers)
    types = decoded.values.get(HeaderNames.ENCLOSED_MESSAGE_TYPES) or ""
    return {
        "row_version": message.row_version,
        "due": message.due.isoformat(),
        "message_id": decoded.values.get(HeaderNames.MESSAGE_ID),
        "type": types.partition(",")[0].partition(";")[0] or None,
        "forward_to": decoded.values.get(HeaderNames.FORWARD_DESTINATION),
        "problem": decoded.problem,
    }


def send_delayed(
    queue: Queue,
    message_type: MessageType,
    url: Url = None,
    conn_id: ConnId = None,
    as_json: Json = False,
    after: Annotated[Optional[float], typer.Option(help="Seconds until it is due.")] = None,  # noqa: UP045
    at: Annotated[Optional[str], typer.Option(help="When it is due: 2031-01-31T08:00:00+01:00.")] = None,  # noqa: UP045
    through: Annotated[Optional[str], typer.Option(help="Keep it at this queue, which forwards it.")] = None,  # noqa: UP045
    body: Body = "",
    header: HeaderOption = None,
    content_type: ContentType = "application/json",
) -> None:
    """Send one message that the queue gets later."""
    message = message_from_options(body, header, content_type, message_type)
    target = Target.of(url, conn_id)
    with _delayed_table(target, through or queue) as table:
        forward_to = find_queue(table.session, target.resolver, queue) if through else None
        table.store([message], delay=_interval(after), due=_moment(at), forward_to=forward_to)
    show({"table": table.address.canonical, "message_id": message.header(HeaderNames.MESSAGE_ID)}, as_json=as_json)


def _interval(seconds: float | None) -> timedelta | None:
    try:
        return None if seconds is None else timedelta(seconds=seconds)
    except (OverflowError, ValueError) as error:
        raise ConfigurationError(f"--after takes a number of seconds, not {seconds}.") from error


def _moment(text: str | None) -> datetime | None:
    try:
        return None if text is None else datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError as error:
        raise ConfigurationError(f"--at takes a time as 2031-01-31T08:00:00+01:00, not {text!r}.") from error


def cancel(
    queue: Queue,
    row_version: Annotated[Optional[list[int]], typer.Argument(help="As 'sqlqueue delayed' shows them.")] = None,  # noqa: UP045
    url: Url = None,
    conn_id: ConnId = None,
    as_json: Json = False,
    message_id: Annotated[Optional[str], typer.Option(help="Every message with this id.")] = None,  # noqa: UP045
) -> None:
    """Delete delayed messages of the queue."""
    if bool(row_version) == bool(message_id):
        raise ConfigurationError("Name the messages by their row versions or by --message-id.")
    with _delayed_table(Target.of(url, conn_id), queue) as table:
        cancelled = table.cancel_message(message_id) if message_id else table.cancel(row_version or ())
    show({"table": table.address.canonical, "cancelled": cancelled}, as_json=as_json)


def move_delayed(
    queue: Queue,
    url: Url = None,
    conn_id: ConnId = None,
    as_json: Json = False,
    error_queue: Annotated[Optional[str], typer.Option(help="For what cannot be forwarded.")] = None,  # noqa: UP045
    chunk: Annotated[int, typer.Option(min=1, max=MAX_CHUNK, help="Messages of one transaction.")] = DEFAULT_CHUNK,
    max_messages: Annotated[Optional[int], typer.Option(min=1, help="Move at most so many.")] = None,  # noqa: UP045
    max_seconds: Annotated[Optional[float], typer.Option(help="Stop after so long.")] = None,  # noqa: UP045
) -> None:
    """Move the queue's delayed messages that are due, as its endpoint would."""
    target = Target.of(url, conn_id)
    with _delayed_table(target, queue) as table:

        def found(name: str) -> QueueTable:
            return QueueTable(table.session, find_queue(table.session, target.resolver, name))

        moved = move_due(
            table,
            found(queue),
            target.resolver,
            error_queue=found(error_queue) if error_queue else None,
            chunk=chunk,
            max_messages=max_messages,
            max_seconds=max_seconds,
        )
    for destination, problem in moved.problems.items():
        stderr.print(f"Not forwarded to {destination!r}: {problem}", markup=False, highlight=False)
    show({"table": table.address.canonical, **moved.to_dict()}, as_json=as_json)
