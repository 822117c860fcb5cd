"""Commands on messages: send, depth, peek, generate."""

from __future__ import annotations

from dataclasses import asdict, replace
from datetime import datetime, timezone
from typing import Annotated, Any, Optional

import typer

from airflow_sqlqueue.cli.message_options import Body, ContentType, HeaderOption, MessageType, message_from_options
from airflow_sqlqueue.cli.options import ConnId, IsEndpoint, Json, Queue, Url, connect_queue
from airflow_sqlqueue.cli.output import counted, progress_bar, show, stderr
from airflow_sqlqueue.envelope import Envelope
from airflow_sqlqueue.errors import SqlQueueError, TransientError
from airflow_sqlqueue.message import HeaderNames, ReceivedMessage
from airflow_sqlqueue.queue.browsing import MessageHead, browse
from airflow_sqlqueue.queue.table_access import FIRST


def send(
    queue: Queue,
    message_type: MessageType,
    endpoint: IsEndpoint = False,
    url: Url = None,
    conn_id: ConnId = None,
    as_json: Json = False,
    body: Body = "",
    header: HeaderOption = None,
    content_type: ContentType = "application/json",
    expire_after: Annotated[Optional[float], typer.Option(help="Seconds until it expires.")] = None,
) -> None:
    """Send one message."""
    message = message_from_options(body, header, content_type, message_type, expire_after)
    target = connect_queue(queue, endpoint, url, conn_id)
    target.send([message])
    show({"queue": target.address.canonical, "message_id": message.header(HeaderNames.MESSAGE_ID)}, as_json=as_json)


def depth(
    queue: Queue,
    endpoint: IsEndpoint = False,
    url: Url = None,
    conn_id: ConnId = None,
    as_json: Json = False,
    kind: Annotated[str, typer.Option(help="exact; quick: from the index on RowVersion; catalog: no rows.")] = "exact",
) -> None:
    """Count messages, delayed ones apart, with the age of the oldest.

    "Rows ever inserted" counts a message again each time that it came back: requeued, returned or retried.
    """
    target = connect_queue(queue, endpoint, url, conn_id)
    found = target.backlog(kind=kind)
    values = {
        "queue": target.address.canonical,
        "kind": found.depth.kind,
        "messages": found.depth.messages,
        "expired": found.depth.expired,
        "delayed": found.delayed,
        "oldest_seconds": found.oldest_seconds,
        "inserted": found.inserted,
    }
    show(values, as_json=as_json)


def peek(
    queue: Queue,
    endpoint: IsEndpoint = False,
    url: Url = None,
    conn_id: ConnId = None,
    as_json: Json = False,
    count: Annotated[int, typer.Option("--count", "-n", min=1, max=2000, help="How many.")] = 10,
    after: Annotated[int, typer.Option(help="Begin after this RowVersion.")] = FIRST,
    headers: Annotated[bool, typer.Option("--headers", help="Show all headers.")] = False,
    body: Annotated[bool, typer.Option("--body", help="Show the bodies as text.")] = False,
) -> None:
    """Look at the head of the queue; nothing is removed."""
    with connect_queue(queue, endpoint, url, conn_id).open() as table:
        found = browse(table, count, after=after)
        bodies = {message.row_version: message.body for message in table.peek(count, after=after)} if body else {}
    records = [_summary(head, headers, bodies.get(head.row_version)) for head in found]
    show(records, as_json=as_json, title=table.address.canonical)


def _summary(head: MessageHead, with_headers: bool, body: bytes | None) -> dict[str, Any]:
    envelope = Envelope.of(
        ReceivedMessage(head.id, head.row_version, head.headers, body or b"", head.expires, head.expired)
    )
    time_sent = envelope.time.time_sent
    summary: dict[str, Any] = {
        "row_version": head.row_version,
        "message_id": envelope.identity.message_id,
        "type": envelope.content.message_type,
        "time_sent": time_sent.isoformat() if time_sent else None,
        "expires": head.expires.isoformat() if head.expires else None,
        "body_bytes": head.body_bytes,
        "problem": envelope.problem,
    }
    if with_headers:
        summary["headers"] = head.headers if envelope.problem else dict(envelope.headers)
    if body is not None:
        text = envelope.text()
        summary["body"] = body.decode("utf-8", "replace") if text is None else text
    return summary


def forward(
    queue: Queue,
    to_queue: Annotated[str, typer.Argument(help="The address of the queue that gets them.")],
    endpoint: IsEndpoint = False,
    url: Url = None,
    conn_id: ConnId = None,
    as_json: Json = False,
    max_messages: Annotated[Optional[int], typer.Option(help="Move at most so many.")] = None,
    max_seconds: Annotated[Optional[float], typer.Option(help="Stop after so long.")] = None,
) -> None:
    """Move what is in the queue to another queue of the server, as it is."""
    source = connect_queue(queue, endpoint, url, conn_id)
    moved = 0

    def note(messages: int) -> None:
        nonlocal moved
        moved = messages

    try:
        done = source.forward(to_queue, max_messages=max_messages, max_seconds=max_seconds, on_progress=note)
    except BaseException as error:
        # Of a COMMIT that is interrupted nobody knows.
        refused = isinstance(error, SqlQueueError) and not isinstance(error, TransientError)
        if moved or not refused:
            text = f"At least {moved:,} messages were moved, all others are in {source.address}: run it again to go on."
            stderr.print(text, markup=False, highlight=False)
        raise
    values = {"queue": source.address.canonical, "to_queue": to_queue, **asdict(done)}
    show({**values, "seconds": round(done.seconds, 3)}, as_json=as_json)


def generate(
    queue: Queue,
    count: Annotated[int, typer.Option(min=1, help="How many messages.")],
    endpoint: IsEndpoint = False,
    url: Url = None,
    conn_id: ConnId = None,
    as_json: Json = False,
    seed: Annotated[int, typer.Option(help="The same seed gives the same messages.")] = 1,
    failed: Annotated[
        bool,
        typer.Option(
            "--failed", help="What an error queue holds: failures of the last two days, for errors and return."
        ),
    ] = False,
) -> None:
    """Send realistic traffic of a shop in March 2026: commands, events, replies, failures, a few malformed messages."""
    from airflow_sqlqueue.traffic import FAILED_QUEUES, generate_failed
    from airflow_sqlqueue.traffic import generate as shop

    with connect_queue(queue, endpoint, url, conn_id).open() as table, progress_bar("Sending", count) as update:
        address = table.address
        if failed:
            now = datetime.now(timezone.utc)
            messages = generate_failed(count, seed=seed, start=now, schema=address.schema, catalog=address.catalog)
        else:
            messages = shop(count, seed=seed)
        sent = table.send(counted(messages, update))
    values: dict[str, Any] = {"queue": address.canonical, "sent": sent, "seed": seed}
    if failed:
        values["failed_in"] = [replace(address, table=name).canonical for name in FAILED_QUEUES]
    show(values, as_json=as_json)
