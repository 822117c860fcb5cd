"""Groups of headers, each a frozen dataclass of typed values.

Source: docs/transport/messages.md, "Header names".

A field is None if its header is missing or not of its type: one bad value must not hide the others.
"""

# ruff: noqa: RUF009 - the functions called for defaults return dataclass fields
from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any, Literal, TypeVar, get_args

from airflow_sqlqueue.errors import AddressError
from airflow_sqlqueue.messages.address import QueueAddress
from airflow_sqlqueue.messages.envelope.times import parse_interval, parse_time
from airflow_sqlqueue.messages.message import HeaderNames, Headers, full_name

Intent = Literal["Send", "Publish", "Reply", "Subscribe", "Unsubscribe"]
INTENTS: tuple[Intent, ...] = get_args(Intent)

G = TypeVar("G", bound="HeaderGroup")


def _header(
    name: str, read: Callable[[str], Any] = lambda text: text, *, missing: Any = None, shown: bool = True
) -> Any:
    """Return a field for the header ``name``; a field that may have personal data is not ``shown`` in a repr."""

    def reader(headers: Headers) -> Any:
        text = headers.get(name)
        return missing if text is None else read(text)

    return field(default=missing, repr=shown, metadata={"read": reader})


def _present(name: str) -> Any:
    """Return a field that is true if the header exists: endpoints ignore its value."""
    return field(default=False, metadata={"read": lambda headers: name in headers})


def _prefixed(prefix: str) -> Any:
    """Return a field with the headers of a prefix, by the rest of their names."""
    return field(
        default_factory=dict,
        repr=False,
        metadata={
            "read": lambda headers: MappingProxyType(
                {name[len(prefix) :]: value for name, value in headers.items() if name.startswith(prefix)}
            )
        },
    )


def _flag(text: str) -> bool | None:
    return {"true": True, "false": False}.get(text.strip().lower())


def _number(text: str) -> int | None:
    return int(text) if re.fullmatch(r"\s*[+-]?[0-9]{1,18}\s*", text) else None


def _address(text: str) -> QueueAddress | None:
    try:
        return QueueAddress.parse(text)
    except AddressError:
        return None


def _intent(text: str) -> Intent | None:
    """Return the intent, case-insensitively, as endpoints read it."""
    return next((intent for intent in INTENTS if intent.lower() == text.strip().lower()), None)


def _types(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(";") if name.strip())


@dataclass(frozen=True)
class HeaderGroup:
    """Base class of the groups of headers."""

    @classmethod
    def of(cls: type[G], headers: Headers) -> G:
        """Read the group from headers; never raises."""
        return cls(**{one.name: one.metadata["read"](headers) for one in fields(cls)})


@dataclass(frozen=True)
class Identity(HeaderGroup):
    """Ids of a message and of the conversation that it belongs to."""

    message_id: str | None = _header(HeaderNames.MESSAGE_ID)
    correlation_id: str | None = _header(HeaderNames.CORRELATION_ID)
    conversation_id: str | None = _header(HeaderNames.CONVERSATION_ID)
    previous_conversation_id: str | None = _header(HeaderNames.PREVIOUS_CONVERSATION_ID)
    related_to: str | None = _header(HeaderNames.RELATED_TO)


@dataclass(frozen=True)
class Content(HeaderGroup):
    """Content type and message types. ``enclosed_message_types`` are the types as written, most derived first."""

    content_type: str | None = _header(HeaderNames.CONTENT_TYPE)
    enclosed_message_types: tuple[str, ...] = _header(HeaderNames.ENCLOSED_MESSAGE_TYPES, _types, missing=())

    @property
    def message_types(self) -> tuple[str, ...]:
        """Full names of the types, without their assemblies."""
        return tuple(filter(None, map(full_name, self.enclosed_message_types)))

    @property
    def message_type(self) -> str | None:
        """Full name of the most derived type."""
        return next(iter(self.message_types), None)

    @property
    def media_type(self) -> str | None:
        """Content type without its parameters, in lower case: ``application/json``."""
        return (self.content_type or "").partition(";")[0].strip().lower() or None

    @property
    def charset(self) -> str | None:
        """Parameter ``charset`` of the content type, in lower case."""
        for parameter in (self.content_type or "").split(";")[1:]:
            name, _, value = parameter.partition("=")
            if name.strip().lower() == "charset":
                return value.strip().strip("\"'").lower() or None
        return None


