"""Outgoing messages from mappings, with the headers that a .NET endpoint needs to handle them, and replies.

Sources: docs/transport/messages.md, "Headers that a receiver needs" and "Replies".
"""

from __future__ import annotations

import json
import socket
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from typing import Any

from airflow_sqlqueue.errors import AddressError, MessageError
from airflow_sqlqueue.messages.address import QueueAddress
from airflow_sqlqueue.messages.envelope.causation import causation_headers
from airflow_sqlqueue.messages.envelope.reading import Envelope
from airflow_sqlqueue.messages.envelope.times import format_interval, format_time
from airflow_sqlqueue.messages.envelope.typed_headers import INTENTS
from airflow_sqlqueue.messages.message import HeaderNames, Headers, Message, ReceivedMessage, check_headers
from airflow_sqlqueue.messages.routing import ResolvedAddress

_NAMESPACE = uuid.UUID("b0b3f0f4-5f0e-5a43-8d0c-2c4f5f3b6e7a")
_TEXTS = {
    "message_type": HeaderNames.ENCLOSED_MESSAGE_TYPES,
    "content_type": HeaderNames.CONTENT_TYPE,
    "intent": HeaderNames.MESSAGE_INTENT,
    "correlation_id": HeaderNames.CORRELATION_ID,
    "conversation_id": HeaderNames.CONVERSATION_ID,
    "related_to": HeaderNames.RELATED_TO,
    "reply_to": HeaderNames.REPLY_TO_ADDRESS,
}
"""Short names of headers."""

_FIELDS = {"headers", "body", "key", "time_to_be_received", "expires", *_TEXTS}


@dataclass(frozen=True)
class Sender:
    """Sender of messages: their default headers, and the key that their ids are derived from.

    ``key`` names the send and is the same for a repetition: message ids are derived from it, so that a receiver that
    remembers ids drops the repetition. ``enclosed_message_types`` are .NET type names; a receiver needs them unless its
    serializer finds the type in the body.
    """

    key: str
    endpoint: str
    content_type: str | None = "application/json"
    enclosed_message_types: str | None = None

    def messages(self, written: Iterable[Mapping[str, Any]]) -> Iterator[Message]:
        """Yield the messages for ``written``: mappings of these fields, all optional.

        - ``body``: bytes, text (sent as UTF-8), an object with ``read_bytes`` (an ``ObjectStoragePath``; read at once,
          whole), or a JSON value.
        - ``key``: names the message within the send. Its id is derived from this key, or without a key from the
          position, which changes if a repetition sends other messages or another order.
        - ``time_to_be_received``, or ``expires``, which is the same: seconds or a timedelta, counted by the server's
          clock from the moment of the send.
        - ``message_type``, ``content_type``, ``intent``, ``correlation_id``, ``conversation_id``, ``related_to``, and
          ``reply_to`` (an address or its text): headers by short names.
        - ``headers``: a mapping, which overrides everything else. Values are text, None (a JSON null), or aware
          datetimes.

        In a handler of a message the causation headers link the messages to it (docs/transport/messages.md,
        "Causation"). The row's Id is the message id, as in versions 1 and 2, or a GUID derived from a message id that
        is not one. Raises :class:`MessageError`, which names the message by its position; an error of reading a body
        passes through.
        """
        now = datetime.now(timezone.utc)
        keys: set[str] = set()
        for index, fields in enumerate(written):
            try:
                yield self._message(index, fields, now, keys)
            except MessageError as error:
                raise MessageError(f"Message {index} cannot be sent: {error}") from error

    def _message(self, index: int, fields: Mapping[str, Any], now: datetime, keys: set[str]) -> Message:
        if not isinstance(fields, Mapping) or fields.keys() - _FIELDS:
            raise MessageError(f"it is not a mapping of {', '.join(sorted(_FIELDS))}.")
        headers: Headers = {**_text_fields(fields), **_headers(fields.get("headers"))}
        check_headers(headers)
        message_id = self._message_id(index, fields.get("key"), keys)
        message_id = headers.get(HeaderNames.MESSAGE_ID) or message_id
        lives = _interval(fields)
        defaults = {
            HeaderNames.MESSAGE_ID: message_id,
            HeaderNames.CORRELATION_ID: message_id,
            HeaderNames.CONVERSATION_ID: str(self._sending),
            **causation_headers(),
            HeaderNames.MESSAGE_INTENT: "Send",
            HeaderNames.CONTENT_TYPE: self.content_type,
            HeaderNames.ENCLOSED_MESSAGE_TYPES: self.enclosed_message_types,
            HeaderNames.TIME_SENT: format_time(now),
            HeaderNames.TIME_TO_BE_RECEIVED: None if lives is None else format_interval(lives),
            HeaderNames.ORIGINATING_ENDPOINT: self.endpoint,
            HeaderNames.ORIGINATING_MACHINE: socket.gethostname(),
        }
        known = {name: value for name, value in defaults.items() if value is not None}
        return Message({**known, **headers}, _body(fields.get("body")), lives, row_id(message_id))

    @property
    def _sending(self) -> uuid.UUID:
        return uuid.uuid5(_NAMESPACE, self.key)

    def _message_id(self, index: int, key: Any, keys: set[str]) -> str:
        if key is None:
            return str(uuid.uuid5(_NAMESPACE, f"{self.key}\0{index}"))
        if not isinstance(key, (str, int)) or isinstance(key, bool) or not str(key).strip():
            raise MessageError("its key is neither text nor a whole number.")
        if str(key) in keys:
            raise MessageError(f"its key {key!r} is that of a message before it, and both would get one id.")
        keys.add(str(key))
        try:
            return str(uuid.uuid5(self._sending, str(key)))
        except UnicodeEncodeError as error:
            raise MessageError("its key holds half a surrogate pair, which is not text.") from error


