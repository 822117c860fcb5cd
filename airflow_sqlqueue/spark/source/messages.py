"""Conversion of a DataFrame's rows to messages: the inverse of ``read_batch``.

Source: docs/transport/messages.md, "Header names".
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from airflow_sqlqueue.errors import ConfigurationError, MessageError
from airflow_sqlqueue.exports import LazyModule
from airflow_sqlqueue.messages.envelope.times import format_time, parse_time
from airflow_sqlqueue.messages.message import HeaderNames, decode_headers, encode_headers, escape_non_ascii, first_type
from airflow_sqlqueue.messages.row import BODY_FILE, COLUMN_HEADERS, NAMES, SENT_BITS, Row
from airflow_sqlqueue.spark.headers import TEXT_HEADERS, TIME_HEADERS

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType
else:
    pa = LazyModule("pyarrow")

_TEXT, _INSTANT, _MAP, _BYTES = ("string",), ("timestamp",), ("map",), ("binary", "string")
_HEADERS = {
    "message_id": HeaderNames.MESSAGE_ID,
    "message_type": HeaderNames.ENCLOSED_MESSAGE_TYPES,
    **TEXT_HEADERS,
    **TIME_HEADERS,
}
"""The header of each typed column."""

_TYPES = {
    **dict.fromkeys(_HEADERS, _TEXT),
    **dict.fromkeys(TIME_HEADERS, _INSTANT),
    **dict.fromkeys(("Id", *COLUMN_HEADERS, "headers_raw"), _TEXT),
    "Expires": _INSTANT,
    "Body": _BYTES,
    "headers": _MAP,
    BODY_FILE: _TEXT,
}
_PASSED_OVER = ("RowVersion", "Expired", *SENT_BITS, "headers_malformed", "enclosed_types", "processing_ms")
"""Columns of a read that a send ignores, because the queue or the reader sets them anew."""


@dataclass(frozen=True)
class MessageColumns:
    """Columns of a DataFrame to be sent: the position of each, by our names."""

    places: Mapping[str, int]

    @classmethod
    def of(cls, schema: StructType) -> MessageColumns:
        """Return the columns of a schema. Raises ConfigurationError for an unknown column or one of another type."""
        known = {name.lower(): name for name in (*_TYPES, *_PASSED_OVER)}
        places = {}
        for place, field in enumerate(schema.fields):
            name = known.get(field.name.lower())
            if name is None:
                raise ConfigurationError(
                    f"A message has no column {field.name!r}: drop it, put it into the map 'headers', or name it one "
                    f"of {', '.join(_TYPES)}."
                )
            if name in _PASSED_OVER:
                continue
            kind = field.dataType.typeName()
            texts = kind != "map" or field.dataType.simpleString() == "map<string,string>"
            if kind not in _TYPES[name] or not texts:
                wanted = "map<string,string>" if _TYPES[name] == _MAP else " or ".join(_TYPES[name])
                raise ConfigurationError(f"The column {name} must be of type {wanted}, not {kind}: cast it.")
            places[name] = place
        if not places:
            raise ConfigurationError("No column of the DataFrame is one of a message: name a body or headers.")
        return cls(places)

    def rows(self, batch: pa.RecordBatch, time_sent: str | None = None) -> Iterator[Row]:
        """Yield the rows to be sent. Raises :class:`MessageError`, without a value, for one that is no message."""
        columns = [_values(name, batch.column(place)) for name, place in self.places.items()]
        for values in zip(*columns, strict=True):
            yield message_row(dict(zip(self.places, values, strict=True)), time_sent)


def message_row(values: Mapping[str, Any], time_sent: str | None = None) -> Row:
    """Return the row of a queue to be sent, with a new Id if the values have no Id.

    A typed column replaces the header of the same meaning, unless both say the same: ``message_type`` has the first of
    several types, without its assembly, and ``message_id`` has the row's Id for a message without that header.
    ``time_sent`` is the header of a message without one, unless ``headers_raw`` gives all its headers.
    """
    if values.get(BODY_FILE) is not None:
        raise MessageError("A body is in a file of its own: send what read_bodies returns, which has it in its row.")
    body, expires = values.get("Body"), values.get("Expires")
    row_id = _row_id(values.get("Id"))
    headers, text = _headers(values, row_id, time_sent)
    columns = {
        "Id": row_id,
        "Expires": None if expires is None else _aware(expires).astimezone(timezone.utc).replace(tzinfo=None),
        "Headers": text,
        "Body": body.encode() if isinstance(body, str) else body,
        "RowVersion": 0,
        "Expired": False,
        **{name: _column(values.get(name), headers.get(header)) for name, header in COLUMN_HEADERS.items()},
    }
    return Row._make(columns.get(name) for name in NAMES)


def _headers(
    values: Mapping[str, Any], row_id: uuid.UUID, time_sent: str | None
) -> tuple[Mapping[str, str | None], str]:
    """Return the headers and their text: typed columns replace headers of the map, or else of the text."""
    given, raw = values.get("headers"), values.get("headers_raw")
    typed = {name: text for name in _HEADERS if (text := _text(values.get(name))) is not None}
    decoded = decode_headers(raw) if given is None else None
    headers = dict(given or {}) if decoded is None else dict(decoded.values)
    if HeaderNames.MESSAGE_ID not in headers and typed.get("message_id") == str(row_id):
        del typed["message_id"]
    changed = {
        _HEADERS[name]: text for name, text in typed.items() if not _same(name, headers.get(_HEADERS[name]), text)
    }
    if decoded is not None and raw is not None and not changed:
        # Unchanged, malformed or not. Escaped, so that a varchar column loses no character.
        return headers, escape_non_ascii(raw)
    if decoded is not None and decoded.problem is not None:
        raise MessageError(f"No header can be set, as {decoded.problem}: leave out the typed columns, or headers_raw.")
    headers |= changed
    if raw is None and time_sent is not None:
        headers.setdefault(HeaderNames.TIME_SENT, time_sent)
    return headers, encode_headers(headers)


def _same(column: str, header: str | None, value: str) -> bool:
    if header is None:
        return False
    if column == "message_type":
        return first_type(header) == value
    if column in TIME_HEADERS:
        return parse_time(header) == parse_time(value)
    return header == value


def _text(value: Any) -> str | None:
    return format_time(_aware(value)) if isinstance(value, datetime) else value


def _aware(moment: datetime) -> datetime:
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=timezone.utc)


def _values(name: str, column: pa.Array) -> list[Any]:
    if pa.types.is_timestamp(column.type):
        # In the session's zone the first and the last instants of .NET are in the years 0 and 10000.
        column = column.cast(pa.timestamp("us", "UTC"))
    try:
        return list(column.to_pylist())
    except UnicodeDecodeError:
        # Spark takes any bytes for a text.
        raise MessageError(f"A text of {name} is not UTF-8: give a body as binary, and correct another text.") from None
    except (OverflowError, ValueError):
        raise MessageError(f"A time of {name} is not in the years 1 to 9999: correct it, or send null.") from None


def _row_id(text: str | None) -> uuid.UUID:
    try:
        return uuid.uuid4() if text is None else uuid.UUID(text)
    except ValueError:
        raise MessageError("An Id is not a UUID: correct it, or leave the column out for new ones.") from None


def _column(value: str | None, header: str | None) -> str | None:
    """Return the value of a legacy column: the given value, else the header's, if the column can store it unchanged."""
    text = header if value is None else value
    return text if text and len(text) <= 255 and text.isascii() else None
