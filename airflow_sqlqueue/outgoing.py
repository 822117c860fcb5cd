"""Messages as people write them, with the headers that a .NET endpoint needs to handle them.

Source: reference/envelope.md 3.3, "Minimum to be handled".
"""

from __future__ import annotations

import json
import socket
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

from airflow_sqlqueue.errors import MessageError
from airflow_sqlqueue.message import HeaderNames, Message, format_interval, format_time

_NAMESPACE = uuid.UUID("b0b3f0f4-5f0e-5a43-8d0c-2c4f5f3b6e7a")
_FIELDS = {"headers", "body", "time_to_be_received"}


@dataclass(frozen=True)
class Sender:
    """Who sends, and what the messages are unless they say otherwise themselves.

    ``key`` names the sending and is the same when it is repeated: message ids follow from it, so that a receiver that
    remembers ids drops the repetition. ``enclosed_message_types`` are .NET type names; a receiver needs them unless its
    serializer finds the type in the body.
    """

    key: str
    endpoint: str
    content_type: str = "application/json"
    enclosed_message_types: str | None = None

    def messages(self, written: Iterable[Mapping[str, Any]]) -> Iterator[Message]:
        """The messages of ``written``: mappings with ``headers``, ``body`` and ``time_to_be_received``, all optional.

        ``body`` is bytes, text (sent as UTF-8), or anything JSON can hold; ``time_to_be_received`` is in seconds.
        Headers that are written win. Raises :class:`MessageError`, which names the message by its position.
        """
        now = datetime.now(timezone.utc)
        for index, fields in enumerate(written):
            try:
                yield self._message(index, fields, now)
            except MessageError as error:
                raise MessageError(f"Message {index} cannot be sent: {error}") from error

    def _message(self, index: int, fields: Mapping[str, Any], now: datetime) -> Message:
        if not isinstance(fields, Mapping) or fields.keys() - _FIELDS:
            raise MessageError(f"it is not a mapping of {', '.join(sorted(_FIELDS))}.")
        headers = fields.get("headers") or {}
        if not isinstance(headers, Mapping):
            raise MessageError("its headers are not a mapping.")
        lives = _interval(fields.get("time_to_be_received"))
        message_id = headers.get(HeaderNames.MESSAGE_ID) or str(uuid.uuid5(_NAMESPACE, f"{self.key}\0{index}"))
        defaults = {
            HeaderNames.MESSAGE_ID: message_id,
            HeaderNames.CORRELATION_ID: message_id,
            HeaderNames.CONVERSATION_ID: str(uuid.uuid5(_NAMESPACE, self.key)),
            HeaderNames.MESSAGE_INTENT: "Send",
            HeaderNames.CONTENT_TYPE: self.content_type,
            HeaderNames.ENCLOSED_MESSAGE_TYPES: self.enclosed_message_types,
            HeaderNames.TIME_SENT: format_time(now),
            HeaderNames.TIME_TO_BE_RECEIVED: None if lives is None else format_interval(lives),
            HeaderNames.ORIGINATING_ENDPOINT: self.endpoint,
            HeaderNames.ORIGINATING_MACHINE: socket.gethostname(),
        }
        known = {name: value for name, value in defaults.items() if value is not None}
        return Message({**known, **headers}, _body(fields.get("body")), lives)


def _interval(seconds: Any) -> timedelta | None:
    if seconds is None:
        return None
    try:
        interval = timedelta(seconds=seconds)
    except (TypeError, OverflowError, ValueError) as error:
        raise MessageError("its time_to_be_received is not a number of seconds.") from error
    if interval <= timedelta(0):
        raise MessageError("its time_to_be_received is not above zero seconds: it would expire at once.")
    return interval


def _body(value: Any) -> bytes:
    if value is None:
        return b""
    if isinstance(value, (bytes, bytearray)):
        return bytes(value)
    try:
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        return text.encode("utf-8")
    except (TypeError, ValueError, RecursionError) as error:
        # The error's own text may quote the body.
        raise MessageError(f"its body is neither bytes nor text nor JSON ({type(error).__name__}).") from None
