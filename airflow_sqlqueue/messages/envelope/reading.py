"""Envelope of a message: its headers as typed values, and its body as text or JSON.

Source: docs/transport/messages.md, "Header names".
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from encodings import normalize_encoding
from encodings.aliases import aliases
from functools import cached_property
from types import MappingProxyType
from typing import Any, TypeVar

from airflow_sqlqueue.errors import ConfigurationError, PayloadError
from airflow_sqlqueue.messages import message
from airflow_sqlqueue.messages.envelope import cloud_events, typed_headers
from airflow_sqlqueue.messages.envelope.payloads import (
    Payload,
    PayloadReference,
    PayloadSource,
    named_by_body,
    payload_references,
)

G = TypeVar("G", bound=typed_headers.HeaderGroup)

_TEXT = re.compile(r"^text/|json|xml")
_CHARSETS = re.compile(r"(utf|us-ascii|ascii|iso|latin|windows|cp|koi8|gb|big5|shift|euc)[\w-]*", re.ASCII)
"""Names of character sets. Python would also accept its own ``idna`` and ``unicode_escape``."""

_WITHOUT_ALIAS = ("utf_8_sig", "koi8_t", "koi8_u", "cp720", "cp737", "cp856", "cp874", "cp875", "cp1006")
_CODECS = {**aliases, **{name: name for name in (*aliases.values(), *_WITHOUT_ALIAS)}}
"""Python's codecs by their names. Python would keep each name that it is asked for in memory, known or not."""

_LONGEST_CHARSET = 40


def _group(kind: type[G]) -> cached_property[G]:
    return cached_property(lambda envelope: kind.of(envelope.headers))


@dataclass(frozen=True)
class Envelope:
    """Typed, read-only access to a message. Nothing raises, whatever the message holds, except fetching its payloads.

    A value that is not of its header's type is None or left out. ``problem_code`` and ``problem`` describe headers that
    make a poison message; their readable part is available nevertheless. ``data_bus`` is the place of the message's
    payloads.
    """

    headers: message.Headers = field(default_factory=dict, repr=False)
    body: bytes = field(default=b"", repr=False)
    row_id: uuid.UUID | None = None
    problem_code: str | None = None
    data_bus: PayloadSource | None = field(default=None, repr=False, compare=False)

    @classmethod
    def of(
        cls,
        source: message.Message | message.ReceivedMessage | message.DecodedHeaders | message.Headers | str | None,
        data_bus: PayloadSource | None = None,
    ) -> Envelope:
        """Return the envelope of a message, or of headers: a mapping, the text of the column, or decoded headers."""
        decoded = _decoded(source.headers if isinstance(source, (message.Message, message.ReceivedMessage)) else source)
        headers, code = MappingProxyType(decoded.values), decoded.problem_code
        if isinstance(source, (message.Message, message.ReceivedMessage)):
            return cls(headers, source.body, source.id, code, data_bus)
        return cls(headers, problem_code=code, data_bus=data_bus)

    @property
    def problem(self) -> str | None:
        """Reason why an endpoint takes the message for poison, None for well-formed headers."""
        return None if self.problem_code is None else message.PROBLEMS[self.problem_code]

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
    service_control_retry = _group(typed_headers.ServiceControlRetry)
    """Retry by ServiceControl, and its acknowledgement."""
    tracing = _group(typed_headers.Tracing)
    """Trace context."""

    @cached_property
    def unwrapped(self) -> Envelope:
        """Message that a CloudEvent holds, with headers and body as an endpoint has them; else this message itself.

        See docs/transport/messages.md, "CloudEvents".
        """
        found = cloud_events.unwrapped(self.headers, self.body)
        return self if found is None else replace(self, headers=MappingProxyType(found[0]), body=found[1])

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

    def payload(self, name: str | None = None) -> Payload:
        """Fetch the payload of a property from the data bus, each time anew.

        ``name`` is the property's name, in the message's type; None if the message has one payload only. The envelope
        that a handler gets has the consumer's ``data_bus``; elsewhere, give one to :meth:`of`.

        Raises :class:`~airflow_sqlqueue.errors.ConfigurationError` without a data bus,
        :class:`~airflow_sqlqueue.errors.PayloadError` for a payload that the message does not name, and as
        :meth:`.DataBus.fetch`.
        """
        found = [each for each in self._references if name is None or name in (each.property_name, each.header)]
        if len(found) != 1:
            named = "no payload of this name" if name is not None else f"{len(found) or 'no'} payloads, not one"
            raise PayloadError(f"The message has {named}: large_body.properties of the envelope has the names.")
        return self._fetch(found[0])

    def payloads(self) -> Iterator[Payload]:
        """Fetch all payloads of the message from the data bus, one by one. Raises as :meth:`payload`."""
        return map(self._fetch, self._references)

    @cached_property
    def _references(self) -> list[PayloadReference]:
        references = payload_references(self.headers)
        if all(reference.property_name for reference in references):
            return references
        return named_by_body(references, self.json(), self.text())

    def _fetch(self, reference: PayloadReference) -> Payload:
        if self.data_bus is None:
            raise ConfigurationError("The message has payloads and no data bus is given: give the consumer a data_bus.")
        content = self.data_bus.fetch(reference.key, reference.property_name)
        return Payload(reference.name, content, self.large_body.content_type)


def _decoded(headers: message.DecodedHeaders | message.Headers | str | None) -> message.DecodedHeaders:
    if isinstance(headers, message.DecodedHeaders):
        return headers
    if isinstance(headers, str) or not isinstance(headers, Mapping):
        return message.decode_headers(headers)
    texts = {
        name: value
        for name, value in headers.items()
        if isinstance(name, str) and (value is None or isinstance(value, str))
    }
    return message.DecodedHeaders(texts, None if len(texts) == len(headers) else "value-not-text")


def _encodings(body: bytes, charset: str | None) -> Iterator[str]:
    if body.startswith((b"\xff\xfe", b"\xfe\xff")):
        yield "utf-16"
    elif re.match(rb'[<{\["]\0', body):
        yield "utf-16-le"
    if charset and len(charset) <= _LONGEST_CHARSET and _CHARSETS.fullmatch(charset):
        codec = _CODECS.get(normalize_encoding(charset))
        if codec is not None:
            yield codec
    yield "utf-8"
