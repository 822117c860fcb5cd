"""How fast bulk sends and purges are, each beside the plain statement that it is measured against.

``python scripts/bench_queue.py [--json]`` runs on a local server, or on the one that ``SQLQUEUE_TEST_SERVER`` names
(``mssql://user:password@host:port/database``). What counts are the ratios: both sides of one run on the same server, in
turns, so that a machine that is busy for a while slows both down. The best turn of each counts.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta, timezone

from rich.console import Console
from rich.table import Table

from airflow_sqlqueue.envelope.times import format_time
from airflow_sqlqueue.localdb import LocalServer
from airflow_sqlqueue.message import HeaderNames, Message
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.queue.fitted import LAST
from airflow_sqlqueue.queue.purge import CHUNK, PurgeOptions
from airflow_sqlqueue.routing import AddressResolver
from airflow_sqlqueue.server.settings import ConnectionSettings
from airflow_sqlqueue.session import Session
from airflow_sqlqueue.sql import Query
from airflow_sqlqueue.tables.create import create_queue
from airflow_sqlqueue.tables.drop import drop_queue

TURNS = 3
"""Turns that each side gets."""


@dataclass(frozen=True)
class Comparison:
    """Two rates of one run, in messages per second. ``bound`` is the least that their ratio may be."""

    name: str
    rate: float
    base_name: str
    base_rate: float
    bound: float

    @property
    def ratio(self) -> float:
        return self.rate / self.base_rate

    @property
    def passed(self) -> bool:
        return self.ratio >= self.bound


def compare_sends(queue: QueueTable, *, single: int = 200, bulk: int = 5_000, turns: int = TURNS) -> Comparison:
    """A stream sent in bulk against messages sent one by one, each committed."""

    def one_by_one() -> int:
        for message in messages(single):
            queue.send([message])
        return single

    def in_bulk() -> int:
        return queue.send(messages(bulk))

    base, rate = _in_turns(one_by_one, in_bulk, turns)
    return Comparison("bulk send", rate, "single sends", base, 10.0)


def compare_purges(queue: QueueTable, *, count: int = 20_000, turns: int = TURNS) -> list[Comparison]:
    """Purges against the bare DELETE that they are made of, of as many rows in the same chunks.

    A purge by age also reads every header, which no DELETE does: it has no bound.
    """
    kinds = (
        ("purge of expired", timedelta(seconds=-60), PurgeOptions(), "[Expires] < GETUTCDATE()", 0.5),
        ("purge of all", None, PurgeOptions(every=True, confirm=True), f"[RowVersion] <= {LAST}", 0.5),
        ("purge by age", None, PurgeOptions(older_than=timedelta(hours=1), confirm=True), f"[RowVersion] <= {LAST}", 0),
    )
    comparisons = []
    for name, lives, options, condition, bound in kinds:
        base, rate = _in_turns(
            lambda condition=condition: _bare_delete(queue, condition),  # type: ignore[misc]
            lambda options=options: queue.purge(options).deleted,  # type: ignore[misc]
            turns,
            before=lambda lives=lives: queue.send(messages(count, lives)),  # type: ignore[misc]
        )
        comparisons.append(Comparison(name, rate, "bare DELETE", base, bound))
    return comparisons


def _bare_delete(queue: QueueTable, condition: str) -> int:
    text = (
        f"DELETE TOP ({CHUNK}) FROM {queue.address.qualified_name} WITH (READPAST, ROWLOCK, READCOMMITTEDLOCK) "
        f"WHERE {condition}; SELECT @@ROWCOUNT;"
    )
    deleted = 0
    while count := queue.session.value(Query("bench.delete", "delete messages", text)):
        deleted += count
    return deleted


def messages(count: int, lives: timedelta | None = None) -> Iterator[Message]:
    """Messages as an endpoint would send them, a day old, with bodies of half a kilobyte."""
    sent = format_time(datetime.now(timezone.utc) - timedelta(days=1))
    for number in range(count):
        message_id = str(uuid.UUID(int=number))
        headers = {
            HeaderNames.MESSAGE_ID: message_id,
            HeaderNames.CORRELATION_ID: message_id,
            HeaderNames.ENCLOSED_MESSAGE_TYPES: "Shop.Messages.OrderPlaced, Shop.Messages",
            HeaderNames.CONTENT_TYPE: "application/json",
            HeaderNames.TIME_SENT: sent,
        }
        yield Message(headers, b"x" * 500, lives)


def _in_turns(
    base: Callable[[], int], other: Callable[[], int], turns: int, before: Callable[[], object] = lambda: None
) -> tuple[float, float]:
    """The best rates of both. The first turn of each, which prepares statements, does not count."""
    best = {base: 0.0, other: 0.0}
    for turn in range(turns + 1):
        for work in best:
            before()
            started = time.perf_counter()
            count = work()
            if turn:
                best[work] = max(best[work], count / (time.perf_counter() - started))
    return best[base], best[other]


@contextmanager
def a_queue(url: str) -> Iterator[QueueTable]:
    """A queue of its own on a server, dropped at the end."""
    settings = ConnectionSettings.from_url(url)
    address = AddressResolver(default_catalog=settings.database).resolve(f"bench.{uuid.uuid4().hex[:12]}")
    with Session(settings) as session:
        create_queue(session, address)
        try:
            yield QueueTable(session, address)
        finally:
            drop_queue(session, address, force=True)


def report(doc: str, compare: Callable[[QueueTable], list[Comparison]]) -> int:
    """Compare on a queue of its own and print what came out; 1 where a ratio is below its bound."""
    parser = argparse.ArgumentParser(description=doc.partition("\n")[0])
    parser.add_argument("--json", action="store_true", help="print JSON for machines")
    as_json = parser.parse_args().json
    with ExitStack() as stack:
        url = os.environ.get("SQLQUEUE_TEST_SERVER") or stack.enter_context(LocalServer()).url("sqlqueue")
        queue = stack.enter_context(a_queue(url if "?" in url else f"{url}?Encrypt=yes&TrustServerCertificate=yes"))
        comparisons = compare(queue)
    if as_json:
        print(json.dumps([{**asdict(each), "ratio": each.ratio, "passed": each.passed} for each in comparisons]))  # noqa: T201
    else:
        Console(soft_wrap=True).print(_table(comparisons))
    return 0 if all(each.passed for each in comparisons) else 1


def _table(comparisons: list[Comparison]) -> Table:
    table = Table("", "messages/s", "against", "messages/s", "ratio", "at least")
    for each in comparisons:
        rates = (f"{each.rate:,.0f}", each.base_name, f"{each.base_rate:,.0f}")
        table.add_row(each.name, *rates, f"{each.ratio:.1f}", f"{each.bound:g}", style="" if each.passed else "red")
    return table


if __name__ == "__main__":
    sys.exit(report(__doc__ or "", lambda queue: [compare_sends(queue), *compare_purges(queue)]))
