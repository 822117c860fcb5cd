"""Fixtures for tests that run on any server: the local one, or the one that ``SQLQUEUE_TEST_SERVER`` names."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from airflow_sqlqueue.connection import ConnectionSettings
from airflow_sqlqueue.create import create_queue
from airflow_sqlqueue.queue import QueueTable
from airflow_sqlqueue.routing import AddressResolver
from airflow_sqlqueue.session import Session
from airflow_sqlqueue.sql import Query

Connect = Callable[[], Session]


@pytest.fixture(scope="session")
def settings(server: Any) -> ConnectionSettings:
    return ConnectionSettings.from_url(server.url("sqlqueue") + "?Encrypt=yes&TrustServerCertificate=yes")


@pytest.fixture
def connect(settings: ConnectionSettings) -> Connect:
    return lambda: Session(settings, lock_timeout=10)


@pytest.fixture
def address_of(settings: ConnectionSettings) -> AddressResolver:
    return AddressResolver(default_catalog=settings.database)


@pytest.fixture
def queue_name(connect: Connect, address_of: AddressResolver) -> Iterator[str]:
    """A name that no other test uses; the table is dropped afterwards."""
    name = f"test.{uuid.uuid4().hex[:12]}"
    yield name
    with connect() as session:
        table = address_of.resolve(name).qualified_name
        session.run(Query("drop", "drop a test's table", f"DROP TABLE IF EXISTS {table}"))


@pytest.fixture
def queue(connect: Connect, address_of: AddressResolver, queue_name: str) -> Iterator[QueueTable]:
    """An empty queue through a connection of its own."""
    with connect() as session:
        create_queue(session, address_of.resolve(queue_name))
        yield QueueTable(session, address_of.resolve(queue_name))
