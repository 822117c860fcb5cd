"""The server of the tests with drivers, and which tests stay together when they run side by side."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from support.servers import RemoteServer, Server


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A file's tests stay in one process. A run may hold tests of other folders, which are not for us to arrange."""
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here):
            item.add_marker(pytest.mark.xdist_group(f"fakemssql/{item.path.relative_to(here)}"))


@pytest.fixture(scope="session")
def server(request: pytest.FixtureRequest) -> Server:
    """One server for all tests of a session; a test makes its own names and leaves others' alone."""
    if url := os.environ.get("FAKEMSSQL_TEST_SERVER"):
        return RemoteServer(url)
    found: Server = request.getfixturevalue("fakemssql")
    return found
