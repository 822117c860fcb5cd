"""One queue of the client's server."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from functools import cached_property
from typing import TYPE_CHECKING

from airflow_sqlqueue.client.connector import Connector, folder_of
from airflow_sqlqueue.errors import TransactionError
from airflow_sqlqueue.message import Message, ReceivedMessage
from airflow_sqlqueue.publishing import conversation
from airflow_sqlqueue.queue import (
    Backlog,
    ConditionResult,
    Depth,
    MessageFilter,
    MessageHead,
    PurgeOptions,
    PurgeResult,
    QueueCondition,
    QueueTable,
)
from airflow_sqlqueue.queue.browsing import WINDOW, browse, find
from airflow_sqlqueue.queue.condition import check_condition
from airflow_sqlqueue.queue.depth import backlog, depth
from airflow_sqlqueue.queue.forwarding import CHUNK, ForwardResult, forward
from airflow_sqlqueue.queue.purge import purge
from airflow_sqlqueue.queue.send_ledger import SendResult
from airflow_sqlqueue.queue.table_access import FIRST
from airflow_sqlqueue.routing import ResolvedAddress
from airflow_sqlqueue.session import Session
from airflow_sqlqueue.tables.create import delayed_address

if TYPE_CHECKING:
    from os import PathLike

    from airflow_sqlqueue.consuming.handler import Handle
    from airflow_sqlqueue.consuming.options import ConsumeOptions, ConsumeResult
    from airflow_sqlqueue.drain.drain import DrainResult, Engine
    from airflow_sqlqueue.drain.progress import Progress
    from airflow_sqlqueue.drain.request import DrainRequest
    from airflow_sqlqueue.drain.storage.folder import StagingFolder


class Queue:
    """A queue by its address. Each call has a connection of its own, or takes part in the client's transaction.

    Calls raise :class:`~airflow_sqlqueue.errors.QueueNotFoundError` where no table stands at the address and
    :class:`~airflow_sqlqueue.errors.NotAQueueError` where it is none of the transport's.
    """

    def __init__(self, connector: Connector, queue_name: str) -> None:
        connector.resolver.resolve(queue_name)
        self._connector, self._name = connector, queue_name

    @cached_property
    def address(self) -> ResolvedAddress:
        """The table that the address means; ``queue@MACHINE`` of versions 1 and 2 takes a look at the server."""
        return self._connector.find(self._name)

    def open(self, *, sending: bool = False) -> AbstractContextManager[QueueTable]:
        """The queue through one connection for the block: for several calls on it, or a stream that commits as it goes.

        In the client's transaction it is that one's session; ``sending`` asks for the one that sends.
        """
        return self._connector.queue(self._name, sending=sending)

    def send(self, messages: Iterable[Message]) -> int:
        """Send messages in one transaction and return how many; at least once, if the caller repeats a failed call."""
        with self.open(sending=True) as table, table.session.transaction():
            return table.send(messages)

    def send_once(
        self,
        send_id: uuid.UUID,
        messages: Iterable[Message],
        origin: str = "",
        *,
        message_id: uuid.UUID | None = None,
    ) -> SendResult:
        """Send messages in one transaction unless a send with this id was committed before: exactly once.

        ``message_id`` is kept with the entry: a repetition's result has that of the send that was committed.

        The send ledger, in the queue's database, is made where it is missing: see
        :class:`airflow_sqlqueue.queue.send_ledger.SendLedger`.
        """
        with self.open(sending=True) as table:
            ledger = self._connector.send_ledger(table.session, table.address.catalog)
            return ledger.send(table, send_id, messages, origin, message_id=message_id)

    def send_numbered(self, messages: Iterable[Message]) -> list[int]:
        """:meth:`send`, and return the messages' RowVersions, in their order."""
        with self.open(sending=True) as table, table.session.transaction():
            return table.send_numbered(messages)

    def receive(
        self,
        limit: int = 1,
        *,
        where: MessageFilter | None = None,
        window: int = WINDOW,
        keep_expired: bool = False,
    ) -> list[ReceivedMessage]:
        """Take messages out of the queue. At most once: they are gone when this returns, whatever comes after.

        Use :meth:`drain`, or the client's transaction, where none may be lost. See
        :meth:`airflow_sqlqueue.queue.QueueTable.receive`.
        """
        with self.open() as table:
            return table.receive(limit, where=where, window=window, keep_expired=keep_expired)

    def take(self, row_versions: Sequence[int] = (), *, ids: Sequence[uuid.UUID] = ()) -> list[ReceivedMessage]:
        """Take messages by RowVersion or row Id; delivery as for :meth:`receive`."""
        with self.open() as table:
            return table.take(row_versions, ids=ids)

    def peek(self, limit: int = 10, *, after: int = FIRST) -> list[ReceivedMessage]:
        """Look at messages, from the head of the queue or after a RowVersion; nothing is removed."""
        with self.open() as table:
            return table.peek(limit, after=after)

    def browse(self, limit: int = 10, *, after: int = FIRST) -> list[MessageHead]:
        """:meth:`peek` without bodies."""
        with self.open() as table:
            return browse(table, limit, after=after)

    def find(self, where: MessageFilter, limit: int = 100, *, window: int = WINDOW) -> list[MessageHead]:
        """Find messages by their headers; nothing is removed. See :func:`airflow_sqlqueue.queue.browsing.find`."""
        with self.open() as table:
            return find(table, where, limit, window=window)

    def depth(self, *, kind: str = "exact", limit: int | None = None) -> Depth:
        """Count messages, ``exact``, ``quick`` or ``catalog``; or look at the first ``limit`` rows only.

        See :mod:`airflow_sqlqueue.queue.depth` for what each can get wrong.
        """
        with self.open() as table:
            return depth(table, kind, limit=limit)

    def backlog(self, *, kind: str = "exact") -> Backlog:
        """The depth with delayed messages, the age of the oldest and how many rows were ever inserted."""
        with self.open() as table:
            return backlog(table, kind, delayed=delayed_address(self._connector.resolver, self._name, table.address))

    def through(self, session: Session) -> QueueTable:
        """The queue through a session of the caller's, who closes it; :meth:`open` is what most want."""
        return QueueTable(session, self._connector.find_in(session, self._name))

    def check(self, condition: QueueCondition, *, table: QueueTable | None = None) -> ConditionResult:
        """Look once whether a condition is met, reading only as many rows as that takes; nothing is removed.

        ``table`` is the queue where it is open already. A receiver may find other messages afterwards. See
        :class:`airflow_sqlqueue.queue.condition.QueueCondition`.
        """
        with nullcontext(table) if table else self.open() as queue:
            delayed = delayed_address(self._connector.resolver, self._name, queue.address)
            return check_condition(queue, condition, delayed=delayed)

    def purge(self, options: PurgeOptions | None = None) -> PurgeResult:
        """Delete what has expired, or what the options say. See :func:`airflow_sqlqueue.queue.purge.purge`."""
        with self._connector.queue(self._name, what=f"Purging the queue {self._name}") as table:
            return purge(table, options)

    def forward(
        self,
        to_queue: str,
        *,
        chunk: int = CHUNK,
        max_messages: int | None = None,
        max_seconds: float | None = None,
        on_progress: Callable[[int], None] | None = None,
    ) -> ForwardResult:
        """Move what is in the queue to another one of the server, as it is: exactly once.

        See :func:`airflow_sqlqueue.queue.forwarding.forward`.
        """
        with self._connector.queue(self._name, what=f"Forwarding the queue {self._name}") as table:
            target = QueueTable(table.session, self._connector.find_in(table.session, to_queue))
            return forward(
                table,
                target,
                chunk=chunk,
                max_messages=max_messages,
                max_seconds=max_seconds,
                on_progress=on_progress,
            )

    def request(self, message: Message, *, timeout: float = 30.0, reply_queue: str | None = None) -> conversation.Reply:
        """Send a request, and wait up to ``timeout`` seconds for the reply.

        It comes to a private queue, made for it and dropped afterwards, or to ``reply_queue``, which others may share.
        See :func:`airflow_sqlqueue.publishing.conversation.request`.
        """
        polling = conversation.Polling(timeout)
        with ExitStack() as stack:
            destination = stack.enter_context(self.open(sending=True))
            session = destination.session
            if reply_queue is None:
                replies = stack.enter_context(conversation.private_queue(session, self._connector.resolver))
            else:
                replies = QueueTable(session, self._connector.find_in(session, reply_queue))
            return conversation.request(destination, message, replies, polling)

    def find_reply(self, correlation_id: str, *, table: QueueTable | None = None) -> int | None:
        """The RowVersion of the reply to a request, in this queue, by its correlation id; None: there is none.

        ``table`` is the queue where it is open already.
        """
        with nullcontext(table) if table else self.open() as replies:
            return conversation.find_reply(replies, correlation_id)

    def take_reply(self, correlation_id: str) -> conversation.Reply | None:
        """Take the reply to a request out of this queue; None: there is none. Delivery as for :meth:`receive`."""
        with self.open() as replies:
            return conversation.take_reply(replies, correlation_id)

    def consume(
        self,
        handle: Handle,
        options: ConsumeOptions | None = None,
        *,
        on_progress: Callable[[ConsumeResult], None] | None = None,
        stop: threading.Event | None = None,
    ) -> ConsumeResult:
        """Handle the queue's messages as an endpoint does: receive, call ``handle`` with an envelope, commit.

        What ``handle`` sends and runs through a client of this server is part of the transaction; what it raises rolls
        it back, and the message is tried again, then goes to the error queue. ``handle`` runs in several threads. See
        :class:`airflow_sqlqueue.consuming.consumer.Consumer`.

        Raises :class:`~airflow_sqlqueue.errors.TransactionError` in the client's transaction: each message is one.
        """
        if self._connector.in_transaction:
            raise TransactionError("Each message is a transaction of its own: call consume outside the transaction.")
        from airflow_sqlqueue.consuming.consumer import Consumer

        connector = self._connector
        return Consumer(
            connector.session,
            connector.resolver,
            self._name,
            handle,
            options,
            on_progress=on_progress,
            stop=stop,
            ledger_schema=connector.ledger_schema,
        ).run()

    def drain(
        self,
        staging: str | PathLike[str] | StagingFolder | None = None,
        request: DrainRequest | None = None,
        *,
        stage: str = "files",
        engine: Engine | None = None,
        on_progress: Callable[[Progress], None] | None = None,
    ) -> DrainResult:
        """Drain the queue into a sealed batch: exactly once, from the queue to the batch.

        ``stage`` is ``files`` for Parquet files under ``staging``, or ``table`` for a table beside the queue, without a
        staging folder; :func:`~airflow_sqlqueue.spark.read_batch` reads both. ``request`` names the batch, which the
        same id resumes, the messages and the limits; without it a new batch is drained of all messages. ``engine`` is
        where the workers run: threads of this process, unless it is another, as
        :class:`airflow_sqlqueue.spark.executors.SparkEngine` for Spark's executors. See
        :class:`airflow_sqlqueue.drain.request.DrainRequest`.

        Raises :class:`~airflow_sqlqueue.errors.TransactionError` in the client's transaction: parts commit one by one.
        """
        if self._connector.in_transaction:
            raise TransactionError("A drain commits its parts one by one: call it outside the transaction.")
        # Arrow takes longer to load than all else that a client can do.
        from airflow_sqlqueue.drain.drain import Drain
        from airflow_sqlqueue.drain.stages.factory import stage_of

        return Drain(
            self._connector.session,
            self.address,
            stage_of(stage, folder_of(staging), self._connector.ledger_schema),
            request,
            ledger_schema=self._connector.ledger_schema,
            engine=engine,
            on_progress=on_progress,
        ).run()