@dataclass(frozen=True)
class Routing(HeaderGroup):
    """Origin and reply address. ``reply_to`` is ``reply_to_address`` parsed, None if it is not an address."""

    intent: Intent | None = _header(HeaderNames.MESSAGE_INTENT, _intent)
    reply_to_address: str | None = _header(HeaderNames.REPLY_TO_ADDRESS)
    reply_to: QueueAddress | None = _header(HeaderNames.REPLY_TO_ADDRESS, _address)
    originating_endpoint: str | None = _header(HeaderNames.ORIGINATING_ENDPOINT)
    originating_machine: str | None = _header(HeaderNames.ORIGINATING_MACHINE)
    originating_host_id: str | None = _header(HeaderNames.ORIGINATING_HOST_ID)
    tenant_id: str | None = _header(HeaderNames.TENANT_ID)


@dataclass(frozen=True)
class Time(HeaderGroup):
    """Time of the send, and lifetime. The transport uses the row's Expires, not these headers."""

    time_sent: datetime | None = _header(HeaderNames.TIME_SENT, parse_time)
    deliver_at: datetime | None = _header(HeaderNames.DELIVER_AT, parse_time)
    time_to_be_received: timedelta | None = _header(HeaderNames.TIME_TO_BE_RECEIVED, parse_interval)
    non_durable: bool | None = _header(HeaderNames.NON_DURABLE_MESSAGE, _flag)
    version: str | None = _header(HeaderNames.VERSION)


@dataclass(frozen=True)
class Saga(HeaderGroup):
    """Saga that a message is for, and saga that it comes from."""

    saga_id: str | None = _header(HeaderNames.SAGA_ID)
    saga_type: str | None = _header(HeaderNames.SAGA_TYPE)
    originating_saga_id: str | None = _header(HeaderNames.ORIGINATING_SAGA_ID)
    originating_saga_type: str | None = _header(HeaderNames.ORIGINATING_SAGA_TYPE)
    is_timeout: bool | None = _header(HeaderNames.IS_SAGA_TIMEOUT_MESSAGE, _flag)


@dataclass(frozen=True)
class Recoverability(HeaderGroup):
    """Counts of immediate and delayed retries."""

    immediate_retries: int | None = _header(HeaderNames.IMMEDIATE_RETRIES, _number)
    delayed_retries: int | None = _header(HeaderNames.DELAYED_RETRIES, _number)
    delayed_at: datetime | None = _header(HeaderNames.DELAYED_RETRIES_TIMESTAMP, parse_time)


@dataclass(frozen=True)
class FailureHeaders(HeaderGroup):
    """Failure of a message in an error queue. A text of an exception may quote the message, so no repr shows it."""

    failed_queue: str | None = _header(HeaderNames.FAILED_Q)
    time_of_failure: datetime | None = _header(HeaderNames.TIME_OF_FAILURE, parse_time)
    exception_type: str | None = _header(HeaderNames.EXCEPTION_TYPE)
    inner_exception_type: str | None = _header(HeaderNames.INNER_EXCEPTION_TYPE)
    exception_source: str | None = _header(HeaderNames.EXCEPTION_SOURCE)
    exception_message: str | None = _header(HeaderNames.EXCEPTION_MESSAGE, shown=False)
    stack_trace: str | None = _header(HeaderNames.EXCEPTION_STACK_TRACE, shown=False)
    help_link: str | None = _header(HeaderNames.EXCEPTION_HELP_LINK, shown=False)
    exception_data: Mapping[str, str | None] = _prefixed(HeaderNames.EXCEPTION_DATA_PREFIX)


