"""An endpoint's queue and its table of delayed messages."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from airflow_sqlqueue.messages.message import HeaderNames
from airflow_sqlqueue.messages.routing import AddressResolver, ResolvedAddress
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.queue.delayed.mover import MoveOptions, MoveResult, move_due
from airflow_sqlqueue.queue.delayed.table import DelayedTable
from airflow_sqlqueue.queue.tables.create import create, create_queue, delayed_definition
from airflow_sqlqueue.server.session import Session
from tests.contract.conftest import Connect, run_sql

NOW, TOMORROW = timedelta(0), timedelta(days=1)

HEADERS = {HeaderNames.CORRELATION_ID: "c-1", HeaderNames.REPLY_TO_ADDRESS: "Sales@[dbo]@[nsb]", "Grüße": "☃ 😀"}


class Endpoint:
    """A queue, its table of delayed messages and other queues, through one connection."""

    def __init__(self, session: Session, table: ResolvedAddress, resolver: AddressResolver) -> None:
        self.session, self.resolver = session, resolver
        self.queue = QueueTable(session, table)
        self.delayed = DelayedTable(session, replace(table, table=f"{table.table}.Delayed"))
        self.others: list[ResolvedAddress] = []

    def other(self, name: str) -> QueueTable:
        address = replace(self.queue.address, table=f"{self.queue.address.table}.{name}")
        create_queue(self.session, address)
        self.others.append(address)
        return QueueTable(self.session, address)

    def move(self, **options: Any) -> MoveResult:
        errors = options.pop("error_queue", None)
        return move_due(self.delayed, self.queue, self.resolver, MoveOptions(**options), error_queue=errors)

    def bodies(self) -> list[bytes]:
        return [message.body for message in self.queue.receive(2000)]


@pytest.fixture
def endpoint(connect: Connect, table: ResolvedAddress, address_of: AddressResolver) -> Iterator[Endpoint]:
    with connect() as session:
        endpoint = Endpoint(session, table, address_of)
        create_queue(session, table)
        create(session, delayed_definition(endpoint.delayed.address))
        yield endpoint
        for address in (endpoint.delayed.address, *endpoint.others):
            run_sql(session, f"DROP TABLE IF EXISTS {address.qualified_name}")
