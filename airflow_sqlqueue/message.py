"""A message as the transport keeps it: headers, body, and the row they travel in.

Sources: reference/envelope.md 3.1 (headers), 3.2 (times), statements.md 2.3 (the row).
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from functools import cache
from typing import TYPE_CHECKING

from airflow_sqlqueue.errors import MessageError

if TYPE_CHECKING:
    import pyarrow as pa

Headers = Mapping[str, "str | None"]
"""Header names and values, compared with case. A value of None is a JSON null, which endpoints do write."""


class HeaderNames:
    """The header names this package reads or writes, as reference/envelope.md 3.3 lists them."""

    MESSAGE_ID = "NServiceBus.MessageId"
    CORRELATION_ID = "NServiceBus.CorrelationId"
    CONVERSATION_ID = "NServiceBus.ConversationId"
    RELATED_TO = "NServiceBus.RelatedTo"
    CONTENT_TYPE = "NServiceBus.ContentType"
    ENCLOSED_MESSAGE_TYPES = "NServiceBus.EnclosedMessageTypes"
    MESSAGE_INTENT = "NServiceBus.MessageIntent"
    REPLY_TO_ADDRESS = "NServiceBus.ReplyToAddress"
    ORIGINATING_ENDPOINT = "NServiceBus.OriginatingEndpoint"
    ORIGINATING_MACHINE = "NServiceBus.OriginatingMachine"
    TIME_SENT = "NServiceBus.TimeSent"
    TIME_TO_BE_RECEIVED = "NServiceBus.TimeToBeReceived"
    VERSION = "NServiceBus.Version"
    PROCESSING_STARTED = "NServiceBus.ProcessingStarted"
    PROCESSING_ENDED = "NServiceBus.ProcessingEnded"
    PROCESSING_ENDPOINT = "NServiceBus.ProcessingEndpoint"
    PROCESSING_MACHINE = "NServiceBus.ProcessingMachine"
    FAILED_Q = "NServiceBus.FailedQ"
    TIME_OF_FAILURE = "NServiceBus.TimeOfFailure"
    EXCEPTION_TYPE = "NServiceBus.ExceptionInfo.ExceptionType"
    EXCEPTION_MESSAGE = "NServiceBus.ExceptionInfo.Message"
    EXCEPTION_SOURCE = "NServiceBus.ExceptionInfo.Source"
    EXCEPTION_STACK_TRACE = "NServiceBus.ExceptionInfo.StackTrace"
    EXCEPTION_HELP_LINK = "NServiceBus.ExceptionInfo.HelpLink"


@dataclass(frozen=True)
class Message:
    """What a sender hands over.

    ``headers`` is a mapping, or the exact text for the column (to copy a row whose headers are not JSON). ``body`` is
    opaque bytes; no body is ``b""``. ``time_to_be_received`` is counted by the server's clock from the moment of the
    send; None means that the message does not expire. ``id`` is the row's Id: a new one is made for each row where none
    is given, as versions 3 and later do (the message id proper is a header).
    """

    headers: Headers | str = field(default_factory=dict, repr=False)
    body: bytes = field(default=b"", repr=False)
    time_to_be_received: timedelta | None = None
    id: uuid.UUID | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.body, bytes):
            raise MessageError(f"A message's body is bytes, not {type(self.body).__name__}: encode it first.")

    def header(self, name: str) -> str | None:
        """The value of a header, or None where it is missing or the headers are text."""
        return None if isinstance(self.headers, str) else self.headers.get(name)


@dataclass(frozen=True)
class ReceivedMessage:
    """A row as it was read. ``headers`` is the raw text: :func:`decode_headers` reads it. Times are aware, in UTC."""

    id: uuid.UUID
    row_version: int
    headers: str = field(repr=False)
    body: bytes = field(repr=False)
    expires: datetime | None
    expired: bool
    correlation_id: str | None = None
    reply_to_address: str | None = None
    recoverable: bool | None = None


@dataclass(frozen=True)
class DecodedHeaders:
    """Headers read leniently. ``problem`` says why they are malformed (a poison message), None where they are well."""

    values: dict[str, str | None]
    problem: str | None = None


def escape_non_ascii(text: str) -> str:
    """JSON text with what is outside ASCII as ``\\uXXXX``: the same JSON, as such characters only stand in strings."""
    return text if text.isascii() else re.sub(r"[^\x00-\x7f]", lambda found: json.dumps(found[0])[1:-1], text)


def encode_headers(headers: Headers) -> str:
    """The ASCII JSON object that every version reads, and that a ``varchar`` column keeps whole.

    Raises :class:`MessageError` for names or values that are not text, or that hold half a surrogate pair.
    """
    for name, value in headers.items():
        if not isinstance(name, str) or not (value is None or isinstance(value, str)):
            raise MessageError(f"Header {name!r} must be text: endpoints treat other JSON values as poison.")
        for text in (name, value or ""):
            if not text.isascii() and re.search("[\ud800-\udfff]", text):
                raise MessageError(f"Header {name!r} holds half a surrogate pair, which is not text: remove it.")
    return json.dumps(dict(headers), ensure_ascii=True, separators=(",", ":"))


def decode_headers(text: str | None) -> DecodedHeaders:
    """Read what any version wrote; never raises. Empty text is no headers, a duplicate key's last value wins."""
    if not text:
        return DecodedHeaders({})
    try:
        parsed = json.loads(text, object_pairs_hook=_Pairs)
    except (ValueError, RecursionError):
        return DecodedHeaders({}, "the headers are not JSON")
    if not isinstance(parsed, _Pairs):
        return DecodedHeaders({}, "the headers are not a JSON object")
    values = {name: value for name, value in parsed if value is None or isinstance(value, str)}
    if any(not (value is None or isinstance(value, str)) for _, value in parsed):
        return DecodedHeaders(values, "a header's value is not text")
    return DecodedHeaders(values)


