"""Queue of the client's server: send, receive, peek, count, purge, forward, consume, drain."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from functools import cached_property, wraps
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

from airflow_sqlqueue.client.connector import Connector, folder_of
from airflow_sqlqueue.errors import TransactionError
from airflow_sqlqueue.messages.envelope.causation import outgoing
from airflow_sqlqueue.messages.message import Message, ReceivedMessage
from airflow_sqlqueue.messages.routing import ResolvedAddress
from airflow_sqlqueue.options import check_type
from airflow_sqlqueue.queue import (
    Backlog,
    ConditionResult,
    MessageFilter,
    PurgeOptions,
    PurgeResult,
    QueueCondition,
    QueueTable,
    browsing,
)
from airflow_sqlqueue.queue.condition import check_condition
from airflow_sqlqueue.queue.depth import backlog, backlog_of_all
from airflow_sqlqueue.queue.depth import depth as count
from airflow_sqlqueue.queue.forwarding import ForwardOptions, ForwardResult, forward
from airflow_sqlqueue.queue.publishing import conversation
from airflow_sqlqueue.queue.publishing.private_queue import private_queue
from airflow_sqlqueue.queue.purge import purge, purge_all
from airflow_sqlqueue.queue.send_ledger import SendResult
from airflow_sqlqueue.queue.tables.create import delayed_address
from airflow_sqlqueue.queue.tables.discovery import find_address, find_secondary_queues
from airflow_sqlqueue.server.session import Session

if TYPE_CHECKING:
    from airflow_sqlqueue.client.connector import Staging
    from airflow_sqlqueue.drain.drain import DrainResult, Engine
    from airflow_sqlqueue.drain.progress import Progress
    from airflow_sqlqueue.drain.request import DrainRequest
    from airflow_sqlqueue.endpoint.options import ConsumeOptions, ConsumeResult
    from airflow_sqlqueue.endpoint.run import Handle


P = ParamSpec("P")
T = TypeVar("T")


def _on_table(operation: Callable[Concatenate[QueueTable, P], T]) -> Callable[Concatenate[Queue, P], T]:
    """Return an operation on an open queue as a method of :class:`Queue`, which opens the queue for the call."""

    @wraps(operation)
    def run(queue: Queue, /, *arguments: P.args, **named: P.kwargs) -> T:
        with queue.open() as table:
            return operation(table, *arguments, **named)

    return run


def _secondary(table: QueueTable) -> list[QueueTable]:
    return [QueueTable(table.session, address) for address in find_secondary_queues(table.session, table.address)]


class Queue:
    """Queue at an address. Each call has a connection of its own, or takes part in the client's transaction.

    Calls raise :class:`~airflow_sqlqueue.errors.QueueNotFoundError` where no table has the address and
    :class:`~airflow_sqlqueue.errors.NotAQueueError` where the table is not a queue of the transport.
    """

    def __init__(self, connector: Connector, queue_name: str) -> None:
        connector.resolver.resolve(queue_name)
        self._connector, self._name = connector, queue_name

    @cached_property
    def address(self) -> ResolvedAddress:
        """Table of the address as it is spelled; ``queue@MACHINE`` of versions 1 and 2 takes a query to the server."""
        return self._connector.address(self._name)

    def open(self, *, sending: bool = False) -> AbstractContextManager[QueueTable]:
        """Open the queue for the block, through one connection: for several calls, or a stream that commits in steps.

        In the client's transaction it is the session of the transaction; ``sending`` asks for the one that sends.
        """
        return self._connector.queue(self._name, sending=sending)

    def send(self, messages: Iterable[Message]) -> int:
        """Send messages in one transaction and return how many; at least once, if the caller repeats a failed call.

        In a handler of :meth:`consume` this call, like all that send, links the messages to the handled message by the
        causation headers (docs/transport/messages.md, "Causation").
        """
        with (
            self.open(sending=True) as table,
            outgoing(messages, table.address.canonical) as linked,
            table.session.transaction(),
        ):
            return table.send(linked)

    def send_once(
        self,
        send_id: uuid.UUID,
        messages: Iterable[Message],
        origin: str = "",
        *,
        message_id: uuid.UUID | None = None,
    ) -> SendResult:
        """Send messages in one transaction unless a send with this id was committed before: exactly once.

        The send ledger keeps ``message_id``: the result of a repeated send has the id of the send that was committed.
        The ledger, in the queue's database, is created where it is missing: see
        :class:`airflow_sqlqueue.queue.send_ledger.SendLedger`.
        """
        with self.open(sending=True) as table:
            ledger = self._connector.send_ledger(table.session, table.address.catalog)
            with outgoing(messages, table.address.canonical) as linked:
                return ledger.send(table, send_id, linked, origin, message_id=message_id)

    def send_numbered(self, messages: Iterable[Message]) -> list[int]:
        """Send as :meth:`send`, and return the messages' RowVersions, in their order."""
        with (
            self.open(sending=True) as table,
            outgoing(messages, table.address.canonical) as linked,
            table.session.transaction(),
        ):
            return table.send_numbered(linked)

    def receive(
        self,
        limit: int = 1,
        *,
        where: MessageFilter | None = None,
        window: int = browsing.WINDOW,
        keep_expired: bool = False,
    ) -> list[ReceivedMessage]:
        """Take messages out of the queue. At most once: they are gone as soon as the call returns.

        Where no message may be lost, use :meth:`drain`, or the client's transaction. See
        :meth:`airflow_sqlqueue.queue.QueueTable.receive`.
        """
        with self.open() as table:
            return table.receive(limit, where=where, window=window, keep_expired=keep_expired)

    def take(self, row_versions: Sequence[int] = (), *, ids: Sequence[uuid.UUID] = ()) -> list[ReceivedMessage]:
        """Take messages by RowVersion or row Id; delivery as for :meth:`receive`."""
        with self.open() as table:
            return table.take(row_versions, ids=ids)

    peek = _on_table(QueueTable.peek)
    browse = _on_table(browsing.browse)
    find = _on_table(browsing.find)
    depth = _on_table(count)
    take_reply = _on_table(conversation.take_reply)

    def backlog(self, *, kind: str = "exact", secondary: bool = False) -> Backlog:
        """Return the depth, the number of delayed messages, the age of the oldest and the rows ever inserted.

        With ``secondary`` that of each secondary queue as well, and their sums.
        """
        with self.open() as table:
            found = backlog(table, kind, delayed=self._delayed(table.session))
            if not secondary:
                return found
            others = {each.address.canonical: backlog(each, kind) for each in _secondary(table)}
            return backlog_of_all({table.address.canonical: found, **others})

    def open_in(self, session: Session) -> QueueTable:
        """Open the queue in a session that the caller closes; most callers use :meth:`open`."""
        return QueueTable(session, self._connector.find_in(session, self._name))

    def check(self, condition: QueueCondition, *, table: QueueTable | None = None) -> ConditionResult:
        """Check once whether a condition is met, and read only as many rows as needed; nothing is removed.

        ``table`` is the queue where it is open already. A receiver may find other messages afterwards. See
        :class:`airflow_sqlqueue.queue.condition.QueueCondition`.
        """
        check_type("condition", QueueCondition.__name__, condition)
        with nullcontext(table) if table else self.open() as queue:
            others = _secondary(queue) if condition.secondary else []
            return check_condition(queue, condition, delayed=self._delayed(queue.session), others=others)

    def _delayed(self, session: Session) -> ResolvedAddress | None:
        resolver = self._connector.resolver
        return delayed_address(resolver, self._name, find_address(session, resolver, self._name))

    def purge(self, options: PurgeOptions | None = None) -> PurgeResult:
        """Delete expired messages, or those that the options choose. See :func:`airflow_sqlqueue.queue.purge.purge`.

        As a drop, a purge of messages that have not expired never takes ``queue@NAME`` for a queue on a machine of
        that name: :class:`ConfigurationError`.
        """
        options = PurgeOptions.or_default(options)
        if options.confirm:
            self._connector.check_schema(self._name)
        with self._connector.queue(self._name, what=f"Purging the queue {self._name}") as table:
            if not options.secondary:
                return purge(table, options)
            return purge_all([table, *_secondary(table)], options)

    def forward(
        self,
        to_queue: str,
        options: ForwardOptions | None = None,
        *,
        on_progress: Callable[[int], None] | None = None,
    ) -> ForwardResult:
        """Move the messages, or those that match, unchanged to another queue of the server: exactly once."""
        with self._connector.queue(self._name, what=f"Forwarding the queue {self._name}") as table:
            target = QueueTable(table.session, self._connector.find_in(table.session, to_queue))
            return forward(table, target, options, on_progress=on_progress)

    def request(self, message: Message, *, timeout: float = 30.0, reply_queue: str | None = None) -> conversation.Reply:
        """Send a request, and wait up to ``timeout`` seconds for the reply.

        The reply comes to ``reply_queue``, which may be shared, or to a private queue, which the call creates and
        drops. See :func:`airflow_sqlqueue.queue.publishing.conversation.request`.
        """
        check_type("message", Message.__name__, message)
        polling = conversation.Polling(timeout)
        with ExitStack() as stack:
            destination = stack.enter_context(self.open(sending=True))
            session = destination.session
            if reply_queue is None:
                replies = stack.enter_context(private_queue(session, self._connector.resolver))
            else:
                replies = QueueTable(session, self._connector.find_in(session, reply_queue))
            return conversation.request(destination, message, replies, polling)

    def find_reply(self, correlation_id: str, *, table: QueueTable | None = None) -> int | None:
        """Find the reply to a request in this queue, by its correlation id; return its RowVersion or None.

        ``table`` is the queue where it is open already.
        """
        with nullcontext(table) if table else self.open() as replies:
            return conversation.find_reply(replies, correlation_id)

    def consume(
        self,
        handle: Handle,
        options: ConsumeOptions | None = None,
        *,
        on_progress: Callable[[ConsumeResult], None] | None = None,
        stop: threading.Event | None = None,
        on_contact: Callable[[bool], None] | None = None,
    ) -> ConsumeResult:
        """Handle the queue's messages as an endpoint does: receive, call ``handle`` with an envelope, commit.

        Sends and statements of ``handle`` through a client of this server are part of the transaction. An exception of
        ``handle`` rolls it back: the message is tried again, then goes to the error queue. ``handle`` runs in several
        threads; it may be :class:`~airflow_sqlqueue.MessageHandlers`, functions by message type. See
        :class:`airflow_sqlqueue.endpoint.consumer.Consumer`.

        Raises :class:`~airflow_sqlqueue.errors.TransactionError` in the client's transaction: each message is one.
        """
        if self._connector.in_transaction:
            raise TransactionError("Each message is a transaction of its own: call consume outside the transaction.")
        from airflow_sqlqueue.endpoint.consumer import Consumer
        from airflow_sqlqueue.endpoint.consumers import Consumers
        from airflow_sqlqueue.endpoint.options import ConsumeOptions

        connector, options = self._connector, ConsumeOptions.or_default(options)
        return (Consumers if options.secondary else Consumer)(
            connector.session,
            connector.resolver,
            self._name,
            handle,
            options,
            on_progress=on_progress,
            stop=stop,
            on_contact=on_contact,
        ).run()

    def drain(
        self,
        staging: Staging | None = None,
        request: DrainRequest | None = None,
        *,
        stage: str = "files",
        engine: Engine | None = None,
        on_progress: Callable[[Progress], None] | None = None,
    ) -> DrainResult:
        """Drain the queue into a sealed batch: exactly once, from the queue to the batch.

        ``stage`` is ``files`` for Parquet files under ``staging``, or ``table`` for a table beside the queue, without a
        staging folder; :func:`~airflow_sqlqueue.spark.read_batch` reads both. ``request`` names the batch, which the
        same id resumes, the messages and the limits; without it a new batch takes all messages. ``engine`` runs the
        workers: by default threads of this process, with
        :class:`airflow_sqlqueue.spark.executors.SparkEngine` Spark's executors. See
        :class:`airflow_sqlqueue.drain.request.DrainRequest`.

        Raises :class:`~airflow_sqlqueue.errors.TransactionError` in the client's transaction: parts commit one by one.
        """
        if self._connector.in_transaction:
            raise TransactionError("A drain commits its parts one by one: call it outside the transaction.")
        # Both load Arrow, which takes longer than most calls of a client.
        from airflow_sqlqueue.drain.drain import Drain
        from airflow_sqlqueue.drain.stages.factory import stage_of

        return Drain(
            self._connector.session,
            self.address,
            stage_of(stage, folder_of(staging)),
            request,
            engine=engine,
            on_progress=on_progress,
        ).run()
