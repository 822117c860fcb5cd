"""Setting of the soak: its queues, its messages, which name themselves, and the plan for its processes."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone

from airflow_sqlqueue import AddressResolver, ConnectionSettings, HeaderNames, Message, QueueClient
from airflow_sqlqueue.drain.options import DrainOptions
from airflow_sqlqueue.messages.envelope.times import format_time

AUDIT, ORDERS, NOTES, ERROR = "audit", "orders", "notes", "error"
"""Queues: the first one is drained, the second one consumed. In the third one messages expire."""

SHORT = timedelta(seconds=2)
"""Life of messages that are to expire."""

SIZES = (0, 100, 500, 2_000, 500, 100, 8_000, 100)
"""Bytes of bodies beside the message's name."""

DRAIN = DrainOptions(
    rows_per_statement=200, rows_per_part=500, workers=1, inline_body_bytes=6_000, locked_wait_seconds=1.0
)

NEVER = 40
"""Number of messages among which one is never handled: it goes to the error queue."""


@dataclass(frozen=True)
class Kind:
    """A kind of a send: its queue, and whether its messages are delayed and whether they expire."""

    name: str
    queue: str
    weight: int
    delayed: bool = False
    expires: bool = False


KINDS = (
    Kind("audit", AUDIT, 8),
    Kind("audit, delayed", AUDIT, 2, delayed=True),
    Kind("audit, expiring", AUDIT, 1, expires=True),
    Kind("orders", ORDERS, 4),
    Kind("notes", NOTES, 1),
    Kind("notes, expiring", NOTES, 2, expires=True),
)


@dataclass(frozen=True)
class Plan:
    """Plan for a process of the soak.

    :param settings: the server, behind the proxy.
    :param schema: the schema of all queues and ledgers.
    :param folder: the folder of staged files.
    """

    settings: ConnectionSettings = field(repr=False)
    schema: str
    folder: str
    seed: int

    @property
    def client(self) -> QueueClient:
        resolver = AddressResolver(self.schema, self.settings.database)
        return QueueClient(replace(self.settings, ledger_schema=self.schema), resolver)


def message_id(sender: int, number: int) -> uuid.UUID:
    """Name of a message: its sender, and its number among the sender's messages."""
    return uuid.UUID(int=(sender + 1) << 64 | number)


def body_of(name: uuid.UUID) -> bytes:
    """Return the body of a message, which its name determines."""
    size = 16 + SIZES[name.int % len(SIZES)]
    return (name.bytes * (size // 16 + 1))[:size]


def name_in(body: bytes) -> uuid.UUID:
    """Name of the message with this body, by its head."""
    return uuid.UUID(bytes=bytes(body[:16]).ljust(16, b"\0"))


def is_never_handled(name: uuid.UUID) -> bool:
    return name.int % NEVER == 3


def messages(sender: int, first: int, count: int, kind: Kind) -> list[Message]:
    """Return the messages of one send."""
    sent = format_time(datetime.now(timezone.utc))
    lives = SHORT if kind.expires else None
    found = []
    for name in (message_id(sender, number) for number in range(first, first + count)):
        headers = {
            HeaderNames.MESSAGE_ID: str(name),
            HeaderNames.CORRELATION_ID: str(name),
            HeaderNames.ENCLOSED_MESSAGE_TYPES: "Shop.Messages.OrderPlaced, Shop.Messages",
            HeaderNames.TIME_SENT: sent,
        }
        found.append(Message(headers, body_of(name), lives, name))
    return found


def create(plan: Plan) -> None:
    """Create the schema, the queues and the ledgers, and the table of the handlers."""
    tables = plan.client.tables
    tables.create(AUDIT, delayed=True, ledger=True, create_schema=True)
    tables.create(ORDERS, delayed=True)
    for name in (NOTES, ERROR):
        tables.create(name)
    plan.client.run_sql(f"CREATE TABLE [{plan.schema}].[Handled] ([Body] varbinary(max) NOT NULL)")


def drop(plan: Plan) -> None:
    """Drop the schema and all that is in it."""
    text = "SELECT [name] FROM sys.tables WHERE [schema_id] = SCHEMA_ID(?)"
    for (name,) in plan.client.run_sql(text, plan.schema):
        plan.client.run_sql(f"DROP TABLE [{plan.schema}].[{name}]")
    plan.client.run_sql(f"DROP SCHEMA [{plan.schema}]")
