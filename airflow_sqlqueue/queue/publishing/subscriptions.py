"""Subscription table, and publishing to the queues in it.

Source: docs/transport/queue-tables.md, "Subscriptions". Versions 5 and later of the transport keep subscriptions there.
"""

from __future__ import annotations

import logging
import re
import uuid
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from shlex import join
from typing import Any

from airflow_sqlqueue.errors import AddressError, ConfigurationError, MessageError, QueueNotFoundError
from airflow_sqlqueue.messages.address import QueueAddress, text_of
from airflow_sqlqueue.messages.message import HeaderNames, Message, full_name
from airflow_sqlqueue.messages.routing import SUBSCRIPTION_TABLE, AddressResolver, ResolvedAddress
from airflow_sqlqueue.queue.queue_table import QueueTable
from airflow_sqlqueue.queue.tables.discovery import find_queue
from airflow_sqlqueue.queue.tables.layout import CREATE_COMMANDS, Layout
from airflow_sqlqueue.queue.tables.reading import read_layout
from airflow_sqlqueue.server.session import Session
from airflow_sqlqueue.server.sql import Fragment, Query, identifier, query
from airflow_sqlqueue.untrusted import quoted, units

log = logging.getLogger(__name__)

_PLAIN_NAME = re.compile(r"[\w.-]+")
MAX_LENGTH = 200
"""The most UTF-16 units in a column of the table."""

ALL_EVENTS = "System.Object"
"""The topic of subscribers to all events: every .NET type has this base type, and endpoints publish to it too."""

_TOPICS = (2, 8, 32, 128)
"""Numbers of topics in a statement. A few fixed sizes, so that the server gets few texts."""


@dataclass(frozen=True)
class Subscription:
    """Subscription: ``endpoint`` gets the events of ``topic`` in the queue at ``queue_address``."""

    topic: str
    endpoint: str
    queue_address: str


@dataclass(frozen=True)
class PublishResult:
    """Result of publishing: the number of ``messages``, and the ``queues`` (canonical addresses) that each went to."""

    messages: int
    queues: tuple[str, ...]

    @property
    def copies(self) -> int:
        """Number of messages sent to all queues."""
        return self.messages * len(self.queues)


def topic_of(type_name: str) -> str:
    """Return the topic of a .NET type: its full name without the assembly, ``Shop.Placed`` for ``Shop.Placed, Shop``.

    The arguments of a generic type keep their assemblies, as in .NET's full name. Raises :class:`MessageError` for a
    blank name or several names.
    """
    topic = full_name(type_name)
    if not topic or ";" in type_name:
        raise MessageError(f"{type_name!r} is not the name of one type: give Namespace.Name, and base types apart.")
    return topic


def types_in(type_names: Any) -> list[str]:
    """Return the names in a list of .NET types. Raises :class:`MessageError` for a text, whose characters would each be
    a type, and for other values.
    """
    names = list(type_names) if isinstance(type_names, Iterable) and not isinstance(type_names, str) else [type_names]
    if isinstance(type_names, str) or not all(isinstance(name, str) for name in names):
        raise MessageError(f"The types of events are a list of texts, not {quoted(str(type_names))}: give such a list.")
    return names


class SubscriptionTable:
    """Subscription table, through one connection. ``address`` is the resolved table."""

    def __init__(self, session: Session, address: ResolvedAddress) -> None:
        self.session = session
        self.address = address
        self._layout: Layout | None = None

    def query(self, name: str, **fragments: Fragment) -> Query:
        """Return a query on this table, whose errors name the table. Raises if it is missing or of another kind."""
        if self._layout is None:
            advice = None
            if self.address.table != SUBSCRIPTION_TABLE:
                made = CREATE_COMMANDS["subscription"]
                advice = f"check the address; the table that {made} makes is {SUBSCRIPTION_TABLE}"
            layout = read_layout(self.session, self.address, "subscription", advice=advice)
            layout.require("subscription")
            self._layout = layout
        return query(name, table=identifier(self.address), **fragments).naming("the table", self.address)

    def subscribe(self, type_name: str, endpoint: str, queue: ResolvedAddress) -> bool:
        """Subscribe an endpoint to the events of a type; return whether anything changed.

        An endpoint has one queue for a topic: a new address replaces the old one. The log has a warning if that is in
        another schema, where it may belong to another endpoint of the same name. Raises :class:`ConfigurationError` for
        a value that does not fit into the table's columns of 200 characters.
        """
        name = text_of("endpoint name", endpoint)
        values = {"queue address": queue.canonical, "endpoint": name, "topic": topic_of(type_name)}
        for what, value in values.items():
            if not value.strip():
                raise ConfigurationError(f"The {what} of a subscription is blank: give one.")
            if units(value) > MAX_LENGTH:
                raise ConfigurationError(
                    f"The {what} {value[:40]!r}... is longer than the {MAX_LENGTH} characters that the subscription "
                    "table holds: shorten it."
                )
        self._warn_of_another_schema(queue, endpoint, values["topic"])
        return bool(self.session.value(self.query("subscription.subscribe"), *values.values()))

    def _warn_of_another_schema(self, queue: ResolvedAddress, endpoint: str, topic: str) -> None:
        for (text,) in self.session.run(self.query("subscription.address"), endpoint, topic):
            with suppress(AddressError):
                schema = QueueAddress.parse(text).schema
                if schema is not None and schema.lower() != queue.schema.lower():
                    log.warning(
                        "The subscription of %s to %s moves from %s to %s, in another schema: an endpoint of that name "
                        "there gets none of these events any more, because subscriptions know endpoints by name",
                        *map(quoted, (endpoint, topic, text, queue.canonical)),
                    )

    def unsubscribe(self, type_name: str, endpoint: str) -> bool:
        """End a subscription; return whether there was one."""
        name = text_of("endpoint name", endpoint)
        return bool(self.session.value(self.query("subscription.unsubscribe"), name, topic_of(type_name)))

    def subscriptions(self) -> list[Subscription]:
        """Return every subscription, by topic and endpoint."""
        return [Subscription(*row) for row in self.session.run(self.query("subscription.list"))]

    def subscribers(self, type_names: Iterable[str]) -> list[str]:
        """Return the queue addresses of the subscribers to any of the types or to :data:`ALL_EVENTS`, each once."""
        topics = [*dict.fromkeys(map(topic_of, type_names)), ALL_EVENTS]
        size = next((size for size in _TOPICS if size >= len(topics)), None)
        if size is None:
            raise ConfigurationError(f"An event has {len(topics) - 1} types: give at most {_TOPICS[-1] - 1}.")
        topics += topics[-1:] * (size - len(topics))
        placeholders = Fragment(", ".join("?" * size))
        return [
            address
            for (address,) in self.session.run(self.query("subscription.subscribers", topics=placeholders), *topics)
        ]


