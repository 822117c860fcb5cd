"""Trigger that makes an event of each message of a queue, which leaves it when Airflow's database has the event."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Hashable, Sequence
from typing import TYPE_CHECKING, Any

from airflow.triggers.base import BaseEventTrigger, TriggerEvent
from airflow.triggers.shared_stream import SharedStreamProducer, reject_shared_stream_event

from airflow_sqlqueue.envelope import Envelope
from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.triggers.base import QueueTrigger
from airflow_sqlqueue.untrusted import event_value

if TYPE_CHECKING:
    from airflow_sqlqueue.client import QueueClient
    from airflow_sqlqueue.client.queues import Queue
    from airflow_sqlqueue.consuming.locked_messages import LockedMessages
    from airflow_sqlqueue.queue import QueueTable
    from airflow_sqlqueue.queue.browsing import MessageHead

MOST = 1_000
"""Messages that one transaction holds; Airflow lets 1,024 wait for a trigger, unless it is set otherwise."""


class SqlQueueMessageEventTrigger(QueueTrigger, BaseEventTrigger):
    """Receive the messages of a queue, one event each, for an ``AssetWatcher``.

    For messages that say all by their type and their headers: what is in the body leaves the queue unread. Where bodies
    matter, take :class:`.SqlQueueDepthEventTrigger` and let the DAG drain or consume the queue.

    Delivery: an event at least once for each message. Up to ``max_held`` messages are locked in one transaction, and
    each is deleted when Airflow has stored its event. A triggerer, connection or server that dies before that leaves
    the messages in the queue, and their events come again: a run should take two events of one ``message_id`` for one.
    Which run gets an event is Airflow's affair from then on; Airflow 3.3 may let it wait for the next event.

    A message goes to ``error_queue`` that cannot be read, or that no trigger of this queue accepts by its
    ``message_types``, with headers that tell why; expired messages are deleted. Triggers that differ in
    ``message_types`` and ``headers`` alone share one receiver; those of a paused DAG accept nothing. Errors are logged,
    each once, and the trigger tries again after 1 to 60 seconds.

    An event holds ``queue_name``, ``row_version``, ``id`` (the row's), ``message_id``, ``correlation_id``,
    ``conversation_id``, ``message_type``, ``time_sent`` and ``headers``, those that were asked for. Airflow logs and
    stores it, so ask for none that holds secrets. A value is None that has more than 1,000 characters, a NUL or half a
    surrogate pair.

    :param message_types: the full names of the types that are accepted, without assemblies; None: all.
    :param headers: the names of further headers whose values go into events.
    :param error_queue: the address of the queue for messages that are rejected.
    :param max_held: how many messages are held at one time, 1 to 1,000. Airflow takes one or two seconds to confirm.
    :param poll_interval: seconds between two looks as long as the queue is empty.
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
        super().__init__(poll_interval=poll_interval, **kwargs)
        if isinstance(message_types, str) or isinstance(headers, str):
            raise ConfigurationError("message_types and headers are lists of names.")
        if not (1 <= max_held <= MOST and poll_interval > 0):
            raise ConfigurationError(f"max_held is 1 to {MOST}, and poll_interval a number of seconds above 0.")
        self.message_types = None if message_types is None else sorted(message_types)
        self.headers = sorted(headers)
        self.error_queue = error_queue
        self.max_held = int(max_held)

    def arguments(self) -> dict[str, Any]:
        return {
            "message_types": self.message_types,
            "headers": self.headers,
            "error_queue": self.error_queue,
            "max_held": self.max_held,
            **super().arguments(),
        }

    def shared_stream_key(self) -> Hashable:
        """All arguments but those that may differ between triggers which share a receiver."""
        _, arguments = self.serialize()
        shared = {name: value for name, value in arguments.items() if name not in ("message_types", "headers")}
        return __name__, json.dumps(shared, sort_keys=True)

    @classmethod
    def create_shared_stream_producer(cls, kwargs: dict[str, Any]) -> SharedStreamProducer:
        from airflow_sqlqueue.triggers.receiver import MessageReceiver

        return MessageReceiver(cls(**kwargs))

    async def filter_shared_stream(self, shared_stream: AsyncIterator[MessageHead]) -> AsyncIterator[TriggerEvent]:
        """An event for each message that is accepted; the others are rejected."""
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
        raise NotImplementedError(
            "This trigger takes its messages from a shared stream, which the triggerer of Airflow opens."
        )

    def look(self, queue: Queue, table: QueueTable) -> dict[str, Any] | None:
        """Whether there is anything to receive; the receiver has a connection only as long as there is."""
        return None if table.ends() is None else {}

    def held_messages(self, client: QueueClient) -> LockedMessages:
        """The holder of the queue's messages."""
        from airflow_sqlqueue.consuming.locked_messages import LockedMessages
        from airflow_sqlqueue.session import Session
        from airflow_sqlqueue.triggers.poller import STATEMENT_TIMEOUT

        def connect() -> Session:
            return Session(client.settings, lock_timeout=client.lock_timeout, statement_timeout=STATEMENT_TIMEOUT)

        return LockedMessages(connect, client.resolver, self.queue_name, self.error_queue, client.ledger_schema)

    def _payload(self, head: MessageHead, envelope: Envelope) -> dict[str, Any]:
        identity, sent = envelope.identity, envelope.time.time_sent
        return {
            "queue_name": self.queue_name,
            "row_version": head.row_version,
            "id": str(head.id),
            "message_id": event_value(identity.message_id or str(head.id)),
            "correlation_id": event_value(identity.correlation_id),
            "conversation_id": event_value(identity.conversation_id),
            "message_type": event_value(envelope.content.message_type),
            "time_sent": None if sent is None else sent.isoformat(),
            "headers": {name: event_value(envelope.headers[name]) for name in self.headers if name in envelope.headers},
        }