def row_id(message_id: str) -> uuid.UUID:
    """Return the Id of a message's row: the message id, or a GUID derived from a message id that is not one.

    The column can hold only GUIDs; the header keeps the id unchanged (docs/transport/messages.md, "Headers that a
    receiver needs").
    """
    try:
        return uuid.UUID(message_id)
    except ValueError:
        return uuid.uuid5(_NAMESPACE, message_id)


def _text_fields(fields: Mapping[str, Any]) -> dict[str, str]:
    headers = {}
    for field, name in _TEXTS.items():
        value = fields.get(field)
        if field == "reply_to" and isinstance(value, (QueueAddress, ResolvedAddress)):
            value = str(value)
        if value is None:
            continue
        if not isinstance(value, str) or not value.strip():
            raise MessageError(f"its {field} is not text, or is blank.")
        headers[name] = value
    if (intent := headers.get(HeaderNames.MESSAGE_INTENT, "Send")) not in INTENTS:
        raise MessageError(f"its intent is {intent!r}, not one of {', '.join(INTENTS)}.")
    if reply_to := headers.get(HeaderNames.REPLY_TO_ADDRESS):
        check_address(reply_to)
    return headers


def check_address(text: str) -> None:
    """Raise :class:`MessageError` for an address to which no endpoint could send."""
    try:
        QueueAddress.parse(text)
    except AddressError as error:
        raise MessageError(f"its reply address cannot be used: {error}") from error


def _headers(written: Any) -> Headers:
    """Return the written headers, with times in the transport's form."""
    if written is not None and not isinstance(written, Mapping):
        raise MessageError("its headers are not a mapping.")
    return {
        name: _time(name, value) if isinstance(value, datetime) else value for name, value in (written or {}).items()
    }


def _time(name: Any, moment: datetime) -> str:
    try:
        return format_time(moment)
    except MessageError as error:
        raise MessageError(f"its header {name!r} cannot be written: {error}") from error


