"""The server of the tests with drivers."""

from __future__ import annotations

import os

import pytest

from support.servers import RemoteServer, Server


@pytest.fixture(scope="session")
def server(request: pytest.FixtureRequest) -> Server:
    """One server for all tests of a session; a test makes its own names and leaves others' alone."""
    if url := os.environ.get("FAKEMSSQL_TEST_SERVER"):
        return RemoteServer(url)
    found: Server = request.getfixturevalue("fakemssql")
    return found
