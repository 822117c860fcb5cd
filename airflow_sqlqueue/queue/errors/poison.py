"""Poison messages: rows that cannot be handled are moved unchanged to the error queue or into quarantine.

The move is on the server: no value of such a row comes to the client, whatever it contains and however long it is.
"""

from __future__ import annotations

import logging

from airflow_sqlqueue.errors import is_of_a_message
from airflow_sqlqueue.queue.errors.failure_headers import type_name
from airflow_sqlqueue.queue.forwarding import transfer
from airflow_sqlqueue.queue.quarantine import NO_BATCH, Quarantine
from airflow_sqlqueue.queue.queue_table import QueueTable
from airflow_sqlqueue.server.session import retrying

log = logging.getLogger(__name__)


def refusal(error: Exception) -> str:
    """Return the reason of a message that goes into quarantine because the error queue raised an error for it."""
    return f"the error queue did not take the message ({type_name(error)})"


def dead_letter(queue: QueueTable, error_queue: QueueTable, row_version: int, reason: str) -> bool:
    """Move a message unchanged to the error queue, or into quarantine if the error queue does not take it.

    Returns False if the message is gone, or locked by others. ``reason`` is a sentence for people, which does not quote
    the message. Only outside of a transaction. Delivery: exactly once.

    Raises the errors of a queue, and an error if the quarantine is missing and the login may not make it.
    """

    def to_error_queue() -> int:
        with queue.session.transaction():
            return transfer(queue, error_queue, [row_version])

    def to_quarantine() -> int:
        with queue.session.transaction():
            return quarantine.move(queue, NO_BATCH, {row_version: reason})

    try:
        moved, place = retrying(to_error_queue), error_queue.address.canonical
    except Exception as error:
        if not is_of_a_message(error):
            raise
        quarantine = Quarantine(queue.session, queue.address.catalog)
        quarantine.create()
        moved, place = retrying(to_quarantine), "quarantine"
    if moved:
        log.error("The message with RowVersion %d is in %s as it is: %s", row_version, place, reason)
    return bool(moved)
