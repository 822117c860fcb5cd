"""Samples of the messages of a type in a block of rows, and their statistics; runs in Spark's Python workers.

Source: docs/guides/bodies.md, "Inferred types".
"""

from __future__ import annotations

import zlib
from collections import defaultdict
from itertools import chain, zip_longest
from typing import TYPE_CHECKING

from airflow_sqlqueue.bodies.decoding import parse
from airflow_sqlqueue.bodies.statistics import Statistics
from airflow_sqlqueue.bodies.text import MAX_BYTES
from airflow_sqlqueue.errors import BodyError

if TYPE_CHECKING:
    import pyarrow as pa

MESSAGES = 100
BYTES = 256 * 1024
"""Messages and bytes of a block and type that a sample takes; one message, however large it is."""

SENDER = "originating_endpoint"
_IDS = ("message_id", "RowVersion")


def statistics_of(
    rows: pa.RecordBatch, bodies: pa.Array, content_types: pa.Array, *, max_bytes: int = MAX_BYTES
) -> Statistics:
    """Return the statistics of a sample that is spread over the rows and over the endpoints that sent them.

    :param rows: messages of one type.
    :param bodies: their bodies, decoded, and ``content_types`` the types of these.
    """
    found, size = Statistics(), 0
    senders = senders_of(rows)
    for number in _spread(rows, senders):
        body = bodies[number].as_py() or b""
        if found.messages and size + len(body) > BYTES:
            continue
        size += len(body)
        try:
            found.add(parse(body, content_types[number].as_py(), max_bytes=max_bytes), senders[number])
        except BodyError:
            continue
    return found


def senders_of(rows: pa.RecordBatch) -> list[str | None]:
    """The endpoints that sent the messages."""
    if SENDER not in rows.schema.names:
        return [None] * rows.num_rows
    return list(rows[SENDER].to_pylist())


def _spread(rows: pa.RecordBatch, senders: list[str | None]) -> list[int]:
    """The numbers of the rows in the sample, the senders in turn, by a hash of the messages' ids.

    So a sample depends on the messages alone, not on their order.
    """
    ids = next((rows[name].to_pylist() for name in _IDS if name in rows.schema.names), range(rows.num_rows))
    ranks = [(zlib.crc32(repr(each).encode()), repr(each), number) for number, each in enumerate(ids)]
    by_sender: dict[str | None, list[int]] = defaultdict(list)
    for _, _, number in sorted(ranks):
        by_sender[senders[number]].append(number)
    ordered = [by_sender[name] for name in sorted(by_sender, key=lambda name: (name is not None, name))]
    turns = chain.from_iterable(zip_longest(*ordered))
    return [number for number in turns if number is not None][:MESSAGES]
