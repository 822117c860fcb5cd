"""Trigger that turns each message of a queue into an event; the message is deleted once Airflow has stored that."""

from __future__ import annotations

from collections.abc import AsyncIterator, Hashable, Sequence
from typing import TYPE_CHECKING, Any

from airflow.triggers.base import BaseEventTrigger, TriggerEvent

from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.messages.address import QueueAddress
from airflow_sqlqueue.messages.envelope import Envelope
from airflow_sqlqueue.messages.message import check_full_name
from airflow_sqlqueue.triggers.base import QueueTrigger, names, packed, unpacked
from airflow_sqlqueue.untrusted import event_value
from airflow_sqlqueue.versions.airflow import SHARED_STREAMS

if TYPE_CHECKING:
    from airflow.triggers.shared_stream import SharedStreamProducer

    from airflow_sqlqueue.client.client import QueueClient
    from airflow_sqlqueue.client.queues import Queue
    from airflow_sqlqueue.queue import QueueTable
    from airflow_sqlqueue.queue.browsing import MessageHead
    from airflow_sqlqueue.queue.locked_messages import LockedMessages

MOST = 1_000
"""Largest number of messages that one transaction holds; Airflow's default allows 1,024 pending per trigger."""


class SqlQueueMessageEventTrigger(QueueTrigger, BaseEventTrigger):
    """Receive the messages of a queue, one event each, for an ``AssetWatcher``.

    Use it for messages whose type and headers say everything, because the body is deleted unread. If bodies matter,
    use :class:`.SqlQueueDepthEventTrigger` and let the DAG drain or consume the queue.

    Delivery: an event at least once for each message. Up to ``max_held`` messages are locked in one transaction, and
    each is deleted when Airflow has stored its event. If a triggerer, connection or server dies before that, the
    messages stay in the queue and their events come again, so a run should treat events with the same ``message_id``
    as one. Airflow then decides about the run that gets an event; Airflow 3.3 may delay it until the next event.

    Unreadable messages, and messages whose type no trigger of this queue accepts, go to ``error_queue``, with headers
    that give the reason; expired messages are deleted. Triggers that differ only in ``message_types`` and ``headers``
    share one receiver; triggers of a paused DAG accept no messages. Errors are logged once each, and the trigger tries
    again after 1 to 60 seconds.

    An event holds ``queue_name`` or ``endpoint``, ``row_version``, ``id`` (the row's), ``message_id``,
    ``correlation_id``, ``conversation_id``, ``message_type``, ``time_sent`` and the requested ``headers``. Airflow logs
    and stores it, so request no header that holds secrets. A value with more than 1,000 characters, a NUL or half a
    surrogate pair is None.

    :param message_types: the full names of the types that are accepted, without assemblies; None: all.
    :param headers: the names of further headers to put into events.
    :param error_queue: the address of the queue for messages that are rejected.
    :param max_held: number of messages held at one time, 1 to 1,000. Airflow needs one or two seconds to confirm.
    :param poll_interval: seconds between two polls while the queue is empty.
    """

    def __init__(
        self,
        *,
        message_types: Sequence[str] | None = None,
        headers: Sequence[str] = (),
        error_queue: str = "error",
        max_held: int = 100,
        poll_interval: float = 5.0,
        **kwargs: Any,
    ) -> None:
        self.message_types = unpacked(message_types)
        self.headers = unpacked(headers)
        self.error_queue = error_queue
        self.max_held = max_held
        super().__init__(poll_interval=poll_interval, **kwargs)

    def check(self) -> None:
        SHARED_STREAMS.require()
        super().check()
        if self.message_types is not None:
            self.message_types = [*map(check_full_name, names("message_types", self.message_types))]
            if not self.message_types:
                raise ConfigurationError(
                    "message_types is empty, so each message is rejected: name types, or leave it out."
                )
        self.headers = names("headers", self.headers)
        QueueAddress.parse(self.error_queue)
        if not (isinstance(self.max_held, int) and 1 <= self.max_held <= MOST and self.poll_interval):
            raise ConfigurationError(f"max_held is 1 to {MOST}, and poll_interval a number of seconds above 0.")

    def shared_stream_key(self) -> Hashable:
        """Return the arguments that are equal for all triggers of one receiver."""
        return __name__, packed({n: v for n, v in self.arguments().items() if n not in ("message_types", "headers")})

    @classmethod
    def create_shared_stream_producer(cls, kwargs: dict[str, Any]) -> SharedStreamProducer:
        from airflow_sqlqueue.triggers.receiver import MessageReceiver, Reception

        trigger = cls(**kwargs)
        return MessageReceiver(Reception(trigger, trigger.max_held, trigger.locked_messages))

    async def filter_shared_stream(self, shared_stream: AsyncIterator[MessageHead]) -> AsyncIterator[TriggerEvent]:
        """Yield an event for each accepted message, and reject the others."""
        from airflow.triggers.shared_stream import reject_shared_stream_event

        async for head in shared_stream:
            envelope = Envelope.of(head.decoded)
            types = envelope.content.message_types
            if envelope.problem is None and (
                self.message_types is None or not set(self.message_types).isdisjoint(types)
            ):
                yield TriggerEvent(self._payload(head, envelope))
            else:
                reject_shared_stream_event()

    def run(self) -> AsyncIterator[TriggerEvent]:
        raise NotImplementedError("This trigger reads a shared stream, which only Airflow's triggerer opens.")

    def poll(self, queue: Queue, table: QueueTable) -> dict[str, Any] | None:
        """Return an empty result if the queue has messages, for which the receiver connects, else None."""
        return None if table.ends() is None else {}

    def locked_messages(self, client: QueueClient) -> LockedMessages:
        """Make the object that locks and deletes the queue's messages."""
        from airflow_sqlqueue.queue.locked_messages import LockedMessages
        from airflow_sqlqueue.server.session import Session
        from airflow_sqlqueue.triggers.poller import STATEMENT_TIMEOUT

        def connect() -> Session:
            return Session(client.settings, lock_timeout=client.lock_timeout, statement_timeout=STATEMENT_TIMEOUT)

        queue_name = client.resolver.address_of(self.queue_name, self.endpoint)
        return LockedMessages(connect, client.resolver, queue_name, self.error_queue)

    def _payload(self, head: MessageHead, envelope: Envelope) -> dict[str, Any]:
        identity, sent = envelope.identity, envelope.time.time_sent
        return {
            **self.named,
            "row_version": head.row_version,
            "id": str(head.id),
            "message_id": event_value(identity.message_id or str(head.id)),
            "correlation_id": event_value(identity.correlation_id),
            "conversation_id": event_value(identity.conversation_id),
            "message_type": event_value(envelope.content.message_type),
            "time_sent": None if sent is None else sent.isoformat(),
            "headers": {name: event_value(envelope.headers[name]) for name in self.headers if name in envelope.headers},
        }
