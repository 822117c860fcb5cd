"""Speed of consuming, against a bare loop of the same statements with as many threads.

The handler does nothing: the figures are the costs of consuming itself, with its start, which reads the tables' layout.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from bench_report import Comparison
from bench_setting import TURNS, best_rates, fill

from airflow_sqlqueue import AddressResolver, ConsumeOptions
from airflow_sqlqueue.endpoint.consumer import Consumer
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.queue.table_access import FIRST
from airflow_sqlqueue.queue.tables.create import create_queue, drop_queue
from airflow_sqlqueue.server.connection import open_connection
from airflow_sqlqueue.server.session import Session
from airflow_sqlqueue.server.sql import number, query
from airflow_sqlqueue.server.sql.columns import output

HANDLERS = (1, 4)


def compare_consuming(queue: QueueTable, *, count: int = 6_000, turns: int = TURNS) -> list[Comparison]:
    """Compare one and four handlers, each with a bare loop in as many threads."""
    kinds: dict[str, Callable[[], int]] = {}
    with second_queue(queue) as error:
        for handlers in HANDLERS:
            kinds[_bare(handlers)] = lambda n=handlers: bare_loops(queue, n)  # type: ignore[misc]
            kinds[_handled(handlers)] = lambda n=handlers: consume(queue, error, n)  # type: ignore[misc]
        best = best_rates(kinds, turns, before=lambda name: fill(queue, count))
    return [
        Comparison(_handled(n), best[_handled(n)], _bare(n), best[_bare(n)], 0.8, note="starts with one" * (n > 1))
        for n in HANDLERS
    ]


@contextmanager
def second_queue(queue: QueueTable, name: str = "error") -> Iterator[QueueTable]:
    """Create another queue, dropped at the end."""
    address = replace(queue.address, table=f"{queue.address.table}.{name}")
    create_queue(queue.session, address)
    try:
        yield QueueTable(queue.session, address)
    finally:
        drop_queue(queue.session, address, force=True)


def _bare(threads: int) -> str:
    return f"bare loop, {threads} thread{'s' * (threads > 1)}"


def _handled(handlers: int) -> str:
    return f"{handlers} handler{'s' * (handlers > 1)}"


def consume(queue: QueueTable, error: QueueTable, handlers: int) -> int:
    """Handle the messages of the queue, in the default transaction mode."""
    settings = queue.session.settings
    options = ConsumeOptions(max_handlers=handlers, delayed_retries=0, error_queue=error.address.canonical)
    resolver = AddressResolver(default_catalog=settings.database)
    handled = Consumer(lambda: Session(settings), resolver, queue.address.canonical, lambda message: None, options)
    return handled.run().handled


def bare_loops(queue: QueueTable, threads: int) -> int:
    """BEGIN and receive one message, COMMIT, through the driver, with the texts of a session; rows are discarded."""
    layout = queue.layout
    begin = {"limit": number(1), "after": number(FIRST)}
    receive = queue.query("queue.receive", **begin, **output(layout.types, into=layout.output_into)).text
    guard, commit = query("session.in_transaction").text, query("session.commit").text
    settings = query("session.settings", milliseconds=number(0)).text
    texts = f"{settings}\n{query('session.begin').text}\n{receive}", f"{guard}\n{commit}"
    with ThreadPoolExecutor(threads) as pool:
        return sum(pool.map(lambda _: _bare_loop(queue, *texts), range(threads)))


def _bare_loop(queue: QueueTable, receive: str, commit: str) -> int:
    connection = open_connection(queue.session.settings)
    handled = 0
    try:
        cursor = connection.cursor()
        found = True
        while found:
            rows: list[Any] = []
            cursor.execute(receive)
            while True:
                if cursor.description is not None:
                    rows = cursor.fetchall()
                if not cursor.nextset():
                    break
            cursor.execute(commit)
            found, handled = bool(rows), handled + len(rows)
    finally:
        connection.close()
    return handled