def _interval(fields: Mapping[str, Any]) -> timedelta | None:
    given = [(name, fields[name]) for name in ("time_to_be_received", "expires") if fields.get(name) is not None]
    if not given:
        return None
    if len(given) == 2:
        raise MessageError("it has both time_to_be_received and expires, which are the same: give one.")
    ((name, value),) = given
    try:
        interval = value if isinstance(value, timedelta) else timedelta(seconds=value)
    except (TypeError, OverflowError, ValueError) as error:
        raise MessageError(f"its {name} is neither a number of seconds nor a timedelta.") from error
    if interval <= timedelta(0):
        raise MessageError(f"its {name} is not above zero seconds: it would expire at once.")
    return interval


def _body(value: Any) -> bytes:
    if value is None:
        return b""
    read_bytes = getattr(value, "read_bytes", None)
    if callable(read_bytes):
        value = read_bytes()
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    try:
        return (value if isinstance(value, str) else _json(value)).encode("utf-8")
    except (TypeError, ValueError, RecursionError) as error:
        # The error's own text may quote the body.
        raise MessageError(f"its body is neither bytes nor text nor JSON ({type(error).__name__}).") from None


def _json(value: Any) -> str:
    """Return a value as JSON, which has no NaN and no Infinity: endpoints could not read such a body."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def reply(
    received: ReceivedMessage | Envelope,
    body: Any = None,
    *,
    endpoint: str,
    message_type: str | None = None,
    content_type: str = "application/json",
    headers: Mapping[str, Any] | None = None,
    error_code: int | None = None,
    key: str | int | None = None,
) -> tuple[str, Message]:
    """Return the reply to a message and the address that waits for it; the caller sends the reply.

    ``endpoint`` is the name of the replying endpoint. ``body`` and ``headers`` are those of :meth:`Sender.messages`.
    The result of a callback is only an ``error_code``, the number for the callback. For several replies to one message,
    give each reply a ``key``: the id of a reply is derived from the message's id, the endpoint and the key, so that a
    repeated handling replies with the same ids.

    The address is the callback queue, which requesters of version 2 name, else the reply address. Raises
    :class:`MessageError` if the message names no address or cannot be read.
    """
    envelope = received if isinstance(received, Envelope) else Envelope.of(received)
    # Versions 1 and 2 keep ids and addresses in the row's columns; the envelope of a handler has them as headers.
    columns = received if isinstance(received, ReceivedMessage) else None
    address = _reply_address(envelope, columns.reply_to_address if columns else None)
    request = envelope.identity
    linked = {
        HeaderNames.MESSAGE_INTENT: "Reply",
        HeaderNames.CORRELATION_ID: request.correlation_id
        or (columns.correlation_id if columns else None)
        or request.message_id,
        HeaderNames.RELATED_TO: request.message_id,
        HeaderNames.CONVERSATION_ID: request.conversation_id,
        HeaderNames.SAGA_ID: envelope.saga.originating_saga_id,
        HeaderNames.SAGA_TYPE: envelope.saga.originating_saga_type,
    }
    sender = Sender(f"reply\0{request.message_id}\0{endpoint}", endpoint, content_type, message_type)
    if error_code is not None:
        if body is not None or message_type is not None:
            raise MessageError("A callback's result has neither body nor message type: leave out error_code or these.")
        linked |= {HeaderNames.CONTROL_MESSAGE: "True", HeaderNames.ERROR_CODE: str(int(error_code))}
        sender = replace(sender, content_type=None)
    known = {name: value for name, value in linked.items() if value}
    (message,) = sender.messages([{"headers": {**known, **(headers or {})}, "body": body, "key": key}])
    return address, message


def _reply_address(envelope: Envelope, in_column: str | None) -> str:
    """Return the first reply address of a message. Version 1 kept the reply address in the row's column."""
    message_id = envelope.row_id
    if envelope.problem:
        raise MessageError(f"Message {message_id} cannot be replied to: {envelope.problem}.")
    names = (HeaderNames.CALLBACK_QUEUE, HeaderNames.REPLY_TO_ADDRESS)
    address = next(filter(None, map(envelope.headers.get, names)), in_column)
    if not address:
        raise MessageError(f"Message {message_id} cannot be replied to: it names no reply address.")
    try:
        check_address(address)
    except MessageError as error:
        raise MessageError(f"Message {message_id} cannot be replied to: {error}") from error
    return address
