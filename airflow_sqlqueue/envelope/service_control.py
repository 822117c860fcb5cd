"""Integration events of ServiceControl as typed values: failed messages, heartbeats, custom checks.

Source: docs/transport/messages.md, "Integration events of ServiceControl".
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import Any

from airflow_sqlqueue.envelope.reading import Envelope
from airflow_sqlqueue.envelope.times import parse_time
from airflow_sqlqueue.errors import MessageError
from airflow_sqlqueue.message import Headers, Message, ReceivedMessage
from airflow_sqlqueue.untrusted import EVENT, event_value, quoted

MAX_BYTES = 8 * 1024 * 1024
"""Most bytes of an event's body: ServiceControl puts bodies of up to 85 KB into it, with headers and a stack trace."""

MAX_IDS = 100_000
"""Most ids in a list of an event; a longer list raises an error."""

_NAMESPACE = "ServiceControl.Contracts."
_STATUSES = ("ArchivedFailure", "Failed", "RepeatedFailure")


@dataclass(frozen=True)
class EndpointInstance:
    """Instance of an endpoint: its name, and the name and id of its host. Unknown values are None."""

    name: str | None
    host: str | None
    host_id: uuid.UUID | None

    @classmethod
    def of(cls, values: Mapping[str, Any], name: str = "EndpointName") -> EndpointInstance:
        """Read an instance; ``name`` is the field with its name."""
        host_id = _name(values.get("HostId"))
        try:
            identity = None if host_id is None else uuid.UUID(host_id)
        except ValueError:
            identity = None
        return cls(_name(values.get(name)), _name(values.get("Host")), identity)


@dataclass(frozen=True)
class MessageFailed:
    """A message came into the error queue that ServiceControl consumes.

    ``failed_message_id`` is ServiceControl's id of the failure, ``message_id`` that of the message, and
    ``failed_queue`` the address where it failed. ``status`` is ``Failed``, ``RepeatedFailure`` or ``ArchivedFailure``;
    ``attempts`` counts its failures. ``headers`` and ``body`` are those of the message; the body is None if
    ServiceControl left it out. Exception texts, headers and body may hold private data: keep them out of logs.
    """

    failed_message_id: str
    message_id: str | None
    message_type: str | None
    status: str | None
    attempts: int | None
    sending: EndpointInstance
    processing: EndpointInstance
    failed_queue: str | None
    time_of_failure: datetime | None
    exception_type: str | None
    exception_message: str | None = field(repr=False)
    exception_source: str | None = field(repr=False)
    stack_trace: str | None = field(repr=False)
    content_type: str | None
    headers: Headers = field(repr=False)
    body: str | None = field(repr=False)

    @property
    def envelope(self) -> Envelope:
        """The failed message's headers as typed values, with its body in UTF-8."""
        return Envelope(self.headers, (self.body or "").encode("utf-8", "replace"))

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> MessageFailed:
        """Read the event."""
        failure, message = _object(values.get("FailureDetails")), _object(values.get("MessageDetails"))
        exception, status = _object(failure.get("Exception")), values.get("Status")
        if isinstance(status, int) and not isinstance(status, bool) and 0 <= status < len(_STATUSES):
            status = _STATUSES[status]
        attempts = values.get("NumberOfProcessingAttempts")
        headers = {
            name: value
            for name, value in _object(message.get("Headers")).items()
            if value is None or isinstance(value, str)
        }
        return cls(
            failed_message_id=_id(values, "FailedMessageId"),
            message_id=_name(message.get("MessageId")),
            message_type=_name(values.get("MessageType")),
            status=status if status in _STATUSES else None,
            attempts=attempts if isinstance(attempts, int) and not isinstance(attempts, bool) else None,
            sending=EndpointInstance.of(_object(values.get("SendingEndpoint")), "Name"),
            processing=EndpointInstance.of(_object(values.get("ProcessingEndpoint")), "Name"),
            failed_queue=_name(failure.get("AddressOfFailingEndpoint")),
            time_of_failure=_time(failure.get("TimeOfFailure")),
            exception_type=_name(exception.get("ExceptionType")),
            exception_message=_text(exception.get("Message")),
            exception_source=_text(exception.get("Source")),
            stack_trace=_text(exception.get("StackTrace")),
            content_type=_name(message.get("ContentType")),
            headers=MappingProxyType(headers),
            body=_text(message.get("Body")),
        )


@dataclass(frozen=True)
class MessageFailureResolvedByRetry:
    """A failed message was handled after ServiceControl sent it again; ``alternative_ids`` are other ids of it."""

    failed_message_id: str
    alternative_ids: tuple[str, ...]

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> MessageFailureResolvedByRetry:
        """Read the event."""
        return cls(_id(values, "FailedMessageId"), _ids(values, "AlternativeFailedMessageIds"))


@dataclass(frozen=True)
class MessageFailureResolvedManually:
    """Somebody marked a failed message as resolved in ServicePulse."""

    failed_message_id: str

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> MessageFailureResolvedManually:
        """Read the event."""
        return cls(_id(values, "FailedMessageId"))


@dataclass(frozen=True)
class MessageEditedAndRetried:
    """Somebody edited a failed message in ServicePulse and sent it again."""

    failed_message_id: str

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> MessageEditedAndRetried:
        """Read the event."""
        return cls(_id(values, "FailedMessageId"))


