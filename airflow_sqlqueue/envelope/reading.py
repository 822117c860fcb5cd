"""A message's headers as typed values, and its body as text or JSON.

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
from typing import Any

from airflow_sqlqueue.envelope import typed_headers
from airflow_sqlqueue.message import PROBLEMS, DecodedHeaders, Headers, Message, ReceivedMessage, decode_headers

_TEXT = re.compile(r"^text/|json|xml")
_CHARSETS = re.compile(r"(utf|us-ascii|ascii|iso|latin|windows|cp|koi8|gb|big5|shift|euc)[\w-]*", re.ASCII)
"""Character sets; Python would also take its own ``idna`` or ``unicode_escape`` for one."""


@dataclass(frozen=True)
class Envelope:
    """Read-only, typed access to a message. Nothing here raises, whatever stands in the message.

    A value that is not of its header's type is None, or left out. ``problem_code`` and ``problem`` describe headers
    that make a poison message; what could be read of them is there all the same.
    """

    headers: Headers = field(default_factory=dict, repr=False)
    body: bytes = field(default=b"", repr=False)
    row_id: uuid.UUID | None = None
    problem_code: str | None = None

    @classmethod
    def of(cls, source: Message | ReceivedMessage | DecodedHeaders | Headers | str | None) -> Envelope:
        """The envelope of a message, or of headers alone: a mapping, the text of the column, or read already."""
        decoded = _decoded(source.headers if isinstance(source, (Message, ReceivedMessage)) else source)
        headers, code = MappingProxyType(decoded.values), decoded.problem_code
        if isinstance(source, (Message, ReceivedMessage)):
            return cls(headers, source.body, source.id, code)
        return cls(headers, problem_code=code)

    @property
    def problem(self) -> str | None:
        """Why an endpoint takes the message for poison, None where the headers are well."""
        return None if self.problem_code is None else PROBLEMS[self.problem_code]

    @cached_property
    def identity(self) -> typed_headers.Identity:
        """Its ids. The row's Id is the message id where the header is missing or empty, as it is to endpoints."""
        group = typed_headers.Identity.of(self.headers)
        return replace(group, message_id=group.message_id or (str(self.row_id) if self.row_id else None))

    @cached_property
    def content(self) -> typed_headers.Content:
        """What the body is."""
        return typed_headers.Content.of(self.headers)

    @cached_property
    def routing(self) -> typed_headers.Routing:
        """Where it comes from, and where a reply goes."""
        return typed_headers.Routing.of(self.headers)

    @cached_property
    def time(self) -> typed_headers.Time:
        """When it was sent, and how long it lives."""
        return typed_headers.Time.of(self.headers)

    @cached_property
    def saga(self) -> typed_headers.Saga:
        """The sagas it is for and comes from."""
        return typed_headers.Saga.of(self.headers)

    @cached_property
    def recoverability(self) -> typed_headers.Recoverability:
        """How often it was tried again."""
        return typed_headers.Recoverability.of(self.headers)

    @cached_property
    def failure(self) -> typed_headers.FailureHeaders:
        """Why it stands in an error queue."""
        return typed_headers.FailureHeaders.of(self.headers)

    @cached_property
    def audit(self) -> typed_headers.Audit:
        """Who handled it, and when."""
        return typed_headers.Audit.of(self.headers)

    @cached_property
    def control(self) -> typed_headers.Control:
        """What the infrastructure says with it."""
        return typed_headers.Control.of(self.headers)

    @cached_property
    def delayed(self) -> typed_headers.Delayed:
        """Where it goes when it is due."""
        return typed_headers.Delayed.of(self.headers)

    @cached_property
    def large_body(self) -> typed_headers.LargeBody:
        """What the data bus keeps of it."""
        return typed_headers.LargeBody.of(self.headers)

    @cached_property
    def tracing(self) -> typed_headers.Tracing:
        """The trace it is part of."""
        return typed_headers.Tracing.of(self.headers)

    def text(self) -> str | None:
        """The body as text, without a byte order mark; None where the content type or the bytes say that it is none.

        Read as UTF-16 where the bytes cannot be anything else (T-SQL that casts an ``nvarchar`` literal writes that),
        then in the content type's charset, then as UTF-8.
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
        """What the body is as JSON; None where it is none, and where it is ``null``."""
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
