"""Send ledger: a table beside the queue with an entry for each send that was committed.

The entry and the messages share one transaction, so a repeated send, by a retried task or by a second one with the same
id, finds the entry and sends no message. Exactly once, as long as the entry is kept.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta

from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.messages.message import Message
from airflow_sqlqueue.messages.routing import ResolvedAddress
from airflow_sqlqueue.options import check_type
from airflow_sqlqueue.queue.queue_table import QueueTable
from airflow_sqlqueue.queue.table_access import MAX_ROWS_PER_STATEMENT
from airflow_sqlqueue.queue.tables.own import OwnTable, lock_name, stored_name
from airflow_sqlqueue.untrusted import cut


@dataclass(frozen=True)
class SendResult:
    """Result of a send: its number of messages, and whether an earlier send with the same id had sent them.

    ``message_id`` is the id that the caller entered for a message, to find it again; for a repeated send it is the id
    that the earlier send entered.
    """

    messages: int
    repeated: bool
    message_id: uuid.UUID | None = None


_NAMESPACE = uuid.UUID("2c1d4bb2-7a53-5b7e-8f3e-0d6c3b9a4f10")


def send_id_for(*key: str | int) -> uuid.UUID:
    """Return the id of a send, from a key that stays the same when the send is repeated."""
    return uuid.uuid5(_NAMESPACE, "\0".join(map(str, key)))


_LONGEST = 2**31 - 1
"""Most seconds that DATEADD takes before SQL Server 2025: 68 years, more than the age of any entry."""


def seconds_before(age: timedelta) -> int:
    """Return the seconds, below zero and within DATEADD's range, from the present to a moment of this age."""
    return -min(int(age.total_seconds()), _LONGEST)


class SendLedger(OwnTable):
    """Send ledger of one database, through one connection."""

    name = "Send"
    made_by = ("send_ledger.make",)

    def send(
        self,
        queue: QueueTable,
        send_id: uuid.UUID,
        messages: Iterable[Message],
        origin: str = "",
        *,
        message_id: uuid.UUID | None = None,
    ) -> SendResult:
        """Send the messages, unless a send with this id was committed before: exactly once. See :meth:`once`."""
        return self.once(queue.address, send_id, lambda: queue.send(messages), origin, message_id=message_id)

    def once(
        self,
        address: ResolvedAddress,
        send_id: uuid.UUID,
        send: Callable[[], int],
        origin: str = "",
        *,
        message_id: uuid.UUID | None = None,
    ) -> SendResult:
        """Call ``send``, which returns its number of messages to ``address``, unless this id was committed before.

        Queue and ledger may be in different databases of the server. Inside a transaction the send is part of it. The
        call waits for another send of the same id, and raises :class:`LockTimeoutError` after the session's lock
        timeout. Raises :class:`ConfigurationError` where the id was used for another queue, and for no UUID.
        """
        check_type("send_id", uuid.UUID.__name__, send_id)
        if message_id is not None:
            check_type("message_id", uuid.UUID.__name__, message_id)
        name = stored_name(address.canonical)
        with self.session.transaction():
            self.session.take_lock(self.query("send_ledger.lock"), lock_name("send", self.schema, send_id))
            values = (str(send_id), name, cut(origin, 1000), str(message_id or ""), str(send_id))
            entered = self.session.value(self.query("send_ledger.enter"), *values)
            if not entered:
                return self._repeated(send_id, name)
            count = send()
            self.session.run(self.query("send_ledger.count"), count, str(send_id))
        return SendResult(count, repeated=False, message_id=message_id)

    def _repeated(self, send_id: uuid.UUID, address: str) -> SendResult:
        ((known, count, message_id),) = self.session.run(self.query("send_ledger.find"), str(send_id))
        if known != address:
            raise ConfigurationError(
                f"The send {send_id} went to {known}, not to {address}: take another id, which in Airflow is another "
                "run."
            )
        return SendResult(int(count), repeated=True, message_id=None if message_id is None else uuid.UUID(message_id))

    def count_older(self, than: timedelta) -> int:
        """Count the entries that :meth:`forget` would delete."""
        return int(self.session.value(self.query("send_ledger.count_older"), seconds_before(than)))

    def forget(self, older_than: timedelta) -> int:
        """Delete entries older than that and return how many. A later repetition of such a send sends again."""
        statement = self.query("send_ledger.forget")
        return self.session.sum_in_chunks(statement, MAX_ROWS_PER_STATEMENT, seconds_before(older_than))
