"""Messages of the transport: headers, their JSON, their names, and bodies.

Sources: docs/transport/messages.md, "Headers as JSON"; docs/transport/queue-tables.md, "Columns".
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from airflow_sqlqueue.errors import ConfigurationError, MessageError
from airflow_sqlqueue.untrusted import is_text, quoted

Headers = Mapping[str, "str | None"]
"""Header names and values, case-sensitive. A value of None is a JSON null, which endpoints do write."""


class HeaderNames:
    """Header names of the transport and of NServiceBus (docs/transport/messages.md, "Header names")."""

    MESSAGE_ID = "NServiceBus.MessageId"
    CORRELATION_ID = "NServiceBus.CorrelationId"
    CONVERSATION_ID = "NServiceBus.ConversationId"
    PREVIOUS_CONVERSATION_ID = "NServiceBus.PreviousConversationId"
    RELATED_TO = "NServiceBus.RelatedTo"
    CONTENT_TYPE = "NServiceBus.ContentType"
    ENCLOSED_MESSAGE_TYPES = "NServiceBus.EnclosedMessageTypes"
    MESSAGE_INTENT = "NServiceBus.MessageIntent"
    REPLY_TO_ADDRESS = "NServiceBus.ReplyToAddress"
    CALLBACK_QUEUE = "NServiceBus.SqlServer.CallbackQueue"
    ORIGINATING_ENDPOINT = "NServiceBus.OriginatingEndpoint"
    ORIGINATING_MACHINE = "NServiceBus.OriginatingMachine"
    ORIGINATING_HOST_ID = "$.diagnostics.originating.hostid"
    HOST_ID = "$.diagnostics.hostid"
    HOST_DISPLAY_NAME = "$.diagnostics.hostdisplayname"
    TENANT_ID = "tenant_id"
    TIME_SENT = "NServiceBus.TimeSent"
    DELIVER_AT = "NServiceBus.DeliverAt"
    TIME_TO_BE_RECEIVED = "NServiceBus.TimeToBeReceived"
    NON_DURABLE_MESSAGE = "NServiceBus.NonDurableMessage"
    VERSION = "NServiceBus.Version"
    SAGA_ID = "NServiceBus.SagaId"
    SAGA_TYPE = "NServiceBus.SagaType"
    ORIGINATING_SAGA_ID = "NServiceBus.OriginatingSagaId"
    ORIGINATING_SAGA_TYPE = "NServiceBus.OriginatingSagaType"
    IS_SAGA_TIMEOUT_MESSAGE = "NServiceBus.IsSagaTimeoutMessage"
    IMMEDIATE_RETRIES = "NServiceBus.FLRetries"
    DELAYED_RETRIES = "NServiceBus.Retries"
    DELAYED_RETRIES_TIMESTAMP = "NServiceBus.Retries.Timestamp"
    FAILED_Q = "NServiceBus.FailedQ"
    TIME_OF_FAILURE = "NServiceBus.TimeOfFailure"
    EXCEPTION_TYPE = "NServiceBus.ExceptionInfo.ExceptionType"
    INNER_EXCEPTION_TYPE = "NServiceBus.ExceptionInfo.InnerExceptionType"
    EXCEPTION_HELP_LINK = "NServiceBus.ExceptionInfo.HelpLink"
    EXCEPTION_MESSAGE = "NServiceBus.ExceptionInfo.Message"
    EXCEPTION_SOURCE = "NServiceBus.ExceptionInfo.Source"
    EXCEPTION_STACK_TRACE = "NServiceBus.ExceptionInfo.StackTrace"
    EXCEPTION_DATA_PREFIX = "NServiceBus.ExceptionInfo.Data."
    PROCESSING_STARTED = "NServiceBus.ProcessingStarted"
    PROCESSING_ENDED = "NServiceBus.ProcessingEnded"
    PROCESSING_ENDPOINT = "NServiceBus.ProcessingEndpoint"
    PROCESSING_MACHINE = "NServiceBus.ProcessingMachine"
    CONTROL_MESSAGE = "NServiceBus.ControlMessage"
    ERROR_CODE = "NServiceBus.ReturnMessage.ErrorCode"
    SUBSCRIPTION_MESSAGE_TYPE = "SubscriptionMessageType"
    SUBSCRIBER_ADDRESS = "NServiceBus.SubscriberAddress"
    SUBSCRIBER_ENDPOINT = "NServiceBus.SubscriberEndpoint"
    FORWARD_DESTINATION = "NServiceBus.SqlServer.ForwardDestination"
    IS_DEFERRED_MESSAGE = "NServiceBus.IsDeferredMessage"
    TIMEOUT_EXPIRE = "NServiceBus.Timeout.Expire"
    TIMEOUT_DESTINATION = "NServiceBus.Timeout.RouteExpiredTimeoutTo"
    RELATED_TO_TIMEOUT_ID = "NServiceBus.RelatedToTimeoutId"
    DATA_BUS_PREFIX = "NServiceBus.DataBus."
    DATA_BUS_CONTENT_TYPE = "NServiceBus.DataBusConfig.ContentType"
    TRACE_PARENT = "traceparent"
    TRACE_STATE = "tracestate"
    BAGGAGE = "baggage"
    START_NEW_TRACE = "NServiceBus.OpenTelemetry.StartNewTrace"
    RETRY_UNIQUE_MESSAGE_ID = "ServiceControl.Retry.UniqueMessageId"
    RETRY_ACKNOWLEDGEMENT_QUEUE = "ServiceControl.Retry.AcknowledgementQueue"
    RETRY_SUCCESSFUL = "ServiceControl.Retry.Successful"
    RETRY_ACKNOWLEDGEMENT_SENT = "ServiceControl.Retry.AcknowledgementSent"


@dataclass(frozen=True)
class Message:
    """A message to send.

    ``headers`` is a mapping, or the exact text for the column (to copy a row whose headers are not JSON). ``body`` is
    opaque bytes; ``b""`` means no body. ``time_to_be_received`` counts from the moment of the send by the server's
    clock; None means that the message does not expire, and zero or less that it has expired when it is sent. ``id`` is
    the row's Id; with None each row gets a new Id, as in versions 3 and later (the message id itself is a header).
    """

    headers: Headers | str = field(default_factory=dict, repr=False)
    body: bytes = field(default=b"", repr=False)
    time_to_be_received: timedelta | None = None
    id: uuid.UUID | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.headers, (str, Mapping)):
            raise MessageError(f"A message's headers are a mapping or a text, not {type(self.headers).__name__}.")
        if not isinstance(self.body, bytes):
            raise MessageError(f"A message's body is bytes, not {type(self.body).__name__}: encode it first.")
        lives = self.time_to_be_received
        if lives is not None and not isinstance(lives, timedelta):
            raise MessageError(
                f"A message's time to be received is a timedelta, not {type(lives).__name__}: write "
                "timedelta(seconds=...)."
            )
        if not isinstance(self.id, uuid.UUID | None):
            raise MessageError(f"A message's id is a UUID, not {type(self.id).__name__}: write uuid.UUID(...).")

    def header(self, name: str) -> str | None:
        """Return the value of a header, or None if it is missing or the headers are text."""
        return None if isinstance(self.headers, str) else self.headers.get(name)


@dataclass(frozen=True)
class ReceivedMessage:
    """A message read from a queue. ``headers`` is the raw text for :func:`decode_headers`. Times are aware, in UTC."""

    id: uuid.UUID
    row_version: int
    headers: str = field(repr=False)
    body: bytes = field(repr=False)
    expires: datetime | None
    expired: bool
    correlation_id: str | None = None
    reply_to_address: str | None = None
    recoverable: bool | None = None


PROBLEMS = {
    "not-json": "the headers are not JSON",
    "not-an-object": "the headers are not a JSON object",
    "value-not-text": "a header's value is not text",
    "too-long": "the headers have more than 1,048,576 characters",
    "too-many": "there are more than 10,000 headers",
}
"""Reasons for which headers make a poison message: a code for programs, and a clause for people."""

MAX_CHARACTERS = 1_048_576
"""The most characters of well-formed headers. Endpoints write some thousands."""

MAX_HEADERS = 10_000
"""The most headers of a message, counting each occurrence of a repeated name; more are malformed. Endpoints write some
twenty."""

MAX_HEADER_BYTES = 4 * MAX_CHARACTERS
"""Bytes of the Headers column above which it has more than :data:`MAX_CHARACTERS` in every encoding of the server."""

_READ_AT_ONCE = 65_536
"""Characters that are parsed in one call, because other threads have to wait until such a call ends."""


@dataclass(frozen=True)
class DecodedHeaders:
    """Headers read leniently. ``problem_code`` is a key of :data:`PROBLEMS` if they are malformed, else None.

    ``values`` has the headers that could be read; ``has_repeats``: some values of repeated names are not in it.
    """

    values: dict[str, str | None] = field(repr=False)
    problem_code: str | None = None
    has_repeats: bool = False

    @property
    def problem(self) -> str | None:
        """The reason why an endpoint takes the message for poison, None for well-formed headers."""
        return None if self.problem_code is None else PROBLEMS[self.problem_code]


BLANKS = (
    *((0x00, 0x20), (0x7F, 0xA0), (0xAD, 0xAD), (0x34F, 0x34F), (0x61C, 0x61C), (0x115F, 0x1160), (0x1680, 0x1680)),
    *((0x17B4, 0x17B5), (0x180B, 0x180F), (0x2000, 0x200F), (0x2028, 0x202F), (0x205F, 0x206F), (0x2800, 0x2800)),
    *((0x3000, 0x3000), (0x3164, 0x3164), (0xFE00, 0xFE0F), (0xFEFF, 0xFEFF), (0xFFA0, 0xFFA0), (0xFFF9, 0xFFFB)),
)
"""First and last code points of the blanks around a type name, which are not part of it: white space, control
characters, and invisible characters. Source: Unicode, properties White_Space and Default_Ignorable_Code_Point.
"""

SPACE = "".join(chr(code) for first, last in BLANKS for code in range(first, last + 1))
"""The characters of :data:`BLANKS`."""


MAX_GENERIC = 65_536
"""The most characters of a generic type's name that are read: a header of megabytes must stay cheap to read."""


