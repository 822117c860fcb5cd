"""Commands on messages: send, depth, peek, purge-expired, generate."""

from __future__ import annotations

import sys
import uuid
from pathlib import Path
from typing import Annotated, Any, Optional

import typer

from airflow_sqlqueue.cli.options import ConnId, Json, Queue, Url
from airflow_sqlqueue.cli.output import counted, progress_bar, show
from airflow_sqlqueue.cli.target import Target
from airflow_sqlqueue.envelope import Envelope
from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.message import HeaderNames, ReceivedMessage
from airflow_sqlqueue.outgoing import Sender


def send(
    queue: Queue,
    message_type: Annotated[str, typer.Option("--type", help="The enclosed message type, with its namespace.")],
    url: Url = None,
    conn_id: ConnId = None,
    as_json: Json = False,
    body: Annotated[str, typer.Option(help="The body as text, @FILE, or - for standard input.")] = "",
    header: Annotated[Optional[list[str]], typer.Option(help="NAME=VALUE, any number of times.")] = None,  # noqa: UP045
    content_type: Annotated[str, typer.Option(help="How the body is encoded.")] = "application/json",
    expire_after: Annotated[Optional[float], typer.Option(help="Seconds until it expires.")] = None,  # noqa: UP045
) -> None:
    """Send one message."""
    pairs = [pair.partition("=") for pair in header or []]
    if wrong := next((name for name, equals, _ in pairs if not (name and equals)), None):
        raise ConfigurationError(f"--header takes NAME=VALUE, not {wrong!r}.")
    written = {
        "headers": {name: value for name, _, value in pairs},
        "body": _read_body(body),
        "time_to_be_received": expire_after,
    }
    sender = Sender(str(uuid.uuid4()), "sqlqueue", content_type, message_type)
    (message,) = sender.messages([written])
    with Target.of(url, conn_id).queue(queue) as table:
        table.send([message])
    show({"queue": table.address.canonical, "message_id": message.header(HeaderNames.MESSAGE_ID)}, as_json=as_json)


def _read_body(text: str) -> bytes:
    if text == "-":
        return sys.stdin.buffer.read()
    if text.startswith("@"):
        try:
            return Path(text[1:]).read_bytes()
        except OSError as error:
            raise ConfigurationError(f"The body's file {text[1:]!r} cannot be read: {error.strerror}.") from error
    return text.encode()


def depth(queue: Queue, url: Url = None, conn_id: ConnId = None, as_json: Json = False) -> None:
    """Count the messages that nobody has locked."""
    with Target.of(url, conn_id).queue(queue) as table:
        found = table.depth()
    values = {"queue": table.address.canonical, "messages": found.messages, "expired": found.expired}
    show(values, as_json=as_json)


def peek(
    queue: Queue,
    url: Url = None,
    conn_id: ConnId = None,
    as_json: Json = False,
    count: Annotated[int, typer.Option("--count", "-n", min=1, max=2000, help="How many, from the head.")] = 10,
    headers: Annotated[bool, typer.Option("--headers", help="Show all headers.")] = False,
    body: Annotated[bool, typer.Option("--body", help="Show the bodies as text.")] = False,
) -> None:
    """Look at the head of the queue; nothing is removed."""
    with Target.of(url, conn_id).queue(queue) as table:
        found = table.peek(count)
    show([_summary(message, headers, body) for message in found], as_json=as_json, title=table.address.canonical)


def _summary(message: ReceivedMessage, with_headers: bool, with_body: bool) -> dict[str, Any]:
    envelope = Envelope.of(message)
    time_sent = envelope.time.time_sent
    summary: dict[str, Any] = {
        "row_version": message.row_version,
        "message_id": envelope.identity.message_id,
        "type": envelope.content.message_type,
        "time_sent": time_sent.isoformat() if time_sent else None,
        "expires": message.expires.isoformat() if message.expires else None,
        "body_bytes": len(message.body),
        "problem": envelope.problem,
    }
    if with_headers:
        summary["headers"] = message.headers if envelope.problem else dict(envelope.headers)
    if with_body:
        text = envelope.text()
        summary["body"] = message.body.decode("utf-8", "replace") if text is None else text
    return summary


def purge_expired(
    queue: Queue,
    url: Url = None,
    conn_id: ConnId = None,
    as_json: Json = False,
    max_messages: Annotated[Optional[int], typer.Option(min=1, help="Delete at most so many.")] = None,  # noqa: UP045
    max_seconds: Annotated[Optional[float], typer.Option(help="Stop after so long.")] = None,  # noqa: UP045
    dry_run: Annotated[bool, typer.Option(help="Only count.")] = False,
) -> None:
    """Delete the messages whose time to be received is over."""
    with Target.of(url, conn_id).queue(queue) as table:
        done = table.purge_expired(max_messages=max_messages, max_seconds=max_seconds, dry_run=dry_run)
    values = {"queue": table.address.canonical, "deleted": done.deleted, "remaining": done.remaining}
    show({**values, "seconds": round(done.seconds, 3)}, as_json=as_json)


def generate(
    queue: Queue,
    count: Annotated[int, typer.Option(min=1, help="How many messages.")],
    url: Url = None,
    conn_id: ConnId = None,
    as_json: Json = False,
    seed: Annotated[int, typer.Option(help="The same seed gives the same messages.")] = 1,
) -> None:
    """Send realistic traffic of a shop: commands, events, replies, failures, a few malformed messages."""
    from airflow_sqlqueue.traffic import generate as shop

    with Target.of(url, conn_id).queue(queue) as table, progress_bar("Sending", count) as tell:
        sent = table.send(counted(shop(count, seed=seed), tell))
    show({"queue": table.address.canonical, "sent": sent, "seed": seed}, as_json=as_json)
