"""Airflow, a server and a browser shared by all tests of the page; without chromium these are skipped."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

from airflow_sqlqueue import QueueClient
from fakemssql import FakeServer
from tests.ui.chromium import Screen, chromium, chromium_path, signed_in
from tests.ui.guarded_airflow import GuardedAirflow


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = [item for item in items if item.path.is_relative_to(Path(__file__).parent)]
    for item in here:
        item.add_marker(pytest.mark.airflow)
        item.add_marker(pytest.mark.timeout(900))
        if chromium_path() is None:
            item.add_marker(pytest.mark.skip("no chromium: `apt-get install chromium`, or name one in CHROMIUM"))


@pytest.fixture(scope="session")
def page_server() -> Iterator[FakeServer]:
    """A server of their own: the page shows every queue of a database."""
    with FakeServer(databases=["sqlqueue"]) as server:
        yield server


@pytest.fixture(scope="session")
def airflow(tmp_path_factory: Any) -> Iterator[GuardedAirflow]:
    running = GuardedAirflow(tmp_path_factory.mktemp("airflow"))
    try:
        running.start()
        yield running
    finally:
        running.stop()


@pytest.fixture(scope="session")
def client(airflow: GuardedAirflow, page_server: FakeServer) -> QueueClient:
    """The server's queues, with a shop's traffic, which the page shows."""
    return airflow.add_traffic(page_server)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="session")
def _ada(browser: Browser, airflow: GuardedAirflow, client: QueueClient) -> Iterator[Screen]:
    with signed_in(browser, airflow, "ada", airflow.root) as screen:
        yield screen


@pytest.fixture
def ada(_ada: Screen) -> Iterator[Screen]:
    """The administrator's window, signed in once for all."""
    yield _ada
    assert not _ada.wrong


@pytest.fixture(scope="session")
def below(airflow: GuardedAirflow) -> str:
    """The same Airflow below a path."""
    return airflow.start_below()
