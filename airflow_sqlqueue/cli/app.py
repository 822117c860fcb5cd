"""The commands. Exit code 0: done; 1: failed; 2: called wrongly."""

from __future__ import annotations

import sys
import uuid
from pathlib import Path
from typing import Annotated, Any, Optional

import typer

from airflow_sqlqueue.cli.output import counted, progress_bar, show, stderr
from airflow_sqlqueue.cli.target import Target
from airflow_sqlqueue.create import create_queue
from airflow_sqlqueue.errors import AddressError, ConfigurationError, DriverNotFoundError, MessageError, SqlQueueError
from airflow_sqlqueue.message import HeaderNames, ReceivedMessage, decode_headers
from airflow_sqlqueue.outgoing import Sender

app = typer.Typer(
    help="Queue tables of the NServiceBus SQL Server transport.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

Queue = Annotated[str, typer.Argument(help="The queue's address: table, table@[schema] or table@[schema]@[catalog].")]
Url = Annotated[
    Optional[str],  # noqa: UP045 - typer reads the annotation at run time, on Python 3.10 too
    typer.Option(envvar="SQLQUEUE_URL", show_envvar=True, help="mssql://user:password@host:port/database?Encrypt=yes"),
]
ConnId = Annotated[Optional[str], typer.Option(help="An Airflow connection, instead of --url.")]  # noqa: UP045
Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]


@app.command()
def create(
    queue: Queue,
    url: Url = None,
    conn_id: ConnId = None,
    as_json: Json = False,
    layout: Annotated[str, typer.Option(help="modern or clustered.")] = "modern",
    create_schema: Annotated[bool, typer.Option(help="Create a missing schema too.")] = False,
) -> None:
    """Create the queue table if it is missing."""
    with Target.of(url, conn_id).queue(queue) as table:
        made = create_queue(table.session, table.address, layout=layout, create_schema=create_schema)
    show({"queue": table.address.canonical, "created": made}, as_json=as_json)


@app.command()
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


@app.command()
def depth(queue: Queue, url: Url = None, conn_id: ConnId = None, as_json: Json = False) -> None:
    """Count the messages that nobody has locked."""
    with Target.of(url, conn_id).queue(queue) as table:
        found = table.depth()
    values = {"queue": table.address.canonical, "messages": found.messages, "expired": found.expired}
    show(values, as_json=as_json)


@app.command()
def peek(
    queue: Queue,
    url: Url = None,
    conn_id: ConnId = None,
    as_json: Json = False,
    count: Annotated[int, typer.Option("--count", "-n", min=1, max=2000, help="How many, from the head.")] = 10,
    headers: Annotated[bool, typer.Option("--headers", help="Show all headers.")] = False,
    body: Annotated[bool, typer.Option("--body", help="Show the bodies, decoded as UTF-8.")] = False,
) -> None:
    """Look at the head of the queue; nothing is removed."""
    with Target.of(url, conn_id).queue(queue) as table:
        found = table.peek(count)
    show([_summary(message, headers, body) for message in found], as_json=as_json, title=table.address.canonical)


def _summary(message: ReceivedMessage, with_headers: bool, with_body: bool) -> dict[str, Any]:
    decoded = decode_headers(message.headers)
    types = decoded.values.get(HeaderNames.ENCLOSED_MESSAGE_TYPES) or ""
    summary: dict[str, Any] = {
        "row_version": message.row_version,
        "message_id": decoded.values.get(HeaderNames.MESSAGE_ID) or str(message.id),
        "type": types.partition(",")[0].partition(";")[0] or None,
        "time_sent": decoded.values.get(HeaderNames.TIME_SENT),
        "expires": message.expires.isoformat() if message.expires else None,
        "body_bytes": len(message.body),
        "problem": decoded.problem,
    }
    if with_headers:
        summary["headers"] = message.headers if decoded.problem else decoded.values
    if with_body:
        summary["body"] = message.body.decode("utf-8-sig", "replace")
    return summary


@app.command()
def drain(
    queue: Queue,
    staging: Annotated[str, typer.Option(help="The folder or object store URL for the batch's files.")],
    url: Url = None,
    conn_id: ConnId = None,
    as_json: Json = False,
    batch_id: Annotated[Optional[uuid.UUID], typer.Option(help="Resume this batch.")] = None,  # noqa: UP045
    max_messages: Annotated[Optional[int], typer.Option(help="Stop after so many.")] = None,  # noqa: UP045
    keep_expired: Annotated[bool, typer.Option(help="Write expired messages too, flagged.")] = False,
) -> None:
    """Drain the queue into a sealed batch of Parquet files."""
    # Arrow takes longer to load than most commands take to run.
    from airflow_sqlqueue.drain.drain import Drain
    from airflow_sqlqueue.drain.files import StagingFolder
    from airflow_sqlqueue.drain.options import DrainOptions

    options = DrainOptions(max_messages=max_messages, keep_expired=keep_expired)
    target = Target.of(url, conn_id)
    folder = StagingFolder.of(staging)
    with target.queue(queue) as table:
        waiting = table.depth()
    with progress_bar("Draining", waiting.messages + waiting.expired) as tell:
        result = Drain(
            target.connect,
            table.address,
            folder,
            batch_id=batch_id,
            origin="sqlqueue drain",
            options=options,
            ledger_schema=target.ledger_schema,
            on_progress=lambda progress: tell(progress.messages + progress.expired),
        ).run()
    show({**result.batch.to_dict(), "held": result.held, "seconds": round(result.seconds, 3)}, as_json=as_json)


@app.command("purge-expired")
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


@app.command()
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


def main() -> None:
    """Run the command line; an error of ours is one sentence on standard error."""
    try:
        app()
    except DriverNotFoundError as error:
        _fail(error, 1)
    except (ConfigurationError, AddressError, MessageError) as error:
        _fail(error, 2)
    except SqlQueueError as error:
        _fail(error, 1)


def _fail(error: SqlQueueError, code: int) -> None:
    stderr.print(f"Error: {error}", style="red", markup=False, highlight=False)
    sys.exit(code)
