"""Setting of the bench's parts: a queue of its own on a server, messages, and turns."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from functools import lru_cache
from itertools import cycle, islice
from random import Random
from typing import Any

from airflow_sqlqueue import AddressResolver, Batch, ConnectionSettings, DrainRequest, HeaderNames, Message, QueueClient
from airflow_sqlqueue.drain.drain import Drain
from airflow_sqlqueue.drain.stages.base import Stage
from airflow_sqlqueue.drain.storage.folder import StagingFolder
from airflow_sqlqueue.messages.envelope.times import format_time
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.queue.tables.create import create_queue, drop_queue
from airflow_sqlqueue.server.session import Session
from airflow_sqlqueue.server.sql import Query
from fakemssql import FakeServer, postgres

TURNS = 3
"""Turns that each side of a comparison gets."""


stand_in: FakeServer | None = None
"""The stand-in that the parts run on; None: a real server."""


def pages_read(queue: QueueTable, *, after: int = -1) -> int | None:
    """Return the pages of a queue and its indexes that PostgreSQL has read for connections that are closed, or None.

    None on a real server. A connection reports its reads when it ends, a moment after the client has closed it; the
    result is more than ``after``.
    """
    if stand_in is None:
        return None
    with postgres.connect(stand_in._conninfo) as connection:
        text = (
            "SELECT sum(heap_blks_read + heap_blks_hit + idx_blks_read + idx_blks_hit) FROM pg_statio_user_tables "  # noqa: S608 - our own name
            f"WHERE relname = '{queue.address.table}'"
        )
        pages = -1
        for _ in range(_LOOKS):
            time.sleep(_REPORTED)
            before, pages = pages, int(postgres.execute(connection, text).get_value(0, 0) or 0)
            if pages == before and pages > after:
                return pages
    raise TimeoutError("PostgreSQL has not counted the pages that were read. Run the bench again, without other work.")


_REPORTED, _LOOKS = 0.5, 120
"""Seconds between two looks at statistics, which are complete when they stay the same, and how many there are."""


@contextmanager
def temporary_queue(url: str) -> Iterator[QueueTable]:
    """Create a queue on a server, dropped at the end."""
    settings = ConnectionSettings.from_url(url)
    address = AddressResolver(default_catalog=settings.database).resolve(f"bench.{uuid.uuid4().hex[:12]}")
    with Session(settings) as session:
        create_queue(session, address)
        try:
            yield QueueTable(session, address)
        finally:
            drop_queue(session, address, force=True)


def connection_fields(settings: ConnectionSettings) -> dict[str, Any]:
    """Return the fields of an Airflow connection to a server's database, without its ``extra``."""
    return {
        "host": settings.host,
        "port": settings.port,
        "login": settings.user,
        "password": settings.password,
        "schema": settings.database,
    }


def airflow_connection(client: QueueClient) -> dict[str, Any]:
    """Return an Airflow connection to a client's server, with its keywords, its default schema and its ledgers."""
    extra = {
        "keywords": dict(client.settings.keywords),
        "ledger_schema": client.settings.ledger_schema,
        "default_schema": client.resolver.default_schema or "",
    }
    return {"conn_type": "sqlqueue", **connection_fields(client.settings), "extra": extra}


def messages(count: int, lives: timedelta | None = None) -> Iterator[Message]:
    """Messages like those of an endpoint, a day old, with bodies of half a kilobyte, the same in every run."""
    sent = format_time(datetime.now(timezone.utc) - timedelta(days=1))
    for number, body in enumerate(islice(cycle(_bodies()), count)):
        message_id = str(uuid.UUID(int=number))
        headers = {
            HeaderNames.MESSAGE_ID: message_id,
            HeaderNames.CORRELATION_ID: message_id,
            HeaderNames.ENCLOSED_MESSAGE_TYPES: "Shop.Messages.OrderPlaced, Shop.Messages",
            HeaderNames.CONTENT_TYPE: "application/json",
            HeaderNames.TIME_SENT: sent,
        }
        yield Message(headers, body, lives)


def fill(queue: QueueTable, count: int, make: Callable[[int], Iterator[Message]] = messages) -> None:
    """Put ``count`` messages into an empty queue: the first are sent, the server copies them for the others."""
    have, name = queue.send(make(min(count, _DIFFERENT))), queue.address.qualified_name
    while have < count:
        copied = min(have, count - have)
        text = (
            f"INSERT INTO {name} ([Id], {_COPIED}) "  # noqa: S608 - our own names
            f"SELECT TOP ({copied}) NEWID(), {_COPIED} FROM {name} ORDER BY [RowVersion]"
        )
        queue.session.run(Query("bench.fill", "copy messages", text))
        have += copied


def drained(queue: QueueTable, stage: Stage | StagingFolder, request: DrainRequest | None = None) -> Batch:
    """Drain the queue."""
    settings = queue.session.settings
    return Drain(lambda: Session(settings), queue.address, stage, request).run().batch


def empty(queue: QueueTable) -> None:
    """Remove all rows; those that DELETE removes stay as ghosts in the indexes until the server's cleanup."""
    queue.session.run(Query("bench.truncate", "empty the queue", f"TRUNCATE TABLE {queue.address.qualified_name};"))


_COPIED = "[CorrelationId], [ReplyToAddress], [Recoverable], [Expires], [Headers], [Body]"
_DIFFERENT = 20_000
"""Number of different bodies. A row group of a Parquet file has at most as many rows, so no body repeats in it."""


@lru_cache
def _bodies() -> list[bytes]:
    return [_order(Random(number)) for number in range(_DIFFERENT)]  # noqa: S311 - repeatable on purpose


def _order(rng: Random) -> bytes:
    lines = [
        {"Sku": f"{rng.getrandbits(40):010X}", "Quantity": rng.randint(1, 9), "Price": rng.randint(100, 50_000) / 100}
        for _ in range(8)
    ]
    return json.dumps({"OrderId": str(uuid.UUID(int=rng.getrandbits(128))), "Lines": lines}).encode()


def rate_of(work: Callable[[], int]) -> float:
    """Messages per second of ``work``, which returns the number of its messages."""
    started = time.perf_counter()
    count = work()
    return count / (time.perf_counter() - started)


def timed_turns(
    kinds: Mapping[str, Callable[[], Any]], turns: int, before: Callable[[str], object] = lambda name: None
) -> Iterator[tuple[str, float, float, Any]]:
    """Run kinds of work in turns; yield name, seconds, CPU seconds of this process, and result of each run.

    ``before`` gets the name of the kind and is not measured. The first turn, which loads, compiles and prepares
    statements, does not count.
    """
    for turn in range(turns + 1):
        for name, work in kinds.items():
            before(name)
            started, cpu = time.perf_counter(), time.process_time()
            result = work()
            seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
            if turn:
                yield name, seconds, cpu, result


def best_rates(
    kinds: Mapping[str, Callable[[], int]], turns: int, before: Callable[[str], object] = lambda name: None
) -> dict[str, float]:
    """Return the best rate of each kind of work, in messages per second; see :func:`timed_turns`."""
    best = dict.fromkeys(kinds, 0.0)
    for name, seconds, _, count in timed_turns(kinds, turns, before):
        best[name] = max(best[name], count / seconds)
    return best
