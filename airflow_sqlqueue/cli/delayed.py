"""Commands on delayed messages: delayed, send-delayed, cancel, move-delayed."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated, Any, Optional

import typer

from airflow_sqlqueue.cli.message_options import Body, ContentType, HeaderOption, MessageType, message_from_options
from airflow_sqlqueue.cli.options import ConnId, Json, Queue, Url, connect
from airflow_sqlqueue.cli.output import show, stderr
from airflow_sqlqueue.delayed.mover import DEFAULT_CHUNK, MAX_CHUNK
from airflow_sqlqueue.delayed.table import DelayedMessage
from airflow_sqlqueue.errors import ConfigurationError, MessageNotFoundError
from airflow_sqlqueue.message import HeaderNames, decode_headers, first_type
from airflow_sqlqueue.untrusted import quoted


def delayed(
    queue: Queue,
    url: Url = None,
    conn_id: ConnId = None,
    as_json: Json = False,
    count: Annotated[int, typer.Option("--count", "-n", min=1, help="How many, those due next first.")] = 10,
) -> None:
    """List the queue's delayed messages; nothing is removed."""
    delayed = connect(url, conn_id).delayed(queue)
    found = delayed.list(count)
    show([_summary(message) for message in found], as_json=as_json, title=delayed.address.canonical)


def _summary(message: DelayedMessage) -> dict[str, Any]:
    decoded = decode_headers(message.headers)
    return {
        "row_version": message.row_version,
        "due": message.due.isoformat(),
        "message_id": decoded.values.get(HeaderNames.MESSAGE_ID),
        "type": first_type(decoded.values.get(HeaderNames.ENCLOSED_MESSAGE_TYPES)),
        "forward_to": decoded.values.get(HeaderNames.FORWARD_DESTINATION),
        "problem": decoded.problem,
    }


def send_delayed(
    queue: Queue,
    message_type: MessageType,
    url: Url = None,
    conn_id: ConnId = None,
    as_json: Json = False,
    after: Annotated[Optional[float], typer.Option(help="Seconds until it is due.")] = None,
    at: Annotated[Optional[str], typer.Option(help="When it is due: 2031-01-31T08:00:00+01:00.")] = None,
    through: Annotated[Optional[str], typer.Option(help="Keep it at this queue, which forwards it.")] = None,
    body: Body = "",
    header: HeaderOption = None,
    content_type: ContentType = "application/json",
) -> None:
    """Send one message that the queue gets later."""
    message = message_from_options(body, header, content_type, message_type)
    client = connect(url, conn_id)
    client.delayed(queue).send([message], delay=_interval(after), due=_moment(at), through=through)
    table = client.delayed(through or queue).address
    show({"table": table.canonical, "message_id": message.header(HeaderNames.MESSAGE_ID)}, as_json=as_json)


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
    row_version: Annotated[Optional[list[int]], typer.Argument(help="As 'sqlqueue delayed' shows them.")] = None,
    url: Url = None,
    conn_id: ConnId = None,
    as_json: Json = False,
    message_id: Annotated[Optional[str], typer.Option(help="Every message with this id.")] = None,
) -> None:
    """Delete delayed messages of the queue; it is an error if there are none of them."""
    if bool(row_version) == bool(message_id):
        raise ConfigurationError("Name the messages by their row versions or by --message-id.")
    delayed = connect(url, conn_id).delayed(queue)
    cancelled = delayed.cancel(row_versions=row_version or None, message_id=message_id)
    if not cancelled:
        raise MessageNotFoundError(
            f"Nothing was cancelled: {delayed.address.canonical} has no such message, or others have it locked; "
            f"'sqlqueue delayed {queue}' lists those that wait."
        )
    show({"table": delayed.address.canonical, "cancelled": cancelled}, as_json=as_json)


def move_delayed(
    queue: Queue,
    url: Url = None,
    conn_id: ConnId = None,
    as_json: Json = False,
    error_queue: Annotated[Optional[str], typer.Option(help="For what cannot be forwarded.")] = None,
    chunk: Annotated[int, typer.Option(min=1, max=MAX_CHUNK, help="Messages of one transaction.")] = DEFAULT_CHUNK,
    max_messages: Annotated[Optional[int], typer.Option(help="Move at most so many.")] = None,
    max_seconds: Annotated[Optional[float], typer.Option(help="Stop after so long.")] = None,
) -> None:
    """Move the queue's delayed messages that are due, as its endpoint would."""
    delayed = connect(url, conn_id).delayed(queue)
    moved = delayed.move(error_queue=error_queue, chunk=chunk, max_messages=max_messages, max_seconds=max_seconds)
    for destination, problem in moved.problems.items():
        stderr.print(f"Not forwarded to {quoted(destination)}: {problem}", markup=False, highlight=False)
    show({"table": delayed.address.canonical, **moved.to_dict()}, as_json=as_json)