@dataclass(frozen=True)
class Audit(HeaderGroup):
    """Endpoint that handled a message, and the times; a failed message has the endpoint and the machine too."""

    processing_started: datetime | None = _header(HeaderNames.PROCESSING_STARTED, parse_time)
    processing_ended: datetime | None = _header(HeaderNames.PROCESSING_ENDED, parse_time)
    processing_endpoint: str | None = _header(HeaderNames.PROCESSING_ENDPOINT)
    processing_machine: str | None = _header(HeaderNames.PROCESSING_MACHINE)
    host_id: str | None = _header(HeaderNames.HOST_ID)
    host_display_name: str | None = _header(HeaderNames.HOST_DISPLAY_NAME)

    @property
    def duration(self) -> timedelta | None:
        """Time from the start of the processing to its end."""
        if self.processing_started is None or self.processing_ended is None:
            return None
        return self.processing_ended - self.processing_started


@dataclass(frozen=True)
class Control(HeaderGroup):
    """Control messages of the infrastructure: subscriptions, and the result of a callback (``error_code``)."""

    is_control_message: bool = _present(HeaderNames.CONTROL_MESSAGE)
    error_code: int | None = _header(HeaderNames.ERROR_CODE, _number)
    callback_queue: QueueAddress | None = _header(HeaderNames.CALLBACK_QUEUE, _address)
    subscription_message_type: str | None = _header(HeaderNames.SUBSCRIPTION_MESSAGE_TYPE)
    subscriber_address: QueueAddress | None = _header(HeaderNames.SUBSCRIBER_ADDRESS, _address)
    subscriber_endpoint: str | None = _header(HeaderNames.SUBSCRIBER_ENDPOINT)


@dataclass(frozen=True)
class Delayed(HeaderGroup):
    """Destination of a delayed message; the last three headers are those of the older timeout manager."""

    forward_destination: QueueAddress | None = _header(HeaderNames.FORWARD_DESTINATION, _address)
    is_deferred: bool = _present(HeaderNames.IS_DEFERRED_MESSAGE)
    timeout_expire: datetime | None = _header(HeaderNames.TIMEOUT_EXPIRE, parse_time)
    timeout_destination: QueueAddress | None = _header(HeaderNames.TIMEOUT_DESTINATION, _address)
    related_to_timeout_id: str | None = _header(HeaderNames.RELATED_TO_TIMEOUT_ID)


@dataclass(frozen=True)
class LargeBody(HeaderGroup):
    """Properties that are not in the body, with their keys in the data bus."""

    content_type: str | None = _header(HeaderNames.DATA_BUS_CONTENT_TYPE)
    properties: Mapping[str, str | None] = _prefixed(HeaderNames.DATA_BUS_PREFIX)


@dataclass(frozen=True)
class ServiceControlRetry(HeaderGroup):
    """Retry of a failed message by ServiceControl, and its acknowledgement."""

    unique_message_id: str | None = _header(HeaderNames.RETRY_UNIQUE_MESSAGE_ID)
    acknowledgement_queue: str | None = _header(HeaderNames.RETRY_ACKNOWLEDGEMENT_QUEUE)
    succeeded_at: datetime | None = _header(HeaderNames.RETRY_SUCCESSFUL, parse_time)
    acknowledgement_sent: bool | None = _header(HeaderNames.RETRY_ACKNOWLEDGEMENT_SENT, _flag)


@dataclass(frozen=True)
class Tracing(HeaderGroup):
    """W3C trace context. Applications choose state and baggage, so no repr shows them."""

    traceparent: str | None = _header(HeaderNames.TRACE_PARENT)
    tracestate: str | None = _header(HeaderNames.TRACE_STATE, shown=False)
    baggage: str | None = _header(HeaderNames.BAGGAGE, shown=False)
    start_new_trace: bool | None = _header(HeaderNames.START_NEW_TRACE, _flag)
