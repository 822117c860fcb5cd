"""Enclosed types of many messages at once, for rules that concern few of them."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.json as pj

from airflow_sqlqueue.messages.message import HeaderNames

_LONGEST = 16_384
_PARSING = pj.ParseOptions(
    explicit_schema=pa.schema([(HeaderNames.ENCLOSED_MESSAGE_TYPES, pa.string())]), unexpected_field_behavior="ignore"
)


def enclosed_types(headers: Sequence[str | None]) -> list[str] | None:
    """Return the value of ``NServiceBus.EnclosedMessageTypes`` of each text, empty without that header.

    Arrow reads them at a third of the cost of Python's parser, without its lock. The result is None if one of the texts
    is not a JSON object of usual length, or if a name comes twice: then each text must be read by itself.
    """
    if not all(text and text[0] == "{" and text[-1] == "}" and len(text) <= _LONGEST for text in headers):
        return None
    try:
        data = "\n".join(filter(None, headers)).encode()
        reading = pj.ReadOptions(use_threads=False, block_size=len(data) + 1)
        found = pj.read_json(pa.BufferReader(data), reading, _PARSING).column(0).to_pylist()
    except (pa.ArrowException, UnicodeError):
        return None
    # Each text has at least one object. With as many objects as texts, each text has one.
    return [types or "" for types in found] if len(found) == len(headers) else None
