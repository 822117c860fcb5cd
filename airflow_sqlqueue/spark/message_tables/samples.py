"""Samples of the messages of a type in a block of rows, and their statistics; runs in Spark's Python workers.

Source: docs/guides/bodies.md, "Inferred types".
"""

from __future__ import annotations

import zlib
from collections import Counter
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Any

from airflow_sqlqueue.bodies.coercion import placed, to_element
from airflow_sqlqueue.bodies.decoding import MAX_BYTES, parse
from airflow_sqlqueue.bodies.extension import KnownFields
from airflow_sqlqueue.bodies.json_reader import DECODER
from airflow_sqlqueue.bodies.names import Path, read_path
from airflow_sqlqueue.bodies.schemas import Struct
from airflow_sqlqueue.bodies.statistics import Statistics
from airflow_sqlqueue.bodies.tree import is_nothing
from airflow_sqlqueue.errors import BodyError

if TYPE_CHECKING:
    import pyarrow as pa

MESSAGES = 100
BYTES = 256 * 1024
"""Messages and bytes of a block and type that a sample takes; one message, however large it is."""

_START, _BEFORE_XML = 64, b"\xef\xbb\xbf\xff\xfe\0 \t\r\n"
"""Bytes of a body that show XML, and those that may be before its first one."""


def statistics_of(
    rows: pa.RecordBatch, bodies: pa.Array, content_types: pa.Array, *, max_bytes: int = MAX_BYTES
) -> Statistics:
    """Return the statistics of a sample of one type that is spread over the rows and the endpoints that sent them."""
    found, size = Statistics(), 0
    senders = rows["originating_endpoint"].to_pylist()
    for number in _spread(rows["message_id"].to_pylist(), senders):
        body = bodies[number].as_py() or b""
        if found.messages and size + len(body) > BYTES:
            continue
        size += len(body)
        with suppress(BodyError):
            found.add(parse(body, content_types[number].as_py(), max_bytes=max_bytes), senders[number])
    return found


def _spread(ids: list[Any], senders: list[str | None]) -> list[int]:
    """Return the numbers of the rows in the sample, in any order of these: senders in turn, by a hash of the ids."""
    by_hash = sorted((zlib.crc32(repr(each).encode()), repr(each), number) for number, each in enumerate(ids))
    turns: Counter[str | None] = Counter()
    in_turn = []
    for *place, number in by_hash:
        turns[senders[number]] += 1
        in_turn.append((turns[senders[number]], place, number))
    return [number for *_, number in sorted(in_turn)[:MESSAGES]]


def with_new_fields(
    rows: pa.RecordBatch, rescued: pa.Array, schema: Struct, bodies: pa.Array
) -> tuple[set[int], Statistics]:
    """Return the numbers of the rows with values of fields that a schema could get, and the statistics of these."""
    import pyarrow.compute as pc

    numbers: set[int] = set()
    seen, senders, known = Statistics(), rows["originating_endpoint"].to_pylist(), KnownFields(schema)

    @cache
    def new_path(text: str) -> Path:
        path = read_path(text)
        return path if known.would_extend(path) else ()

    for number in pc.indices_nonzero(pc.is_valid(rescued)).to_pylist():
        found: dict[str, Any] = {}
        is_xml = bodies[number].as_py()[:_START].lstrip(_BEFORE_XML).startswith(b"<")
        for text, value in DECODER.decode(rescued[number].as_py()).items():
            if (path := new_path(text)) and _shows_a_type(value, is_xml):
                found = placed(found, path, value)
        if found:
            numbers.add(number)
            seen.add(to_element(found) if is_xml else found, senders[number])
    return numbers, seen


def _shows_a_type(value: Any, is_xml: bool) -> bool:
    """Return whether a value is more than nothing, and than lists and objects of nothing else."""
    if isinstance(value, (dict, list)):
        return any(_shows_a_type(each, is_xml) for each in (value.values() if isinstance(value, dict) else value))
    return value is not None and not (is_xml and is_nothing(value))