@dataclass(frozen=True)
class FailedMessagesArchived:
    """Somebody archived (deleted) failed messages in ServicePulse."""

    failed_message_ids: tuple[str, ...]

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> FailedMessagesArchived:
        """Read the event."""
        return cls(_ids(values, "FailedMessagesIds"))


@dataclass(frozen=True)
class FailedMessagesUnArchived:
    """Somebody restored archived messages in ServicePulse."""

    failed_message_ids: tuple[str, ...]

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> FailedMessagesUnArchived:
        """Read the event."""
        return cls(_ids(values, "FailedMessagesIds"))


@dataclass(frozen=True)
class HeartbeatStopped:
    """An endpoint's instance has sent no heartbeat for too long."""

    endpoint: EndpointInstance
    last_received_at: datetime | None
    detected_at: datetime | None

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> HeartbeatStopped:
        """Read the event."""
        times = _time(values.get("LastReceivedAt")), _time(values.get("DetectedAt"))
        return cls(EndpointInstance.of(values), *times)


@dataclass(frozen=True)
class HeartbeatRestored:
    """An endpoint's instance sends heartbeats again."""

    endpoint: EndpointInstance
    restored_at: datetime | None

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> HeartbeatRestored:
        """Read the event."""
        return cls(EndpointInstance.of(values), _time(values.get("RestoredAt")))


@dataclass(frozen=True)
class CustomCheckFailed:
    """A custom check of an endpoint has failed; ``failure_reason`` is a text of its author."""

    endpoint: EndpointInstance
    check_id: str | None
    category: str | None
    failure_reason: str | None
    failed_at: datetime | None

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> CustomCheckFailed:
        """Read the event."""
        check = _name(values.get("CustomCheckId")), _name(values.get("Category"))
        return cls(
            EndpointInstance.of(values), *check, _text(values.get("FailureReason")), _time(values.get("FailedAt"))
        )


@dataclass(frozen=True)
class CustomCheckSucceeded:
    """A custom check of an endpoint has succeeded."""

    endpoint: EndpointInstance
    check_id: str | None
    category: str | None
    succeeded_at: datetime | None

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> CustomCheckSucceeded:
        """Read the event."""
        check = _name(values.get("CustomCheckId")), _name(values.get("Category"))
        return cls(EndpointInstance.of(values), *check, _time(values.get("SucceededAt")))


ServiceControlEvent = (
    MessageFailed
    | MessageFailureResolvedByRetry
    | MessageFailureResolvedManually
    | MessageEditedAndRetried
    | FailedMessagesArchived
    | FailedMessagesUnArchived
    | HeartbeatStopped
    | HeartbeatRestored
    | CustomCheckFailed
    | CustomCheckSucceeded
)

_READERS: Mapping[str, Callable[[Mapping[str, Any]], ServiceControlEvent]] = {
    f"{_NAMESPACE}{kind.__name__}": kind.of
    for kind in (
        MessageFailed,
        MessageFailureResolvedByRetry,
        MessageFailureResolvedManually,
        MessageEditedAndRetried,
        FailedMessagesArchived,
        FailedMessagesUnArchived,
        HeartbeatStopped,
        HeartbeatRestored,
        CustomCheckFailed,
        CustomCheckSucceeded,
    )
}

SERVICE_CONTROL_EVENTS = tuple(_READERS)
"""Full names of the types of events, to subscribe to: ``ServiceControl.Contracts.MessageFailed`` and nine others."""


def service_control_event(message: Message | ReceivedMessage | Envelope) -> ServiceControlEvent:
    """Read an integration event of ServiceControl from a message; the class of the result says which event it is.

    An event may come more than once, because ServiceControl repeats a batch of events after an error. A value that is
    missing, or of another type than the contract's, is None; a name that XCom cannot hold is None as well: one of
    more than 1,000 characters, or with a NUL or half a surrogate pair.

    Raises :class:`~airflow_sqlqueue.errors.MessageError` for another message, a body that is no JSON object or larger
    than 8 MiB, and an event about a message that does not name it.
    """
    envelope = message if isinstance(message, Envelope) else Envelope.of(message)
    found = [name for name in envelope.content.message_types if name in _READERS]
    if not found:
        kind = quoted(envelope.content.message_type)
        raise MessageError(f"A message of type {kind} is no event of ServiceControl: subscribe to its types only.")
    if len(envelope.body) > MAX_BYTES:
        raise MessageError(f"The event {found[0]} has more than {MAX_BYTES} bytes: it was not read.")
    values = envelope.json()
    if not isinstance(values, dict):
        raise MessageError(f"The body of the event {found[0]} is no JSON object, so it cannot be read.")
    return _READERS[found[0]](values)


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _name(value: Any) -> str | None:
    return event_value(value) or None if isinstance(value, str) else None


def _time(value: Any) -> datetime | None:
    return parse_time(value) if isinstance(value, str) and len(value) <= EVENT else None


def _id(values: Mapping[str, Any], name: str) -> str:
    found = _name(values.get(name))
    if found is None:
        raise MessageError(f"An event of ServiceControl has no {name}, so its message is unknown.")
    return found


def _ids(values: Mapping[str, Any], name: str) -> tuple[str, ...]:
    found = values.get(name)
    if not isinstance(found, list):
        return ()
    if len(found) > MAX_IDS:
        raise MessageError(f"The list {name} of an event of ServiceControl has more than {MAX_IDS} ids.")
    return tuple(text for text in map(_name, found) if text is not None)