def full_name(assembly_qualified: str) -> str:
    """Return the full name of a .NET type: ``Shop.Order`` for ``Shop.Order, Shop``, the text before the first comma.

    Commas inside the brackets of a generic type are part of its name. The result is empty if there is no name. Spark's
    form of the rule is ``airflow_sqlqueue.spark.headers.first_type``. Source: docs/transport/messages.md, "Header
    names".
    """
    if "[" not in assembly_qualified:
        return assembly_qualified.partition(",")[0].strip(SPACE)
    depth, text = 0, assembly_qualified.lstrip(SPACE)[:MAX_GENERIC]
    for index, character in enumerate(text):
        depth += (character == "[") - (character == "]")
        if character == "," and depth <= 0:
            return text[:index].rstrip(SPACE)
    return text.rstrip(SPACE)


def check_full_name(name: Any) -> str:
    """Return a full name of a .NET type, as :func:`full_name` gives it. Raises :class:`ConfigurationError` for other
    values, which no message's type equals.
    """
    if not isinstance(name, str) or not name or full_name(name) != name:
        raise ConfigurationError(
            f"{quoted(str(name))} is no message type: give the full name of the .NET type without its assembly, as "
            "'Shop.OrderPlaced'."
        )
    return name


def first_type(enclosed: str | None) -> str | None:
    """Return the full name of the most derived type in ``NServiceBus.EnclosedMessageTypes``, or None."""
    return next(filter(None, map(full_name, (enclosed or "").split(";"))), None)


