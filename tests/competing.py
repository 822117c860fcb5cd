"""Processes that compete for one queue. Each keeps an account of what it did and hands it over when it ends."""

from __future__ import annotations

import random
from collections import Counter
from datetime import timedelta
from multiprocessing.synchronize import Event
from typing import Any

from airflow_sqlqueue.messages.message import Message
from airflow_sqlqueue.messages.routing import AddressResolver
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.queue.purge import PurgeOptions, purge
from airflow_sqlqueue.server.session import Session, retrying
from airflow_sqlqueue.server.settings import ConnectionSettings
from tests.endpoint import Endpoint

LATE = timedelta(seconds=-1)


class Undo(Exception):
    """A handler that failed."""


def _queue(session: Session, name: str) -> QueueTable:
    return QueueTable(session, AddressResolver(default_catalog=session.settings.database).resolve(name))


def send(url: str, name: str, start: int, count: int, accounts: Any) -> None:
    """Send ``count`` messages, numbered from ``start``; every twentieth has expired already."""
    with Session(ConnectionSettings.from_url(url)) as session:
        queue = _queue(session, name)
        for first in range(start, start + count, 500):
            queue.send(
                Message(body=b"%d" % n, time_to_be_received=LATE if n % 20 == 0 else None)
                for n in range(first, min(first + 500, start + count))
            )
    accounts.put(("sent", Counter(range(start, start + count)), 0))


def receive(url: str, name: str, seed: int, done: Event, accounts: Any) -> None:
    """Receive batches of any size until the stop signal; roll back one of eight."""
    chance = random.Random(seed)
    taken: Counter[int] = Counter()
    with Session(ConnectionSettings.from_url(url)) as session:
        queue = _queue(session, name)
        while True:
            stopping = done.is_set()
            batch = retrying(lambda: _one_batch(session, queue, chance), attempts=50)
            taken.update(batch)
            if not batch and stopping:
                break
            if not batch:
                done.wait(0.05)
    accounts.put(("received", taken, 0))


def _one_batch(session: Session, queue: QueueTable, chance: random.Random) -> list[int]:
    numbers: list[int] = []
    try:
        with session.transaction():
            numbers = [int(message.body) for message in queue.receive(chance.randint(1, 60), keep_expired=True)]
            if numbers and chance.random() < 0.125:
                raise Undo
    except Undo:
        return _one_batch(session, queue, chance)
    return numbers


def receive_as_endpoint(connection_string: str, table: str, done: Event, accounts: Any) -> None:
    """Receive one at a time with an endpoint's own statement."""
    taken: Counter[int] = Counter()
    with Endpoint(connection_string, table) as endpoint:
        while True:
            stopping = done.is_set()
            message = endpoint.receive()
            if message is not None:
                taken[int(message.body)] += 1
            elif stopping:
                break
            else:
                done.wait(0.05)
    accounts.put(("received", taken, 0))


def purge_expired(url: str, name: str, done: Event, accounts: Any) -> None:
    """Purge expired messages again and again."""
    deleted = 0
    with Session(ConnectionSettings.from_url(url)) as session:
        queue = _queue(session, name)
        while not done.wait(0.1):
            deleted += purge(queue, PurgeOptions(chunk=100)).deleted
    accounts.put(("purged", Counter(), deleted))
