"""A client with an error queue and an archive of its own."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_sqlqueue import QueueClient
from airflow_sqlqueue.messages.routing import AddressResolver
from airflow_sqlqueue.server.settings import ConnectionSettings


@pytest.fixture
def client(settings: ConnectionSettings, address_of: AddressResolver, schema: str) -> QueueClient:
    """Its queues and its ledgers are in the test's schema."""
    client = QueueClient(replace(settings, ledger_schema=schema), replace(address_of, default_schema=schema))
    client.tables.create("error")
    return client