class _Pairs(list[tuple[str, object]]):
    """A JSON object's members, duplicates included: one that is overwritten can be poison all the same."""


_WIRE_TIME = re.compile(r"(\d{4})-(\d\d)-(\d\d) (\d\d):(\d\d):(\d\d):(\d{6}) Z")


def format_time(moment: datetime) -> str:
    """``yyyy-MM-dd HH:mm:ss:ffffff Z``, the only form the transport's own parser takes (reference/envelope.md 3.2)."""
    if moment.tzinfo is None:
        raise MessageError("A time without a time zone is ambiguous: give an aware datetime.")
    return moment.astimezone(timezone.utc).strftime("%Y-%m-%d %H:%M:%S:%f Z")


def parse_time(text: str | None) -> datetime | None:
    """An aware UTC datetime from the transport's form or from ISO 8601; None for anything else."""
    if not text:
        return None
    try:
        if match := _WIRE_TIME.fullmatch(text.strip()):
            year, month, day, hour, minute, second, micro = map(int, match.groups())
            return datetime(year, month, day, hour, minute, second, micro, tzinfo=timezone.utc)
        moment = datetime.fromisoformat(text.strip().replace("Z", "+00:00"))
    except ValueError:
        return None
    return moment.replace(tzinfo=timezone.utc) if moment.tzinfo is None else moment.astimezone(timezone.utc)


def format_interval(interval: timedelta) -> str:
    """A .NET TimeSpan, ``[d.]hh:mm:ss[.fffffff]``, as ``NServiceBus.TimeToBeReceived`` carries it."""
    hours, rest = divmod(interval.seconds, 3600)
    days = f"{interval.days}." if interval.days else ""
    fraction = f".{interval.microseconds * 10:07d}" if interval.microseconds else ""
    return f"{days}{hours:02d}:{rest // 60:02d}:{rest % 60:02d}{fraction}"


@cache
def drained_row_schema() -> pa.Schema:
    """The Arrow schema of a drained row: the table's columns under their own names, and the flag ``Expired``.

    ``Id`` is the lower-case text of the GUID; ``Expires`` is UTC in microseconds (without a zone Spark would make it a
    ``timestamp_ntz``); ``Headers`` is the raw text, malformed or not; ``Body`` is null where the column was.
    """
    import pyarrow as pa

    return pa.schema(
        [
            pa.field("Id", pa.string(), nullable=False),
            pa.field("CorrelationId", pa.string()),
            pa.field("ReplyToAddress", pa.string()),
            pa.field("Recoverable", pa.bool_()),
            pa.field("Expires", pa.timestamp("us", tz="UTC")),
            pa.field("Headers", pa.string(), nullable=False),
            pa.field("Body", pa.binary()),
            pa.field("RowVersion", pa.int64(), nullable=False),
            pa.field("Expired", pa.bool_(), nullable=False),
        ]
    )
