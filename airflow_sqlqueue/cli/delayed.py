"""Commands on delayed messages: delayed, send-delayed, cancel, move-delayed."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Annotated, Any, Optional

import typer

from airflow_sqlqueue.cli.options import Common, ListOptions, MessageOptions, QueueArgument
from airflow_sqlqueue.cli.output import note
from airflow_sqlqueue.errors import ConfigurationError, MessageNotFoundError
from airflow_sqlqueue.messages.envelope.times import moment_of
from airflow_sqlqueue.messages.message import HeaderNames, decode_headers, first_type
from airflow_sqlqueue.options import option
from airflow_sqlqueue.queue.delayed.mover import MoveOptions
from airflow_sqlqueue.queue.delayed.table import DelayedMessage
from airflow_sqlqueue.untrusted import quoted


def delayed(
    queue: QueueArgument,
    common: ListOptions,
    count: Annotated[
        int, typer.Option("--count", "-n", min=1, help="Number of messages, beginning with the next one due.")
    ] = 10,
) -> None:
    """List the queue's delayed messages; nothing is removed."""
    delayed = common.connect().delayed(queue)
    common.show([_summary(message) for message in delayed.list(count)], title=delayed.address.canonical)


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
    queue: QueueArgument,
    message: MessageOptions,
    common: Common,
    after: timedelta | None = option(None, "how long until it is due: 90s, 30m, 12h, 7d"),
    at: str | None = option(None, "the time at which it is due: 2031-01-31T08:00+01:00, or tomorrow", metavar="TIME"),
    through: str | None = option(None, "keep it at this queue, which forwards it"),
) -> None:
    """Send one message that the queue receives later."""
    sent = message.message()
    due = None if at is None else moment_of("--at", at, datetime.now(timezone.utc), ahead=True)
    client = common.connect()
    client.delayed(queue).send([sent], delay=after, due=due, through=through)
    table = client.delayed(through or queue).address
    common.show({"table": table.canonical, "message_id": sent.header(HeaderNames.MESSAGE_ID)})


def cancel(
    queue: QueueArgument,
    common: Common,
    row_version: Annotated[
        Optional[list[int]], typer.Argument(help="As 'sqlqueue delayed <queue>' shows them.")
    ] = None,
    message_id: str | None = option(None, "every message with this id"),
) -> None:
    """Delete delayed messages of the queue.

    The exit code is 1 if it has no such message.
    """
    if bool(row_version) == bool(message_id):
        raise ConfigurationError("Name the messages by their row versions or by --message-id.")
    delayed = common.connect().delayed(queue)
    cancelled = delayed.cancel(row_versions=row_version or None, message_id=message_id)
    if not cancelled:
        raise MessageNotFoundError(
            f"Nothing was cancelled: {delayed.address.canonical} has no such message, or others have it locked; "
            f"'sqlqueue delayed {queue}' lists those that wait."
        )
    common.show({"table": delayed.address.canonical, "cancelled": cancelled})


def move_delayed(
    queue: QueueArgument,
    common: Common,
    options: MoveOptions,
    error_queue: str | None = option(None, "queue for messages that cannot be forwarded"),
) -> None:
    """Move due delayed messages into the queue, as its endpoint."""
    delayed = common.connect().delayed(queue)
    moved = delayed.move(options, error_queue=error_queue)
    for destination, problem in moved.problems.items():
        note(f"Not forwarded to {quoted(destination)}: {problem}")
    common.show({"table": delayed.address.canonical, **moved.to_dict()})


COMMANDS = (delayed, send_delayed, cancel, move_delayed)
