"""Queues of the commands' tests, dropped at the end: an overview of a database takes its queues in turns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from airflow_sqlqueue import QueueClient


@pytest.fixture(scope="session")
def url(server_url: str) -> str:
    return server_url


@pytest.fixture(scope="module", autouse=True)
def _dropped(server: Any) -> Iterator[None]:
    yield
    client = QueueClient.from_url(str(server.url("sqlqueue")))
    for (name,) in client.run_sql("SELECT [name] FROM sys.tables WHERE [name] LIKE 'cli.%'"):
        client.run_sql(f"DROP TABLE IF EXISTS [dbo].[{name}]")