def publish(
    table: SubscriptionTable, resolver: AddressResolver, messages: Iterable[Message], type_names: Sequence[str]
) -> PublishResult:
    """Publish events to every subscriber of their type and its base types, one copy to a queue, in one transaction.

    ``type_names`` is the events' .NET type followed by the base types and interfaces that subscribers may have
    subscribed to, as full names with or without their assemblies: this package cannot read assemblies. The names become
    the header ``NServiceBus.EnclosedMessageTypes``, and ``NServiceBus.MessageIntent`` becomes ``Publish``. All copies
    of a message have the same message id.

    Publishing joins an open transaction of the session. Delivery: at least once, for a caller that repeats a failed
    call. If a subscriber's queue is missing (:class:`QueueNotFoundError`) or another kind of table
    (:class:`NotAQueueError`), nothing is sent. All queues are on this server. Every endpoint may write its address into
    the table, so each address must be allowed (:meth:`.AddressResolver.allows`), else :class:`AddressError`. Raises
    :class:`MessageError` for a message whose headers are text.
    """
    type_names = types_in(type_names)
    if not type_names:
        raise MessageError("An event needs its type: subscribers are found by it.")
    events = [_event(message, type_names) for message in messages]
    session = table.session
    queues = _subscribed_queues(table, resolver, type_names)
    with session.transaction():
        for queue in queues:
            queue.send(events)
    return PublishResult(len(events), tuple(queue.address.canonical for queue in queues))


def _subscribed_queues(
    table: SubscriptionTable, resolver: AddressResolver, type_names: Sequence[str]
) -> list[QueueTable]:
    """Return the queues of the subscribers, each checked, and each once for all spellings of its address."""
    found: dict[str, QueueTable] = {}
    for text in table.subscribers(type_names):
        address = find_queue(table.session, resolver, text)
        found.setdefault(address.canonical, QueueTable(table.session, address))
    for queue in found.values():
        try:
            queue.require_allowed(resolver)
        except QueueNotFoundError as error:
            raise QueueNotFoundError(
                f"The queue {queue.address.canonical} of a subscriber does not exist, and nothing was published: "
                f"create it, or end its subscriptions with {_ending(table, resolver, queue.address, type_names)}."
            ) from error
        except AddressError as error:
            raise AddressError(
                f"The queue {queue.address.canonical} of a subscriber is outside of the allowed databases and schemas, "
                "and nothing was published: allow them to the connection, or end its subscriptions with "
                f"{_ending(table, resolver, queue.address, type_names)}."
            ) from error
    return list(found.values())


def _ending(
    table: SubscriptionTable, resolver: AddressResolver, queue: ResolvedAddress, type_names: Sequence[str]
) -> str:
    """Return the commands that end a queue's subscriptions to the types, or a pattern if there is no such command.

    Users copy these commands into a shell, and a subscriber chooses the endpoint's name. So the commands contain only
    endpoints with plain names. The publisher chooses the types. The shell may have none of this connection's settings,
    so the commands name each table but the transport's default.
    """
    usual = table.address == resolver.resolve(SUBSCRIPTION_TABLE)
    options = [] if usual else ["--table", table.address.canonical]
    topics = {*map(topic_of, type_names), ALL_EVENTS}
    commands = [
        f"'{join(['sqlqueue', 'unsubscribe', each.endpoint, each.topic, *options])}'"
        for each in table.subscriptions()
        if each.topic in topics
        and _PLAIN_NAME.fullmatch(each.endpoint)
        and find_queue(table.session, resolver, each.queue_address) == queue
    ]
    return " and ".join(commands) or "'sqlqueue unsubscribe <endpoint> <type>'"


def _event(message: Message, type_names: Sequence[str]) -> Message:
    if isinstance(message.headers, str):
        raise MessageError("An event's headers are text: give them as a mapping.")
    own = {
        # Without the header each copy would have the Id of its own row as its message id.
        HeaderNames.MESSAGE_ID: message.headers.get(HeaderNames.MESSAGE_ID) or str(message.id or uuid.uuid4()),
        HeaderNames.MESSAGE_INTENT: "Publish",
        HeaderNames.ENCLOSED_MESSAGE_TYPES: ";".join(type_names),
    }
    return Message({**message.headers, **own}, message.body, message.time_to_be_received)
