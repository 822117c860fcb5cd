"""Fixture ``fakemssql`` for pytest: ``def test_it(fakemssql): connect(fakemssql.url())``.

pytest loads this module in every run, so it imports no module that only the fixture needs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from fakemssql import FakeServer


@pytest.fixture(scope="session", name="fakemssql")
def running_server() -> Iterator[FakeServer]:
    """Running FakeServer for all tests of the session; with pytest-xdist each worker has its own."""
    from fakemssql import FakeServer

    with FakeServer() as server:
        yield server