def escape_non_ascii(text: str) -> str:
    """Return the same JSON with ``\\uXXXX`` for characters outside ASCII, which only its strings have."""
    return text if text.isascii() else re.sub(r"[^\x00-\x7f]", lambda found: json.dumps(found[0])[1:-1], text)


def encode_headers(headers: Headers) -> str:
    """Return checked headers as ASCII JSON, which every version reads and a ``varchar`` column keeps unchanged."""
    headers = headers if type(headers) is dict else dict(headers)
    plain = _NAMES.issuperset(map(type, headers)) and _VALUES.issuperset(map(type, headers.values()))
    if not plain:
        check_headers(headers)
    text = _ENCODER.encode(headers)
    if plain and "\\ud" in text:
        # The text may contain half a surrogate pair. This is rare, so each text is checked only then.
        check_headers(headers)
    return text


_NAMES, _VALUES = frozenset((str,)), frozenset((str, type(None)))
_ENCODER = json.JSONEncoder(ensure_ascii=True, separators=(",", ":"))


def check_headers(headers: Headers) -> None:
    """Raise :class:`MessageError` for names or values that are not text or contain half a surrogate pair."""
    for name, value in headers.items():
        if not isinstance(name, str) or not (value is None or isinstance(value, str)):
            raise MessageError(f"Header {name!r} must be text: endpoints treat other JSON values as poison.")
        if not (is_text(name) and is_text(value or "")):
            raise MessageError(f"Header {quoted(name)} holds half a surrogate pair, which is not text: remove it.")


