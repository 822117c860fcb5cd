"""Envelope of a message: its headers as typed values, and its body as text or JSON.

Source: docs/transport/messages.md, "Header names".
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, TypeVar

from airflow_sqlqueue.envelope import typed_headers
from airflow_sqlqueue.message import PROBLEMS, DecodedHeaders, Headers, Message, ReceivedMessage, decode_headers

G = TypeVar("G", bound=typed_headers.HeaderGroup)

_TEXT = re.compile(r"^text/|json|xml")
_CHARSETS = re.compile(r"(utf|us-ascii|ascii|iso|latin|windows|cp|koi8|gb|big5|shift|euc)[\w-]*", re.ASCII)
"""Names of character sets. Python would also accept its own ``idna`` and ``unicode_escape``."""


def _group(kind: type[G]) -> cached_property[G]:
    return cached_property(lambda envelope: kind.of(envelope.headers))


@dataclass(frozen=True)
class Envelope:
    """Read-only, typed access to a message. No property or method raises, for any message.

    A value that is not of its header's type is None or left out. ``problem_code`` and ``problem`` describe headers that
    make a poison message; their readable part is available nevertheless.
    """

    headers: Headers = field(default_factory=dict, repr=False)
    body: bytes = field(default=b"", repr=False)
    row_id: uuid.UUID | None = None
    problem_code: str | None = None

    @classmethod
    def of(cls, source: Message | ReceivedMessage | DecodedHeaders | Headers | str | None) -> Envelope:
        """Return the envelope of a message, or of headers: a mapping, the text of the column, or decoded headers."""
        decoded = _decoded(source.headers if isinstance(source, (Message, ReceivedMessage)) else source)
        headers, code = MappingProxyType(decoded.values), decoded.problem_code
        if isinstance(source, (Message, ReceivedMessage)):
            return cls(headers, source.body, source.id, code)
        return cls(headers, problem_code=code)

    @property
    def problem(self) -> str | None:
        """Reason why an endpoint takes the message for poison, None for well-formed headers."""
        return None if self.problem_code is None else PROBLEMS[self.problem_code]

    @cached_property
    def identity(self) -> typed_headers.Identity:
        """Ids of the message. Without the header the row's Id is the message id, as for endpoints."""
        group = typed_headers.Identity.of(self.headers)
        return replace(group, message_id=group.message_id or (str(self.row_id) if self.row_id else None))

    content = _group(typed_headers.Content)
    """Content type and message types."""
    routing = _group(typed_headers.Routing)
    """Origin of the message, and its reply address."""
    time = _group(typed_headers.Time)
    """Time of the send, and lifetime."""
    saga = _group(typed_headers.Saga)
    """Sagas that the message is for and comes from."""
    recoverability = _group(typed_headers.Recoverability)
    """Counts of retries."""
    failure = _group(typed_headers.FailureHeaders)
    """Failure of a message in an error queue."""
    audit = _group(typed_headers.Audit)
    """Endpoint that handled the message, and the times."""
    control = _group(typed_headers.Control)
    """Control message of the infrastructure."""
    delayed = _group(typed_headers.Delayed)
    """Destination of a delayed message."""
    large_body = _group(typed_headers.LargeBody)
    """Properties that the data bus keeps."""
    tracing = _group(typed_headers.Tracing)
    """Trace context."""

    def text(self) -> str | None:
        """Return the body as text, without a byte order mark; None if the content type or the bytes are not text.

        The body is read as UTF-16 if the bytes cannot be anything else (T-SQL writes UTF-16 when it casts an
        ``nvarchar`` literal), then in the content type's charset, then as UTF-8.
        """
        media_type, charset = self.content.media_type, self.content.charset
        if media_type and not charset and not _TEXT.search(media_type):
            return None
        for encoding in _encodings(self.body, charset):
            try:
                return self.body.decode(encoding).removeprefix("\ufeff")
            except (LookupError, ValueError):
                continue
        return None

    def json(self) -> Any:
        """Return the body's JSON value; None for a body that is not JSON, and for ``null``."""
        try:
            return json.loads(self.text() or "null")
        except (ValueError, RecursionError):
            return None


def _decoded(headers: DecodedHeaders | Headers | str | None) -> DecodedHeaders:
    if isinstance(headers, DecodedHeaders):
        return headers
    if isinstance(headers, str) or not isinstance(headers, Mapping):
        return decode_headers(headers)
    texts = {
        name: value
        for name, value in headers.items()
        if isinstance(name, str) and (value is None or isinstance(value, str))
    }
    return DecodedHeaders(texts, None if len(texts) == len(headers) else "value-not-text")


def _encodings(body: bytes, charset: str | None) -> Iterator[str]:
    if body.startswith((b"\xff\xfe", b"\xfe\xff")):
        yield "utf-16"
    elif re.match(rb'[<{\["]\0', body):
        yield "utf-16-le"
    if charset and _CHARSETS.fullmatch(charset):
        yield charset
    yield "utf-8"
