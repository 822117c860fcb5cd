"""Inbox: a table beside the queue with the ids of the messages that were handled, so that each id is handled once.

The row of an id is inserted in the transaction that deletes the message and commits the handler's effects on this
server. A second message with the same id finds the row and is not handled. Effects on other servers, and sends of the
mode ``receive_only``, are not part of that transaction.
"""

from __future__ import annotations

import hashlib
import uuid
from datetime import timedelta

from airflow_sqlqueue.messages.routing import ResolvedAddress
from airflow_sqlqueue.queue import MAX_ROWS_PER_STATEMENT
from airflow_sqlqueue.queue.send_ledger import seconds_before
from airflow_sqlqueue.queue.tables.own import OwnTable, lock_name, stored_name
from airflow_sqlqueue.untrusted import cut

_NAMESPACE = uuid.UUID("8f6f7a0e-53c1-5d0b-9a55-0f1b6f0f9d3a")


class Inbox(OwnTable):
    """Inbox of one database, through one connection. Message ids count for each queue separately."""

    name = "Inbox"
    made_by = ("inbox.make", "inbox.index")

    def enter(self, queue: ResolvedAddress, message_id: str) -> bool:
        """Enter a message in the open transaction; return False for an id that was handled before.

        Waits for a transaction that handles the same id now. Raises :class:`LockTimeoutError` after the session's lock
        timeout.
        """
        key, statement = _key(queue, message_id), self.query("inbox.enter")
        values = (str(key), lock_name("inbox", self.schema, key), stored_name(queue.canonical), cut(message_id, 200))
        ((answer, entered),) = self.session.run(statement, *values)
        self.session.check_lock(statement, answer)
        return bool(entered)

    def leave(self, queue: ResolvedAddress, message_id: str) -> None:
        """Remove a message in the open transaction, because it was not handled."""
        self.session.run(self.query("inbox.leave"), str(_key(queue, message_id)))

    def forget(self, queue: ResolvedAddress, older_than: timedelta) -> bool:
        """Delete old ids of a queue by one statement; return whether there may be more of them."""
        values = (MAX_ROWS_PER_STATEMENT, stored_name(queue.canonical), seconds_before(older_than))
        return int(self.session.value(self.query("inbox.forget"), *values)) == MAX_ROWS_PER_STATEMENT


def _key(queue: ResolvedAddress, message_id: str) -> uuid.UUID:
    """Return the key of an id, which a sender may have made longer than an index allows, or with half a character.

    It is that of :func:`uuid.uuid5`, which takes no half of a surrogate pair.
    """
    name = f"{queue.canonical}\0{message_id}".encode("utf-8", "surrogatepass")
    return uuid.UUID(bytes=hashlib.sha1(_NAMESPACE.bytes + name, usedforsecurity=False).digest()[:16], version=5)