def can_be_written(headers: Headers) -> bool:
    """Return whether a message may have these headers: no half of a surrogate pair, which old versions accept."""
    try:
        check_headers(headers)
    except MessageError:
        return False
    return True


def decode_headers(text: str | None) -> DecodedHeaders:
    """Read the headers of any version; never raises. Empty text means no headers; a duplicate key's last value wins.

    Headers with a byte order mark are malformed, as for endpoints since 9.1. Half a surrogate pair, which only those
    endpoints refuse, is kept. More than :data:`MAX_HEADERS` headers are malformed, and so is text of more than
    :data:`MAX_CHARACTERS`, which is not read at all.
    """
    if not text:
        return DecodedHeaders({})
    if len(text) > MAX_CHARACTERS:
        return DecodedHeaders({}, "too-long")
    try:
        parsed = _DECODER.decode(text) if len(text) <= _READ_AT_ONCE else _members(text)
    except (ValueError, RecursionError):
        return DecodedHeaders({}, "not-json")
    if not isinstance(parsed, _Pairs):
        return DecodedHeaders({}, "not-an-object")
    values = {name: value for name, value in parsed if value is None or isinstance(value, str)}
    if not _VALUES.issuperset([type(value) for _, value in parsed]):
        return DecodedHeaders(values, "value-not-text")
    if len(parsed) > MAX_HEADERS:
        return DecodedHeaders(values, "too-many")
    return DecodedHeaders(values, has_repeats=len(values) < len(parsed))


class _Pairs(list[tuple[str, object]]):
    """Members of a JSON object, duplicates included: even an overwritten member can make a message poison."""


def _refuse(constant: str) -> None:
    """Refuse NaN and Infinity, which Python accepts although they are not JSON."""
    raise ValueError(constant)


# Integers are read as floats: Python refuses to make an int of many digits, or takes long over it.
_DECODER = json.JSONDecoder(object_pairs_hook=_Pairs, parse_int=float, parse_constant=_refuse)

_SPACE = re.compile(r"[ \t\n\r]*")
_NESTED = frozenset("[{")


def _members(text: str) -> object:
    """Decode a long text member by member, so that other threads run in between; the result is the decoder's.

    Reading stops at an array or an object as a value, and after too many headers: such headers are malformed in any
    case.
    """
    position = skip_blanks(text, 0)
    if text[position : position + 1] != "{":
        if text[position : position + 1] != "[":
            return _DECODER.decode(text)
        if not text.rstrip(" \t\n\r").endswith("]"):
            raise ValueError(position)
        return _NESTED
    found = _Pairs()
    position = skip_blanks(text, position + 1)
    while text[position : position + 1] != "}" or found:
        name, position = _string(text, position)
        position = after_character(text, position, ":")
        if text[position : position + 1] in _NESTED:
            found.append((name, _NESTED))
            return found
        value, position = _DECODER.raw_decode(text, position)
        found.append((name, value))
        position = skip_blanks(text, position)
        if len(found) > MAX_HEADERS:
            return found
        if text[position : position + 1] == "}":
            break
        position = after_character(text, position, ",")
    if skip_blanks(text, position + 1) != len(text):
        raise ValueError(position)
    return found


def _string(text: str, position: int) -> tuple[str, int]:
    if text[position : position + 1] != '"':
        raise ValueError(position)
    name, position = _DECODER.raw_decode(text, position)
    return str(name), position


def after_character(text: str, position: int, expected: str) -> int:
    """Return the place after a character of a JSON text and the blanks around it. Raises ValueError for another one."""
    position = skip_blanks(text, position)
    if text[position : position + 1] != expected:
        raise ValueError(position)
    return skip_blanks(text, position + 1)


def skip_blanks(text: str, position: int) -> int:
    """Return the place after the blanks of a JSON text."""
    found = _SPACE.match(text, position)
    return position if found is None else found.end()
