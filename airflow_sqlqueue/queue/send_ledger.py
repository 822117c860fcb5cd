"""The send ledger: which sends were made, in a table beside the queue.

The entry and the messages share one transaction, so a send that is repeated, by a retried task or by a second one
with the same id, finds its entry and sends nothing. Exactly once, as long as the entry is kept.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta

from airflow_sqlqueue.errors import TransactionError
from airflow_sqlqueue.message import Message
from airflow_sqlqueue.queue import MAX_ROWS_PER_STATEMENT, QueueTable
from airflow_sqlqueue.routing import ResolvedAddress
from airflow_sqlqueue.session import Session
from airflow_sqlqueue.sql import Query, identifier, query
from airflow_sqlqueue.tables.create import LEDGER_SCHEMA, Definition, ensure
from airflow_sqlqueue.tables.reading import exists


@dataclass(frozen=True)
class SendResult:
    """``messages`` of a send; ``repeated`` where an earlier one with the same id had sent them already."""

    messages: int
    repeated: bool


_NAMESPACE = uuid.UUID("2c1d4bb2-7a53-5b7e-8f3e-0d6c3b9a4f10")


def send_id_for(*key: str | int) -> uuid.UUID:
    """The id of a send that is named by something that stays the same when it is repeated."""
    return uuid.uuid5(_NAMESPACE, "\0".join(map(str, key)))


def send_ledger_definition(catalog: str, schema: str = LEDGER_SCHEMA) -> Definition:
    """The send ledger's table, for :func:`~airflow_sqlqueue.tables.create.create` and for scripts."""
    table = ResolvedAddress("Send", schema, catalog)
    return Definition(table, "ledger", (query("send_ledger.make", sent=identifier(table)),), with_schema=True)


class SendLedger:
    """The send ledger of one database, through one connection."""

    def __init__(self, session: Session, catalog: str, schema: str = LEDGER_SCHEMA) -> None:
        self.session = session
        self._definition = send_ledger_definition(catalog, schema)

    def query(self, name: str) -> Query:
        table = self._definition.table
        return query(f"send_ledger.{name}", sent=identifier(table), catalog=identifier(table.catalog))

    def exists(self) -> bool:
        """Whether the table is there: before the first send of a database it is not."""
        return exists(self.session, self._definition.table)

    def create(self) -> None:
        """Make the table, and its schema, where it is missing."""
        ensure(self.session, self._definition)

    def send(self, queue: QueueTable, send_id: uuid.UUID, messages: Iterable[Message], origin: str = "") -> SendResult:
        """Send the messages, unless a send with this id was committed before: exactly once. See :meth:`once`."""
        return self.once(queue.address, send_id, lambda: queue.send(messages), origin)

    def once(
        self, address: ResolvedAddress, send_id: uuid.UUID, send: Callable[[], int], origin: str = ""
    ) -> SendResult:
        """Call ``send``, which sends to ``address`` and returns how many, unless that was committed under this id.

        Queue and ledger may stand in different databases of the server. Inside a transaction the send is part of it.
        Waits, up to the session's lock timeout, for another send of the same id. Raises :class:`LockTimeoutError` after
        that, and :class:`TransactionError` where the id was used for another queue.
        """
        name = address.canonical[:400]
        with self.session.transaction():
            resource = f"sqlqueue.send.{self._definition.table.schema}.{send_id}"[-255:]
            self.session.take_lock(self.query("lock"), resource)
            entered = self.session.value(self.query("enter"), str(send_id), name, origin[:1000], str(send_id))
            if not entered:
                return self._repeated(send_id, name)
            count = send()
            self.session.run(self.query("count"), count, str(send_id))
        return SendResult(count, repeated=False)

    def _repeated(self, send_id: uuid.UUID, address: str) -> SendResult:
        ((known, count),) = self.session.run(self.query("find"), str(send_id))
        if known != address:
            raise TransactionError(f"The send {send_id} went to {known}, not to {address}: take another id.")
        return SendResult(int(count), repeated=True)

    def count_older(self, than: timedelta) -> int:
        """How many entries :meth:`forget` would delete."""
        return int(self.session.value(self.query("count_older"), -int(than.total_seconds())))

    def forget(self, older_than: timedelta) -> int:
        """Delete entries older than that and return how many. A send that is repeated later sends again."""
        seconds = -int(older_than.total_seconds())
        forgotten = 0
        while deleted := int(self.session.value(self.query("forget"), MAX_ROWS_PER_STATEMENT, seconds)):
            forgotten += deleted
        return forgotten
