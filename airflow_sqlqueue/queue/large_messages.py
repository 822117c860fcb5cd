"""Large messages: bodies that do not fit into memory, read piece by piece under a lock before the row is deleted.

The caller's transaction covers all steps. Its lock on the row (UPDLOCK, held to the end of the transaction) keeps
others from receiving or changing the message between two pieces.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass

from airflow_sqlqueue.messages.row import Row
from airflow_sqlqueue.options.budget import MIB
from airflow_sqlqueue.queue.table_access import TableAccess
from airflow_sqlqueue.queue.window import Window

PIECE = 4 * MIB
"""Bytes of a body that one statement reads."""


@dataclass(frozen=True)
class LargeMessage:
    """Row that the transaction has locked; ``expired`` by the server's clock at that moment."""

    row_version: int
    id: uuid.UUID
    expired: bool


def lock_large(queue: TableAccess, window: Window, max_body: int) -> LargeMessage | None:
    """Lock and return the first message of a window with more than ``max_body`` bytes of body, past locked ones.

    The window is one piece.
    """
    found = queue.rows("queue.lock_large", *window.values, max_body, window=window.condition)
    for row_version, row_id, expired in found:
        return LargeMessage(row_version, uuid.UUID(str(row_id)), bool(expired))
    return None


def read_heads(queue: TableAccess, message: LargeMessage) -> tuple[str | None, int]:
    """Return the headers of a locked message, and the bytes of its body."""
    ((headers, size),) = queue.rows("queue.read_heads", message.row_version, str(message.id))
    return headers, int(size)


def read_body(queue: TableAccess, message: LargeMessage) -> Iterator[bytes]:
    """Read the body of a locked message, in pieces of :data:`PIECE` bytes."""
    start = 1
    while piece := queue.value("queue.read_body", start, PIECE, message.row_version, str(message.id)):
        yield piece
        start += len(piece)


def take_large(queue: TableAccess, message: LargeMessage) -> Row:
    """Delete a locked message and return its row, with None for the body."""
    (row,) = queue.delete_output("queue.take_large", message.row_version, str(message.id), body=False)
    return row
